"""Builtin texts to learn from in context: each is pairs (x, f(x)) of one map f, drawn for this text alone."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import overload

from regard.errors import InputError, nearest

__all__ = ["SPLITS", "Maps"]

SPLITS: tuple[str, ...] = ("train", "validation", "test")

Pair = tuple[str, str]


class Maps(Sequence[str]):
    """`size` texts of one split; text i is a pure function of the numbers, seed, split and i.

    A text is `a3 b1 a2 b5 a3 b1 ...`: symbols x drawn uniformly, each followed by its image. The map is drawn anew for each text,
    every image uniformly and apart from the others. Whoever reads can know f(x) only from an x that stood there before: after k
    pairs at most 1 - (1 - 1/n)^(k+1) of the images can be told, n the number of symbols.

    A map belongs to "train" (eight tenths), "validation" or "test" (a tenth each) by a hash: whatever the seeds and sizes, no map
    of one split is ever in another.

    Arguments:
        split: "train", "validation" or "test".
        symbols: how many different x there are, and as many images; there are n^n maps.
        pairs: in each text.
        size: number of texts; they are made when read, so any number costs nothing.
        seed: another seed gives other texts.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> texts = Maps("train", symbols=3, pairs=2, size=1000)
    >>> texts[4] == Maps("train", symbols=3, pairs=2, size=5)[4], len(texts[4].split())
    (True, 4)
    """

    def __init__(
        self, split: str = "train", *, symbols: int = 5, pairs: int = 17, size: int = 20_000, seed: int = 0
    ) -> None:
        if split not in SPLITS:
            raise InputError(f"maps: no split {split!r}; {nearest(split, SPLITS)}")
        if symbols < 3:
            raise InputError(f"maps: symbols is {symbols}; give at least 3, so that each split has maps")
        if pairs < 1 or size < 0:
            raise InputError(f"maps: pairs is {pairs} and size {size}; give at least 1 pair, and no negative size")
        self.split = split
        self.symbols = symbols
        self.pairs = pairs
        self.size = size
        self.seed = seed

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Text `index`, or the list of a slice of them."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self.size))]
        return " ".join(" ".join(pair) for pair in self.pairs_of(index))

    def pairs_of(self, index: int) -> list[Pair]:
        """The pairs of text `index`, in their order.

        >>> Maps(symbols=3, pairs=1, size=1).pairs_of(0)[0][0][0]
        'a'
        """
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"maps: no text {index} among {self.size}")
        rng = Random(_hash(f"{self.seed} {self.split} {position}"))
        images = _numbers(rng, self.symbols, self.symbols)
        while _split_of(images) != self.split:
            images = _numbers(rng, self.symbols, self.symbols)
        return [(f"a{x}", f"b{images[x - 1]}") for x in _numbers(rng, self.symbols, self.pairs)]

    def __repr__(self) -> str:
        return f"Maps({self.split!r}, symbols={self.symbols}, pairs={self.pairs}, size={self.size}, seed={self.seed})"


def _numbers(rng: Random, symbols: int, length: int) -> list[int]:
    # Of Random's methods only `random()` is promised to give the same numbers in every version of Python.
    return [1 + int(rng.random() * symbols) for _ in range(length)]


def _split_of(images: Sequence[int]) -> str:
    tenth = _hash(f"regard maps {' '.join(map(str, images))}") % 10
    return "test" if tenth == 9 else "validation" if tenth == 8 else "train"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
