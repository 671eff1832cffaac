"""Builtin sequences of random bits to be copied: the first task of neural Turing machines."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from regard.data.drawn import ATTEMPTS, Drawn, below, split_of
from regard.errors import InputError

__all__ = ["BitCopies"]

WIDEST = 16

Numbers = tuple[int, ...]


class BitCopies(Drawn[Numbers]):
    """`size` sequences of one split; sequence i is a pure function of the numbers, seed, split and i.

    A sequence is a tuple of numbers below 2^width, each a vector of so many bits, the lowest first. Lengths are drawn uniformly
    from `shortest` to `longest`, and then every bit with chance one half. A sequence belongs to "train" (eight tenths),
    "validation" or "test" (a tenth each) by a hash: whatever the seeds, sizes and lengths, no sequence of one split is ever in
    another.

    Arguments:
        split: "train", "validation" or "test".
        width: bits of one vector.
        shortest, longest: vectors of one sequence, both ends included.
        size: number of sequences; they are made when read, so any number costs nothing.
        seed: another seed gives other sequences.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> copies = BitCopies("train", width=6, shortest=2, longest=4, size=1000)
    >>> copies[4] == BitCopies("train", width=6, shortest=2, longest=4, size=5)[4], max(map(len, copies))
    (True, 4)
    """

    called: ClassVar[str] = "copies"
    noun: ClassVar[str] = "sequence"

    def __init__(
        self,
        split: str = "train",
        *,
        width: int = 8,
        shortest: int = 1,
        longest: int = 20,
        size: int = 20_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if not 1 <= width <= WIDEST:
            raise InputError(f"copies: width is {width}; give 1 to {WIDEST} bits")
        if not 1 <= shortest <= longest:
            raise InputError(
                f"copies: lengths from {shortest} to {longest} cannot be drawn; give 1 <= shortest <= longest"
            )
        self.width = width
        self.shortest = shortest
        self.longest = longest

    def draw(self, rng: Random) -> Numbers:
        """A sequence.

        Raises:
            InputError: where there are so few sequences that none was found in this split.
        """
        for _ in range(ATTEMPTS):
            length = self.shortest + below(rng, self.longest - self.shortest + 1)
            numbers = tuple(below(rng, 1 << self.width) for _ in range(length))
            if split_of(f"regard copies {' '.join(map(str, numbers))}") == self.split:
                return numbers
        raise InputError(
            f"copies: no sequence of {self.shortest} to {self.longest} vectors of {self.width} bits was found in the split "
            f"{self.split!r}; there are too few, so raise width or longest"
        )
