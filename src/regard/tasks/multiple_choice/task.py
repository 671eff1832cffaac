"""Multiple choice (Devlin et al. 2019, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.choices import ChoiceQuestion
from regard.data.token_store import TokenStore
from regard.layers import HeadKind, Tokens
from regard.tasks.encoders import PLACES, SECOND, TEXT, Joined, WholeTextTask, join, padded
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.task import LossSum
from regard.text import Tokenizer

QuestionPlace = Literal["choice", "context"]
"""What the question of an example is put to."""

SIZES, ANSWER = "sizes", "answer"
"""The columns of a store beside those of every encoder's input, in which the choices of a question stand one after another: how
many tokens each has, and the number of the right one."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceBatch:
    """The choices of some questions, all of each.

    Arguments:
        tokens: (C, L), each choice behind its context.
        segments: (C, L) int64, 1 from the choice on.
        counts: (B,) int64, choices of each question; they sum to C.
        labels: (B,) int64, the number of the right one among them.
    """

    tokens: Tokens
    segments: Tensor
    counts: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> ChoiceBatch:
        """The same batch on another device."""
        return ChoiceBatch(
            self.tokens.to(device), self.segments.to(device), self.counts.to(device), self.labels.to(device)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoiceTask(WholeTextTask):
    """What turns questions with choices into a model's tensors, and its outputs into a loss.

        score(choice) = w . pooled([CLS] context [SEP] choice [SEP]),   p(choice | question) = softmax over its choices

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens of a context and one choice, special ones included; what is longer is cut.
        auxiliary: as `WholeTextTask`; the tokens of all choices are told.
        question: where the question of an example stands: before each `choice` (Devlin et al. 2019), or behind the `context`, so
            that a choice alone comes after the delimiter (Radford et al. 2018, section 3.3).
    """

    name: ClassVar[str] = "multiple_choice"
    head: ClassVar[HeadKind] = "choice"

    question: QuestionPlace = "choice"

    @property
    def texts(self) -> int:
        """Two: context and choice."""
        return 2

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.choose("It rains.", ["She opens her umbrella.", "She closes the fridge."]).text)',)

    def parts(self, question: ChoiceQuestion) -> tuple[str, list[str]]:
        """What is read first of an example, and what of each choice behind it."""
        asked = question.question
        if not asked:
            return question.context, list(question.choices)
        if self.question == "context":
            return f"{question.context} {asked}", list(question.choices)
        return question.context, [f"{asked} {choice}" for choice in question.choices]

    def encode(self, contexts: Sequence[str], choices: Sequence[Sequence[str]], *, maximum: int) -> list[list[Joined]]:
        """What the model reads of each choice of each question.

        Arguments:
            maximum: the most tokens of one.
        """
        first = self.tokenizer.encode_batch(contexts)
        second = iter(self.tokenizer.encode_batch([choice for several in choices for choice in several]))
        return [
            [join(self.tokenizer, ids, next(second), maximum=maximum) for _ in several]
            for ids, several in zip(first, choices, strict=True)
        ]

    def lengths(self, data: TokenStore) -> np.ndarray:
        """The places that a question takes of a batch, (N, 1): those of its longest choice for each of its choices."""
        sizes = (data.sequence(SIZES, row) for row in range(len(data)))
        return np.array([[len(each) * int(each.max())] for each in sizes], dtype=np.int64)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> ChoiceBatch:
        """The questions of these rows as a batch."""
        return self.batch(read_questions(data, rows), [int(data.sequence(ANSWER, row)[0]) for row in rows])

    def batch(self, questions: Sequence[Sequence[Joined]], labels: Sequence[int]) -> ChoiceBatch:
        """Questions and the numbers of their right choices to a batch for training."""
        every = [joined for choices in questions for joined in choices]
        tokens, segments = padded(every, padding_id=self.tokenizer.padding_id)
        counts = torch.tensor([len(choices) for choices in questions], dtype=torch.int64)
        return ChoiceBatch(tokens, segments, counts, torch.tensor(labels, dtype=torch.int64))

    def loss(self, model: nn.Module, batch: ChoiceBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the choices of each question, summed over questions.

        Smoothing is spread over the choices of the question.
        """
        encoded, beside = self.read(model, batch.tokens, batch.segments)
        scores = encoded.logits.squeeze(-1).float()  # type: ignore[union-attr]
        total, correct = scores.new_zeros(()), batch.labels.new_zeros(())
        for count in batch.counts.unique().tolist():
            rows = batch.counts == count
            own = scores[rows.repeat_interleave(batch.counts)].view(-1, count)
            loss, right = smoothed_cross_entropy(own, batch.labels[rows], smoothing=smoothing)
            total, correct = total + loss, correct + right
        return LossSum(total, len(batch.labels), correct, beside)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how many are right is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Questions and vocabulary in a few words."""
        return (
            f"{len(train):,} questions to learn from, {len(validation):,} to validate on; "
            f"a vocabulary of {self.tokenizer.size:,}"
        )


def columns(tokenizer: Tokenizer) -> dict[str, int]:
    """The columns of a store of questions with choices."""
    return {TEXT: tokenizer.size, SECOND: PLACES, SIZES: PLACES, ANSWER: PLACES}


def row_of(choices: Sequence[Joined], answer: int) -> list[list[int]]:
    """A question as a row of a store."""
    return [
        [index for joined in choices for index in joined.ids],
        [joined.second for joined in choices],
        [len(joined.ids) for joined in choices],
        [answer],
    ]


def read_questions(data: TokenStore, rows: Sequence[int]) -> list[list[Joined]]:
    """The choices of the questions in some rows of a store."""
    found = []
    for row in rows:
        ends = np.cumsum(data.sequence(SIZES, row), dtype=np.int64)
        pieces = np.split(data.sequence(TEXT, row), ends[:-1])
        seconds = data.sequence(SECOND, row).tolist()
        found.append([Joined(piece.tolist(), second) for piece, second in zip(pieces, seconds, strict=True)])
    return found
