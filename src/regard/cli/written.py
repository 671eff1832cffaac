"""How answers are written: lines, one JSON object, JSON lines, or a table with the columns that were read."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.cli.new_file import NewFile
from regard.cli.texts import Text

JSON_LINES = (".jsonl", ".ndjson")


class Written:
    """Where answers go, and in which form.

    One JSON object where asked for. Else JSON lines, where the file is called so; a row for each text, with all columns of the
    row that was read, where the texts came from a table (in the form that the file's name tells, else in the table's own); else
    lines.

    Arguments:
        name: of the list of answers in the JSON object.
        file: where to; None for standard output.
        as_json: whether one JSON object is wanted.
    """

    def __init__(self, name: str, file: NewFile | None, *, as_json: bool) -> None:
        self._name = name
        self._write: Callable[[str], object] = sys.stdout.write if file is None else file.write
        self._suffix = "" if file is None else Path(file.path).suffix.lower()
        self._as_json = as_json
        self._separator = f'{{"{name}": [\n'
        self._names: list[str] | None = None
        self._waiting: list[dict[str, Any]] = []
        self._delimiter = ","

    def add(self, text: Text, line: Callable[[], str], values: Callable[[], Mapping[str, Any]], answered: bool) -> None:
        """Write one answer.

        Arguments:
            line: the answer as a line with its end.
            values: the answer by names, of which the first is the text that was read.
            answered: whether there is an answer; an empty text has none.
        """
        if self._as_json:
            self._write(self._separator + json.dumps(_whole(text, values()), ensure_ascii=False))
            self._separator = ",\n"
        elif self._suffix in JSON_LINES or (text.kind == "jsonl" and self._suffix not in (".csv", ".tsv")):
            self._write(json.dumps(_whole(text, values()), ensure_ascii=False) + "\n")
        elif text.row is not None:
            self._delimiter = "\t" if self._suffix == ".tsv" or (text.kind == "tsv" and self._suffix != ".csv") else ","
            self._add_row(_whole(text, values()), answered)
        else:
            self._write(line())

    def end(self) -> None:
        """Write what is left: the end of the JSON object, rows that waited for the names of columns."""
        if self._as_json:
            self._write("\n]}\n" if self._separator == ",\n" else f'{{"{self._name}": []}}\n')
        elif self._waiting:
            self._add_row(self._waiting.pop(), True)

    def _add_row(self, row: dict[str, Any], answered: bool) -> None:
        self._waiting.append(row)
        if not answered and self._names is None:  # an empty text does not tell which columns an answer has
            return
        if self._names is None:
            self._names = list(row)
            self._waiting.insert(0, dict(zip(self._names, self._names, strict=True)))
        held = io.StringIO()
        rows = csv.DictWriter(held, self._names, delimiter=self._delimiter, lineterminator="\n", extrasaction="ignore")
        rows.writerows({key: _cell(value) for key, value in each.items()} for each in self._waiting)
        self._waiting.clear()
        self._write(held.getvalue())


def write_records(file: NewFile, records: Sequence[Mapping[str, Any]]) -> None:
    """Write values by name: a table where the file's name ends in .csv or .tsv, else a JSON object in each line."""
    suffix = Path(file.path).suffix.lower()
    if suffix not in (".csv", ".tsv"):
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        return
    names = list(dict.fromkeys(name for record in records for name in record))
    held = io.StringIO()
    rows = csv.DictWriter(held, names, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    rows.writeheader()
    rows.writerows({key: _cell(value) for key, value in record.items()} for record in records)
    file.write(held.getvalue())


def _whole(text: Text, values: Mapping[str, Any]) -> dict[str, Any]:
    """An answer by names; with the row that was read in front, where there is one, and no name of it given away."""
    if text.row is None:
        return dict(values)
    answers = list(values.items())[1:]  # the first is the text, which is in the row
    return {**text.row, **{name if name not in text.row else f"predicted_{name}": value for name, value in answers}}


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
