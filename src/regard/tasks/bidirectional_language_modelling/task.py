"""What bidirectional language modelling is to a model: words to tensors, logits to two losses, and the files that say so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.layers import Tokens
from regard.models.config import check
from regard.structure import coerced
from regard.tasks.bidirectional_language_modelling.sentences import Spelt
from regard.tasks.card import write_with_card
from regard.tasks.losses import drawn_words, projected_cross_entropy, sampled_cross_entropy
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer
from regard.text.word_list import WordList

TEXT, WORDS = "text", "words"
"""The columns of a token store: bytes read, and numbers of words told; both with what begins and ends a sentence."""

BACKWARD = "backward"
"""The loss beside the forward one: of words told from those after them."""


@dataclass(frozen=True, slots=True, eq=False)
class BidirectionalBatch:
    """What one step of training reads.

    Arguments:
        tokens: (B, L), bytes of words.
        words: (B, W) int64, the number of each word.
        valid: (B, W) bool, True = a word.
        drawn: (S,) int64, the words that right ones are told against; None = all.
    """

    tokens: Tokens
    words: Tensor
    valid: Tensor
    drawn: Tensor | None = None

    def to(self, device: torch.device) -> BidirectionalBatch:
        """The same batch on another device."""
        drawn = None if self.drawn is None else self.drawn.to(device)
        return BidirectionalBatch(self.tokens.to(device), self.words.to(device), self.valid.to(device), drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class BidirectionalLanguageModellingTask(Task):
    """What turns sentences into tensors of bytes, and what a model tells into a loss (Peters et al. 2018, section 3.1).

        loss = - sum_k [ log p(t_k | t_1 .. t_{k-1}) + log p(t_k | t_{k+1} .. t_N) ]

    A sentence stands between `<S>` and `</S>`: the forward model tells the latter and not the former, the backward model the
    other way round. Each sentence is read by itself, from zeros.

    Arguments:
        tokenizer: of kind `spelling`.
        words: that are told.
        length: the most words of a sentence that are read at once in training.
        sampled: how often to draw a word to tell the right ones against in training; 0 for all words.
    """

    name: ClassVar[str] = "bidirectional_language_modelling"
    unit: ClassVar[str] = "words"

    tokenizer: Tokenizer
    words: WordList
    length: int = 64
    sampled: int = 0

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The one there is."""
        return {"text": self.tokenizer}

    def model_settings(self) -> dict[str, Any]:
        """What tokenizer and list decide of a model's config."""
        return {
            "vocabulary": self.tokenizer.size,
            "padding_id": self.tokenizer.padding_id,
            "words": len(self.words),
            "head": "none",
            "outputs": 0,
        }

    def batch(self, sentences: Sequence[Spelt]) -> BidirectionalBatch:
        """Sentences as a batch, told against all words."""
        return self._batch(
            [each.read(self.tokenizer) for each in sentences], [each.told(self.words) for each in sentences]
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Words of each sentence, its begin and end among them, (N, 1)."""
        return data.lengths(WORDS)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """Words that the forward model tells of each sentence, (N,)."""
        return data.lengths(WORDS) - 1

    def beside(self, data: TokenStore) -> Mapping[str, np.ndarray]:
        """As many for the backward model."""
        return {BACKWARD: self.labels(data)}

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> BidirectionalBatch:
        """The sentences of these rows as a batch, told against all words."""
        return self._batch(
            [data.sequence(TEXT, row).tolist() for row in rows], [data.sequence(WORDS, row).tolist() for row in rows]
        )

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> BidirectionalBatch:
        """The same, told against words that are drawn."""
        found = self.read_batch(data, rows)
        if not self.sampled:
            return found
        drawn = drawn_words(len(self.words), self.sampled, key=(draw, int(rows[0])))
        return BidirectionalBatch(found.tokens, found.words, found.valid, torch.from_numpy(drawn))

    def loss(self, model: nn.Module, batch: BidirectionalBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the forward model, summed over words, and beside it that of the backward model."""
        told = batch.valid[:, 1:]

        def both(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> list[tuple[Tensor, Tensor]]:
            found = []
            for side, labels in enumerate((batch.words[:, 1:], batch.words[:, :-1])):
                if batch.drawn is None:
                    loss = projected_cross_entropy(labels, valid=told, smoothing=smoothing)
                else:
                    loss = sampled_cross_entropy(labels, batch.drawn, valid=told, tries=self.sampled)
                found.append(loss(hidden[:, side], weight, bias))
            return found

        forward, backward = model(batch.tokens, reduce=both)
        count = int(told.sum())
        return LossSum(forward[0], count, forward[1], {BACKWARD: LossSum(backward[0], count, backward[1])})

    def metrics_of(self, loss: float, right: float) -> dict[str, float]:
        """Loss, perplexity and accuracy of the forward model; the other's loss is added to `loss`."""
        return {"loss": loss, "forward_perplexity": math.exp(min(50.0, loss)), "forward_accuracy": right}

    def metrics_beside(self, name: str, loss: float, right: float) -> dict[str, float]:
        """Perplexity and accuracy of the backward model."""
        return {f"{name}_perplexity": math.exp(min(50.0, loss)), f"{name}_accuracy": right}

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Words and vocabulary in a few words."""
        counts = [int(self.labels(data).sum()) for data in (train, validation)]
        against = f", against {self.sampled:,} draws" if self.sampled else ""
        return (
            f"{counts[0]:,} words to learn from, {counts[1]:,} to validate on, each told from both sides; a vocabulary of "
            f"{len(self.words):,}{against}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse sentences of more bytes than the model reads, and to draw as many words as there are.

        Raises:
            InputError: naming the setting.
        """
        longest = max(int(data.lengths(TEXT).max(initial=0)) for data in (train, validation))
        if longest > model.maximum_length:
            raise InputError(
                f"a sentence has {longest} tokens, which are bytes, where the model has {model.maximum_length} positions; raise "
                f"{model.length_setting}, or lower data.length"
            )
        if self.sampled >= len(self.words):
            raise InputError(
                f"data.sampled is {self.sampled} where there are {len(self.words)} words; lower it, or set 0 for all words"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write tokenizer and words into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        self.words.save(folder)
        return {"name": self.name, "length": self.length}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> BidirectionalLanguageModellingTask:
        """The task that `save` wrote into `folder`.

        Raises:
            InputError: for a length that is none, or a tokenizer of another kind than `spelling`.
        """
        length = coerced(values.get("length", cls.__dataclass_fields__["length"].default), int, f"{folder}: length")
        check(length >= 1, f"{folder}: length", length, "at least 1", "64 is usual")
        tokenizer = Tokenizer.load(folder)
        if tokenizer.kind != "spelling":
            raise InputError(
                f"{folder}: its tokenizer is of the kind {tokenizer.kind}, and one that spells words is needed; the files are of "
                "different models, copy the folder again"
            )
        return cls(tokenizer=tokenizer, words=WordList.load(folder), length=length)

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a model into an existing folder."""
        use = ['print(model.score("...").perplexity)', 'vectors = regard.load(".", task="sentence_embedding")']
        write_with_card(folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use)

    def _batch(self, read: Sequence[Sequence[int]], told: Sequence[Sequence[int]]) -> BidirectionalBatch:
        words = Tokens.pad(told)
        return BidirectionalBatch(Tokens.pad(read, padding_id=self.tokenizer.padding_id), words.ids, words.valid)
