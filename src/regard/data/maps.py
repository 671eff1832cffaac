"""Builtin texts to learn from in context: each is pairs (x, f(x)) of one map f, drawn for this text alone."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from regard.data.drawn import Drawn, numbers, split_of
from regard.errors import InputError

__all__ = ["Maps"]


Pair = tuple[str, str]


class Maps(Drawn[str]):
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

    called: ClassVar[str] = "maps"
    noun: ClassVar[str] = "text"

    def __init__(
        self, split: str = "train", *, symbols: int = 5, pairs: int = 17, size: int = 20_000, seed: int = 0
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if symbols < 3:
            raise InputError(f"maps: symbols is {symbols}; give at least 3, so that each split has maps")
        if pairs < 1:
            raise InputError(f"maps: pairs is {pairs}; give at least 1")
        self.symbols = symbols
        self.pairs = pairs

    def draw(self, rng: Random) -> str:
        """A text."""
        return " ".join(" ".join(pair) for pair in self._pairs(rng))

    def pairs_of(self, index: int) -> list[Pair]:
        """The pairs of text `index`, in their order.

        >>> Maps(symbols=3, pairs=1, size=1).pairs_of(0)[0][0][0]
        'a'
        """
        return self._pairs(self.chance(index))

    def _pairs(self, rng: Random) -> list[Pair]:
        images = numbers(rng, self.symbols, self.symbols)
        while split_of(f"regard maps {' '.join(map(str, images))}") != self.split:
            images = numbers(rng, self.symbols, self.symbols)
        return [(f"a{x}", f"b{images[x - 1]}") for x in numbers(rng, self.symbols, self.pairs)]
