"""What language modelling is to a model: text to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.losses import projected_cross_entropy
from regard.tasks.task import LossSum, Task
from regard.text import Tokenizer

COLUMN = "text"
"""Of the token stores."""


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """What one step of training reads.

    Arguments:
        tokens: (B, L), what the model reads.
        labels: (B, L) int64, the token after each.
    """

    tokens: Tokens
    labels: Tensor

    def to(self, device: torch.device) -> TextBatch:
        """The same batch on another device."""
        return TextBatch(self.tokens.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True)
class LanguageModellingTask(Task):
    """What turns text into a language model's tensors, and its outputs into a loss.

    A text is read as its tokens with the end token before the first and after the last, so that the model tells of the first
    token and of the end too.

    Arguments:
        tokenizer: for all texts.
        document_masks: whether tokens of a training stretch see their own document alone; nothing to a trained model.
        before_prompts: ids that stand before each prompt when the model writes; the end token where None. Models that
            `transformers` wrote have those that their tokenizer.json adds, mostly none.
        generation: how to decode unless told otherwise; `WRITING` where None.
    """

    name: ClassVar[str] = "language_modelling"

    tokenizer: Tokenizer
    document_masks: bool = False
    before_prompts: tuple[int, ...] | None = None
    generation: GenerationSettings | None = None

    def prompted(self, ids: Sequence[int]) -> list[int]:
        """What the model reads of a prompt: its ids behind `before_prompts`; the end token where that leaves nothing."""
        end = self.tokenizer.end_id
        return [*((end,) if self.before_prompts is None else self.before_prompts), *ids] or [end]

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The one there is."""
        return {"text": self.tokenizer}

    def model_settings(self) -> dict[str, int]:
        """What the vocabulary decides of a model's config."""
        tokenizer = self.tokenizer
        return {"vocabulary": tokenizer.size, "padding_id": tokenizer.padding_id, "end_id": tokenizer.end_id}

    def batch(self, stretches: Sequence[Sequence[int]]) -> TextBatch:
        """Stretches of token ids, two or more each: all but the last are read, all but the first are to be told."""
        padding = self.tokenizer.padding_id
        read = Tokens.pad([ids[:-1] for ids in stretches], padding_id=padding)
        return TextBatch(
            tokens=read.parted(self.tokenizer.end_id) if self.document_masks else read,
            labels=Tokens.pad([ids[1:] for ids in stretches], padding_id=padding).ids,
        )

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens read of each stretch, (N, 1)."""
        return self.labels(data)[:, None]

    def labels(self, data: TokenStore) -> np.ndarray:
        """Tokens to be told of each stretch, (N,)."""
        return data.lengths(COLUMN) - 1

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> TextBatch:
        """The stretches of these rows as a batch."""
        return self.batch([data.sequence(COLUMN, row).tolist() for row in rows])

    def loss(self, model: nn.Module, batch: TextBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens."""
        valid = batch.tokens.valid
        padding = self.tokenizer.padding_id
        never = padding if padding != self.tokenizer.end_id else None
        loss = projected_cross_entropy(batch.labels, valid=valid, smoothing=smoothing, never=never)
        total, correct = model(batch.tokens, reduce=loss)
        return LossSum(total, int(valid.sum()), correct)

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Tokens and vocabulary in a few words."""
        counts = [int(self.labels(data).sum()) for data in (train, validation)]
        return (
            f"{counts[0]:,} tokens to learn from, {counts[1]:,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches that are longer than the model has positions for, and documents that it cannot keep apart.

        Raises:
            InputError: naming the setting.
        """
        if self.document_masks and not getattr(model, "parts_documents", False):
            raise InputError(
                f"data.document_masks: a {type(model).__name__} has no masks to keep documents apart; leave it out"
            )
        limit = model.maximum_length
        longest = max(int(self.labels(data).max(initial=0)) for data in (train, validation))
        if limit is not None and longest > limit:
            raise InputError(
                f"data.length is {longest} where the model has {limit} positions; raise {model.length_setting}, or lower "
                "data.length"
            )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        before = {} if self.before_prompts is None else {"before_prompts": list(self.before_prompts)}
        decoding = {} if self.generation is None else {"generation": asdict(self.generation)}
        return {"name": self.name, **before, **decoding}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> LanguageModellingTask:
        """The task that `save` wrote into `folder`."""
        before = values.get("before_prompts")
        decoding = values.get("generation")
        if decoding is not None:
            decoding = from_mapping(GenerationSettings, decoding, f"{folder / 'regard.json'}: task.generation")
        return cls(
            Tokenizer.load(folder), before_prompts=None if before is None else tuple(before), generation=decoding
        )

    def write(
        self,
        folder: Path,
        config: Any,
        tensors: Mapping[str, Tensor],
        *,
        recipe: Mapping[str, Any],
        metrics: Mapping[str, float],
    ) -> None:
        """Write all files of a language model into an existing folder."""
        use = ['print(model.score("...").perplexity)']
        write_with_card(folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use)
