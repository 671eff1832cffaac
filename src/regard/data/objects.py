"""Pairs from objects with named texts: the lines of a JSONL file, the rows of a hub dataset."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence

from regard.data.lines import Line
from regard.data.malformed import MalformedRow
from regard.data.pair import Found, decoded, malformed_row, pair_or_fault, short
from regard.data.parquet import parquet_rows
from regard.errors import InputError
from regard.reading import json_value

HUB = "hub:"

Object = tuple[int, dict] | MalformedRow  # a line number and the object there

_MISSING = object()


def keys_of(name: str, source: int | str | None, target: int | str | None) -> tuple[str, str]:
    """The keys of source and target, where none were given by their usual names."""
    if isinstance(source, int) or isinstance(target, int):
        raise InputError(f"{name}: source and target are keys here, as 'translation.en', not column numbers")
    return source or "source", target or "target"


def pairs_of_jsonl(name: str, lines: Iterator[Line], source: str, target: str) -> Found:
    """The pairs of a file with one JSON object in each line."""
    return _pairs(name, objects_of_jsonl(name, lines), source, target)


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


def _pairs(name: str, rows: Iterator[Object], source: str, target: str) -> Found:
    for row in rows:
        if isinstance(row, MalformedRow):
            yield row
            continue
        values = values_of(name, *row, (source, target))
        yield values if isinstance(values, MalformedRow) else pair_or_fault(name, row[0], *values)


def values_of(name: str, line: int, row: dict, keys: Sequence[str]) -> list[object] | MalformedRow:
    """What stands under some keys of an object, or the first key that is missing; "a.b" reaches into nested objects."""
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


def pairs_of_objects(name: str, source: str, target: str) -> Found:
    """The pairs of a hub dataset or a Parquet file, streamed; `line` is the row, from 1."""
    return _pairs(name, objects_of(name), source, target)


def has_objects(name: str) -> bool:
    """Whether a place holds rows that are objects and no lines: a hub dataset, or a Parquet file."""
    return name.startswith(HUB) or name.lower().endswith(".parquet")


def objects_of(name: str) -> Iterator[Object]:
    """The rows of such a place, numbered from 1."""
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
    except Exception as error:  # the library passes on whatever the network, the hub or a file raised
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
