"""The texts of a table that a model is to answer: one column is read, and all columns of the row are kept for the answer."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.file_format import guess
from regard.data.header import SAMPLE, TEXT, has_header, place_of
from regard.data.labelled_parts import usual_texts
from regard.data.lines import read_lines
from regard.data.malformed import MalformedRow
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.pair import text_fault
from regard.data.tables import Row, columns_of_table, csv_rows, tsv_rows, usual_width
from regard.errors import InputError

SUFFIXES = (".csv", ".jsonl", ".ndjson", ".parquet")


class RowText(NamedTuple):
    """The text of a row, empty where the cell is, and the whole row by the names of its columns."""

    line: int
    text: str
    row: dict[str, Any]


class Table(NamedTuple):
    """The format of a table (`csv`, `tsv` or `jsonl`), its rows, one by one, and what is read as a sentence, if not named."""

    kind: str
    rows: Iterator[RowText]
    told: str = ""


def is_table(path: Path, column: str | None, known: Sequence[str] = ()) -> bool:
    """Whether a file is read by its columns: where one is named, by its suffix, and TSV with a header.

    Arguments:
        known: names of columns that a header may have.
    """
    name = path.name.lower().removesuffix(".gz")
    if column is not None or name.endswith(SUFFIXES):
        return True
    if not name.endswith((".tsv", ".tab")):
        return False
    sample = list(itertools.islice(tsv_rows(str(path), read_lines(path)), SAMPLE))
    return _named_all(known, _cells(sample)) or has_header(str(path), sample, None)


def _cells(sample: Sequence[Row]) -> list[str]:
    """What the first row holds."""
    return [] if not sample or isinstance(sample[0], MalformedRow) else [cell.strip() for cell in sample[0][1]]


def _named_all(known: Sequence[str], present: Container[str]) -> bool:
    return bool(known) and all(name in present for name in known)


def read_table(path: Path, column: str | None, *, pairs: bool = False, known: Sequence[str] = ()) -> Table:
    """A table and the texts in it.

    Arguments:
        column: by its name, or counted from 0; where None, those of `known`, failing that by the names that columns of texts
            usually have.
        known: the columns that the model was trained on, text and perhaps pair; taken where the table has all of them.
        pairs: whether two texts may be read, joined by a tab, from the two columns that usually hold such.

    Raises:
        InputError: for a file that cannot be read, where it is not clear which column is meant, or there is none of that name;
            while reading for a row that cannot be used.
    """
    name = str(path)
    if has_objects(name):
        return Table("jsonl", _of_objects(name, objects_of(name), column, pairs, known))
    format, lines = guess(name, read_lines(path, pipes=True))
    if format == "jsonl":
        return Table(format, _of_objects(name, objects_of_jsonl(name, lines), column, pairs, known))
    rows = tsv_rows(name, lines) if format == "tsv" else csv_rows(name, lines)
    sample = list(itertools.islice(rows, SAMPLE))
    say = "say which column holds the text, by its name or counted from 0: --text 0"
    cells = _cells(sample)
    as_trained = column is None and len(known) <= 1 + pairs and _named_all(known, cells)
    counted = column is not None and column not in cells and column.isdecimal()
    headed = (column is not None and not counted) or as_trained or has_header(name, sample, None if counted else say)
    names = cells if headed else [f"column_{place}" for place in range(usual_width(sample, 1))]
    if column is not None:
        wanted: list[int | str] = [int(column) if counted else column]
    elif as_trained:
        wanted = list(known)
    else:
        usual = usual_texts(cells) if headed and pairs else None
        if usual is not None and usual[1] is not None:
            wanted = [usual[0], usual[1]]
        else:
            place = 0 if len(names) == 1 else place_of(cells, TEXT) if headed else None
            if place is None:
                raise InputError(f"{name}: its columns are {', '.join(map(repr, names))}; {say}")
            wanted = [place]
    chosen = [*wanted, *range(len(names))]
    every = columns_of_table(name, itertools.chain(sample, rows), chosen, headed)
    return Table(
        format, _of_rows(every, names, len(wanted)), "" if column is not None else _told(name, wanted, names, headed)
    )


def _told(name: str, wanted: Sequence[int | str], names: Sequence[str], headed: bool) -> str:
    """Which columns are read, and what becomes of the first line, as a sentence."""
    read = [each if isinstance(each, str) else names[each] for each in wanted]
    if not headed:
        return f"{name}: has no header, so its first line is a text too; --text NAME where it names the columns"
    columns = " and ".join(map(repr, read))
    return f"{name}: the first line names the columns, of which {columns} {'is' if len(read) == 1 else 'are'} read"


def _of_rows(rows: Iterator[Row], names: list[str], texts: int) -> Iterator[RowText]:
    for row in rows:
        if isinstance(row, MalformedRow):
            if row.reason == "empty line":
                continue
            raise InputError(f"{row}; mend the row, or take it out")
        line, cells = row
        yield RowText(line, "\t".join(cells[:texts]), dict(zip(names, cells[texts:], strict=True)))


def _of_objects(
    name: str, rows: Iterator[Object], column: str | None, pairs: bool, known: Sequence[str]
) -> Iterator[RowText]:
    for row in rows:
        if isinstance(row, MalformedRow):
            raise InputError(f"{row}; mend the row, or take it out")
        line, content = row
        usual = usual_texts(content) if column is None else None
        keys = [column] if column is not None else [usual[0]] if usual is not None else ["text"]
        if usual is not None and usual[1] is not None and pairs:
            keys.append(usual[1])
        if column is None and len(known) <= 1 + pairs and _named_all(known, content):
            keys = list(known)
        found = values_of(name, line, content, [str(key) for key in keys])
        if isinstance(found, MalformedRow):
            raise InputError(f"{found}; say which holds the text with --text")
        fault = next((fault for each in found if each != "" and (fault := text_fault("text", each)) is not None), None)
        if fault is not None and not fault[0].startswith("empty"):
            raise InputError(f"{name}, line {line}: {fault[0]} ({fault[1]}); mend the row, or take it out")
        yield RowText(line, "\t".join(map(str, found)), content)
