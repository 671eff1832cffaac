"""How often a model chooses rightly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.data.choices import ChoiceQuestion
from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.tasks.multiple_choice.chooser import Choice, Chooser
from regard.tasks.multiple_choice.data import ChoiceData
from regard.tasks.multiple_choice.preparation import Given, in_memory, reader, right_of
from regard.tasks.multiple_choice.task import MultipleChoiceTask


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceEvaluation:
    """What an evaluation found.

    Arguments:
        metrics: `accuracy`, the share of questions whose right choice is chosen.
        count: questions.
        predictions: one for each question; its choices are what was read behind the context.
    """

    metrics: dict[str, float]
    count: int
    predictions: tuple[Choice, ...] = field(repr=False, default=())


def evaluate_choices(model: Chooser, questions: Given) -> ChoiceEvaluation:
    """Compare what a model chooses with what is right.

    Arguments:
        questions: `ChoiceQuestion`s, or (context, choices, number of the right one, from 0).

    Raises:
        InputError: for an empty list, or a question that does not say which choice is right.
    """
    if isinstance(questions, str) or not questions:
        raise InputError("there is nothing to evaluate; give a list with at least one question")
    asked = in_memory(questions) or []
    right = [right_of(question) for question in asked]
    said = model.choose_batch([model.task.parts(question) for question in asked])
    correct = sum(choice.index == answer for choice, answer in zip(said, right, strict=True))
    return ChoiceEvaluation(metrics={"accuracy": correct / len(asked)}, count=len(asked), predictions=tuple(said))


def choice_beside(task: MultipleChoiceTask, question: ChoiceQuestion, said: Choice) -> dict[str, Any]:
    """A question, its right choice and the one that was told, by name."""
    del task
    return {
        "context": question.context,
        "question": question.question,
        "choices": list(question.choices),
        "answer": question.choices[right_of(question)],
        "predicted": said.text,
        "probability": said.probability,
        "probabilities": list(said.probabilities),
    }


def read_for_evaluation(data: ChoiceData, malformed: MalformedRows) -> Iterator[ChoiceQuestion]:
    """The questions that `data.train` names, with their answers."""
    read = reader(data, data.train)
    if read is None:
        raise InputError("no file of multiple-choice questions is named; name one")
    return iter(read(malformed))
