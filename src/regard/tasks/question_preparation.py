"""The preparation of questions: the rows of the stores of training and validation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from regard.data.questions import Question
from regard.tasks.examples import Splits
from regard.tasks.preparation import Row
from regard.tasks.question_data import (
    Asked,
    Encoded,
    QuestionData,
    Window,
    answer_of,
    check_answered,
    encoded_contexts,
    places_of,
    training_row,
    validation_row,
    windows,
)

if TYPE_CHECKING:
    from regard.tasks.question_answering import QuestionAnsweringTask

TOGETHER = 64
"""The number of questions that are tokenized at once."""

AT_CLS = (0, 0)
"""The label of a window without the answer: both ends are at [CLS]."""


def texts_of(splits: Splits[Question]) -> Iterator[str]:
    """The texts to train a tokenizer on: the questions, and each context once."""
    before = None
    for question in splits.train():
        if question.context != before:
            before = question.context
            yield before
        yield question.question


def has_unanswerable(data: QuestionData, splits: Splits[Question]) -> bool:
    """Whether questions may have no answer: as the data section sets it, or if a question has none."""
    if data.unanswerable is not None:
        return data.unanswerable
    return any(question.impossible for question in splits.everything())


class QuestionRows:
    """Makes the rows of both stores, and counts what is reported to the user.

    Arguments:
        keeps: whether windows without the answer, of a question that has one, are used in training.
    """

    def __init__(self, task: QuestionAnsweringTask, *, keeps: bool) -> None:
        self._task = task
        self._keeps = keeps
        self._cut = 0
        self._not_found = 0

    def training(self, questions: Iterator[Question]) -> Iterator[Row]:
        """The rows of training windows."""
        for number, (question, ids, context) in enumerate(self._encoded(questions)):
            answer = self._answer(question, context)
            if answer is None and not question.impossible:
                continue
            for window in self._windows(ids, context):
                label = self._label(question, window, answer)
                if label:
                    yield training_row(window, label, number)

    def validation(self, questions: Iterator[Question]) -> Iterator[Row]:
        """The rows of all windows, with the data that computing metrics needs."""
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
        """Messages for the user."""
        notes = []
        if self._cut:
            notes.append(
                f"{_counted(self._cut, 'question')} longer than data.maximum_question = {self._task.maximum_question} tokens "
                "and cut."
            )
        if self._not_found:
            notes.append(
                f"{_counted(self._not_found, 'answer')} of characters that the tokenizer drops, and not used in training."
            )
        return notes

    def _encoded(self, questions: Iterator[Question]) -> Iterator[tuple[Question, list[int], Encoded]]:
        """The questions with their truncated tokens, and the tokens of their contexts."""
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
        """The answer's first and last token in the context; None if there is no answer, or the tokenizer drops all of it."""
        answer = answer_of(question)
        if answer is None:
            return None
        places = places_of(context.spans, answer.start, answer.start + len(answer.text))
        self._not_found += places is None
        return places

    def _label(self, question: Question, window: Window, answer: tuple[int, int] | None) -> Sequence[int]:
        """The positions of the answer's ends in a window; empty if the window is not used in training."""
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
