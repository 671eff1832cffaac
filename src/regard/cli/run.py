"""The run of a prediction command: read inputs, load the folder, predict in batches, write lines, JSON or tables.

A command consists of its name and the tasks of its models (`verb`), its options (`Run` or `Texts`, and its own), and the form of
its output (`Answers`).
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.console import NewFile, json_opening, on_terminal, text_bar
from regard.cli.inputs import Text, TextColumn, opened, read_input
from regard.cli.settings import NOTHING, Device, Given, Json, Model, grouped

JSON_LINES = (".jsonl", ".ndjson")

TOGETHER = 1024
"""Texts that are read and sorted by length together, so that batches have little padding."""


def verb(
    *tasks: str, without: Sequence[str] = (), usual: Given = NOTHING, **help: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A prediction command for models of some tasks; `regard predict` finds it by the task.

    Arguments:
        tasks: names of tasks.
        without, usual, help: as for `grouped`.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        found = grouped(without=without, usual=usual, **help)(command)
        found.tasks = tasks  # type: ignore[attr-defined]
        return found

    return decorated


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The form of a command's output.

    Arguments:
        command: its name in the JSON object.
        name: of the list of predictions in the JSON object.
        line: from a text and its prediction to a line with its line end; the prediction for an empty text is None.
        values: from a text and its prediction to values by name, the first being the text.
    """

    command: str
    name: str
    line: Callable[[Text, Any], str]
    values: Callable[[Text, Any], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The options of every prediction command, and the run itself."""

    model: Model
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file, one line per text.")
    ] = None
    device: Device = "auto"
    as_json: Json = False

    def file(self) -> contextlib.AbstractContextManager[NewFile | None]:
        """The output file, opened before the model is loaded, so that a wrong place is reported at once."""
        return contextlib.nullcontext() if self.output is None else NewFile(self.output)

    def load(self, task: str | None = None, *, dtype: str = "float32") -> Any:
        """The model, loaded for a task; None for its own."""
        return opened(self.model, self.device, task, dtype=dtype)

    def write(
        self,
        how: Answers,
        texts: Iterator[Text],
        answer: Callable[[list[Text]], Sequence[Any]],
        *,
        file: NewFile | None,
        watched: Any = None,
        together: int | None = None,
        empty: Callable[[Text], bool] | None = None,
        **envelope: Any,
    ) -> None:
        """Predict for texts as they arrive and write the predictions in order; an empty text has none, and an empty line.

        Arguments:
            how: the form of the output.
            texts: the inputs.
            answer: predicts for a list of texts, none of them empty.
            file: the output file; None for standard output.
            watched: the model whose predictions move the progress bar.
            together: how many texts are read before they are predicted; None for `TOGETHER`.
            empty: whether a text has no prediction.
            envelope: further values of the JSON object.
        """
        shown = not self.typed and (file is not None or not on_terminal(sys.stdout))
        with text_bar(watched, self.count, shown=shown):
            written = Written(how, file, as_json=self.as_json, **envelope)
            _answer_all(written, texts, answer, 1 if self.typed else together or TOGETHER, empty or _blank)

    @property
    def count(self) -> int | None:
        """The number of texts; None where unknown."""
        return None

    @property
    def typed(self) -> bool:
        """Whether a person types the texts and waits for each prediction."""
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts(Run):
    """The options of a command that reads texts."""

    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", show_default=False)] = None
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="One text per line; UTF-8, optionally gzipped.")
    ] = None
    text_column: TextColumn = None

    def read(self, *, pairs: bool = False, known: Sequence[str] = ()) -> Iterator[Text]:
        """The texts, as from `read_input`; the call itself opens the file."""
        return read_input(self.texts or (), self.input_file, self.text_column, pairs=pairs, known=known)

    @property
    def typed(self) -> bool:
        """Whether a person types the texts and waits for each prediction."""
        return by_hand(self.texts, self.input_file)

    @property
    def count(self) -> int | None:
        """The number of texts; None where unknown."""
        return len(self.texts) if self.texts else None


def by_hand(texts: Sequence[str] | None, input_file: Path | None) -> bool:
    """Whether a person types the texts and waits for each prediction."""
    return not texts and input_file is None and on_terminal(sys.stdin)


def _blank(text: Text) -> bool:
    return not text.content.strip()


def _answer_all(
    written: Written,
    texts: Iterator[Text],
    answer: Callable[[list[Text]], Sequence[Any]],
    together: int,
    empty: Callable[[Text], bool],
) -> None:
    from regard.tasks.predictor import with_gaps
    from regard.text.warnings import CutTexts

    cuts: list[CutTexts] = []

    def answered(chunk: list[Text]) -> list[Any]:
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
            written.add(text, one)
            count += one is not None
        sys.stdout.flush()
    written.end()
    if cuts:  # one warning for all chunks
        warnings.warn(CutTexts(sum(each.count for each in cuts), count, cuts[0].maximum), stacklevel=2)


class Written:
    """Writes predictions to their place in the chosen form.

    With --json, one JSON object. Else JSON lines, where the file's name ends so; one row per text with all columns of its row,
    where the texts are from a table, in the format of the output's name or else of the input; else lines.
    """

    def __init__(self, how: Answers, file: NewFile | None, *, as_json: bool, **envelope: Any) -> None:
        self._how = how
        self._opening = json_opening(how.command, how.name, **envelope)
        self._write: Callable[[str], object] = sys.stdout.write if file is None else file.write
        self._suffix = "" if file is None else Path(file.path).suffix.lower()
        self._as_json = as_json
        self._separator = self._opening + "\n"
        self._names: list[str] | None = None
        self._waiting: list[dict[str, Any]] = []
        self._delimiter = ","

    def add(self, text: Text, answer: Any) -> None:
        """Write one prediction; None for an empty text."""
        values = partial(self._how.values, text, answer)
        if self._as_json:
            self._write(self._separator + json.dumps(_whole(text, values()), ensure_ascii=False))
            self._separator = ",\n"
        elif self._suffix in JSON_LINES or (text.kind == "jsonl" and self._suffix not in (".csv", ".tsv")):
            self._write(json.dumps(_whole(text, values()), ensure_ascii=False) + "\n")
        elif text.row is not None:
            self._delimiter = "\t" if self._suffix == ".tsv" or (text.kind == "tsv" and self._suffix != ".csv") else ","
            self._add_row(_whole(text, values()), answer is not None)
        else:
            self._write(self._how.line(text, answer))

    def end(self) -> None:
        """Write what is left: the end of the JSON object, or rows that waited for the names of columns."""
        if self._as_json:
            self._write("\n]}\n" if self._separator == ",\n" else self._opening + "]}\n")
        elif self._waiting:
            self._add_row(self._waiting.pop(), True)

    def _add_row(self, row: dict[str, Any], answered: bool) -> None:
        self._waiting.append(row)
        if not answered and self._names is None:  # the columns are only known from a prediction
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
    """Write records: as a table where the file's name ends in .csv or .tsv, else as JSON lines."""
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
    """A prediction by name; with the columns of its row in front, where there are any, which are never overwritten."""
    if text.row is None:
        return dict(values)
    answers = list(values.items())[1:]  # the first is the text, which is in the row
    return {**text.row, **{name if name not in text.row else f"predicted_{name}": value for name, value in answers}}


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
