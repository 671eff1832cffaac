"""What masked language modelling is to a model: texts with hidden tokens to tensors, logits to losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.masking import Masking
from regard.data.token_store import TokenStore
from regard.layers import FIXED_OUTPUTS, HeadKind, Tokens
from regard.tasks.encoders import TEXT, EncoderTask, Joined, padded, read_inputs
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.masked_language_modelling.teacher import Teacher
from regard.tasks.task import LossSum

FOLLOWED, OTHER = 0, 1
"""The outputs of the next-sentence head: that the second text followed the first, and that it did not."""

ORDINARY, NEXT = "ordinary", "next"
"""Columns of a store: how many tokens of an input are not special; and whether its second text followed the first."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskedBatch:
    """What one step of training reads.

    Arguments:
        tokens: (B, L), some hidden.
        segments: (B, L) int64, 1 from the second text on.
        at: (M,) int64, the places to be told, as indices into B x L.
        labels: (M,) int64, the tokens that stood there.
        next: (B,) int64, `FOLLOWED` or `OTHER`; None where that is not asked.
        taught: whether a teacher is to be asked, as in training.
    """

    tokens: Tokens
    segments: Tensor
    at: Tensor
    labels: Tensor
    next: Tensor | None = None
    taught: bool = False

    def to(self, device: torch.device) -> MaskedBatch:
        """The same batch on another device."""
        return MaskedBatch(
            self.tokens.to(device),
            self.segments.to(device),
            self.at.to(device),
            self.labels.to(device),
            None if self.next is None else self.next.to(device),
            self.taught,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedLanguageModellingTask(EncoderTask):
    """What hides tokens of texts and turns an encoder's outputs into losses (Devlin et al. 2019, section 3.1).

        loss = mean over hidden tokens of -log p(token) + mean over pairs of -log p(whether the second text followed)

    Both means are over all batches of an update, on all workers.

    Arguments:
        tokenizer: for all texts; it has a mask token.
        maximum_length: the most tokens of one input, special ones included.
        next_sentence: whether the model also tells if one text followed another.
        masking: how tokens are hidden.
        teacher: a model to learn from as well; not saved.
    """

    name: ClassVar[str] = "masked_language_modelling"
    unit: ClassVar[str] = "tokens"
    head: ClassVar[HeadKind] = "pretraining"

    next_sentence: bool = True
    masking: Masking = field(default_factory=Masking)
    teacher: Teacher | None = field(default=None, repr=False, compare=False)

    @property
    def use(self) -> tuple[str, ...]:
        """Lines for the model card."""
        follows = ('print(model.follows("...", "..."))',) if self.next_sentence else ()
        return ('print(model.fill("... [MASK] ...").best)', *follows)

    @property
    def kind(self) -> HeadKind:
        """The head of a model for this task."""
        return "pretraining" if self.next_sentence else "masked"

    def model_settings(self) -> dict[str, Any]:
        """What the task decides of a model's config."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "head": self.kind,
            "outputs": FIXED_OUTPUTS[self.kind],
        }

    def labels(self, data: TokenStore) -> np.ndarray:
        """How many tokens of each input are to be told, (N,); with whole words, how many are aimed at."""
        return self.masking.counts(data.lengths(TEXT), data.numbers(ORDINARY))

    def beside(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """The labels of the other losses: one pair each; with a teacher the tokens that it tells of."""
        if self.teacher is not None:
            told = {"divergence": self.labels(data) if self.teacher.settings.at_masked else data.lengths(TEXT)}
            return told | ({"cosine": data.lengths(TEXT)} if self.teacher.settings.cosine_weight else {})
        return {"next_sentence": np.ones(len(data), dtype=np.int64)} if self.next_sentence else {}

    def batch(
        self,
        inputs: Sequence[Joined],
        rows: Sequence[int],
        *,
        nexts: Sequence[int] | None = None,
        draw: int | None = None,
    ) -> MaskedBatch:
        """Inputs to a batch, some of their tokens hidden.

        Arguments:
            rows: a number for each, which decides what is hidden.
            nexts: for each `FOLLOWED` or `OTHER`.
            draw: as `training_batch` has it; None in evaluation.
        """
        texts = [np.asarray(joined.ids, dtype=np.int64) for joined in inputs]
        hidden = self.masking.hide(self.tokenizer, texts, rows, draw=draw)
        tokens, segments = padded(
            [Joined(ids.tolist(), joined.second) for ids, joined in zip(hidden.texts, inputs, strict=True)],
            padding_id=self.tokenizer.padding_id,
        )
        width = tokens.ids.shape[1]
        at = np.concatenate([places + row * width for row, places in enumerate(hidden.places)])
        labels = np.concatenate([text[places] for text, places in zip(texts, hidden.places, strict=True)])
        return MaskedBatch(
            tokens,
            segments,
            torch.from_numpy(at),
            torch.from_numpy(labels),
            None if nexts is None else torch.tensor(nexts, dtype=torch.int64),
            taught=draw is not None and self.teacher is not None,
        )

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> MaskedBatch:
        """The inputs of these rows as a batch; of each the same tokens are hidden at every call."""
        return self._read(data, rows, None)

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> MaskedBatch:
        """The inputs of these rows as a batch; what is hidden is a function of the masking's seed, `draw` and the row."""
        return self._read(data, rows, draw)

    def _read(self, data: TokenStore, rows: Sequence[int], draw: int | None) -> MaskedBatch:
        nexts = [int(data.sequence(NEXT, row)[0]) for row in rows] if self.next_sentence else None
        return self.batch(read_inputs(data, rows), rows, nexts=nexts, draw=draw)

    def loss(self, model: nn.Module, batch: MaskedBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the hidden tokens, summed over them; beside it that of next sentences, or what a teacher adds."""
        if batch.taught and self.teacher is not None:
            return self.teacher.loss(model, batch, smoothing=smoothing)
        encoded = model(batch.tokens, batch.segments, at=batch.at)
        total, correct = smoothed_cross_entropy(encoded.logits, batch.labels, smoothing=smoothing)
        beside = {}
        if batch.next is not None:
            logits = encoded.next_sentence.float()
            right = (logits.argmax(dim=-1) == batch.next).sum()
            beside["next_sentence"] = LossSum(
                F.cross_entropy(logits, batch.next, reduction="sum"), len(batch.next), right
            )
        return LossSum(total, len(batch.labels), correct, beside)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse inputs that are longer than the model has positions for, and a student that cannot learn from its teacher.

        Raises:
            InputError: naming the settings.
        """
        EncoderTask.check(self, model, train, validation)
        if self.teacher is not None:
            self.teacher.check(model, self.maximum_length)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """Loss, perplexity and accuracy of the hidden tokens."""
        perplexity = math.exp(min(50.0, loss))
        return {"loss": loss, "masked_loss": loss, "perplexity": perplexity, "masked_accuracy": right}

    def metrics_beside(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Loss and accuracy of next sentences; of a teacher's the loss."""
        found = {f"{name}_loss": loss}
        return found | {f"{name}_accuracy": right} if name == "next_sentence" else found

    def settings(self) -> dict[str, Any]:
        """All that prediction and evaluation need beside the tokenizer."""
        return {
            "maximum_length": self.maximum_length,
            "next_sentence": self.next_sentence,
            "masking": asdict(self.masking),
        }

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Inputs, tokens and vocabulary in a few words."""
        tokens, told = int(train.lengths(TEXT).sum()), int(self.labels(train).sum())
        return (
            f"{len(train):,} inputs to learn from ({tokens:,} tokens, {told:,} of them hidden, in an epoch), {len(validation):,} "
            f"to validate on; a vocabulary of {self.tokenizer.size:,}"
        )
