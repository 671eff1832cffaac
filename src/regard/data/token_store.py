"""Token id sequences in memory-mapped files, for training data larger than memory."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from regard.errors import InputError, nearest
from regard.files import sync, writing_errors
from regard.reading import AnyPath, check_regular, read_json_object

FORMAT_VERSION = 1

_DESCRIPTION = "store.json"
_OFFSET_TYPE = "<i8"
_SUM_TYPE = "<u4"
_CHUNK = 1 << 18  # ids collected before they are written
_BLOCK = 1 << 18  # ids per checksum; part of the format
_DAMAGED = "is not what was written (the checksum differs); remove the folder and write the store again"


class TokenStore:
    """Rows with one token sequence per column, read from disk when needed.

    The folder contains for each column `NAME.bin` (the concatenated ids, uint16 or uint32), `NAME.offsets.bin` (int64; the
    start of each sequence, and the end of the last) and `NAME.sums.bin` (the CRC-32 of every block of 262,144 ids). Its
    `store.json` contains the format version, the number of rows, for each column its dtype, its number of ids and the CRC-32
    of its offsets and sums, and a CRC-32 of this description. `write` creates a store, `open` opens it. Opening checks
    everything except the ids; a block of ids is checked when it is first read. Pickling a store, for example for another
    process, pickles its path.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "train"
    >>> rows = [([5, 6, 7], [8]), ([9], [])]
    >>> store = TokenStore.write(folder, {"source": 1000, "target": 1000}, rows)
    >>> len(store), store.sequence("source", 0).tolist(), store.lengths("target").tolist()
    (2, [5, 6, 7], [1, 0])
    """

    def __init__(self, folder: Path, tokens: dict[str, Ids], offsets: dict[str, np.ndarray]) -> None:
        self._folder = folder
        self._tokens = tokens
        self._offsets = offsets
        self._rows = len(next(iter(offsets.values()))) - 1

    @classmethod
    def write(
        cls, folder: AnyPath, columns: Mapping[str, int], rows: Iterable[Sequence[Sequence[int] | np.ndarray]]
    ) -> TokenStore:
        """Write `rows` to a new folder, one by one, and open the store.

        Writing is atomic: the files are written to a temporary folder in the same parent folder, synced to disk, and renamed. The
        folder that a killed process leaves behind (`.NAME.….partial`) is never taken for a store.

        Arguments:
            folder: the new folder; it must not exist, or must be empty.
            columns: the name of each column and the size of its vocabulary. Ids are stored in two bytes each if the size is
                at most 65,536, else in four.
            rows: for each row one sequence of ids per column, in the order of `columns`.

        Raises:
            InputError: if the folder exists or cannot be written, the disk is full, or an id is outside its column's
                vocabulary. No files are left behind.
        """
        target = Path(folder)
        _check_columns(columns)
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise InputError(f"{target}: exists already; remove it, or write the tokens to another folder")
        partial = target.absolute().with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
        writers: list[_ColumnWriter] = []
        try:
            with writing_errors(target):
                partial.mkdir(parents=True)
                writers.extend(_ColumnWriter(partial, name, size) for name, size in columns.items())
            count = 0
            for count, row in enumerate(rows, start=1):
                for writer, sequence in zip(writers, _checked(row, count, list(columns)), strict=True):
                    writer.gather(sequence)
                    if writer.gathered >= _CHUNK:
                        with writing_errors(target):
                            writer.flush()
            with writing_errors(target):
                described = {writer.name: writer.finish() for writer in writers}
                _write_description(partial, {"rows": count, "columns": described})
                _settle(partial, target)
        except BaseException:
            for writer in writers:
                writer.abandon()
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return cls.open(target)

    @classmethod
    def open(cls, folder: AnyPath) -> TokenStore:
        """Open a store written by `write`, read-only; the ids stay on disk.

        Raises:
            InputError: if there is no store, it has another format version, or a file is missing, truncated or damaged. Damaged
                ids are only detected when they are read.
        """
        root = Path(folder)
        description = _read_description(root)
        rows, columns = description["rows"], description["columns"]
        tokens, offsets = {}, {}
        for name, column in columns.items():
            file, sums = root / f"{name}.bin", None
            offsets[name] = _map(root / f"{name}.offsets.bin", _OFFSET_TYPE, rows + 1)
            if "checks" in column:  # older stores without checksums can still be read
                sums = _map(root / f"{name}.sums.bin", _SUM_TYPE, -(-column["tokens"] // _BLOCK))
                for ending, array in (("offsets", offsets[name]), ("sums", sums)):
                    if zlib.crc32(array.data) != column["checks"][ending]:
                        raise InputError(f"{root / name}.{ending}.bin: {_DAMAGED}")
            tokens[name] = Ids(file, _map(file, column["dtype"], column["tokens"]), sums)
            if offsets[name][0] != 0 or offsets[name][-1] != column["tokens"]:
                raise InputError(f"{root / name}.offsets.bin: does not fit the ids; write the store again")
        return cls(root, tokens, offsets)

    def verify(self) -> None:
        """Check all ids against their checksums. Reading checks only the blocks that are read.

        Raises:
            InputError: for the first damaged file.
        """
        for ids in self._tokens.values():
            ids.between(0, len(ids))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order they were written."""
        return tuple(self._tokens)

    def lengths(self, column: str) -> np.ndarray:
        """The number of ids in each sequence of a column, (rows,) int64; computed on each call."""
        return np.diff(self._of(self._offsets, column))

    def numbers(self, column: str) -> np.ndarray:
        """The ids of a column that has exactly one id in each row, (rows,) int64.

        Raises:
            InputError: if a row does not have exactly one id, or the file is damaged.
        """
        lengths = self.lengths(column)
        if (lengths != 1).any():
            row = int(np.flatnonzero(lengths != 1)[0])
            raise InputError(f"{self._folder}: column {column!r} has {lengths[row]} ids in row {row + 1}, not one")
        return self._tokens[column].between(0, self._rows).astype(np.int64)

    def sequence(self, column: str, index: int) -> np.ndarray:
        """The ids of one sequence, (length,) uint16 or uint32: a read-only view of the file, without copying.

        Raises:
            IndexError: if there is no such row.
            InputError: if the file is damaged there.
        """
        if not 0 <= index < self._rows:
            raise IndexError(f"row {index} of a store of {self._rows}")
        offsets = self._of(self._offsets, column)
        return self._tokens[column].between(int(offsets[index]), int(offsets[index + 1]))

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"TokenStore({str(self._folder)!r}, rows={self._rows}, columns={self.columns})"

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return (TokenStore.open, (self._folder.absolute(),))

    def _of(self, arrays: dict[str, np.ndarray], column: str) -> np.ndarray:
        if column not in arrays:
            raise InputError(f"{self._folder}: no column {column!r}; {nearest(column, self.columns)}")
        return arrays[column]


class Ids:
    """All ids of a column, memory-mapped and checked block by block when they are read.

    Arguments:
        file: the path of the file with the ids.
        array: (n,) uint16 or uint32, the mapped ids.
        sums: (blocks,) uint32, the CRC-32 of each block of 262,144 ids; None for a store without checksums.
    """

    def __init__(self, file: Path, array: np.ndarray, sums: np.ndarray | None) -> None:
        self._file = file
        self._array = array
        self._sums = sums
        self._unchecked = bytearray(b"\1" * (0 if sums is None else len(sums)))

    def between(self, start: int, stop: int) -> np.ndarray:
        """The ids from `start` to `stop` (exclusive), as a view.

        Raises:
            InputError: if a block that contains some of them is damaged.
        """
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        if self._unchecked.find(1, first, last + 1) >= 0:
            self._check(first, last)
        return self._array[start:stop]

    def __len__(self) -> int:
        return len(self._array)

    def _check(self, first: int, last: int) -> None:
        for block in range(first, last + 1):
            if self._sums is not None and self._unchecked[block]:
                if zlib.crc32(self._array[block * _BLOCK : (block + 1) * _BLOCK].data) != self._sums[block]:
                    raise InputError(f"{self._file}: {_DAMAGED}")
                self._unchecked[block] = 0


# --- writing ----------------------------------------------------------------------------------------------


class _ColumnWriter:
    """Writes the files of one column, a chunk at a time."""

    def __init__(self, folder: Path, name: str, size: int) -> None:
        self.name = name
        self.gathered = 0
        self._size = size
        self._dtype = "<u2" if size <= 1 << 16 else "<u4"
        self._sequences: list[np.ndarray] = []
        self._rows = 0
        self._tokens = 0
        self._sums: list[int] = []  # the checksum of each block; the last block may be incomplete
        self._files: list[BinaryIO] = []
        for ending in (".bin", ".offsets.bin", ".sums.bin"):
            self._files.append((folder / f"{name}{ending}").open("xb"))
        self._ends = 0
        self._write_ends(np.zeros(1, _OFFSET_TYPE))

    def gather(self, sequence: np.ndarray) -> None:
        self._sequences.append(sequence)
        # Each row adds 1, so that many empty sequences also trigger writing.
        self.gathered += len(sequence) + 1

    def flush(self) -> None:
        if not self._sequences:
            return
        ends = self._tokens + np.cumsum([len(sequence) for sequence in self._sequences])
        tokens = np.concatenate(self._sequences)
        outside = np.flatnonzero((tokens < 0) | (tokens >= self._size))
        if len(outside):
            row = self._rows + int(np.searchsorted(ends - self._tokens, outside[0], side="right"))
            raise InputError(
                f"row {row + 1}, column {self.name!r}: id {tokens[outside[0]]} is not below {self._size}; "
                "was the text encoded with the tokenizer the column was sized for?"
            )
        self._write_ids(tokens.astype(self._dtype))
        self._write_ends(ends.astype(_OFFSET_TYPE))
        self._rows += len(self._sequences)
        self._sequences = []
        self.gathered = 0

    def finish(self) -> dict[str, Any]:
        self.flush()
        sums = np.array(self._sums, _SUM_TYPE)
        self._files[2].write(sums.tobytes())
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        checks = {"offsets": self._ends, "sums": zlib.crc32(sums.data)}
        return {"dtype": self._dtype, "size": self._size, "tokens": self._tokens, "checks": checks}

    def _write_ids(self, tokens: np.ndarray) -> None:
        self._files[0].write(tokens.tobytes())
        while len(tokens):
            begun = self._tokens % _BLOCK
            if begun == 0:
                self._sums.append(0)
            part, tokens = tokens[: _BLOCK - begun], tokens[_BLOCK - begun :]
            self._sums[-1] = zlib.crc32(part.data, self._sums[-1])
            self._tokens += len(part)

    def _write_ends(self, ends: np.ndarray) -> None:
        self._files[1].write(ends.tobytes())
        self._ends = zlib.crc32(ends.data, self._ends)

    def abandon(self) -> None:
        for file in self._files:
            try:
                file.close()
            except OSError:
                continue  # the files are removed next


def _check_columns(columns: Mapping[str, int]) -> None:
    if not columns:
        raise InputError("a token store needs at least one column; give a name and the size of its vocabulary")
    for name, size in columns.items():
        if not name.isidentifier():
            raise InputError(f"column name {name!r} cannot be a file name; use letters, digits and underscores")
        if not 1 <= size <= 1 << 32:
            raise InputError(f"column {name!r}: size {size} is not in 1..{1 << 32}; give the vocabulary's size")


def _checked(row: Sequence[Sequence[int] | np.ndarray], number: int, columns: list[str]) -> Iterator[np.ndarray]:
    if len(row) != len(columns):
        raise InputError(f"row {number}: {len(row)} sequences for the {len(columns)} columns {', '.join(columns)}")
    for name, sequence in zip(columns, row, strict=True):
        ids = np.asarray(sequence)
        if ids.size == 0:
            ids = np.empty(0, np.int64)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise InputError(f"row {number}, column {name!r}: a flat sequence of whole numbers is needed")
        yield ids.astype(np.int64, copy=True)  # a copy: the caller may reuse the array


def _write_description(folder: Path, content: dict[str, Any]) -> None:
    with (folder / _DESCRIPTION).open("x", encoding="utf-8") as file:
        json.dump({"format_version": FORMAT_VERSION, **content, "check": _check_of(content)}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _settle(partial: Path, target: Path) -> None:
    """Rename the finished folder and sync, so that it survives a power failure."""
    sync(partial)
    partial.rename(target)
    sync(target.parent)


# --- reading ----------------------------------------------------------------------------------------------


def _read_description(root: Path) -> dict[str, Any]:
    file = root / _DESCRIPTION
    if not file.exists():
        raise InputError(f"{root}: is not a token store (no {_DESCRIPTION}); write one, or check the path")
    content = read_json_object(file, "remove the folder and write the store again")
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(f"{file}: format version {version!r} is not {FORMAT_VERSION}; write the store again")
    if not _is_sound(content):
        raise InputError(f"{file}: is damaged; remove the folder and write the store again")
    return content


def _check_of(content: Mapping[str, Any]) -> int:
    """The CRC-32 of a description's contents."""
    checked = {key: content[key] for key in ("rows", "columns")}
    return zlib.crc32(json.dumps(checked, sort_keys=True).encode())


def _is_sound(content: dict[str, Any]) -> bool:
    rows, columns = content.get("rows"), content.get("columns")
    if not isinstance(rows, int) or rows < 0 or not isinstance(columns, dict) or not columns:
        return False
    if "check" in content and content["check"] != _check_of(content):
        return False
    return all(
        name.isidentifier()
        and isinstance(column, dict)
        and column.get("dtype") in ("<u2", "<u4")
        and isinstance(column.get("tokens"), int)
        and column["tokens"] >= 0
        and (
            "checks" not in column
            or (isinstance(column["checks"], dict) and column["checks"].keys() == {"offsets", "sums"})
        )
        for name, column in columns.items()
    )


def _map(file: Path, dtype: str, count: int) -> np.ndarray:
    expected = count * np.dtype(dtype).itemsize
    check_regular(file, "write the store again")
    try:
        found = file.stat().st_size
        if found != expected:
            raise InputError(
                f"{file}: has {found:,} bytes instead of {expected:,}; it was truncated or changed, "
                "so remove the folder and write the store again"
            )
        if count == 0:
            return np.empty(0, dtype)  # an empty file cannot be mapped
        # A plain view, because slicing a `memmap` object is slow.
        return np.asarray(np.memmap(file, dtype=dtype, mode="r", shape=(count,)))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}); write the store again") from None
