"""A model that chooses, ready to use."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.encoders import EncoderPredictor, Joined
from regard.tasks.multiple_choice.preparation import check_question
from regard.tasks.multiple_choice.task import ANSWER, MultipleChoiceTask, read_questions

TOGETHER = 256
"""Questions that are read together, those of like length side by side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What a model chooses.

    Arguments:
        context: what was read.
        choices: among which.
        index: of the chosen one, from 0.
        text: the chosen one.
        probability: of it.
        probabilities: of each choice, in their order.
    """

    context: str
    choices: tuple[str, ...]
    index: int
    text: str
    probability: float
    probabilities: tuple[float, ...]


class Chooser(EncoderPredictor[MultipleChoiceTask]):
    """A model that chooses: a context and some ways to go on in, a `Choice` out.

    Arguments:
        model: a `TextEncoder` with one output.
        task: the tokenizer.
        recipe: how it was trained, as data; empty where unknown.
        metrics: its last evaluation.
    """

    judged: ClassVar[tuple[str, ...]] = ("accuracy",)

    def choose(self, context: str, choices: Sequence[str]) -> Choice:
        """The best of some choices.

        Raises:
            InputError: for an empty text, or fewer than two choices.
        """
        return self.choose_batch([(context, choices)])[0]

    def choose_batch(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[Choice]:
        """The best choice of each question, a question being (context, choices); they come in the order of the questions.

        Raises:
            InputError: as `choose`.
        """
        if isinstance(questions, str):
            raise InputError("one string given where a list of (context, choices) is wanted; put both into a list")
        for number, question in enumerate(questions, start=1):
            try:
                context, choices = question
            except (TypeError, ValueError):
                raise InputError(f"question {number} is {question!r:.80}; give (context, choices)") from None
            check_question(context, choices, f"question {number}")
        found: list[Choice] = []
        for first in range(0, len(questions), TOGETHER):
            chunk = questions[first : first + TOGETHER]
            encoded = self.task.encode(
                [context for context, _ in chunk],
                [list(choices) for _, choices in chunk],
                maximum=self.maximum_length,
            )
            made = [
                _said(context, choices, probabilities)
                for (context, choices), probabilities in zip(chunk, self.probabilities(encoded), strict=True)
            ]
            self.tell(made)
            found += made
        return found

    def probabilities(self, questions: Sequence[Sequence[Joined]]) -> list[list[float]]:
        """Of each choice of each question, for choices that are tokens already."""
        every = [joined for choices in questions for joined in choices]
        scores = torch.zeros(len(every))
        for rows, _, encoded in self.encoded(every):
            if encoded.logits is not None:
                scores[rows] = encoded.logits.float().squeeze(-1).cpu()
        ends = list(itertools.accumulate(len(choices) for choices in questions))
        return [
            scores[end - len(choices) : end].softmax(dim=0).tolist()
            for choices, end in zip(questions, ends, strict=True)
        ]

    def judge(self, data: TokenStore, count: int) -> dict[str, float]:
        """The share of questions whose right choice is chosen."""
        right, count = 0, min(count, len(data))
        for first in range(0, count, TOGETHER):
            rows = range(first, min(first + TOGETHER, count))
            for row, shares in zip(rows, self.probabilities(read_questions(data, rows)), strict=True):
                right += _best(shares) == int(data.sequence(ANSWER, row)[0])
        return {"accuracy": right / count}


def _said(context: str, choices: Sequence[str], probabilities: Sequence[float]) -> Choice:
    best = _best(probabilities)
    return Choice(
        context=context,
        choices=tuple(choices),
        index=best,
        text=choices[best],
        probability=probabilities[best],
        probabilities=tuple(probabilities),
    )


def _best(probabilities: Sequence[float]) -> int:
    return max(range(len(probabilities)), key=probabilities.__getitem__)
