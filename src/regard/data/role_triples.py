"""Builtin triples of sentences: one, another that says the same, and that other with its words in another order."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple, overload

from regard.errors import InputError, nearest

__all__ = ["SPLITS", "RoleTriple", "RoleTriples"]

SPLITS: tuple[str, ...] = ("train", "validation", "test")

# Each row is one thing in three words.
NOUNS = (
    ("dog", "hound", "canine"),
    ("child", "kid", "youngster"),
    ("thief", "robber", "burglar"),
    ("doctor", "physician", "medic"),
    ("teacher", "tutor", "instructor"),
    ("soldier", "trooper", "fighter"),
    ("lawyer", "attorney", "advocate"),
    ("author", "writer", "novelist"),
    ("king", "monarch", "ruler"),
    ("farmer", "grower", "peasant"),
    ("singer", "vocalist", "crooner"),
    ("guard", "sentry", "watchman"),
)
VERBS = (
    ("chases", "pursues", "hunts"),
    ("helps", "aids", "assists"),
    ("sees", "spots", "notices"),
    ("praises", "lauds", "commends"),
    ("attacks", "assaults", "strikes"),
    ("pays", "rewards", "compensates"),
)
ADJECTIVES = (
    ("happy", "glad", "merry"),
    ("old", "aged", "elderly"),
    ("small", "little", "tiny"),
    ("rich", "wealthy", "affluent"),
)
ADVERBS = (("often", "frequently", "regularly"), ("quickly", "rapidly", "swiftly"), ("now", "today", "currently"))

_TENTHS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


class RoleTriple(NamedTuple):
    """Three sentences.

    Arguments:
        anchor: who does what to whom.
        positive: the same in other words.
        negative: the words of `positive`, the two nouns in each other's place: whom does it to who.
    """

    anchor: str
    positive: str
    negative: str


class RoleTriples(Sequence[RoleTriple]):
    """`size` triples of one split; triple i is a pure function of seed, split and i.

    Who, what and whom of a triple belong together to one split: what is told apart in the test was never seen in training, though
    each of its words was.

    Arguments:
        split: "train", "validation" or "test".
        size: number of triples; they are made when read.
        seed: another seed gives other triples.

    Raises:
        InputError: for an unknown split, or a negative size.

    >>> triple = RoleTriples("train", size=9)[3]
    >>> sorted(triple.positive.split()) == sorted(triple.negative.split()), triple.positive == triple.negative
    (True, False)
    """

    def __init__(self, split: str = "train", *, size: int = 20_000, seed: int = 0) -> None:
        if split not in SPLITS:
            raise InputError(f"role triples: no split {split!r}; {nearest(split, SPLITS)}")
        if size < 0:
            raise InputError(f"role triples: size must not be negative, got {size}")
        self.split, self.size, self.seed = split, size, seed

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> RoleTriple: ...
    @overload
    def __getitem__(self, index: slice) -> list[RoleTriple]: ...
    def __getitem__(self, index: int | slice) -> RoleTriple | list[RoleTriple]:
        """Triple `index`, or the list of a slice of them."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self.size))]
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"role triples: no triple {index} among {self.size}")
        rng = Random(_hash(f"{self.seed} {self.split} {position}"))

        # Of Random's methods only `random()` is promised to give the same numbers in every version of Python.
        def below(number: int) -> int:
            return int(rng.random() * number)

        while True:
            who, whom, verb = below(len(NOUNS)), below(len(NOUNS)), below(len(VERBS))
            if who != whom and _hash(f"{who} {verb} {whom}") % 10 in _TENTHS[self.split]:
                break
        maybe = [below(len(table)) if below(2) else None for table in (ADJECTIVES, ADVERBS, ADJECTIVES)]

        def words() -> list[str]:
            tables = (ADJECTIVES, NOUNS, ADVERBS, VERBS, ADJECTIVES, NOUNS)
            rows = (maybe[0], who, maybe[1], verb, maybe[2], whom)
            return ["" if row is None else table[row][below(3)] for table, row in zip(tables, rows, strict=True)]

        anchor, positive = words(), words()
        negative = positive.copy()
        negative[1], negative[5] = positive[5], positive[1]
        return RoleTriple(*(_sentence(parts) for parts in (anchor, positive, negative)))

    def __repr__(self) -> str:
        return f"RoleTriples({self.split!r}, size={self.size}, seed={self.seed})"


def _sentence(parts: Sequence[str]) -> str:
    return " ".join(word for word in ("the", *parts[:4], "the", *parts[4:]) if word)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
