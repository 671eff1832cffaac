"""Builtin texts that say everything twice: what comes next stands in the first half, however far back."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import overload

from regard.errors import InputError, nearest

__all__ = ["SPLITS", "Repeats"]

SPLITS: tuple[str, ...] = ("train", "validation", "test")


class Repeats(Sequence[str]):
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

    def __init__(
        self, split: str = "train", *, symbols: int = 31, length: int = 63, size: int = 20_000, seed: int = 0
    ) -> None:
        if split not in SPLITS:
            raise InputError(f"repeats: no split {split!r}; {nearest(split, SPLITS)}")
        if symbols < 2 or length < 1 or size < 0:
            raise InputError(
                f"repeats: symbols is {symbols}, length {length} and size {size}; give at least 2 symbols, a length of 1, and no "
                "negative size"
            )
        self.split = split
        self.symbols = symbols
        self.length = length
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
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"repeats: no text {index} among {self.size}")
        key = f"{self.seed} {self.split} {position}".encode()
        rng = Random(int.from_bytes(blake2b(key, digest_size=8).digest(), "big"))
        # Of Random's methods only `random()` is promised to give the same numbers in every version of Python.
        said = " ".join(f"s{1 + int(rng.random() * self.symbols)}" for _ in range(self.length))
        return f"0 {said} 0 {said}"

    def __repr__(self) -> str:
        return (
            f"Repeats({self.split!r}, symbols={self.symbols}, length={self.length}, size={self.size}, seed={self.seed})"
        )
