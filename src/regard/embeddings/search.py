"""Semantic search in a folder of text files: their passages, and an index with an embedding of each passage.

The index is one file, and is updated when text files change.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from regard.embeddings.pooling import nearest
from regard.errors import InputError
from regard.errors import nearest as nearest_name
from regard.files import replace_file
from regard.reading import as_object, check_regular, json_value, read_bytes
from regard.structure import from_mapping

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]

FORMAT_VERSION = "2"
TOGETHER = 2048
"""The number of passages that are embedded at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFile:
    """The state of a file when it was indexed.

    Arguments:
        size: its size in bytes.
        written: its modification time in nanoseconds.
        passages: its passages in order.
        digests: the hash of each passage's text.
    """

    size: int
    written: int
    passages: tuple[Passage, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A passage found by a search.

    Arguments:
        cosine: the cosine of its embedding and the query's.
        file: its file, relative to the folder.
        line: the line of its first character, from 1.
        text: its text.
    """

    cosine: float
    file: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """The result of updating an index.

    Arguments:
        files, passages: the numbers of files and passages in the index.
        embedded: the number of passages that were embedded in this update.
        left_out: files that are not UTF-8 text.
    """

    files: int
    passages: int
    embedded: int
    left_out: tuple[str, ...]


class ChangedFile(InputError):
    """A file was changed after its passages were embedded; update the index and search again."""


@dataclass(slots=True, eq=False)
class Index:
    """The embeddings of all passages in a folder.

    Arguments:
        folder: the folder of text files, or one file.
        origin: everything that the embeddings depend on (the model and its settings), as JSON values.
        files: the indexed files by relative path, sorted by name.
        vectors: (passages, W) float32, file after file.
        unit, column: as for `read_document`.
    """

    folder: Path
    origin: dict[str, Any]
    files: dict[str, IndexedFile] = field(default_factory=dict)
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    unit: Unit = "paragraph"
    column: str = "text"

    @classmethod
    def load(
        cls, path: Path, folder: Path, origin: Mapping[str, Any], unit: Unit = "paragraph", column: str = "text"
    ) -> Index:
        """Load the index from a file; an empty index if there is no file, or its `origin`, `unit` or `column` differs.

        Arguments:
            path: the path of the index.
            folder, origin, unit, column: as for the class.

        Raises:
            InputError: if the file is not an index.
        """
        index = cls(folder, dict(origin), unit=unit, column=column)
        if not path.exists():
            return index
        check_regular(path, "choose another file with --index")
        try:
            with safe_open(path, framework="np") as file:
                metadata = file.metadata() or {}
                if metadata.get("regard_index") == "1":  # the previous format is built again
                    return index
                if metadata.get("regard_index") != FORMAT_VERSION:
                    raise InputError(
                        f"{path}: is not an index of this release of Regard; choose another file with --index"
                    )
                if json_value(metadata["origin"]) != index._full_origin:
                    return index
                index.vectors = file.get_tensor("vectors")
            files = as_object(json_value(metadata["files"]), f"{path}: files", "remove it, or choose another file")
            index.files = {name: from_mapping(IndexedFile, values, f"{path}: {name}") for name, values in files.items()}
            index._check()
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: is not a readable index ({error}); remove it, or choose another file") from None
        return index

    def _check(self) -> None:
        """Check that there is one finite vector for each passage.

        Raises:
            ValueError: if not.
        """
        if any(len(file.passages) != len(file.digests) for file in self.files.values()):
            raise ValueError("a file has different numbers of passages and digests")
        count = sum(len(file.passages) for file in self.files.values())
        vectors = self.vectors
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != count:
            raise ValueError(f"vectors are {vectors.dtype} {vectors.shape} for {count} passages")
        if not np.isfinite(vectors).all():
            raise ValueError("a vector holds a number that is not finite")

    def save(self, path: Path) -> None:
        """Write the index to a file, atomically.

        Raises:
            InputError: if the file cannot be written.
        """
        files = {name: asdict(file) for name, file in self.files.items()}
        metadata = {
            "regard_index": FORMAT_VERSION,
            "origin": json.dumps(self._full_origin),
            "files": json.dumps(files),
        }
        replace_file(path, save({"vectors": np.ascontiguousarray(self.vectors)}, metadata=metadata))

    def update(self, embed: Embed, patterns: Sequence[str]) -> Update:
        """Index new and changed files. A passage whose text was in the index before keeps its vector.

        After an interruption, such as by Ctrl-C, the index contains the files that were completed.

        Arguments:
            embed: a function from N texts to their vectors, (N, W).
            patterns: name patterns of the files to index.

        Raises:
            InputError: if there is no such file.
        """
        known = {
            digest: row for row, digest in enumerate(digest for file in self.files.values() for digest in file.digests)
        }
        vectors = [*self.vectors]
        before, left_out, embedded = self.files, [], 0
        current: dict[str, IndexedFile] = {}
        waiting: dict[str, str] = {}

        def settle() -> None:
            """Embed the waiting passages."""
            nonlocal embedded
            digests = list(waiting)
            for start in range(0, len(digests), TOGETHER):
                some = digests[start : start + TOGETHER]
                for digest, vector in zip(some, embed([waiting[digest] for digest in some]), strict=True):
                    known[digest] = len(vectors)
                    vectors.append(vector)
                    del waiting[digest]
                    embedded += 1

        try:
            for path in files_of(self.folder, patterns):
                name, status = path.relative_to(self._root).as_posix(), path.stat()
                old = before.get(name)
                if old is not None and (old.size, old.written) == (status.st_size, status.st_mtime_ns):
                    current[name] = old
                    continue
                document = read_document(path, self.unit, self.column)
                if document is None:
                    left_out.append(name)
                    continue
                passages = document.passages
                texts = [document.text_of(passage) for passage in passages]
                digests = tuple(map(_digest, texts))
                waiting |= {digest: each for digest, each in zip(digests, texts, strict=True) if digest not in known}
                current[name] = IndexedFile(
                    size=status.st_size, written=status.st_mtime_ns, passages=passages, digests=digests
                )
                if len(waiting) >= TOGETHER:
                    settle()
            settle()
        finally:
            self.files = {
                name: file for name, file in current.items() if all(digest in known for digest in file.digests)
            }
            rows = [known[digest] for file in self.files.values() for digest in file.digests]
            self.vectors = np.stack([vectors[row] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return Update(files=len(self.files), passages=len(self.vectors), embedded=embedded, left_out=tuple(left_out))

    def search(self, queries: Vectors, count: int) -> list[list[Found]]:
        """The passages with the largest cosine to each query, best first.

        Arguments:
            queries: (Q, W), the embeddings of the queries.
            count: the most passages per query.

        Raises:
            InputError: if the index is empty.
            ChangedFile: if the text of a found passage has changed since it was embedded.
        """
        if not len(self.vectors):
            raise InputError(f"{self.folder}: there is no passage to search; give text files with words in them")
        places = [
            (name, passage, digest)
            for name, file in self.files.items()
            for passage, digest in zip(file.passages, file.digests, strict=True)
        ]
        found = nearest(self.vectors, queries, count)
        documents: dict[str, Document | None] = {}
        return [
            [self._found(places[row], cosine, documents) for row, cosine in zip(rows, cosines, strict=True)]
            for rows, cosines in zip(found.rows.tolist(), found.cosines.tolist(), strict=True)
        ]

    @property
    def _full_origin(self) -> dict[str, Any]:
        """Everything that the vectors depend on; an index with another origin is built again."""
        return {**self.origin, "unit": self.unit, "column": self.column}

    @property
    def _root(self) -> Path:
        return self.folder.parent if self.folder.is_file() else self.folder

    def _found(self, place: tuple[str, Passage, str], cosine: float, documents: dict[str, Document | None]) -> Found:
        name, passage, digest = place
        path = self._root / name
        if name not in documents:
            documents[name] = read_document(path, self.unit, self.column) if path.is_file() else None
        document = documents[name]
        if document is None or _digest(document.text_of(passage)) != digest:
            # An impossible size, so that the next update reads the file again.
            self.files[name] = replace(self.files[name], size=-1)
            raise ChangedFile(f"{path}: has changed since it was read; search again")
        return Found(cosine=cosine, file=name, line=passage.line, text=document.text_of(passage))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def described(update: Update) -> Iterable[str]:
    """Sentences for the user about an update."""
    if update.embedded:
        yield f"{update.embedded:,} new passages of {update.passages:,} in {update.files:,} files were read."
    if update.left_out:
        yield f"{len(update.left_out):,} files are not UTF-8 text and were left out, such as {update.left_out[0]}."


# Passages: the parts of text files that a search returns.


LENGTH = 800
"""Characters; a passage ends at the first line end after this many, about the length that sentence encoders read."""

HEADING = re.compile(r"#{1,6} [^\n]*|[^\n]+\n([=\-~^*#])\1{2,}")
"""A heading in Markdown or reStructuredText, which becomes part of the next paragraph's passage."""

TABLES = {".csv": ",;", ".tsv": "\t", ".jsonl": ""}
"""Suffixes of tables, in which each row is a passage, with their possible separators."""

Unit = Literal["paragraph", "line"]
UNITS: tuple[Unit, ...] = ("paragraph", "line")
"""The unit of passages in a text; in a table it is always a row."""

LONGEST = 2 * LENGTH
"""The most characters of a passage; longer lines are split between words."""

PATTERNS = ("*.txt", "*.md", "*.rst")
"""The default name patterns of files to search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of a text file.

    Arguments:
        line: the line of its first character, from 1.
        start, end: character offsets in the document's text; `end` is exclusive.
    """

    line: int
    start: int
    end: int


def passages_of(text: str) -> Iterator[Passage]:
    r"""The passages of a text: its paragraphs, separated by empty lines; a heading belongs to the paragraph below it.

    Long paragraphs are split after a line, very long lines between words. Text without letters and digits is left out.

    >>> text = "# Heading\n\n" + "words " * 12 + "\n\nthe end"
    >>> [(passage.line, passage.start, passage.end) for passage in passages_of(text)]
    [(1, 0, 82), (5, 85, 92)]
    """
    found: Passage | None = None
    place = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not line.strip():
            if found is not None and not HEADING.fullmatch(text, found.start, found.end):
                yield from _parts(text, found)
                found = None
        else:
            end = place + len(line.rstrip())
            if found is None:
                found = Passage(line=number, start=place, end=end)
            else:
                found = Passage(line=found.line, start=found.start, end=end)
            if found.end - found.start >= LENGTH:
                yield from _parts(text, found)
                found = None
        place += len(line)
    yield from _parts(text, found)


def _parts(text: str, passage: Passage | None) -> Iterator[Passage]:
    if passage is None:
        return
    start, line = passage.start, passage.line
    while passage.end - start > LONGEST:
        cut = text.rfind(" ", start, start + LONGEST)
        cut = cut if cut > start else start + LONGEST
        yield from _one(text, Passage(line=line, start=start, end=cut))
        line += text.count("\n", start, cut)
        start = cut
    yield from _one(text, Passage(line=line, start=start, end=passage.end))


def _one(text: str, passage: Passage) -> Iterator[Passage]:
    if any(map(str.isalnum, text[passage.start : passage.end])):
        yield passage


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """The text of a file, and its passages.

    Arguments:
        text: the text of the file; for a table, the texts of its rows, one per line.
        passages: parts of this text; their `line` is the line in the file.
    """

    text: str
    passages: tuple[Passage, ...]

    def text_of(self, passage: Passage) -> str:
        """The text of a passage."""
        return self.text[passage.start : passage.end]


def read_document(path: Path, unit: Unit = "paragraph", column: str = "text") -> Document | None:
    """Read a file and find its passages; None if it is not UTF-8 text.

    Arguments:
        path: the path of a text, or of a table (.csv, .tsv, .jsonl), in which every row is a passage.
        unit: the unit of passages in a text.
        column: the column of a table with the text; ignored for JSON Lines of plain strings.

    Raises:
        InputError: if the file cannot be read, or a table has no such column or an invalid row.
    """
    text = read_text(path)
    if text is None:
        return None
    if path.suffix.lower() in TABLES:
        return _document_of_rows(_rows(text, path, column))
    if unit == "paragraph":
        return Document(text=text, passages=tuple(passages_of(text)))
    return _document_of_rows(enumerate(io.StringIO(text), start=1))


def _document_of_rows(rows: Iterable[tuple[int, str]]) -> Document:
    parts: list[str] = []
    passages: list[Passage] = []
    place = 0
    for line, row in rows:
        words = row.strip()
        if any(map(str.isalnum, words)):
            passages.append(Passage(line=line, start=place, end=place + len(words)))
            parts.append(words)
            place += len(words) + 1
    return Document(text="\n".join(parts), passages=tuple(passages))


def _rows(text: str, path: Path, column: str) -> Iterator[tuple[int, str]]:
    """The line number and the text of each row of a table."""
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(io.StringIO(text), start=1):
            if not line.strip():
                continue
            try:
                row = json_value(line)
            except ValueError as error:
                raise InputError(
                    f"{path}, line {number}: is not JSON ({error}); give one object or string per line"
                ) from None
            if isinstance(row, dict) and column not in row:
                raise InputError(_no_column(path, column, [str(name) for name in row], number))
            found = row[column] if isinstance(row, dict) else row
            if not isinstance(found, str):
                raise InputError(f"{path}, line {number}: {column!r} is not a text; give a string")
            yield number, found
        return
    header = text.split("\n", 1)[0]
    separator = max(TABLES[path.suffix.lower()], key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = [name.strip() for name in next(reader, [])]
        if column not in names:
            raise InputError(_no_column(path, column, names, 1))
        place, line = names.index(column), reader.line_num + 1
        for row in reader:
            if row and len(row) != len(names):
                raise InputError(
                    f"{path}, line {line}: has {len(row)} columns, and the header has {len(names)}; correct the row"
                )
            if row:
                yield line, row[place]
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: is not a readable table ({error}); correct the row"
        ) from None


def _no_column(path: Path, column: str, names: list[str], line: int) -> str:
    known = nearest_name(column, names) if names else "the file is empty"
    return f"{path}, line {line}: has no column {column!r}; name the column of the text with --text: {known}"


def files_of(folder: Path, patterns: Sequence[str] = PATTERNS) -> list[Path]:
    """The text files in a folder and its subfolders, sorted by path, without hidden files and folders (".name").

    If `folder` is a file, only that file, whatever its name.

    Raises:
        InputError: if the folder or file does not exist, or the folder has no file that matches.
    """
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of text files, or one file")
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and any(fnmatchcase(path.name, pattern) for pattern in patterns)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise InputError(f"{folder}: has no file that matches {' or '.join(patterns)}; give patterns with --files")
    return found


def read_text(path: Path) -> str | None:
    """The content of a text file, with its line ends; None if it is not UTF-8 text."""
    content = read_bytes(path, "check its permissions, or leave it out with --files")
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
