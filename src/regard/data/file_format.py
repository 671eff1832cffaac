"""Which format a file of rows has: told by its name, failing that by its first line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from regard.data.lines import Line

FORMATS = ("auto", "tsv", "csv", "jsonl")

_SUFFIXES = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def guess(name: str, lines: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """The format of a file, `tsv` where nothing tells, and all its lines."""
    suffixes = [suffix for suffix in Path(name.lower()).suffixes if suffix not in (".gz", ".gzip")]
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]], lines
    first = next(lines)
    looks_like_json = first.content.lstrip().startswith(b"{")
    return "jsonl" if looks_like_json else "tsv", itertools.chain([first], lines)
