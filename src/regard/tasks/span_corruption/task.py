"""What span corruption is to a model: stretches of text to what it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from regard.data.span_corruption import SpanCorruption
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.structure import from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.pairs import PairBatch, PairTask
from regard.tasks.translation import open_folder
from regard.text import Tokenizer

STRETCH = "stretch"
"""The column of the token stores."""


@dataclass(frozen=True, slots=True)
class SpanCorruptionTask(PairTask):
    """What takes spans out of stretches of text, and turns a model's outputs into a loss (Raffel et al. 2020, section 3.1.4).

        loss = mean over the target's tokens, sentinels and end token included, of -log p(token | those before, input)

    Arguments:
        tokenizer: for input and target; it has sentinels.
        corruption: how spans are taken out.
    """

    name: ClassVar[str] = "span_corruption"

    tokenizer: Tokenizer
    corruption: SpanCorruption = field(default_factory=SpanCorruption)

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The one tokenizer, twice."""
        return self.tokenizer, self.tokenizer

    def lengths(self, data: TokenStore) -> np.ndarray:
        """Tokens of input and target, end tokens included, (N, 2)."""
        return self.corruption.lengths(data.lengths(STRETCH))

    def read_batch(self, data: TokenStore, rows: Sequence[int]) -> PairBatch:
        """The stretches of these rows as a batch; out of each the same spans are taken at every call."""
        return self._read(data, rows, None)

    def training_batch(self, data: TokenStore, rows: Sequence[int], draw: int) -> PairBatch:
        """The stretches of these rows as a batch; which spans are taken out is a function of the seed, `draw` and the row."""
        return self._read(data, rows, draw)

    def _read(self, data: TokenStore, rows: Sequence[int], draw: int | None) -> PairBatch:
        texts = [data.sequence(STRETCH, int(row)) for row in rows]
        found = self.corruption.corrupt(texts, rows, self.tokenizer.sentinels, draw=draw)
        return self.batch([each.input.tolist() for each in found], [each.target.tolist() for each in found])

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse stretches that have more spans than there are sentinels, and what the model has too few positions for.

        Raises:
            InputError: naming the settings.
        """
        longest = max(int(store.lengths(STRETCH).max(initial=2)) for store in (train, validation))
        self.corruption.check_sentinels(longest, self.tokenizer.sentinels)
        PairTask.check(self, model, train, validation)

    def shorter(self, split: str, limit: int) -> str:
        """How stretches become shorter."""
        del split
        return f"lower data.length, to {limit} at most"

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Stretches, tokens and vocabulary in a few words."""
        read, told = self.lengths(train).sum(axis=0).tolist()
        return (
            f"{len(train):,} stretches to learn from ({int(train.lengths(STRETCH).sum()):,} tokens; {read:,} are read and "
            f"{told:,} written in an epoch), {len(validation):,} to validate on; a vocabulary of {self.tokenizer.size:,}"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        return {"name": self.name, "corruption": asdict(self.corruption)}

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> SpanCorruptionTask:
        """The task that `save` wrote into `folder`.

        Raises:
            InputError: for a tokenizer without sentinels.
        """
        corruption = from_mapping(SpanCorruption, values.get("corruption", {}), f"{folder / 'regard.json'}: task")
        return cls(with_sentinels(Tokenizer.load(folder), str(folder)), corruption)

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
        # A model's table may have rows that no token has, as the published T5s have.
        obstacle = open_folder.obstacle(self.tokenizer, self.tokenizer, self.tokenizer.size)
        use = ['print(model.fill("... <extra_id_0> ...").best)']
        write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, obstacle=obstacle
        )


def with_sentinels(tokenizer: Tokenizer, where: str) -> Tokenizer:
    """The tokenizer itself.

    Raises:
        InputError: where it has no sentinels.
    """
    if not tokenizer.sentinels:
        raise InputError(
            f"{where}: the tokenizer has no sentinels (<extra_id_0> and so on), so nothing can stand for a span; take one that "
            "has them, or train one with tokenizer.sentinels=100"
        )
    return tokenizer
