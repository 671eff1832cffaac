"""What translation is to a model: strings to tensors, logits to a loss, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import Tokens
from regard.structure import coerced, from_mapping
from regard.tasks.losses import smoothed_cross_entropy
from regard.text import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class TranslationBatch:
    """What one step of training reads.

    Arguments:
        source: (B, S), each ended by the end token.
        target: (B, L), shifted right: the start token first.
        labels: (B, L) int64, the token each target position has to predict, the end token last.
    """

    source: Tokens
    target: Tokens
    labels: Tensor

    def to(self, device: torch.device) -> TranslationBatch:
        """The same batch on another device."""
        return TranslationBatch(self.source.to(device), self.target.to(device), self.labels.to(device))


@dataclass(frozen=True, slots=True, eq=False)
class LossSum:
    """A loss summed over target tokens, so that sums of several batches add up before they are divided.

    Arguments:
        total: the sum, a scalar with a gradient.
        tokens: how many real target tokens it is over.
        correct: how many of them had the highest logit.
    """

    total: Tensor
    tokens: int
    correct: Tensor


@dataclass(frozen=True, slots=True)
class TranslationTask:
    """What turns strings into a translation model's tensors, and its outputs into a loss and strings.

    Arguments:
        source_tokenizer, target_tokenizer: the same object where one vocabulary is shared.
        generation: how to decode unless told otherwise.
        languages: those that one model translates into; a source then begins with the tag of the one wanted (Johnson et al.
            2017). Empty for a model of one language, which needs no name.
    """

    name: ClassVar[str] = "translation"

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    languages: tuple[str, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source_tokenizer == self.target_tokenizer

    def model_settings(self) -> dict[str, int]:
        """What the vocabularies decide of a model's config."""
        target = self.target_tokenizer
        return {
            "source_vocabulary": self.source_tokenizer.size,
            "target_vocabulary": target.size,
            "padding_id": target.padding_id,
            "start_id": target.start_id,
            "end_id": target.end_id,
        }

    def encode_sources(self, texts: Sequence[str], to: str | None = None) -> list[list[int]]:
        """The token ids of sources, without the end token; the tag of the language wanted in front where there are several.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        self.check_language(to)
        before = [] if to is None else [self.source_tokenizer.id_of(tag(to))]
        return [[*before, *ids] for ids in self.source_tokenizer.encode_batch(list(texts))]

    def check_language(self, to: str | None) -> None:
        """Refuse a language that the model cannot be asked for, naming those it can.

        Raises:
            InputError: where `to` is missing, not one of the languages, or given to a model of one language.
        """
        names = ", ".join(self.languages)
        if to is None and self.languages:
            raise InputError(f"the model translates into several languages; name one with to (--to): {names}")
        if to is not None and not self.languages:
            raise InputError(f"to is {to!r}, but the model translates into one language only; leave it out")
        if to is not None and to not in self.languages:
            raise InputError(f"the model does not translate into {to!r}; it translates into {names}")

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """The languages' tags in the target vocabulary, where it is the source's too: never to be written."""
        known = set(self.target_tokenizer.extra_tokens) if self.languages else set()
        return tuple(self.target_tokenizer.id_of(tag(name)) for name in self.languages if tag(name) in known)

    def read(self, sources: Sequence[Sequence[int]]) -> Tokens:
        """Source token ids to what the model reads: the end token after each, then padding."""
        end = self.source_tokenizer.end_id
        return Tokens.pad([[*ids, end] for ids in sources], padding_id=self.source_tokenizer.padding_id)

    def batch(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TranslationBatch:
        """Pairs of token ids to a batch for training."""
        tokenizer = self.target_tokenizer
        inputs = [[tokenizer.start_id, *ids] for ids in targets]
        labels = [[*ids, tokenizer.end_id] for ids in targets]
        return TranslationBatch(
            source=self.read(sources),
            target=Tokens.pad(inputs, padding_id=tokenizer.padding_id),
            labels=Tokens.pad(labels, padding_id=tokenizer.padding_id).ids,
        )

    def loss(self, model: nn.Module, batch: TranslationBatch, *, smoothing: float = 0.0) -> LossSum:
        """Cross-entropy of the labels, summed over real tokens; padding counts nothing and gets no smoothing mass."""
        logits = model(batch.source, batch.target)
        real = batch.target.valid.flatten()
        tokenizer = self.target_tokenizer
        total, correct = smoothed_cross_entropy(
            logits.flatten(0, 1),
            batch.labels.flatten(),
            valid=real,
            smoothing=smoothing,
            never=tokenizer.padding_id if tokenizer.padding_id != tokenizer.end_id else None,
        )
        return LossSum(total, int(real.sum()), correct)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizers into `folder`; return what else regard.json has to hold."""
        if self.shared:
            self.source_tokenizer.save(folder)
        else:
            self.source_tokenizer.save(folder / "source")
            self.target_tokenizer.save(folder / "target")
        languages = {"languages": list(self.languages)} if self.languages else {}
        return {"name": self.name, "shared": self.shared, **languages, "generation": asdict(self.generation)}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TranslationTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        source = Tokenizer.load(folder if values.get("shared") else folder / "source")
        target = source if values.get("shared") else Tokenizer.load(folder / "target")
        where = f"{folder / 'regard.json'}: task"
        generation = from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation")
        languages = coerced(values.get("languages", []), tuple[str, ...], f"{where}.languages")
        for language in languages:
            if tag(language) not in source.extra_tokens:
                raise InputError(
                    f"{where}.languages names {language!r}, and the tokenizer has no token {tag(language)}; "
                    "tokenizer and regard.json must come from the same model"
                )
        return cls(source, target, generation, languages)


def tag(language: str) -> str:
    """The token that asks for a language, first of a source.

    >>> tag("de")
    '<2de>'
    """
    return f"<2{language}>"
