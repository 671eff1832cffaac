"""Tagging of words (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.data.tags import Span, spans_of
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.layers import HeadKind
from regard.tasks.encoders import TEXT, EncoderBatch, EncoderTask, padded
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.tagging.decoding import Decoding, Transitions
from regard.tasks.tagging.windows import Window
from regard.tasks.task import LossSum

PLACE, TAG, GOES_ON = "place", "tag", "goes_on"
"""The columns of a store: where the first pieces of the words stand, the numbers of their tags, and 1 where a window is of the
same sentence as the one before it."""

NO_TAG = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggingTask(EncoderTask):
    """What turns tagged words into an encoder's tensors, and its outputs into a loss.

        p(tag | word) = softmax(W x + b),   x the last layer's vector of the word's first piece

    The other pieces of a word, and special tokens, are outside the loss.

    Arguments:
        tokenizer: for all texts.
        maximum_length: the most tokens read at once, special ones included; longer sentences are read in overlapping windows.
        tags: by name, in the order of the model's outputs.
        scheme: how tags mark spans, as in `regard.data.tags`; None where they do not, such as parts of speech.
        context: the most tokens of the sentences before, and of those after, that are read with one.
        decoding: `constrained` takes the most probable tags among those that keep the scheme's rules together, `greedy` the most
            probable tag of each word.
    """

    name: ClassVar[str] = "tagging"
    unit: ClassVar[str] = "words"
    head: ClassVar[HeadKind] = "tokens"

    tags: tuple[str, ...]
    scheme: str | None = "BIO"
    context: int = 0
    decoding: Decoding = "constrained"

    @property
    def use(self) -> tuple[str, ...]:
        """Lines for the model card."""
        if self.scheme is None:
            return ('tagging = model.tag("...")', "print(list(zip(tagging.words, tagging.tags)))")
        return (
            'for entity in model.tag("...").entities:',
            "    print(entity.type, entity.text, entity.start, entity.end)",
        )

    @property
    def outputs(self) -> int:
        """One for each tag."""
        return len(self.tags)

    @property
    def transitions(self) -> Transitions:
        """Which tag may follow which."""
        return Transitions(self.tags, self.scheme)

    def number_of(self, tag: str, where: str) -> int:
        """The number of a tag.

        Arguments:
            where: what the message calls the word that has it.

        Raises:
            InputError: for a tag that is none of the model's.
        """
        if tag not in self.tags:
            raise InputError(f"{where} has the tag {tag!r}, which is none of the model's; {nearest(tag, self.tags)}")
        return self.tags.index(tag)

    def spans(self, tags: Sequence[str]) -> list[Span]:
        """The spans that tags mark; where tags mark none, each word is one of its own."""
        if self.scheme is None:
            return [Span(tag, place, place + 1) for place, tag in enumerate(tags)]
        return spans_of(tags, self.scheme)

    def batch(self, windows: Sequence[Window], tags: Sequence[Sequence[int]]) -> EncoderBatch:
        """Windows and the numbers of their words' tags to a batch for training."""
        tokens, segments = padded([window.joined for window in windows], padding_id=self.tokenizer.padding_id)
        labels = np.full(tokens.ids.shape, NO_TAG, dtype=np.int64)
        for row, (window, numbers) in enumerate(zip(windows, tags, strict=True)):
            labels[row, window.places] = numbers
        return EncoderBatch(tokens, segments, torch.from_numpy(labels))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> EncoderBatch:
        """The windows of these rows as a batch."""
        return self.batch(read_windows(data, rows), [data.sequence(TAG, row).tolist() for row in rows])

    def labels(self, data: TokenStore) -> np.ndarray:
        """The words that each window tags, (N,)."""
        return data.lengths(TAG)

    def loss(self, model: nn.Module, batch: EncoderBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the tags, summed over words."""
        logits = model(batch.tokens, batch.segments).logits
        labels = batch.labels.flatten()
        valid = labels != NO_TAG
        total, correct = smoothed_cross_entropy(logits.flatten(0, 1), labels, valid=valid, smoothing=smoothing)
        return LossSum(total, int(valid.sum()), correct)

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """The loss; how many are right is among what the model is judged by."""
        del right
        return {"loss": loss}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Sentences, tags and vocabulary in a few words."""
        counts = [int((data.lengths(TAG)).sum()) for data in (train, validation)]
        return (
            f"{counts[0]:,} words to learn from, {counts[1]:,} to validate on; {len(self.tags)} tags "
            f"({', '.join(self.tags[:6])}{', ...' if len(self.tags) > 6 else ''}); a vocabulary of {self.tokenizer.size:,}"
        )

    def said(self) -> dict[str, Any]:
        """The names of the tags, as other programs look for them in config.json."""
        return {
            "id2label": {str(number): name for number, name in enumerate(self.tags)},
            "label2id": {name: number for number, name in enumerate(self.tags)},
        }


def read_windows(data: TokenStore, rows: Sequence[int]) -> list[Window]:
    """The windows of some rows of a store."""
    return [Window(data.sequence(TEXT, row).tolist(), data.sequence(PLACE, row).tolist()) for row in rows]
