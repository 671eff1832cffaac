"""What a run reads, as batches of such and such a shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Batches of one shape.

    Arguments:
        rows: texts, or pairs of texts, in a batch.
        length: tokens of each, padding included; of the source, where a model writes a target.
        target: tokens of each target; 0 where there is none.
        told: tokens of a batch whose logits over the vocabulary are computed; None = all of the target, or else of the text.
        times: how many such batches the run reads.
    """

    rows: float
    length: float
    target: float = 0
    told: float | None = None
    times: float = 1

    @property
    def tokens(self) -> float:
        """Of one batch, padding included, both sides together."""
        return self.rows * (self.length + self.target)

    @property
    def logits(self) -> float:
        """How many tokens of one batch have logits over the vocabulary."""
        return self.told if self.told is not None else self.rows * (self.target or self.length)


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """All that a run reads.

    Arguments:
        shapes: its batches.
        updates: of the parameters; None where unknown.
        largest: the batch that one device holds at a time, by which memory is counted.
        source: where these numbers are from.
    """

    shapes: tuple[Shape, ...]
    updates: float | None
    largest: Shape
    source: str

    @property
    def tokens(self) -> float:
        """D, read in the whole run, padding included."""
        return total_tokens(self.shapes)


def total_tokens(shapes: Iterable[Shape]) -> float:
    """Tokens of all batches.

    >>> total_tokens([Shape(rows=2, length=8, times=3), Shape(rows=1, length=4, target=6)])
    58
    """
    return sum(shape.times * shape.tokens for shape in shapes)
