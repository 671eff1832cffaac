"""Builtin texts that say everything twice: what comes next stands in the first half, however far back."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from regard.data.drawn import Drawn, below
from regard.errors import InputError

__all__ = ["Repeats"]


class Repeats(Drawn[str]):
    """`size` texts of one split, each `0 w 0 w`, w a row of symbols (Kitaev et al. 2020, section 4, "duplication task").

    Every symbol of w is drawn uniformly from s1 .. sN. The first w cannot be told, the second wholly: by looking back as far as
    w is long. Text i is a pure function of the numbers, seed, split and i.

    Arguments:
        split: "train", "validation" or "test".
        symbols: N, how many there are besides the 0.
        length: of w.
        size: number of texts; they are made when read, so any number costs nothing.
        seed: another seed gives other texts.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> Repeats(symbols=3, length=2, size=1)[0].split()[::3]
    ['0', '0']
    """

    called: ClassVar[str] = "repeats"
    noun: ClassVar[str] = "text"

    def __init__(
        self, split: str = "train", *, symbols: int = 31, length: int = 63, size: int = 20_000, seed: int = 0
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if symbols < 2 or length < 1:
            raise InputError(
                f"repeats: symbols is {symbols} and length {length}; give at least 2 symbols, and a length of 1"
            )
        self.symbols = symbols
        self.length = length

    def draw(self, rng: Random) -> str:
        """A text."""
        said = " ".join(f"s{1 + below(rng, self.symbols)}" for _ in range(self.length))
        return f"0 {said} 0 {said}"
