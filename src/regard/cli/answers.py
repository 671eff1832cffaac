"""How texts are answered and the answers written: lines, one JSON object, JSON lines, or a table with the columns read."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.cli.console import NewFile, json_opening, on_terminal
from regard.cli.inputs import Text

if TYPE_CHECKING:
    from regard.tasks import Translation


JSON_LINES = (".jsonl", ".ndjson")


class Written:
    """Where answers go, and in which form.

    One JSON object where asked for. Else JSON lines, where the file is called so; a row for each text, with all columns of the
    row that was read, where the texts came from a table (in the form that the file's name tells, else in the table's own); else
    lines.

    Arguments:
        command: as the JSON object names it.
        name: of the list of answers in the JSON object.
        file: where to; None for standard output.
        as_json: whether one JSON object is wanted.
    """

    def __init__(self, command: str, name: str, file: NewFile | None, *, as_json: bool) -> None:
        self._opening = json_opening(command, name)
        self._write: Callable[[str], object] = sys.stdout.write if file is None else file.write
        self._suffix = "" if file is None else Path(file.path).suffix.lower()
        self._as_json = as_json
        self._separator = self._opening + "\n"
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
            self._write("\n]}\n" if self._separator == ",\n" else self._opening + "]}\n")
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


# Answers to texts, one after another.


A = TypeVar("A")

USUAL_CHUNK = 1024
"""Texts read together and sorted by length, so that batches hold little padding."""


def by_hand(texts: Sequence[str] | None, input_file: Path | None) -> bool:
    """Whether somebody types the texts and waits for each answer."""
    return not texts and input_file is None and on_terminal(sys.stdin)


def _blank(text: Text) -> bool:
    return not text.content.strip()


def answer_all(
    texts: Iterator[Text],
    answer: Callable[[list[Text]], Sequence[A]],
    *,
    command: str,
    name: str,
    line_of: Callable[[A | None], str],
    object_of: Callable[[Text, A | None], dict[str, Any]],
    file: NewFile | None,
    as_json: bool,
    together: int = USUAL_CHUNK,
    empty: Callable[[Text], bool] = _blank,
) -> None:
    """Answer texts as they come and write the answers in their order; an empty text has none, and an empty line.

    Arguments:
        answer: to some texts, none empty.
        command: as the JSON object names it.
        name: of the list of answers in the JSON object.
        line_of, object_of: an answer as a line with its end, and as a JSON object; None for an empty text.
        file: where they go instead of standard output.
        as_json: whether one object of all is written.
        together: how many texts are read before they are answered.
        empty: tells the texts that have no answer.
    """
    from regard.tasks.gaps import with_gaps
    from regard.text.unknown import CutTexts

    written = Written(command, name, file, as_json=as_json)
    cuts: list[CutTexts] = []

    def answered(chunk: list[Text]) -> list[A | None]:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", CutTexts)
            found = with_gaps(answer, chunk, empty=empty)
        for warning in warned:
            if isinstance(warning.message, CutTexts) and together > 1:
                cuts.append(warning.message)
            else:
                warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
        return found

    count = 0
    while chunk := list(itertools.islice(texts, together)):
        for text, one in zip(chunk, answered(chunk), strict=True):
            written.add(text, partial(line_of, one), partial(object_of, text, one), one is not None)
            count += one is not None
        sys.stdout.flush()
    written.end()
    if cuts:  # once for all chunks
        warnings.warn(CutTexts(sum(each.count for each in cuts), count, cuts[0].maximum), stacklevel=2)


# Translations, as lines of text and as JSON objects.


def line_of(translation: Translation | None) -> str:
    """A translation as a line of text, its end included; the further answers after tabs."""
    if translation is None:
        return "\n"
    answers = [translation.text, *(text for text, _ in translation.alternatives)]
    breaks = "\r\n\t" if len(answers) > 1 else "\r\n"
    table = str.maketrans(dict.fromkeys(breaks, " "))
    return "\t".join(answer.translate(table) for answer in answers) + "\n"


def object_of(source: str, translation: Translation | None) -> dict[str, Any]:
    """A translation as a JSON object; without scores where the text was empty."""
    if translation is None:
        return {"source": source, "text": "", "score": None, "log_probability": None, "alternatives": []}
    return {
        "source": source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "alternatives": [{"text": answer, "score": score} for answer, score in translation.alternatives],
    }
