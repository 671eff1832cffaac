"""Builtin sequences of random bits to be copied: the first task of neural Turing machines."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import overload

from regard.errors import InputError, nearest

__all__ = ["SPLITS", "BitCopies"]

SPLITS: tuple[str, ...] = ("train", "validation", "test")
WIDEST = 16

_ATTEMPTS = 2_000  # a tenth of all sequences are in the smallest splits: that none is met by then has chance 1e-91

Numbers = tuple[int, ...]


class BitCopies(Sequence[Numbers]):
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
        if split not in SPLITS:
            raise InputError(f"copies: no split {split!r}; {nearest(split, SPLITS)}")
        if not 1 <= width <= WIDEST:
            raise InputError(f"copies: width is {width}; give 1 to {WIDEST} bits")
        if not 1 <= shortest <= longest:
            raise InputError(
                f"copies: lengths from {shortest} to {longest} cannot be drawn; give 1 <= shortest <= longest"
            )
        if size < 0:
            raise InputError(f"copies: size is {size}; give 0 or more")
        self.split = split
        self.width = width
        self.shortest = shortest
        self.longest = longest
        self.size = size
        self.seed = seed

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Numbers: ...
    @overload
    def __getitem__(self, index: slice) -> list[Numbers]: ...
    def __getitem__(self, index: int | slice) -> Numbers | list[Numbers]:
        """Sequence `index`, or the list of a slice of them.

        Raises:
            InputError: where there are so few sequences that none was found in this split.
        """
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self.size))]
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"copies: no sequence {index} among {self.size}")
        rng = Random(_hash(f"{self.seed} {self.split} {position}"))
        for _ in range(_ATTEMPTS):
            # Of Random's methods only `random()` is promised to give the same numbers in every version of Python.
            length = self.shortest + int(rng.random() * (self.longest - self.shortest + 1))
            numbers = tuple(int(rng.random() * (1 << self.width)) for _ in range(length))
            if _split_of(numbers) == self.split:
                return numbers
        raise InputError(
            f"copies: no sequence of {self.shortest} to {self.longest} vectors of {self.width} bits was found in the split "
            f"{self.split!r}; there are too few, so raise width or longest"
        )

    def __repr__(self) -> str:
        return (
            f"BitCopies({self.split!r}, width={self.width}, shortest={self.shortest}, longest={self.longest}, "
            f"size={self.size}, seed={self.seed})"
        )


def _split_of(numbers: Numbers) -> str:
    tenth = _hash(f"regard copies {' '.join(map(str, numbers))}") % 10
    return "test" if tenth == 9 else "validation" if tenth == 8 else "train"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
