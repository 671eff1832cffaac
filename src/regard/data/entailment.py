"""Builtin pairs of sentences of which the first says something about the second: quantifiers, negation, kinds and their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, NamedTuple

from regard.data.drawn import Drawn, one_of, split_of

__all__ = ["LABELS", "Entailment", "Phrase", "Statement", "label_of"]

LABELS = ("entailment", "neutral", "contradiction")

_KINDS = {
    "animals": {"dogs": ("poodles", "beagles"), "cats": ("tabbies", "persians"), "birds": ("robins", "gulls")},
    "people": {"artists": ("painters", "poets"), "workers": ("bakers", "miners"), "children": ("boys", "girls")},
    "things": {"vehicles": ("cars", "trucks"), "tools": ("hammers", "saws"), "toys": ("dolls", "kites")},
}
_VERBS = {"touch": ("push", "lift"), "watch": ("study", "guard"), "like": ("love", "admire")}
ADJECTIVES = ("small", "red", "old", "new")
QUANTIFIERS = ("all", "some", "several", "no", "not all")


def _above() -> dict[str, tuple[str, ...]]:
    """Each word and those of which it is a kind, itself first."""
    found: dict[str, tuple[str, ...]] = {}
    for root, middles in _KINDS.items():
        found[root] = (root,)
        for middle, leaves in middles.items():
            found[middle] = (middle, root)
            found |= {leaf: (leaf, middle, root) for leaf in leaves}
    for verb, kinds in _VERBS.items():
        found[verb] = (verb,)
        found |= {kind: (kind, verb) for kind in kinds}
    return found


ABOVE = _above()
NOUNS = tuple(word for word in ABOVE if word not in _VERBS and ABOVE[word][-1] in _KINDS)
VERBS = tuple(word for word in ABOVE if ABOVE[word][-1] in _VERBS)
ROOTS = tuple(_KINDS)
AKIN = {
    word: tuple(other for other in ABOVE if other != word and (other in ABOVE[word] or word in ABOVE[other]))
    for word in ABOVE
}
"""The words above and below each word."""


class Phrase(NamedTuple):
    """A kind of things: a noun, perhaps with an adjective."""

    noun: str
    adjective: str = ""

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.adjective} {self.noun}".strip()

    def within(self, other: Phrase) -> bool:
        """Whether whatever is of this kind is of the other."""
        return other.noun in ABOVE[self.noun] and other.adjective in ("", self.adjective)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A sentence: so many of a kind do, or do not do, something to some of a kind.

    Arguments:
        quantifier: one of `QUANTIFIERS`.
        subject: of whom it speaks.
        negated: whether they do not.
        verb: one of `VERBS`.
        object: to some of which they do it.
    """

    quantifier: str
    subject: Phrase
    negated: bool
    verb: str
    object: Phrase

    @property
    def text(self) -> str:
        """As it is written.

        >>> Statement(quantifier="not all", subject=Phrase("dogs", "old"), negated=True, verb="guard", object=Phrase("cars")).text
        'not all old dogs do not guard cars'
        """
        deny = "do not " if self.negated else ""
        return f"{self.quantifier} {self.subject.text} {deny}{self.verb} {self.object.text}"

    @property
    def universal(self) -> bool:
        """Whether it says something of all of them, not of some."""
        return self.quantifier in ("all", "no")

    @property
    def positive(self) -> bool:
        """Whether what it says of all, or of some, is that they do it: `no` and `not all` turn it round."""
        return self.negated == (self.quantifier in ("no", "not all"))


def label_of(premise: Statement, hypothesis: Statement) -> str:
    """What follows from the first for the second, if there are some of every kind that is named.

    Each says of all or of some S that they P, or that they do not. What P holds of holds of P' where the verb is a kind of the
    other and the object too, and what does not P' does not P.

        all S L    entails  all S' L'       where S' within S and L within L'
        all S L    entails  some S' L'      where one of S, S' is within the other and L within L'
        some S L   entails  some S' L'      where S within S' and L within L'
        all S L    contradicts all S' L'    where one of S, S' is within the other and L excludes L'
        all S L    contradicts some S' L'   where S' within S and L excludes L', and the other way round

    All else is neutral. Kinds that are not within each other may have members in common, and may not.

    >>> dogs, pets = Phrase("dogs"), Phrase("animals")
    >>> one = Statement(quantifier="all", subject=pets, negated=False, verb="push", object=Phrase("cars"))
    >>> other = Statement(quantifier="some", subject=dogs, negated=False, verb="touch", object=Phrase("vehicles"))
    >>> label_of(one, other), label_of(other, one)
    ('entailment', 'neutral')
    """
    down, up = hypothesis.subject.within(premise.subject), premise.subject.within(hypothesis.subject)
    follows, excludes = _follows(premise, hypothesis), _excludes(premise, hypothesis)
    if premise.universal and hypothesis.universal:
        entails, denies = down, down or up
    elif premise.universal:
        entails, denies = down or up, down
    elif hypothesis.universal:
        entails, denies = False, up
    else:
        entails, denies = up, False
    return "entailment" if entails and follows else "contradiction" if denies and excludes else "neutral"


def _does_within(one: Statement, other: Statement) -> bool:
    """Whether whoever does the one does the other."""
    return other.verb in ABOVE[one.verb] and one.object.within(other.object)


def _follows(one: Statement, other: Statement) -> bool:
    if one.positive != other.positive:
        return False
    return _does_within(one, other) if one.positive else _does_within(other, one)


def _excludes(one: Statement, other: Statement) -> bool:
    if one.positive == other.positive:
        return False
    return _does_within(one, other) if one.positive else _does_within(other, one)


class Entailment(Drawn[tuple[tuple[str, str], str]]):
    """`size` pairs of one split with their label, each label as often; pair i is a pure function of seed, split and i.

    A second sentence is the first with some parts changed: the quantifier, the negation, a word for one above or below it, an
    adjective more or less, subject and object in each other's place. So a pair's words, without their order, say less than all.

    Arguments:
        split: "train", "validation" or "test"; no pair of one is in another.
        size: number of pairs; they are made when read.
        seed: another seed gives other pairs.

    Raises:
        InputError: for an unknown split, or a negative size.

    >>> (premise, hypothesis), label = Entailment("train", size=9)[4]
    >>> label in LABELS
    True
    """

    called: ClassVar[str] = "entailment"
    noun: ClassVar[str] = "pair"

    def __init__(self, split: str = "train", *, size: int = 30_000, seed: int = 0) -> None:
        super().__init__(split, size=size, seed=seed)

    def draw(self, rng: Random) -> tuple[tuple[str, str], str]:
        """A pair with its label."""
        premise, hypothesis, label = self._statements(rng)
        return (premise.text, hypothesis.text), label

    def statements(self, index: int) -> tuple[Statement, Statement, str]:
        """Premise, hypothesis and label of pair `index`, the sentences with their parts."""
        return self._statements(self.chance(index))

    def _statements(self, rng: Random) -> tuple[Statement, Statement, str]:
        draw = _Draw(rng)
        wanted = draw.one(LABELS)
        while True:
            premise = draw.statement()
            hypothesis = draw.changed(premise)
            text = f"{premise.text} | {hypothesis.text}"
            if label_of(premise, hypothesis) == wanted and split_of(text) == self.split:
                return premise, hypothesis, wanted


class _Draw:
    """Draws sentences."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def one(self, choices: Sequence[str]) -> str:
        return one_of(self._rng, choices)

    def happens(self, probability: float) -> bool:
        return self._rng.random() < probability

    def phrase(self) -> Phrase:
        return Phrase(self.one(NOUNS), self.one(ADJECTIVES) if self.happens(0.4) else "")

    def statement(self) -> Statement:
        return Statement(
            quantifier=self.one(QUANTIFIERS),
            subject=self.phrase(),
            negated=self.happens(0.4),
            verb=self.one(VERBS),
            object=self.phrase(),
        )

    def changed(self, statement: Statement) -> Statement:
        """Another sentence with much of the first."""
        found = replace(
            statement,
            quantifier=statement.quantifier if self.happens(0.3) else self.one(QUANTIFIERS),
            negated=statement.negated if self.happens(0.5) else not statement.negated,
            subject=self._near(statement.subject),
            verb=statement.verb if self.happens(0.4) else self._akin(statement.verb),
            object=self._near(statement.object),
        )
        return replace(found, subject=found.object, object=found.subject) if self.happens(0.1) else found

    def _near(self, phrase: Phrase) -> Phrase:
        noun, adjective = phrase
        if self.happens(0.5):
            noun = self._akin(noun)
        if self.happens(0.3):
            adjective = "" if adjective and self.happens(0.7) else self.one(ADJECTIVES)
        return Phrase(noun, adjective)

    def _akin(self, word: str) -> str:
        """Mostly a word above or below, at times any of its sort."""
        sort = VERBS if word in VERBS else NOUNS
        return self.one(AKIN[word] if self.happens(0.85) else sort)
