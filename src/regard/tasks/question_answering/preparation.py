"""From questions to token stores that a model which answers them is trained on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.questions import Question
from regard.errors import InputError
from regard.files import replace_file
from regard.tasks.examples import Splits, given_or
from regard.tasks.preparation import (
    SETTINGS,
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    Row,
    cleared,
    encoder_tokenizer,
    finish,
    is_prepared,
    opened,
    settings_of,
    write_store,
)
from regard.tasks.question_answering.data import QuestionData
from regard.tasks.question_answering.examples import (
    Given,
    answer_of,
    check_answered,
    in_memory,
    reader,
    together,
)
from regard.tasks.question_answering.store import Asked, columns, training_row, validation_row
from regard.tasks.question_answering.task import QuestionAnsweringTask
from regard.tasks.question_answering.windows import Encoded, Window, encoded_contexts, places_of, windows

"""What preparation decided of the task, beside the stores."""

TOGETHER = 64
"""Questions that are tokenized together."""

AT_CLS = (0, 0)
"""The label of a window without the answer: both of its ends are at [CLS]."""


def prepare_questions(
    data: QuestionData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[QuestionAnsweringTask]:
    """Read the data for the tokenizer, then for the tokens, and leave all in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out articles.
        given, given_validation: questions in memory instead of what `data` names: `Question`s, or (question, context, answer).

    Raises:
        InputError: for data that cannot be read, too little of it, or questions without an answer where all must have one.
    """
    if not is_prepared(folder):
        train = given_or(in_memory(given), reader(data, data.train), "training")
        if train is None:
            raise InputError("data.train is missing; name a file of questions, in SQuAD's JSON or JSONL")
        validation = given_or(in_memory(given_validation), reader(data, data.validation), "validation")
        splits = Splits(train, validation, share=data.validation_share, seed=seed, together=together)
        cleared(folder)
        task = QuestionAnsweringTask(
            tokenizer=encoder_tokenizer(tokenizer, lambda: _texts(splits)),
            maximum_length=data.maximum_length,
            stride=data.stride,
            maximum_question=data.maximum_question,
            maximum_answer=data.maximum_answer,
            unanswerable=_unanswerable(data, splits),
        )
        kept = data.other_windows == "keep" or (data.other_windows is None and bool(task.unanswerable))
        maker = _Rows(task, keeps=kept)
        write_store(folder, TRAIN, columns(task.tokenizer), maker.training(splits.train()))
        write_store(folder, VALIDATION, columns(task.tokenizer), maker.validation(splits.validation()))
        replace_file(folder / SETTINGS, json.dumps(task.save(folder)))
        finish(folder, [*splits.notes, *maker.notes])
    return opened(QuestionAnsweringTask.load(folder, settings_of(folder)), folder)


def _texts(splits: Splits[Question]) -> Iterator[str]:
    """What a tokenizer is trained on: questions, and each context once."""
    before = None
    for question in splits.train():
        if question.context != before:
            before = question.context
            yield before
        yield question.question


def _unanswerable(data: QuestionData, splits: Splits[Question]) -> bool:
    if data.unanswerable is not None:
        return data.unanswerable
    return any(question.impossible for question in splits.everything())


class _Rows:
    """Makes the rows of both stores, and counts what the user ought to know.

    Arguments:
        keeps: whether the windows of an answered question that the answer is not in are learnt from.
    """

    def __init__(self, task: QuestionAnsweringTask, *, keeps: bool) -> None:
        self._task = task
        self._keeps = keeps
        self._cut = 0
        self._not_found = 0

    def training(self, questions: Iterator[Question]) -> Iterator[Row]:
        """The windows to learn from."""
        for number, (question, ids, context) in enumerate(self._encoded(questions)):
            answer = self._answer(question, context)
            if answer is None and not question.impossible:
                continue
            for window in self._windows(ids, context):
                label = self._label(question, window, answer)
                if label:
                    yield training_row(window, label, number)

    def validation(self, questions: Iterator[Question]) -> Iterator[Row]:
        """All windows, with what judging needs."""
        before = None
        for number, (question, ids, context) in enumerate(self._encoded(questions)):
            answer = self._answer(question, context)
            asked: Asked | None = Asked(
                question.id, question.context, tuple(answer.text for answer in question.answers)
            )
            for window in self._windows(ids, context):
                label = self._label(question, window, answer)
                yield validation_row(window, label, number, asked=asked, context=question.context != before)
                asked, before = None, question.context

    @property
    def notes(self) -> list[str]:
        """Sentences for the user."""
        notes = []
        if self._cut:
            notes.append(
                f"{_counted(self._cut, 'question')} longer than data.maximum_question = {self._task.maximum_question} tokens "
                "and cut."
            )
        if self._not_found:
            notes.append(
                f"{_counted(self._not_found, 'answer')} of characters that the tokenizer drops, and not learnt."
            )
        return notes

    def _encoded(self, questions: Iterator[Question]) -> Iterator[tuple[Question, list[int], Encoded]]:
        """The questions with their tokens, cut, and those of their contexts."""
        task = self._task
        while chunk := list(itertools.islice(questions, TOGETHER)):
            for question in chunk:
                check_answered(bool(task.unanswerable), question)
            texts = list(dict.fromkeys(question.context for question in chunk))
            contexts = dict(zip(texts, encoded_contexts(task.tokenizer, texts), strict=True))
            asked = task.tokenizer.encode_batch([question.question for question in chunk])
            for question, ids in zip(chunk, asked, strict=True):
                self._cut += len(ids) > task.maximum_question
                yield question, ids[: task.maximum_question], contexts[question.context]

    def _windows(self, question: list[int], context: Encoded) -> Iterator[Window]:
        task = self._task
        return windows(task.tokenizer, question, context, maximum_length=task.maximum_length, stride=task.stride)

    def _answer(self, question: Question, context: Encoded) -> tuple[int, int] | None:
        """The answer's first and last token in the context; None where there is no answer, or no token of it."""
        answer = answer_of(question)
        if answer is None:
            return None
        places = places_of(context.spans, answer.start, answer.start + len(answer.text))
        self._not_found += places is None
        return places

    def _label(self, question: Question, window: Window, answer: tuple[int, int] | None) -> Sequence[int]:
        """The places of the answer's ends in a window; none where it is not learnt from."""
        if question.impossible:
            return AT_CLS
        if answer is None:
            return ()
        first, last = (place - window.begin for place in answer)
        if first >= 0 and last < len(window.spans):
            return first + window.joined.second, last + window.joined.second
        return AT_CLS if self._keeps else ()


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what} was" if count == 1 else f"{count:,} {what}s were"
