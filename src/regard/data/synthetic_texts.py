"""Texts drawn with a seed: documents that one cue decides, entailment pairs, triples of paraphrase and contrast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, NamedTuple

from regard.data.generated import Generated, below, one_of, split_of
from regard.errors import InputError

__all__ = [
    "LABELS",
    "CueDocument",
    "CueDocuments",
    "Entailment",
    "Phrase",
    "RoleTriple",
    "RoleTriples",
    "Statement",
    "label_of",
]

CUE = "indeed"
"""The word that makes a word of praise or blame in the same sentence count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CueDocument:
    """A document and what decides its class.

    Arguments:
        text: sentences with an empty line between two of them, words with spaces.
        label: `good` or `bad`.
        sentence: the number of the deciding sentence, from 0.
        words: the places of the cue and of the word that it makes count, in that sentence, from 0.
    """

    text: str
    label: str
    sentence: int
    words: tuple[int, int]


class CueDocuments(Generated[CueDocument]):
    r"""`size` documents of one split; document i is a pure function of the numbers, seed, split and i.

    Words are `w1`, `w2` and so on, which mean nothing; `good1` to `good5` and `bad1` to `bad5`; and the cue, `indeed`. One
    sentence, drawn uniformly, holds the cue and, in any other place, a word of praise or blame: that is the document's class.
    Each other sentence holds with probability 1/2 a word of praise or blame too, drawn apart from the class, and no cue. So who
    counts words of praise and blame is right more often than not, and who looks at the sentence with the cue always.

    Balanced documents leave nothing to count: each of their sentences holds one word of praise and one of blame, and the cue is
    directly before the one of them that decides.

    Arguments:
        split: "train", "validation" or "test"; no document of one is in another.
        sentences: of each document.
        words: of each sentence.
        balanced: whether every sentence holds a word of praise and one of blame.
        fillers: how many words there are that mean nothing.
        size: number of documents; they are made when read.
        seed: another seed gives other documents.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> document = CueDocuments("train", sentences=3, words=4, size=9)[2]
    >>> decides = document.text.split("\n\n")[document.sentence].split()
    >>> cue, opinion_word = (decides[place] for place in document.words)
    >>> cue, opinion_word.rstrip("12345") == document.label
    ('indeed', True)
    """

    called: ClassVar[str] = "cue documents"
    noun: ClassVar[str] = "document"

    def __init__(
        self,
        split: str = "train",
        *,
        sentences: int = 8,
        words: int = 10,
        balanced: bool = False,
        fillers: int = 200,
        size: int = 8_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        fewest = 3 if balanced else 2
        if sentences < 1 or words < fewest or fillers < 2:
            raise InputError(
                f"cue documents: {sentences} sentences of {words} words and {fillers} fillers cannot be; give at least 1 "
                f"sentence, {fewest} words and 2 fillers"
            )
        self.sentences = sentences
        self.words = words
        self.balanced = balanced
        self.fillers = fillers

    def sample(self, rng: Random) -> CueDocument:
        """A document."""
        while True:  # a tenth of all are in the smallest splits
            document = self._draw(rng)
            if split_of(document.text) == self.split:
                return document

    def labelled(self) -> list[tuple[str, str]]:
        """Texts and their classes, as training takes them."""
        return [(document.text, document.label) for document in self]

    def _draw(self, rng: Random) -> CueDocument:
        def opinion(label: str) -> str:
            return f"{label}{1 + below(rng, 5)}"

        label = ("good", "bad")[below(rng, 2)]
        lines = [[f"w{1 + below(rng, self.fillers)}" for _ in range(self.words)] for _ in range(self.sentences)]
        planted = below(rng, self.sentences)
        if self.balanced:
            cue = below(rng, self.words - 1)
            opinion_word = cue + 1
            for number, line in enumerate(lines):
                first = opinion_word if number == planted else below(rng, self.words)
                free = [place for place in range(self.words) if place != first and (number != planted or place != cue)]
                second = one_of(rng, free)
                found = label if number == planted else ("good", "bad")[below(rng, 2)]
                line[first], line[second] = opinion(found), opinion("bad" if found == "good" else "good")
            lines[planted][cue] = CUE
        else:
            cue, opinion_word = below(rng, self.words), below(rng, self.words - 1)
            opinion_word += opinion_word >= cue
            for number, line in enumerate(lines):
                if number == planted:
                    line[cue], line[opinion_word] = CUE, opinion(label)
                elif below(rng, 2):
                    line[below(rng, self.words)] = opinion(("good", "bad")[below(rng, 2)])
        text = "\n\n".join(" ".join(line) for line in lines)
        return CueDocument(text=text, label=label, sentence=planted, words=(cue, opinion_word))


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


class Entailment(Generated[tuple[tuple[str, str], str]]):
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

    def sample(self, rng: Random) -> tuple[tuple[str, str], str]:
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


# Each row is one thing in three words.
SYNONYM_NOUNS = (
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
SYNONYM_VERBS = (
    ("chases", "pursues", "hunts"),
    ("helps", "aids", "assists"),
    ("sees", "spots", "notices"),
    ("praises", "lauds", "commends"),
    ("attacks", "assaults", "strikes"),
    ("pays", "rewards", "compensates"),
)
SYNONYM_ADJECTIVES = (
    ("happy", "glad", "merry"),
    ("old", "aged", "elderly"),
    ("small", "little", "tiny"),
    ("rich", "wealthy", "affluent"),
)
SYNONYM_ADVERBS = (
    ("often", "frequently", "regularly"),
    ("quickly", "rapidly", "swiftly"),
    ("now", "today", "currently"),
)


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


class RoleTriples(Generated[RoleTriple]):
    """`size` triples of one split; triple i is a pure function of seed, split and i.

    Who, what and whom of a triple belong together to one split: what is asked in the test was never seen in training, though
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

    def sample(self, rng: Random) -> RoleTriple:
        """A triple."""
        while True:
            who, whom, verb = (
                below(rng, len(SYNONYM_NOUNS)),
                below(rng, len(SYNONYM_NOUNS)),
                below(rng, len(SYNONYM_VERBS)),
            )
            if who != whom and split_of(f"{who} {verb} {whom}") == self.split:
                break
        maybe = [
            below(rng, len(table)) if below(rng, 2) else None
            for table in (SYNONYM_ADJECTIVES, SYNONYM_ADVERBS, SYNONYM_ADJECTIVES)
        ]

        def words() -> list[str]:
            tables = (
                SYNONYM_ADJECTIVES,
                SYNONYM_NOUNS,
                SYNONYM_ADVERBS,
                SYNONYM_VERBS,
                SYNONYM_ADJECTIVES,
                SYNONYM_NOUNS,
            )
            rows = (maybe[0], who, maybe[1], verb, maybe[2], whom)
            return ["" if row is None else table[row][below(rng, 3)] for table, row in zip(tables, rows, strict=True)]

        anchor, positive = words(), words()
        negative = positive.copy()
        negative[1], negative[5] = positive[5], positive[1]
        return RoleTriple(*(_sentence(parts) for parts in (anchor, positive, negative)))


def _sentence(parts: Sequence[str]) -> str:
    return " ".join(word for word in ("the", *parts[:4], "the", *parts[4:]) if word)
