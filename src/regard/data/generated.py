"""The base class of builtin data sets whose examples are sampled when they are read, and their random numbers."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import ClassVar, TypeVar, overload

from regard.errors import InputError, nearest

SPLITS: tuple[str, ...] = ("train", "validation", "test")

MOST = 100_000_000
"""The most examples of a data set: all are read before training begins."""

ATTEMPTS = 2_000
"""How often a sample is repeated until it falls into the split. The smallest splits have a tenth of all examples, so all
attempts fail with probability 1e-91."""

Example = TypeVar("Example", covariant=True)
Option = TypeVar("Option")


class Generated(Sequence[Example]):
    """`size` examples of one split; example i is a pure function of the settings, seed, split and i.

    A subclass sets `called` and implements `sample`. It keeps each setting in an attribute with the name of the `__init__`
    argument.

    Arguments:
        split: "train", "validation" or "test".
        size: number of examples. They are generated when read, so a large number uses no memory.
        seed: another seed gives other examples.

    Raises:
        InputError: for an unknown split, a negative size, or one above `MOST`.
    """

    called: ClassVar[str]
    """The name of the data set in messages."""
    noun: ClassVar[str] = "example"
    """The name of one example in messages."""

    def __init__(self, split: str, *, size: int, seed: int) -> None:
        if split not in SPLITS:
            raise InputError(f"{self.called}: no split {split!r}; {nearest(split, SPLITS)}")
        if size < 0:
            raise InputError(f"{self.called}: size must not be negative, got {size}")
        if size > MOST:
            raise InputError(f"{self.called}: size is {size}, and at most {MOST:,} are made; give a smaller one")
        self.split = split
        self.size = size
        self.seed = seed

    @abstractmethod
    def sample(self, rng: Random) -> Example:
        """One random example of the split.

        Use `below` and `one_of` for random numbers: only these are the same in every version of Python.
        """

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """One example, or a list of examples for a slice."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self.size))]
        return self.sample(self.chance(index))

    def __repr__(self) -> str:
        names = [name for name in inspect.signature(type(self)).parameters if name != "split"]
        settings = ", ".join(f"{name}={self.shown(name)}" for name in names)
        return f"{type(self).__name__}({self.split!r}, {settings})"

    def shown(self, name: str) -> str:
        """A setting as `repr` shows it."""
        return repr(getattr(self, name))

    def chance(self, index: int) -> Random:
        """The random number generator that example `index` is sampled with.

        Raises:
            IndexError: if there is no such example.
        """
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"{self.called}: no {self.noun} {index} among {self.size}")
        return Random(hashed(f"{self.seed} {self.split} {position}"))


def hashed(text: str) -> int:
    """A 64-bit hash of the text, the same on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def split_of(text: str) -> str:
    """The split of an example with this text, by a hash: 80% are in "train", 10% each in "validation" and "test".

    >>> split_of("regard maps 1 2 3") in SPLITS
    True
    """
    tenth = hashed(text) % 10
    return "test" if tenth == 9 else "validation" if tenth == 8 else "train"


def below(rng: Random, count: int) -> int:
    """A random integer from 0 to `count` - 1, all equally probable."""
    # `random()` is the only method of Random that gives the same numbers in every version of Python.
    return int(rng.random() * count)


def numbers(rng: Random, symbols: int, length: int) -> list[int]:
    """`length` random integers from 1 to `symbols`, all equally probable."""
    return [1 + below(rng, symbols) for _ in range(length)]


def one_of(rng: Random, options: Sequence[Option]) -> Option:
    """One of the options at random, all equally probable."""
    return options[below(rng, len(options))]
