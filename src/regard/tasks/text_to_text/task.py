"""What text to text is to a model: a text with a prefix to what it reads, a text to what it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from regard.data.mixing import Mixing
from regard.data.token_store import TokenStore
from regard.errors import InputError, nearest
from regard.generation import GenerationSettings
from regard.generation.penalties import check_coverage
from regard.structure import coerced, from_mapping
from regard.tasks.card import write_with_card
from regard.tasks.pairs import COLUMNS, PairTask
from regard.tasks.translation import open_folder
from regard.text import Tokenizer

PART = "part"
"""Column of a store: the number of the part that a pair belongs to."""

LONGEST = 512
"""What other programs are told of a model that has no limit."""


@dataclass(frozen=True, slots=True)
class TextToTextTask(PairTask):
    """What turns texts into an encoder-decoder's tensors, and its outputs into texts (Raffel et al. 2020, section 2.4).

    Arguments:
        tokenizer: for all texts.
        generation: how to decode unless told otherwise.
        prefixes: what stands in front of the sources of each part, by its name; of a model of one part, under the empty name.
        maximum_source: tokens that were read of a source in training, its end token included; None for any number.
        mixing: in which proportion the parts are learnt from.
    """

    name: ClassVar[str] = "text_to_text"

    tokenizer: Tokenizer
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    prefixes: Mapping[str, str] = field(default_factory=lambda: {"": ""})
    maximum_source: int | None = None
    mixing: Mixing = field(default_factory=Mixing)

    @property
    def sides(self) -> tuple[Tokenizer, Tokenizer]:
        """The one tokenizer, twice."""
        return self.tokenizer, self.tokenizer

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the parts of a mixture."""
        return tuple(name for name in self.prefixes if name)

    def prefix_of(self, part: str | None) -> str:
        """What stands in front of a source.

        Arguments:
            part: its name; None for the one part of a model that has one, and for a text that says itself what is wanted.

        Raises:
            InputError: for a part that the model does not have.
        """
        if part is None:
            return self.prefixes.get("", "")
        if part not in self.group_names:
            known = nearest(part, self.group_names) if self.group_names else "the model has none by name; leave it out"
            raise InputError(f"part is {part!r}; {known}")
        return self.prefixes[part]

    def groups(self, data: TokenStore) -> dict[str, list[int]]:
        """The rows of each part of a mixture."""
        if not self.group_names:
            return {}
        numbers = data.numbers(PART)
        return {name: np.flatnonzero(numbers == i).tolist() for i, name in enumerate(self.prefixes)}

    def epoch_rows(self, data: TokenStore) -> Callable[[int], np.ndarray] | None:
        """The rows of an epoch, the parts in their proportion."""
        if not self.group_names or (self.mixing.limit is None and self.mixing.temperature == 1):
            return None
        sizes = np.bincount(data.numbers(PART), minlength=len(self.prefixes))
        return lambda epoch: self.mixing.rows(sizes, epoch)

    def check(self, model: Any, train: TokenStore, validation: TokenStore) -> None:
        """Refuse data that the model has too few positions for, and a coverage penalty where there is no coverage.

        Raises:
            InputError: naming what is too long, and what to do.
        """
        PairTask.check(self, model, train, validation)
        if self.generation.coverage_penalty > 0:
            check_coverage(model)

    def shorter(self, split: str, limit: int) -> str:
        """How pairs become shorter."""
        targets = "leave long pairs out" if split == "training" else "shorten them"
        return f"read less of sources (data.maximum_source={limit}); if it is a target, {targets} (data.maximum_target)"

    def texts(self, data: TokenStore, rows: Sequence[int]) -> list[tuple[list[int], str]]:
        """Pairs of a token store: the ids of each source, and its target as a text again."""
        source, target = COLUMNS
        return [
            (data.sequence(source, row).tolist(), self.tokenizer.decode(data.sequence(target, row).tolist()))
            for row in rows
        ]

    def describe(self, train: TokenStore, validation: TokenStore) -> str:
        """Pairs and vocabulary in a few words."""
        return (
            f"{len(train):,} pairs to learn from, {len(validation):,} to validate on; a vocabulary of "
            f"{self.tokenizer.size:,} tokens"
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the tokenizer into `folder`; return what else regard.json has to hold."""
        self.tokenizer.save(folder)
        return {
            "name": self.name,
            "generation": asdict(self.generation),
            "prefixes": dict(self.prefixes),
            "maximum_source": self.maximum_source,
            "mixing": asdict(self.mixing),
        }

    @classmethod
    def load(cls, folder: Path, values: Mapping[str, Any]) -> TextToTextTask:
        """The task that `save` wrote into `folder`, `values` being what it returned."""
        where = f"{folder / 'regard.json'}: task"
        return cls(
            Tokenizer.load(folder),
            from_mapping(GenerationSettings, values.get("generation", {}), f"{where}.generation"),
            coerced(values.get("prefixes", {"": ""}), dict[str, str], f"{where}.prefixes"),
            coerced(values.get("maximum_source"), int | None, f"{where}.maximum_source"),
            from_mapping(Mixing, values.get("mixing", {}), f"{where}.mixing"),
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
        """Write all files of a model into an existing folder, in a layout that other programs open where there is one."""
        # A model's table may have rows that no token has, as the published T5s have.
        obstacle = open_folder.obstacle(self.tokenizer, self.tokenizer, self.tokenizer.size)
        named = next(iter(self.group_names), None)
        asked = "" if named is None else f', part="{named}"'
        use = [f'print(model.generate("..."{asked}).text)']
        layout = write_with_card(
            folder, config, tensors, task=self.save(folder), recipe=recipe, metrics=metrics, use=use, obstacle=obstacle
        )
        if "why" not in layout:
            open_folder.write(
                folder,
                self.tokenizer,
                self.generation,
                maximum=getattr(config, "maximum_positions", None) or self.maximum_source or LONGEST,
                never=self.tokenizer.sentinels,
            )
