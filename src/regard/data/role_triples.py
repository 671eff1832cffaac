"""Builtin triples of sentences: one, another that says the same, and that other with its words in another order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, NamedTuple

from regard.data.drawn import Drawn, below, split_of

__all__ = ["RoleTriple", "RoleTriples"]


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


class RoleTriples(Drawn[RoleTriple]):
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

    called: ClassVar[str] = "role triples"
    noun: ClassVar[str] = "triple"

    def __init__(self, split: str = "train", *, size: int = 20_000, seed: int = 0) -> None:
        super().__init__(split, size=size, seed=seed)

    def draw(self, rng: Random) -> RoleTriple:
        """A triple."""
        while True:
            who, whom, verb = below(rng, len(NOUNS)), below(rng, len(NOUNS)), below(rng, len(VERBS))
            if who != whom and split_of(f"{who} {verb} {whom}") == self.split:
                break
        maybe = [below(rng, len(table)) if below(rng, 2) else None for table in (ADJECTIVES, ADVERBS, ADJECTIVES)]

        def words() -> list[str]:
            tables = (ADJECTIVES, NOUNS, ADVERBS, VERBS, ADJECTIVES, NOUNS)
            rows = (maybe[0], who, maybe[1], verb, maybe[2], whom)
            return ["" if row is None else table[row][below(rng, 3)] for table, row in zip(tables, rows, strict=True)]

        anchor, positive = words(), words()
        negative = positive.copy()
        negative[1], negative[5] = positive[5], positive[1]
        return RoleTriple(*(_sentence(parts) for parts in (anchor, positive, negative)))


def _sentence(parts: Sequence[str]) -> str:
    return " ".join(word for word in ("the", *parts[:4], "the", *parts[4:]) if word)
