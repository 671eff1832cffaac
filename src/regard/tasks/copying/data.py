"""What is to be copied, as data: the `data` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.sequences import BitCopies
from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyingData:
    """The `data` section of a recipe: sequences of random bits, drawn with the seed of the run.

    Arguments:
        width: bits of one vector.
        shortest, longest: vectors of one sequence, drawn uniformly from this range.
        size, validation_size: how many sequences to draw; none of one is in the other.

    Raises:
        InputError: for numbers out of range.
    """

    width: int = 8
    shortest: int = 1
    longest: int = 20
    size: int = 100_000
    validation_size: int = 500

    def __post_init__(self) -> None:
        for name in ("size", "validation_size"):
            value = getattr(self, name)
            check(value > 0, f"data.{name}", value, "above 0", "raise it")
        self.copies("train", 0, 0)

    def copies(self, split: str, size: int, seed: int) -> BitCopies:
        """The sequences of one split."""
        return BitCopies(split, width=self.width, shortest=self.shortest, longest=self.longest, size=size, seed=seed)
