"""Extractive question answering (Devlin et al. 2019, sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import HeadKind
from regard.tasks.encoders import EncoderBatch, EncoderTask, Joined, padded, read_inputs
from regard.tasks.losses import stands_out
from regard.tasks.question_answering.data import check_windows
from regard.tasks.question_answering.store import ANSWER, QUESTION
from regard.tasks.task import LossSum

NOWHERE = -1
"""The label of a window that is not learnt from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnsweringTask(EncoderTask):
    """What turns questions about contexts into an encoder's tensors, and its outputs into a loss.

        p(start = i) = softmax_i(s . T_i),   p(end = i) = softmax_i(e . T_i),   T_i the last layer's vector of token i
        loss = -(log p(start) + log p(end)) / 2

    Both are over the places of a window at which the answer may be: those of the context, and `[CLS]`, which stands for there
    being none. (In the authors' code the softmax is over the question too, where an answer never is.)

    Arguments:
        tokenizer: for questions and contexts.
        maximum_length: the most tokens of a window, special ones included.
        stride: tokens from the beginning of one window to that of the next.
        maximum_question: the most tokens of a question.
        maximum_answer: the most tokens of a predicted answer.
        unanswerable: whether a context may hold no answer; None where that is not known, and an answer is always given unless
            a threshold is named.
    """

    name: ClassVar[str] = "question_answering"
    head: ClassVar[HeadKind] = "spans"

    maximum_length: int = 384
    stride: int = 128
    maximum_question: int = 64
    maximum_answer: int = 30
    unanswerable: bool | None = False

    def __post_init__(self) -> None:
        check_windows("", self.maximum_length, self.stride, self.maximum_question, self.maximum_answer)

    @property
    def use(self) -> tuple[str, ...]:
        """A line for the model card."""
        return ('print(model.answer("Where does she live?", "She lives in Paris.").text)',)

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The windows of these rows as a batch."""
        answers = [data.sequence(ANSWER, row) for row in rows]
        return self.batch(read_inputs(data, rows), [(int(a[0]), int(a[1])) if len(a) else None for a in answers])

    def batch(self, inputs: Sequence[Joined], answers: Sequence[tuple[int, int] | None]) -> EncoderBatch:
        """Windows and the places of their answers to a batch for training.

        Arguments:
            answers: the first and the last token of each; None for a window that is not learnt from.
        """
        tokens, segments = padded(inputs, padding_id=self.tokenizer.padding_id)
        labels = [(NOWHERE, NOWHERE) if answer is None else answer for answer in answers]
        # A model without segments still has to know which places are the context's, so they stand beside the labels.
        places = np.array([(joined.second, len(joined.ids) - 1) for joined in inputs], dtype=np.int64)
        return EncoderBatch(tokens, segments, torch.from_numpy(np.hstack([np.array(labels, dtype=np.int64), places])))

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """The mean of the two cross-entropies, summed over windows.

        Smoothing is spread over the places at which the answer may be.
        """
        logits = model(batch.tokens, batch.segments).logits.float()
        labels, places = batch.labels[:, :2], batch.labels[:, 2:]
        counts = (labels != NOWHERE).all(dim=1)
        allowed = _allowed(logits.shape[1], places)
        log_p = logits.masked_fill(~allowed.unsqueeze(2), -torch.inf).log_softmax(dim=1)  # (B, L, 2)
        right = log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1)
        losses = -(1 - smoothing) * right
        if smoothing:
            spread = log_p.masked_fill(~allowed.unsqueeze(2), 0.0).sum(dim=1)
            losses = losses - smoothing * spread / allowed.sum(dim=1, keepdim=True)
        total = losses.mean(dim=1).masked_fill(~counts, 0.0).sum()
        correct = stands_out(log_p.transpose(1, 2), labels.clamp_min(0)).all(dim=1) & counts
        return LossSum(total, int(counts.sum()), correct.sum())

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how many answers are right is among what the model is judged by."""
        del right
        return {"loss": loss}

    def check(self, model: nn.Module, train: TokenStore, validation: TokenStore) -> None:
        """Refuse windows that are longer than the model has positions for, and a validation set that tells no loss.

        Raises:
            InputError: naming the settings.
        """
        super(QuestionAnsweringTask, self).check(model, train, validation)
        if not validation.lengths(ANSWER).any():
            raise InputError("no validation question has an answer in its context; give some that have")

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Questions, windows and vocabulary in a few words."""
        return (
            f"{questions_in(train):,} questions in {len(train):,} windows to learn from, {questions_in(validation):,} in "
            f"{len(validation):,} to validate on"
            + (", some without an answer" if self.unanswerable else "")
            + f"; a vocabulary of {self.tokenizer.size:,}"
        )


def _allowed(length: int, places: Tensor) -> Tensor:
    """Where an answer may be, (B, L) bool: in the context, or at [CLS].

    Arguments:
        places: (B, 2), where the context begins and ends, the end excluded.
    """
    at = torch.arange(length, device=places.device)
    return ((at >= places[:, :1]) & (at < places[:, 1:])) | (at == 0)


def questions_in(data: TokenStore) -> int:
    """How many questions the windows of a store are of."""
    return len(np.unique(data.numbers(QUESTION)))
