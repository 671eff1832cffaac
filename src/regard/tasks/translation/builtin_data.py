"""Builtin data as sections of a recipe: what is generated with a seed instead of read from files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from regard.data.sequences import Kind, Sequences
from regard.models.config import check


class BuiltinData(Protocol):
    """Pairs of texts that anyone can make again from a few numbers."""

    @property
    def size(self) -> int:
        """Pairs to train on."""
        ...

    @property
    def validation_size(self) -> int:
        """Pairs to validate on."""
        ...

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """`size` pairs of the split `train`, `validation` or `test`; no source is in two of them."""
        ...

    def alphabet(self) -> tuple[str, str] | None:
        """Texts with every word of source and target in them, for a vocabulary to cover; None where texts are open."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DatesData:
    """Builtin data: human-written dates in dozens of languages to ISO dates.

    Arguments:
        size, validation_size: how many dates to draw for training and validation; no calendar day is in both.
        typo_rate: share of the dates that have one typo in their letters, in training and validation alike.
        languages: CLDR codes; all where null.
    """

    size: int = 100_000
    validation_size: int = 2_000
    typo_rate: float = 0.0
    languages: tuple[str, ...] | None = None

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """The texts of one split."""
        from regard.data.dates import LANGUAGES, Dates

        languages = LANGUAGES if self.languages is None else self.languages
        dates = Dates(split, size=size, seed=seed, languages=languages, typo_rate=self.typo_rate)
        return ((example.source, example.target) for example in dates)

    def alphabet(self) -> None:
        """None: names of months are as open as any text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequencesData:
    """Builtin data: sequence problems whose answer is known, for the tokenizer kind `word`.

    Arguments:
        kind: `copy`, `reversal`, `sorting`, `dictionary` (word for word), `reversed_dictionary`, `recall` (of the first
            symbol) or `association` (the value beside a key).
        symbols: how many different symbols, keys or values there are.
        shortest, longest: symbols of a source, both included; for `recall` those after the first, for `association` pairs.
        size, validation_size: how many pairs to draw for training and validation; no source is in both.

    Raises:
        InputError: for numbers out of range.
    """

    kind: Kind = "reversal"
    symbols: int = 40
    shortest: int = 12
    longest: int = 12
    size: int = 20_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.sequences.{name}", value, "above 0", "raise it")
        self._problems("train", 0, 0)  # whether there are as many as wanted is asked when they are

    def pairs(self, split: str, size: int, seed: int) -> Iterator[tuple[str, str]]:
        """The texts of one split."""
        problems = self._problems(split, size, seed)
        return ((problem.source, problem.target) for problem in problems)

    def alphabet(self) -> tuple[str, str]:
        """Every symbol of the source, and of the target."""
        return self._problems("train", 0, 0).alphabet()

    def _problems(self, split: str, size: int, seed: int) -> Sequences:
        return Sequences(
            split,
            kind=self.kind,
            symbols=self.symbols,
            shortest=self.shortest,
            longest=self.longest,
            size=size,
            seed=seed,
        )
