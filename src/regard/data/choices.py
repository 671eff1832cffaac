"""Reading multiple-choice questions one by one from SWAG's CSV, RACE's JSON and JSONL files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.data.lines import Line, files_of, read_each, read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    first_fault,
    malformed_row,
    read_rows,
    short,
    usable,
)
from regard.data.objects import objects_of_jsonl
from regard.data.tables import columns_of_table, csv_rows, guess_format
from regard.errors import InputError, nearest
from regard.reading import AnyPath

__all__ = ["FORMATS", "ChoiceQuestion", "MalformedRow", "MalformedRows", "read_choices"]

FORMATS = ("auto", "swag", "race", "jsonl")

_ENDINGS = ("ending0", "ending1", "ending2", "ending3")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceQuestion:
    """A context and several choices, one of them correct.

    Arguments:
        context: the text that is read first.
        question: the text before each choice: a question, or the beginning of the next sentence; empty if there is none.
        choices: the texts to choose from, two or more.
        answer: the index of the correct choice, from 0; None in data without answers.
        file: the file it was read from.
        number: the number of the question in its file, from 1; in CSV and JSONL the line number.

    >>> ChoiceQuestion(context="It rains.", question="She", choices=("runs.", "flies."), answer=0, file="a", number=1).choices
    ('runs.', 'flies.')
    """

    context: str
    question: str = ""
    choices: tuple[str, ...]
    answer: int | None = None
    file: str
    number: int


_Found = Iterator[ChoiceQuestion | MalformedRow]


def read_choices(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str = "auto",
    answered: bool = True,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
) -> Iterator[ChoiceQuestion]:
    r"""The questions of one file, or of several in turn, one by one; no file is held in memory.

    Files are UTF-8, plain or gzip (recognised by content).

    Arguments:
        path: a file or several. For `race` also a folder, as RACE is distributed: every .txt file in it and in its subfolders.
        format: `swag`: CSV with the columns sent1 (the context), sent2 (the beginning of the next sentence), ending0 to ending3
            and label. `race`: one JSON object per line, with an article and lists of questions, options and answers (A, B,
            ...). `jsonl`: one object per line with `context`, `choices`, `answer` (an index from 0) and optionally `question`.
            `auto`: recognised by the file's name and first line.
        answered: whether answers are read. If False, `answer` is None everywhere, and files without answers can be read.
        on_error: what to do with a malformed question: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed questions are recorded.

    Raises:
        InputError: if a file cannot be used at all (missing, empty, binary, wrong encoding, broken gzip, a column is missing,
            no usable question); raised by the call or while reading. Also for a malformed question if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "choices.jsonl"
    >>> _ = file.write_text('{"context": "It rains.", "choices": ["She runs.", "She flies."], "answer": 0}')
    >>> [(question.context, question.choices, question.answer) for question in read_choices(file)]
    [('It rains.', ('She runs.', 'She flies.'), 0)]
    """
    if format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, FORMATS)}")
    files = files_of(path, "multiple-choice questions")
    if format in ("auto", "race"):
        files = [file for place in files for file in (_folder(place) if Path(place).is_dir() else [place])]

    def one(place: AnyPath) -> Iterator[ChoiceQuestion]:
        name = os.fspath(place)
        found, needed = _found(name, format, answered)
        return usable(found, name, needed, on_error, malformed)

    return read_each(files, one)


def _folder(place: AnyPath) -> list[Path]:
    files = sorted(Path(place).rglob("*.txt"))
    if not files:
        raise InputError(f"{os.fspath(place)}: no .txt file is in the folder; give RACE's folder, or a file")
    return files


def _found(name: str, format: str, answered: bool) -> tuple[_Found, str]:
    lines = read_lines(name)
    if format == "auto":
        guessed, lines = guess_format(name, lines)
        first = next(lines)
        lines = itertools.chain([first], lines)
        format = "race" if b'"article"' in first.content else "swag" if guessed == "csv" else "jsonl"
    if format == "swag":
        needed = "each line needs what SWAG's CSV has: sent1, sent2, ending0 to ending3" + (
            ", label" if answered else ""
        )
        return _from_swag(name, lines, answered), needed
    if format == "race":
        needed = "each object needs an article, and lists of questions, options and answers"
        return _from_race(name, lines, answered), needed
    needed = "each line needs to be a JSON object with a context and a list of choices" + (
        ", and the right one's number, from 0, as answer" if answered else ""
    )
    return _from_jsonl(name, lines, answered), needed


def _from_swag(name: str, lines: Iterator[Line], answered: bool) -> _Found:
    columns = ["sent1", "sent2", *_ENDINGS, *(["label"] if answered else [])]

    def read(line: int, cells: list[str]) -> ChoiceQuestion | MalformedRow:
        context, question, *endings = cells
        answer = endings.pop().strip() if answered else None
        number = int(answer) if answer is not None and answer.isdecimal() and len(answer) < 10 else answer
        return _question(name, line, context, question, endings, number, "line", answered)

    return read_rows(columns_of_table(name, csv_rows(name, lines), columns, header=True), read)


def _from_race(name: str, lines: Iterator[Line], answered: bool) -> _Found:
    number = 0
    for row in objects_of_jsonl(name, lines):
        if isinstance(row, MalformedRow):
            number += 1
            yield malformed_row(name, number, row.reason, row.detail, "question")
            continue
        article = row[1]
        parts = [article.get(key) for key in ("questions", "options", *(["answers"] if answered else []))]
        lists = [part for part in parts if isinstance(part, list)]
        if len(lists) < len(parts) or len({len(part) for part in lists}) > 1:
            number += 1
            yield malformed_row(
                name, number, "lists that do not fit", short(article.get("id", list(article))), "question"
            )
            continue
        for question, options, *answers in zip(*lists, strict=True):
            number += 1
            answer = _place(answers[0]) if answers else None
            yield _question(name, number, article.get("article"), question, options, answer, "question", answered)


def _place(letter: object) -> object:
    """The index of a capital letter, from A = 0; any other value unchanged."""
    return ord(letter) - ord("A") if isinstance(letter, str) and re.fullmatch("[A-Z]", letter) else letter


def _from_jsonl(name: str, lines: Iterator[Line], answered: bool) -> _Found:
    def read(line: int, content: dict) -> ChoiceQuestion | MalformedRow:
        question = content.get("question") or ""
        answer = content.get("answer", "missing") if answered else None
        return _question(name, line, content.get("context"), question, content.get("choices"), answer, "line", answered)

    return read_rows(objects_of_jsonl(name, lines), read)


def _question(
    name: str,
    number: int,
    context: object,
    question: object,
    choices: object,
    answer: object,
    unit: str,
    answered: bool,
) -> ChoiceQuestion | MalformedRow:
    """The question made of these parts, or the first fault found in them."""

    def fault(reason: str, detail: str = "") -> MalformedRow:
        return malformed_row(name, number, reason, detail, unit)

    if not isinstance(choices, list):
        return fault("not a list of choices", short(choices))
    texts = [("context", context), *([] if question == "" else [("question", question)])]
    texts += [("choice", choice) for choice in choices]
    wrong = first_fault(texts)
    if wrong is not None:
        return fault(*wrong)
    if len(choices) < 2:
        return fault("fewer than two choices", short(choices))
    if answered and type(answer) is not int:
        return fault("no answer" if answer in (None, "", "missing") else "answer is not a number", short(answer))
    place = answer if isinstance(answer, int) else None
    if place is not None and not 0 <= place < len(choices):
        return fault("answer outside the choices", f"{place} of {len(choices)}, counted from 0")
    return ChoiceQuestion(
        context=str(context), question=str(question), choices=tuple(choices), answer=place, file=name, number=number
    )
