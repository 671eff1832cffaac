"""Writing vectors to a file in steps, with resumption after an interruption: .npy, .jsonl or .parquet."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, nearest
from regard.files import new_file, replace_file, sync, writing_errors
from regard.reading import read_json_object

HEADER = 128
"""The fixed number of header bytes in a .npy file, whatever its number of rows."""

Vectors = NDArray[np.float32]


class Format(Protocol):
    """A file format: how rows are written to the partial file, and how that becomes the final file."""

    def begin(self, width: int) -> bytes:
        """The bytes before the first row."""
        ...

    def rows(self, texts: Sequence[str], vectors: Vectors) -> bytes:
        """The bytes of some rows."""
        ...

    def complete(self, growing: Path, target: Path, rows: int, width: int) -> None:
        """Turn the partial file `growing` into the final file `target`; `growing` is removed."""
        ...


class NumpyRows:
    """A (N, W) float32 array in NumPy's format, which `numpy.load` can memory-map."""

    def begin(self, width: int) -> bytes:
        """A header of fixed size."""
        return self._header(0, width)

    def rows(self, texts: Sequence[str], vectors: Vectors) -> bytes:
        """The numbers in row-major order."""
        del texts
        return np.ascontiguousarray(vectors, dtype="<f4").tobytes()

    def complete(self, growing: Path, target: Path, rows: int, width: int) -> None:
        """Write the number of rows into the header."""
        with growing.open("r+b") as file:
            file.write(self._header(rows, width))
        _into_place(growing, target)

    def _header(self, rows: int, width: int) -> bytes:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
        prefix = np.lib.format.magic(1, 0) + (HEADER - 10).to_bytes(2, "little")
        return prefix + header.encode().ljust(HEADER - 11) + b"\n"


class JsonRows:
    """JSON Lines: one object per line with `text` and `vector`."""

    def begin(self, width: int) -> bytes:
        """Nothing."""
        del width
        return b""

    def rows(self, texts: Sequence[str], vectors: Vectors) -> bytes:
        """A line for each text; numbers have enough digits to read back the same float32."""
        return "".join(line_of(text, vector) + "\n" for text, vector in zip(texts, vectors, strict=True)).encode()

    def complete(self, growing: Path, target: Path, rows: int, width: int) -> None:
        """Rename the file; nothing else is needed."""
        del rows, width
        _into_place(growing, target)


class ParquetRows:
    """Parquet with columns `text` and `vector`. The partial file is an Arrow stream, because Parquet cannot be appended to."""

    def __init__(self) -> None:
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise InputError(
                "writing .parquet needs pyarrow: pip install 'regard[parquet]'; or choose .npy or .jsonl"
            ) from None
        self._arrow: Any = arrow
        self._parquet: Any = parquet
        self._schema: Any = None

    def begin(self, width: int) -> bytes:
        """The stream's schema."""
        return self._of(width).serialize().to_pybytes()

    def rows(self, texts: Sequence[str], vectors: Vectors) -> bytes:
        """One batch of the stream."""
        arrow, width = self._arrow, vectors.shape[1]
        flat = arrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = [arrow.array(list(texts), arrow.string()), arrow.FixedSizeListArray.from_arrays(flat, width)]
        return arrow.record_batch(columns, schema=self._of(width)).serialize().to_pybytes()

    def complete(self, growing: Path, target: Path, rows: int, width: int) -> None:
        """Write the batches as row groups."""
        del rows
        with (
            new_file(target) as file,
            growing.open("rb") as source,
            self._parquet.ParquetWriter(file, self._of(width)) as writer,
            self._arrow.ipc.open_stream(source) as stream,
        ):
            for batch in stream:
                writer.write_batch(batch)
        growing.unlink()

    def _of(self, width: int) -> Any:
        arrow = self._arrow
        return arrow.schema([("text", arrow.string()), ("vector", arrow.list_(arrow.float32(), width))])


FORMATS: Mapping[str, type[Format]] = {".npy": NumpyRows, ".jsonl": JsonRows, ".parquet": ParquetRows}
"""The formats by file name suffix."""


def line_of(text: str, vector: Vectors) -> str:
    """A text and its vector as a JSON object on one line.

    >>> line_of("a", np.array([0.1, -2.0], dtype=np.float32))
    '{"text": "a", "vector": [0.1, -2.0]}'
    """
    numbers = ", ".join(map(str, vector))
    return f'{{"text": {json.dumps(text, ensure_ascii=False)}, "vector": [{numbers}]}}'


class VectorFile:
    """Writes a file of vectors in steps. The file appears when it is complete; an interrupted run can be resumed.

    Rows are written to `NAME.partial`; `NAME.partial.json` stores how many of its bytes are complete, and the `origin` of the
    run. If the process is killed, both files remain, and the next run with the same origin continues after the last complete
    rows. The final file is the same as without the interruption.

    Arguments:
        path: the path of the file; its suffix determines the format.
        width: W, the width of the vectors.
        origin: everything that the rows depend on (model, input, settings), as JSON values. None for a run that cannot be
            resumed because its texts cannot be read again.

    Raises:
        InputError: for an unknown suffix, a path that cannot be written to, or partial files of another run.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "vectors.npy"
    >>> with VectorFile(place, width=3, origin=None) as file:
    ...     file.append(["a", "b"], np.ones((2, 3), dtype=np.float32))
    >>> np.load(place).shape
    (2, 3)
    """

    def __init__(self, path: Path, *, width: int, origin: Mapping[str, Any] | None) -> None:
        if path.suffix not in FORMATS:
            hint = nearest(path.suffix, list(FORMATS)) if path.suffix else "choose from " + ", ".join(FORMATS)
            raise InputError(f"{path}: vectors cannot be written to a file that ends in {path.suffix!r}; {hint}")
        self.path = path
        self.rows = 0
        self._format = FORMATS[path.suffix]()
        self._width = width
        self._origin = None if origin is None else dict(origin)
        self._growing = path.with_name(path.name + ".partial")
        self._notes = path.with_name(path.name + ".partial.json")
        self._file: BinaryIO | None = None

    @property
    def resumable(self) -> bool:
        """Whether an interrupted run can be resumed."""
        return self._origin is not None

    def __enter__(self) -> VectorFile:
        with writing_errors(self.path):
            if self.path.is_dir():
                raise InputError(f"{self.path}: is a folder; give the path of a file")
            size = self._left_over()
            if size is None:
                self._notes.unlink(missing_ok=True)
                self._file = self._growing.open("wb")
                self._write(self._format.begin(self._width))
            else:
                self._file = self._growing.open("r+b")
                self._file.truncate(size)
                self._file.seek(size)
        return self

    def append(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Append rows; when this returns, they are synced to disk.

        Arguments:
            texts: n texts.
            vectors: (n, W) float32.

        Raises:
            InputError: if the disk is full; earlier rows stay intact.
        """
        with writing_errors(self.path):
            self._write(self._format.rows(texts, vectors), more=len(vectors))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # closing fails on a full disk; complete rows were synced before
                self._file.close()
            self._file = None
        if kind is None:
            with writing_errors(self.path):
                self._format.complete(self._growing, self.path, self.rows, self._width)
                self._notes.unlink(missing_ok=True)
        elif self._origin is None:
            self._growing.unlink(missing_ok=True)

    def _left_over(self) -> int | None:
        """The number of complete bytes that an earlier process of this run left; None if there is no partial file."""
        if not self._notes.is_file() or not self._growing.is_file():
            return None
        try:
            notes = read_json_object(self._notes, "")
            origin, rows, size = notes["origin"], int(notes["rows"]), int(notes["bytes"])
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self._notes}: is damaged; remove it and {self._growing.name}, and start again"
            ) from None
        if origin != self._origin:
            theirs = origin if isinstance(origin, dict) else {}
            ours = self._origin or {}
            differing = sorted(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
            raise InputError(
                f"{self._growing}: was begun with another {', '.join(differing)}; remove it and "
                f"{self._notes.name} to start again, or choose another file"
            )
        if self._growing.stat().st_size < size:
            raise InputError(f"{self._growing}: was truncated; remove it and {self._notes.name}, and start again")
        self.rows = rows
        return size

    def _write(self, content: bytes, more: int = 0) -> None:
        if self._file is None:
            raise RuntimeError("a VectorFile can only be written to inside its `with` block")
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows += more
        if self._origin is not None:
            notes = {"origin": self._origin, "rows": self.rows, "bytes": self._file.tell()}
            replace_file(self._notes, json.dumps(notes, indent=2) + "\n")


def _into_place(growing: Path, target: Path) -> None:
    sync(growing)
    growing.replace(target)
    sync(target.parent)


# The origin of a run: a partial file is continued only by a run with the same origin.


def digest_of(folder: Path) -> str:
    """A hash of all files of a model's folder: weights, tokenizer and settings.

    Only files in the folder itself and in the folders of its modules (such as `1_Pooling`) are part of the model.
    """
    hashed = hashlib.blake2b(digest_size=16)
    patterns = ("*.json", "*.safetensors", "*.hdf5", "*.txt", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file()):
        hashed.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as file:
            hashed.update(hashlib.file_digest(file, "blake2b").digest())
    return hashed.hexdigest()


def input_of(file: Path) -> dict[str, Any]:
    """The identity of a file: its path, its size and its modification time."""
    found = file.stat()
    return {"path": str(file.resolve()), "bytes": found.st_size, "written": found.st_mtime_ns}
