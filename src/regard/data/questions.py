"""Questions answered by spans of a context (SQuAD 1.1 and 2.0, JSONL), and predictions in SQuAD's official format."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from regard.data.lines import files_of, read_each, read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    first_fault,
    malformed_row,
    read_rows,
    short,
    text_fault,
    usable,
)
from regard.data.objects import objects_of_jsonl, read_document
from regard.errors import InputError, nearest
from regard.files import write_file
from regard.reading import AnyPath, json_value

__all__ = ["FORMATS", "Answer", "MalformedRow", "MalformedRows", "Question", "read_questions"]

FORMATS = ("auto", "squad", "jsonl")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer span in a context.

    Arguments:
        text: the text of the span.
        start: the index of its first character in the context; `context[start : start + len(text)]` is `text`.
    """

    text: str
    start: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a context.

    Arguments:
        id: the id of the question, unique in its file.
        question, context: the texts.
        answers: the correct answers; usually one for a training question. Empty if the question is impossible or answers were
            not read.
        impossible: whether the context contains no answer (SQuAD 2.0).
        title: the title of the article; empty if there is none.
        file: the file it was read from.
        number: the number of the question in its file, from 1; in JSONL the line number.

    >>> answer = Answer(text="Paris", start=8)
    >>> Question(id="1", question="Where?", context="She was Paris-bound.", answers=(answer,), file="a", number=1).impossible
    False
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    impossible: bool = False
    title: str = ""
    file: str
    number: int


_Found = Iterator[Question | MalformedRow]


def read_questions(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str = "auto",
    answered: bool = True,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
) -> Iterator[Question]:
    r"""The questions of one file, or of several in turn, in order.

    Files are UTF-8, plain or gzip (recognised by content). A SQuAD document is held in memory, a JSONL file is not. If an
    answer differs from the text at its position in the context, the question is malformed; nothing is corrected silently.

    Arguments:
        path: a file or several.
        format: `squad`: the official JSON of SQuAD 1.1 and 2.0. `jsonl`: one object per line with `context`, `question` and, if
            answered, `answer` and `answer_start` (single values, or lists if there are several correct answers) or
            `impossible: true`; optionally `id` and `title`. `auto`: by the file's name and first line.
        answered: whether answers are read. If False, no question has answers, and files without answers can be read.
        on_error: what to do with a malformed question: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed questions are recorded.

    Raises:
        InputError: if a file cannot be used at all (missing, empty, wrong encoding, broken gzip, another format, no usable
            question); raised by the call or while reading. Also for a malformed question if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "questions.jsonl"
    >>> _ = file.write_text('{"context": "She lives in Paris.", "question": "Where?", "answer": "Paris", "answer_start": 13}')
    >>> [(question.question, question.answers) for question in read_questions(file)]
    [('Where?', (Answer(text='Paris', start=13),))]
    """
    if format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, FORMATS)}")
    files = files_of(path, "questions")

    def one(place: AnyPath) -> Iterator[Question]:
        name = os.fspath(place)
        if format == "squad" or (format == "auto" and not _is_jsonl(name)):
            unit, found = "question", _from_squad(name, _articles(name, read_document(name)), answered)
            needed = "each question needs an id, a text and a context" + (
                ", and answers that are in the context at their offsets, or is_impossible" if answered else ""
            )
        else:
            unit, found = "line", _from_jsonl(name, answered)
            needed = "each line needs to be a JSON object with a context and a question" + (
                ", and an answer that is in the context at answer_start, or impossible" if answered else ""
            )
        return usable(_each_id_once(found, unit), name, needed, on_error, malformed)

    return read_each(files, one)


def _is_jsonl(name: str) -> bool:
    """Whether the file has one object with a context per line. A SQuAD document may have one line or many."""
    suffixes = [suffix for suffix in Path(name.lower()).suffixes if suffix not in (".gz", ".gzip")]
    if suffixes and suffixes[-1] in (".jsonl", ".ndjson"):
        return True
    first = next(read_lines(name))
    try:
        value = None if first.too_long else json_value(first.content)
    except ValueError:
        return False
    return isinstance(value, dict) and "context" in value


def _articles(name: str, document: object) -> list:
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, list):
        raise InputError(
            f"{name}: is not a SQuAD file, which is a JSON object with a list of articles under 'data'; or give JSONL"
        )
    return data


def _from_squad(name: str, articles: list, answered: bool) -> _Found:
    number = 0
    for article in articles:
        title, paragraphs = _field(article, "title", ""), _field(article, "paragraphs", None)
        if not isinstance(paragraphs, list):
            number += 1
            yield _fault(name, number, None, "not an article", short(article))
            continue
        for paragraph in paragraphs:
            context, questions = _field(paragraph, "context", None), _field(paragraph, "qas", None)
            if not isinstance(questions, list):
                number += 1
                yield _fault(name, number, None, "not a paragraph", short(paragraph))
                continue
            for question in questions:
                number += 1
                yield _of_squad(name, number, question, context, title, answered)


def _field(value: object, key: str, default: object) -> object:
    return value.get(key, default) if isinstance(value, dict) else default


def _of_squad(
    name: str, number: int, question: object, context: object, title: object, answered: bool
) -> Question | MalformedRow:
    if not isinstance(question, dict):
        return _fault(name, number, None, "not a question", short(question))
    answers = question.get("answers", [])
    if not isinstance(answers, list):
        return _fault(name, number, question.get("id"), "not a list of answers", short(answers))
    places = [(_field(answer, "text", None), _field(answer, "answer_start", None)) for answer in answers]
    impossible = question.get("is_impossible", False)
    texts = question.get("id"), question.get("question"), context, title
    return _question(name, number, texts, places, impossible, answered, "question")


def _from_jsonl(name: str, answered: bool) -> _Found:
    def read(line: int, content: dict) -> Question | MalformedRow:
        texts, starts = content.get("answer", []), content.get("answer_start", [])
        texts = texts if isinstance(texts, list) else [] if texts is None else [texts]
        starts = starts if isinstance(starts, list) else [] if starts is None else [starts]
        if answered and len(texts) != len(starts):
            detail = f"{len(texts)} texts and {len(starts)} positions"
            return _fault(name, line, content.get("id"), "answers without positions", detail, "line")
        parts = content.get("id", str(line)), content.get("question"), content.get("context"), content.get("title", "")
        places = list(zip(texts, starts, strict=False))
        return _question(name, line, parts, places, content.get("impossible", False), answered, "line")

    return read_rows(objects_of_jsonl(name, read_lines(name)), read)


def _question(
    name: str,
    number: int,
    texts: tuple[object, object, object, object],
    places: Sequence[tuple[object, object]],
    impossible: object,
    answered: bool,
    unit: str,
) -> Question | MalformedRow:
    """The question made of these parts, or the first fault found in them."""
    id, question, context, title = texts
    id = str(id) if type(id) is int else id

    def fault(reason: str, detail: str = "") -> MalformedRow:
        return _fault(name, number, id, reason, detail, unit)

    wrong = first_fault([("id", id), ("question", question), ("context", context)])
    if wrong is not None:
        return fault(*wrong)
    if not isinstance(title, str) or not isinstance(impossible, bool):
        return fault("not a text" if isinstance(impossible, bool) else "impossible is not true or false")
    id, question, context = str(id), str(question), str(context)
    answers: list[Answer] = []
    for text, start in places if answered else ():
        wrong = text_fault("answer", text)
        if wrong is not None:
            return fault(*wrong)
        if type(start) is not int:
            return fault("answer without a position", short(start))
        if start < 0 or start + len(str(text)) > len(context):
            return fault("answer outside the context", f"{short(text)} at {start} of {len(context)} characters")
        if not context.startswith(str(text), start):
            there = short(context[start : start + len(str(text))])
            return fault(
                "answer is not the text at its position", f"{short(text)}, but the context at {start} is {there}"
            )
        answers.append(Answer(text=str(text), start=start))
    if answered and impossible and answers:
        return fault("impossible but answered", short(answers[0].text))
    if answered and not impossible and not answers:
        return fault("no answer")
    impossible = answered and impossible
    return Question(
        id=id,
        question=question,
        context=context,
        answers=tuple(answers),
        impossible=impossible,
        title=title,
        file=name,
        number=number,
    )


def _fault(name: str, number: int, id: object, reason: str, detail: str = "", unit: str = "question") -> MalformedRow:
    named = "" if id is None else f"id {short(id)}"
    return malformed_row(name, number, reason, ": ".join(part for part in (named, detail) if part), unit)


def _each_id_once(found: _Found, unit: str) -> _Found:
    """Mark questions with an id that was used before as malformed, because predictions are matched by id."""
    seen: set[str] = set()
    for row in found:
        if isinstance(row, MalformedRow):
            yield row
        elif row.id in seen:
            yield _fault(row.file, row.number, row.id, "id used before", unit=unit)
        else:
            seen.add(row.id)
            yield row


def answer_texts(questions: Sequence[Question]) -> Mapping[str, tuple[str, ...]]:
    """The correct answers to each question by its id, as the metrics of `regard.metrics.answers` take them."""
    return {question.id: tuple(answer.text for answer in question.answers) for question in questions}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One of the best answers to a question.

    Arguments:
        text: the answer; empty for no answer.
        probability: its probability among the candidates.
        start_logit, end_logit: the logits of its first and its last token.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float


def write_predictions(path: AnyPath, predictions: Mapping[str, str]) -> None:
    """Write predictions in the format of SQuAD's evaluation scripts: a JSON object from ids to texts, "" for no answer.

    Raises:
        InputError: if the file cannot be written.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "predictions.json"
    >>> write_predictions(file, {"5733be28": "Paris"})
    >>> read_predictions(file)
    {'5733be28': 'Paris'}
    """
    _write(path, dict(predictions))


def read_predictions(path: AnyPath) -> dict[str, str]:
    """The predicted answers in a file written by `write_predictions`, by id.

    Raises:
        InputError: if the file cannot be used, or is not an object from ids to texts.
    """
    values = _read(path)
    for id, text in values.items():
        if not isinstance(text, str):
            raise InputError(
                f"{os.fspath(path)}: the answer to {id!r} is {short(text)}; it must be a text, empty for no answer"
            )
    return values


def write_no_answer(path: AnyPath, probabilities: Mapping[str, float]) -> None:
    """Write the probability that each question has no answer, in the format of the SQuAD 2.0 script (`--na-prob-file`).

    Raises:
        InputError: if the file cannot be written.
    """
    _write(path, {id: float(probability) for id, probability in probabilities.items()})


def read_no_answer(path: AnyPath) -> dict[str, float]:
    """The probability that each question has no answer, by id, from a file written by `write_no_answer`.

    Raises:
        InputError: if the file cannot be used, or is not an object from ids to numbers.
    """
    values = _read(path)
    for id, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise InputError(f"{os.fspath(path)}: the value of {id!r} is {short(value)}; it must be a number")
    return values


def write_candidates(path: AnyPath, candidates: Mapping[str, Sequence[Candidate]]) -> None:
    """Write the best answers to each question, best first, in the n-best format of BERT's own script.

    Raises:
        InputError: if the file cannot be written.
    """
    _write(path, {id: [asdict(candidate) for candidate in best] for id, best in candidates.items()})


def _write(path: AnyPath, values: dict) -> None:
    # ASCII, because the official scripts open files in the machine's default encoding.
    write_file(path, json.dumps(values, indent=2) + "\n")


def _read(path: AnyPath) -> dict:
    values = read_document(path)
    if not isinstance(values, dict):
        raise InputError(f"{os.fspath(path)}: is not a JSON object from question ids to predictions")
    return values
