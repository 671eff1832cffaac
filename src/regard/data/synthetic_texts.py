"""Synthetic texts sampled with a seed: documents classified by a cue, entailment pairs, (anchor, positive, negative) triples."""

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
"""The word that marks the sentence whose opinion word is the document's class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CueDocument:
    """A document, its class, and the words that determine the class.

    Arguments:
        text: sentences separated by empty lines; words separated by spaces.
        label: `good` or `bad`.
        sentence: the index of the sentence with the cue, from 0.
        words: the indices of the cue and of the opinion word in that sentence, from 0.
    """

    text: str
    label: str
    sentence: int
    words: tuple[int, int]


class CueDocuments(Generated[CueDocument]):
    r"""`size` documents of one split; document i is a pure function of the numbers, seed, split and i.

    The words are fillers without meaning (`w1`, `w2`, ...), opinion words (`good1` to `good5`, `bad1` to `bad5`), and the cue
    `indeed`. One uniformly sampled sentence contains the cue and, at any other position, an opinion word, which is the
    document's class. Each other sentence contains, with probability 1/2, an opinion word sampled independently of the class,
    and no cue. So counting opinion words is right more often than chance, and reading the sentence with the cue is always right.

    In balanced documents counting is useless: each sentence contains one positive and one negative word, and the cue is
    directly before the opinion word that is the class.

    Arguments:
        split: "train", "validation" or "test"; no document is in two splits.
        sentences: the number of sentences in a document.
        words: the number of words in a sentence.
        balanced: whether every sentence contains one positive and one negative word.
        fillers: the number of different filler words.
        size: number of documents. They are generated when read.
        seed: another seed gives other documents.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> document = CueDocuments("train", sentences=3, words=4, size=9)[2]
    >>> sentence = document.text.split("\n\n")[document.sentence].split()
    >>> cue, opinion_word = (sentence[position] for position in document.words)
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
                f"cue documents: {sentences} sentences of {words} words with {fillers} fillers are not possible; give at "
                f"least 1 sentence, {fewest} words and 2 fillers"
            )
        self.sentences = sentences
        self.words = words
        self.balanced = balanced
        self.fillers = fillers

    def sample(self, rng: Random) -> CueDocument:
        """One random document of the split."""
        while True:  # at least a tenth of all samples fall into the split
            document = self._sample_any(rng)
            if split_of(document.text) == self.split:
                return document

    def labelled(self) -> list[tuple[str, str]]:
        """All documents as (text, class), the form that training takes."""
        return [(document.text, document.label) for document in self]

    def _sample_any(self, rng: Random) -> CueDocument:
        """A random document of any split."""

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
    """Each word with itself and its hypernyms, nearest first."""
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
"""The hypernyms and hyponyms of each word."""


class Phrase(NamedTuple):
    """A noun phrase: a noun, optionally with an adjective."""

    noun: str
    adjective: str = ""

    @property
    def text(self) -> str:
        """The phrase as text."""
        return f"{self.adjective} {self.noun}".strip()

    def within(self, other: Phrase) -> bool:
        """Whether everything that this phrase describes is also described by `other`."""
        return other.noun in ABOVE[self.noun] and other.adjective in ("", self.adjective)


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A sentence: quantifier, subject, optional negation, verb, object.

    Arguments:
        quantifier: one of `QUANTIFIERS`.
        subject: the noun phrase that is quantified.
        negated: whether "do not" precedes the verb.
        verb: one of `VERBS`.
        object: the object, read as "some" of these.
    """

    quantifier: str
    subject: Phrase
    negated: bool
    verb: str
    object: Phrase

    @property
    def text(self) -> str:
        """The sentence as text.

        >>> Statement(quantifier="not all", subject=Phrase("dogs", "old"), negated=True, verb="guard", object=Phrase("cars")).text
        'not all old dogs do not guard cars'
        """
        deny = "do not " if self.negated else ""
        return f"{self.quantifier} {self.subject.text} {deny}{self.verb} {self.object.text}"

    @property
    def universal(self) -> bool:
        """Whether it is a statement about all of the subject ("all" and "no"), not about some."""
        return self.quantifier in ("all", "no")

    @property
    def positive(self) -> bool:
        """Whether it states that all, or some, do the action; the quantifiers `no` and `not all` invert it."""
        return self.negated == (self.quantifier in ("no", "not all"))


def label_of(premise: Statement, hypothesis: Statement) -> str:
    """The relation of premise and hypothesis, assuming that every noun phrase describes at least one thing.

    Each statement says that all or some S are L, where L is "do P" or "do not P". "Do P" is within "do P'" if the verb and the
    object of P are within those of P'; then "do not P'" is within "do not P". L excludes L' if one of them is "do P", the other
    "do not P'", and "do P" is within "do P'".

        all S L    entails  all S' L'       if S' is within S and L within L'
        all S L    entails  some S' L'      if one of S, S' is within the other and L within L'
        some S L   entails  some S' L'      if S is within S' and L within L'
        all S L    contradicts all S' L'    if one of S, S' is within the other and L excludes L'
        all S L    contradicts some S' L'   if S' is within S and L excludes L', and the same with both statements exchanged

    Everything else is neutral. Noun phrases of which neither is within the other may or may not have members in common.

    Returns:
        "entailment", "neutral" or "contradiction".

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
    """Whether everyone who does the action of `one` also does the action of `other`."""
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
    """`size` labelled sentence pairs of one split; pair i is a pure function of seed, split and i.

    The labels are equally probable. The hypothesis is the premise with some parts changed: the quantifier, the negation, a word
    replaced by a hypernym or hyponym, an adjective added or removed, or subject and object exchanged. So a bag of words does
    not determine the label.

    Arguments:
        split: "train", "validation" or "test"; no pair is in two splits.
        size: number of pairs. They are generated when read.
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
        """One random ((premise, hypothesis), label) of the split."""
        premise, hypothesis, label = self._statements(rng)
        return (premise.text, hypothesis.text), label

    def statements(self, index: int) -> tuple[Statement, Statement, str]:
        """Premise, hypothesis and label of pair `index`, the sentences as `Statement`s."""
        return self._statements(self.chance(index))

    def _statements(self, rng: Random) -> tuple[Statement, Statement, str]:
        sampler = _StatementSampler(rng)
        wanted = sampler.one(LABELS)
        while True:
            premise = sampler.statement()
            hypothesis = sampler.changed(premise)
            text = f"{premise.text} | {hypothesis.text}"
            if label_of(premise, hypothesis) == wanted and split_of(text) == self.split:
                return premise, hypothesis, wanted


class _StatementSampler:
    """Samples statements and variations of them."""

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
        """A variation of a statement."""
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
        """Usually a hypernym or hyponym of the word, sometimes any word of its part of speech."""
        same_part = VERBS if word in VERBS else NOUNS
        return self.one(AKIN[word] if self.happens(0.85) else same_part)


# Each row is a set of three synonyms.
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
        anchor: a sentence with a subject, a verb and an object.
        positive: a paraphrase of the anchor.
        negative: `positive` with its subject and object nouns exchanged, so with the same words and another meaning.
    """

    anchor: str
    positive: str
    negative: str


class RoleTriples(Generated[RoleTriple]):
    """`size` triples of one split; triple i is a pure function of seed, split and i.

    Each combination of subject, verb and object meanings is in one split only: no combination of the test split occurs in
    training, although each of its words does.

    Arguments:
        split: "train", "validation" or "test".
        size: number of triples. They are generated when read.
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
        """One random triple of the split."""
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
