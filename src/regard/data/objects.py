"""Reading rows that are objects (lines of JSONL, rows of Parquet files and hub datasets), and whole JSON documents."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from regard.data.lines import BYTE_ORDER_MARK, Line, open_file, reading_errors, wrong_encoding
from regard.data.malformed import MalformedRow, decoded, malformed_row, short
from regard.errors import InputError
from regard.reading import check_regular, json_value

HUB = "hub:"

Object = tuple[int, dict] | MalformedRow  # a line number with the object on that line

_MISSING = object()


def objects_of_jsonl(name: str, lines: Iterator[Line]) -> Iterator[Object]:
    """The objects of a file with one JSON object in each line."""
    for line in lines:
        text = decoded(name, line)
        if isinstance(text, MalformedRow):
            yield text
            continue
        if not text.strip():
            yield malformed_row(name, line.number, "empty line")
            continue
        try:
            row = json_value(text, halves=True)
        except ValueError as error:
            yield malformed_row(name, line.number, "broken JSON", f"{error}: {short(text)}")
            continue
        if isinstance(row, dict):
            yield line.number, row
        else:
            yield malformed_row(name, line.number, "not a JSON object", short(text))


def values_of(name: str, line: int, row: dict, keys: Sequence[str]) -> list[object] | MalformedRow:
    """The values of some keys of an object, or a `MalformedRow` for the first missing key; "a.b" is key "b" in object "a"."""
    values = [_lookup(row, key) for key in keys]
    for key, value in zip(keys, values, strict=True):
        if value is _MISSING:
            return malformed_row(name, line, "missing key", f"no {key!r} among {short(list(row))}")
    return values


def _lookup(row: object, key: str) -> object:
    if isinstance(row, dict) and key in row:
        return row[key]
    for part in key.split("."):
        if not isinstance(row, dict) or part not in row:
            return _MISSING
        row = row[part]
    return row


def has_objects(name: str) -> bool:
    """Whether this names a source of objects that is not read line by line: a hub dataset or a Parquet file."""
    return name.startswith(HUB) or name.lower().endswith(".parquet")


def objects_of(name: str) -> Iterator[Object]:
    """The rows of a hub dataset or Parquet file, numbered from 1."""
    return objects_of_hub(name) if name.startswith(HUB) else iter(parquet_rows(name))


def objects_of_hub(name: str) -> Iterator[Object]:
    """The rows of `hub:owner/name[:configuration][@split]`, streamed and numbered from 1."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise InputError(
            f"{name}: reading a hub dataset needs datasets: pip install 'regard[hub]'; or give a file"
        ) from None
    address, _, split = name.removeprefix(HUB).partition("@")
    dataset, _, configuration = address.partition(":")
    what_to_do = "check the name and the connection, or download the data and give the path of a file"
    try:
        rows = iter(datasets.load_dataset(dataset, configuration or None, split=split or "train", streaming=True))
    except Exception as error:  # the library passes on any error of the network, the hub or a file
        raise InputError(f"{name}: the dataset cannot be opened ({_first_line(error)}); {what_to_do}") from None
    return _numbered(name, rows, what_to_do)


def _numbered(name: str, rows: Iterator, what_to_do: str) -> Iterator[Object]:
    for number in itertools.count(1):
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception as error:
            raise InputError(f"{name}: reading stopped at row {number} ({_first_line(error)}); {what_to_do}") from None
        yield number, row


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


TOGETHER = 1024
"""The number of rows that are in memory at a time."""


def parquet_rows(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file, one by one, numbered from 1; the call itself opens the file.

    Raises:
        InputError: if the file does not exist or is not a Parquet file, or pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise InputError(
            f"{name}: reading Parquet needs pyarrow: pip install 'regard[parquet]'; or give CSV or JSONL"
        ) from None
    check_regular(name, "check the path")
    try:
        file = parquet.ParquetFile(name)
    except (ArrowException, OSError, ValueError) as error:
        raise InputError(f"{name}: is not a readable Parquet file ({_reason_of(error)}); write it again") from None

    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=TOGETHER):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise InputError(
                f"{name}: reading stopped after row {number} ({_reason_of(error)}); write it again"
            ) from None
        finally:
            file.close()

    return rows()


def _reason_of(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


LARGEST = 1 << 28
"""The most bytes of a JSON document, uncompressed; parsed, it takes several times as much memory."""

_WIDE_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read_document(path: str | os.PathLike[str]) -> Any:
    """The value in a JSON file; gzip (recognised by content) and a byte-order mark are handled.

    Raises:
        InputError: if the file does not exist, is a folder, is not readable, is empty, is larger than 256 MiB, is not UTF-8, or
            is broken gzip or JSON.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = file.write_text('{"version": "1.1"}')
    >>> read_document(file)
    {'version': '1.1'}
    """
    name = os.fspath(path)
    content = bytearray()
    with open_file(name) as stream, reading_errors(name, lambda: f"byte {len(content):,}"):
        while piece := stream.read(1 << 20):
            content += piece
            if len(content) > LARGEST:
                raise InputError(
                    f"{name}: is larger than {LARGEST >> 20} MiB, the limit for one document; give JSONL, one object per line"
                )
    return parsed(name, bytes(content))


def parsed(name: str, content: bytes) -> Any:
    """The value of a JSON document given as bytes; `name` is its name in messages.

    Raises:
        InputError: if it is empty, not UTF-8, or not JSON.
    """
    if not content.removeprefix(BYTE_ORDER_MARK).strip():
        raise InputError(f"{name}: is empty; give a JSON file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise wrong_encoding(name, _WIDE_MARKS.get(content[:2])) from None
    try:
        return json_value(text)
    except ValueError as error:
        beginning = short(content[:40].decode(errors="replace"))
        raise InputError(
            f"{name}: is not JSON ({error}; it begins {beginning}); check that the file is whole"
        ) from None
