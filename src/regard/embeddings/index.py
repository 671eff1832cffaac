"""An index of a folder of text files: a vector of every passage, kept in one file and brought up to date when files change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from regard.embeddings.nearest import nearest
from regard.embeddings.passages import Passage, files_of, passages_of, read_text
from regard.errors import InputError
from regard.files import replace_file
from regard.structure import from_mapping

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]

FORMAT_VERSION = "1"
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


@dataclass(slots=True, eq=False)
class Index:
    """A vector of every passage in a folder.

    Arguments:
        folder: of the text files.
        origin: what decides a vector: the model and how it is asked.
        files: by their place in the folder, in the order of their names.
        vectors: (passages, W), file after file.
    """

    folder: Path
    origin: dict[str, Any]
    files: dict[str, IndexedFile] = field(default_factory=dict)
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))

    @classmethod
    def load(cls, path: Path, folder: Path, origin: Mapping[str, Any]) -> Index:
        """The index in a file; an empty one where there is none, or it was made by another model.

        Raises:
            InputError: for a file that is something else.
        """
        index = cls(folder, dict(origin))
        if not path.exists():
            return index
        try:
            with safe_open(path, framework="np") as file:
                said = file.metadata() or {}
                if said.get("regard_index") != FORMAT_VERSION:
                    raise InputError(
                        f"{path}: is no index of Regard's, or of another release; choose another file with --index"
                    )
                if json.loads(said["origin"]) != index.origin:
                    return index
                index.vectors = file.get_tensor("vectors")
            files = json.loads(said["files"])
            index.files = {name: from_mapping(IndexedFile, values, f"{path}: {name}") for name, values in files.items()}
        except (SafetensorError, OSError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: is no index that can be read ({error}); remove it, or choose another file"
            ) from None
        return index

    def save(self, path: Path) -> None:
        """Write the index, wholly or not at all.

        Raises:
            InputError: for a full disk or a place that cannot be written to.
        """
        files = {name: asdict(file) for name, file in self.files.items()}
        said = {"regard_index": FORMAT_VERSION, "origin": json.dumps(self.origin), "files": json.dumps(files)}
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
                name, status = path.relative_to(self.folder).as_posix(), path.stat()
                old = before.get(name)
                if old is not None and (old.size, old.written) == (status.st_size, status.st_mtime_ns):
                    current[name] = old
                    continue
                text = read_text(path)
                if text is None:
                    left_out.append(name)
                    continue
                passages = tuple(passages_of(text))
                texts = [text[passage.start : passage.end] for passage in passages]
                digests = tuple(blake2b(each.encode(), digest_size=16).hexdigest() for each in texts)
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
            InputError: where nothing is in the index, or a file has changed since.
        """
        if not len(self.vectors):
            raise InputError(f"{self.folder}: there is no passage to search; give text files with words in them")
        places = [(name, passage) for name, file in self.files.items() for passage in file.passages]
        found = nearest(self.vectors, queries, count)
        texts: dict[str, str] = {}
        return [
            [self._found(places[row], cosine, texts) for row, cosine in zip(rows, cosines, strict=True)]
            for rows, cosines in zip(found.rows.tolist(), found.cosines.tolist(), strict=True)
        ]

    def _found(self, place: tuple[str, Passage], cosine: float, texts: dict[str, str]) -> Found:
        name, passage = place
        if name not in texts:
            text = read_text(self.folder / name)
            if text is None:
                raise InputError(f"{self.folder / name}: has changed since it was read; search again")
            texts[name] = text
        return Found(cosine=cosine, file=name, line=passage.line, text=texts[name][passage.start : passage.end])


def described(update: Update) -> Iterable[str]:
    """What a user ought to know of an update, in sentences."""
    if update.embedded:
        yield f"{update.embedded:,} new passages of {update.passages:,} in {update.files:,} files were read."
    if update.left_out:
        yield f"{len(update.left_out):,} files are no UTF-8 text and were left out, such as {update.left_out[0]}."
