"""An index of a folder of text files: a vector of every passage, kept in one file and brought up to date when files change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from regard.embeddings.nearest import nearest
from regard.embeddings.passages import Document, Passage, Unit, files_of, read_document
from regard.errors import InputError
from regard.files import replace_file
from regard.reading import as_object, check_regular, json_value
from regard.structure import from_mapping

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]

FORMAT_VERSION = "2"
TOGETHER = 2048
"""Passages that are embedded at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFile:
    """A file as it was when it was read.

    Arguments:
        size, written: in bytes, and when, in nanoseconds.
        passages: in their order.
        digests: of the passages' texts.
    """

    size: int
    written: int
    passages: tuple[Passage, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A passage that was found.

    Arguments:
        cosine: of its vector with the query's.
        file: where it is, from the folder.
        line: of its first character, from 1.
        text: of it.
    """

    cosine: float
    file: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What bringing an index up to date came to.

    Arguments:
        files, passages: that are searched now.
        embedded: passages that had to be.
        left_out: files that are no UTF-8 text.
    """

    files: int
    passages: int
    embedded: int
    left_out: tuple[str, ...]


class ChangedFile(InputError):
    """A file was changed after its vectors were made; bring the index up to date and search again."""


@dataclass(slots=True, eq=False)
class Index:
    """A vector of every passage in a folder.

    Arguments:
        folder: of the text files, or one file.
        origin: what decides a vector: the model and how it is asked.
        files: by their place in the folder, in the order of their names.
        vectors: (passages, W), file after file.
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
        """The index in a file; an empty one where there is none, or it was made by another model, or of other passages.

        Raises:
            InputError: for a file that is something else.
        """
        index = cls(folder, dict(origin), unit=unit, column=column)
        if not path.exists():
            return index
        check_regular(path, "choose another file with --index")
        try:
            with safe_open(path, framework="np") as file:
                said = file.metadata() or {}
                if said.get("regard_index") == "1":  # of the release before: made again
                    return index
                if said.get("regard_index") != FORMAT_VERSION:
                    raise InputError(
                        f"{path}: is no index of Regard's, or of another release; choose another file with --index"
                    )
                if json_value(said["origin"]) != index._decides:
                    return index
                index.vectors = file.get_tensor("vectors")
            files = as_object(json_value(said["files"]), f"{path}: files", "remove it, or choose another file")
            index.files = {name: from_mapping(IndexedFile, values, f"{path}: {name}") for name, values in files.items()}
            index._check()
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: is no index that can be read ({error}); remove it, or choose another file"
            ) from None
        return index

    def _check(self) -> None:
        """Refuse vectors that are not one for each passage.

        Raises:
            ValueError: saying what does not fit.
        """
        if any(len(file.passages) != len(file.digests) for file in self.files.values()):
            raise ValueError("a file has as many passages as digests")
        count = sum(len(file.passages) for file in self.files.values())
        vectors = self.vectors
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != count:
            raise ValueError(f"vectors are {vectors.dtype} {vectors.shape} for {count} passages")
        if not np.isfinite(vectors).all():
            raise ValueError("a vector holds a number that is not finite")

    def save(self, path: Path) -> None:
        """Write the index, wholly or not at all.

        Raises:
            InputError: for a full disk or a place that cannot be written to.
        """
        files = {name: asdict(file) for name, file in self.files.items()}
        said = {"regard_index": FORMAT_VERSION, "origin": json.dumps(self._decides), "files": json.dumps(files)}
        replace_file(path, save({"vectors": np.ascontiguousarray(self.vectors)}, metadata=said))

    def update(self, embed: Embed, patterns: Sequence[str]) -> Update:
        """Read what is new or has changed; a passage whose text was there before keeps its vector.

        A stop in the middle, such as by Ctrl-C, leaves the index with what was done by then.

        Arguments:
            embed: texts to vectors, (N, W).
            patterns: names of the files that are searched.

        Raises:
            InputError: where there is no such file.
        """
        known = {
            digest: row for row, digest in enumerate(digest for file in self.files.values() for digest in file.digests)
        }
        vectors = [*self.vectors]
        before, left_out, embedded = self.files, [], 0
        current: dict[str, IndexedFile] = {}
        waiting: dict[str, str] = {}

        def settle() -> None:
            """Embed what waits, and take the files read so far for done."""
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
        """The passages nearest to each query, the best first.

        Arguments:
            queries: (Q, W).
            count: the most passages for each.

        Raises:
            InputError: where nothing is in the index.
            ChangedFile: where a passage that was found no longer says what its vector was made of.
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
    def _decides(self) -> dict[str, Any]:
        """What decides the vectors: an index made with anything else is made again."""
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
            # So that it is read again, whatever its size and time.
            self.files[name] = replace(self.files[name], size=-1)
            raise ChangedFile(f"{path}: has changed since it was read; search again")
        return Found(cosine=cosine, file=name, line=passage.line, text=document.text_of(passage))


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def described(update: Update) -> Iterable[str]:
    """What a user ought to know of an update, in sentences."""
    if update.embedded:
        yield f"{update.embedded:,} new passages of {update.passages:,} in {update.files:,} files were read."
    if update.left_out:
        yield f"{len(update.left_out):,} files are no UTF-8 text and were left out, such as {update.left_out[0]}."
