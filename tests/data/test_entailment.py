"""The grammar's labels against worlds in which its sentences are true or not, drawn by hand."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from regard.data.synthetic_texts import ABOVE, ADJECTIVES, LABELS, NOUNS, VERBS, Entailment, Phrase, Statement, label_of
from regard.errors import InputError


class World:
    """Some individuals, what each is, how, and who does what to whom.

    Whatever is of a kind is of those above it; of each kind and way that a pair of sentences names, there is somebody.
    """

    def __init__(self, rng: Random, phrases: list[Phrase], verbs: set[str]) -> None:
        own = [(phrase.noun, phrase.adjective) for phrase in phrases]
        count = len(own) + rng.randrange(3)
        kinds, ways = sorted({noun for noun, _ in own}), sorted({way for _, way in own if way})
        self.kinds: list[set[str]] = [set() for _ in range(count)]
        self.ways: list[set[str]] = [set() for _ in range(count)]
        for number in range(count):
            if number < len(own):
                self.kinds[number].add(own[number][0])
                self.ways[number] |= {own[number][1]} - {""}
            self.kinds[number] |= {kind for kind in kinds if rng.random() < 0.4}
            self.ways[number] |= {way for way in ways if rng.random() < 0.4}
            self.kinds[number] |= {above for kind in self.kinds[number] for above in ABOVE[kind]}
        density = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        self.done = {
            (one, above, other)
            for one, verb, other in product(range(count), sorted(verbs), range(count))
            if rng.random() < density
            for above in ABOVE[verb]
        }

    def of(self, phrase: Phrase) -> list[int]:
        return [
            number
            for number, kinds in enumerate(self.kinds)
            if phrase.noun in kinds and (not phrase.adjective or phrase.adjective in self.ways[number])
        ]

    def holds(self, statement: Statement) -> bool:
        """Read off the words: `no` is that none does, `not all` that one does not, `do not` the contrary of doing."""
        does = [
            any((one, statement.verb, other) in self.done for other in self.of(statement.object)) != statement.negated
            for one in self.of(statement.subject)
        ]
        return {
            "all": all(does),
            "some": any(does),
            "several": any(does),
            "no": not any(does),
            "not all": not all(does),
        }[statement.quantifier]


def seen(premise: Statement, hypothesis: Statement, rng: Random, tries: int) -> set[bool]:
    """Whether the second was true, in worlds in which the first is."""
    phrases = [premise.subject, premise.object, hypothesis.subject, hypothesis.object]
    worlds = (World(rng, phrases, {premise.verb, hypothesis.verb}) for _ in range(tries))
    return {world.holds(hypothesis) for world in worlds if world.holds(premise)}


def test_labels_are_what_holds_in_every_world_in_none_and_in_some():
    rng = Random(7)
    undecided = 0
    for index in range(150):
        premise, hypothesis, label = Entailment("train", size=150, seed=3).statements(index)
        found = seen(premise, hypothesis, rng, 40)
        if label == "entailment":
            assert found <= {True}, (premise.text, hypothesis.text)
        elif label == "contradiction":
            assert found <= {False}, (premise.text, hypothesis.text)
        elif found != {True, False}:
            undecided += seen(premise, hypothesis, rng, 3_000) != {True, False}
    assert undecided == 0


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        ("all dogs push cars", "some poodles touch vehicles", "entailment"),
        ("all poodles push cars", "all dogs push cars", "neutral"),
        ("no animals touch things", "no dogs push cars", "entailment"),
        ("no dogs push cars", "some small dogs push cars", "contradiction"),
        ("not all dogs do not push cars", "some dogs push cars", "entailment"),
        ("some dogs push cars", "all dogs push cars", "neutral"),
        ("all dogs push cars", "all cars push dogs", "neutral"),
        ("some small dogs love boys", "several dogs like children", "entailment"),
    ],
)
def test_some_by_hand(premise, hypothesis, label):
    assert label_of(parsed(premise), parsed(hypothesis)) == label


def parsed(text: str) -> Statement:
    quantifier, rest = ("not all", text[8:]) if text.startswith("not all") else text.split(" ", 1)
    words = rest.split()
    negated = "do" in words
    words = [word for word in words if word not in ("do", "not")]
    place = next(place for place, word in enumerate(words) if word in VERBS)

    def phrase(parts: list[str]) -> Phrase:
        return Phrase(parts[-1], parts[0] if len(parts) == 2 else "")

    made = Statement(
        quantifier=quantifier,
        subject=phrase(words[:place]),
        negated=negated,
        verb=words[place],
        object=phrase(words[place + 1 :]),
    )
    assert made.text == text
    return made


def test_labels_are_as_often_and_splits_share_no_pair():
    train = list(Entailment("train", size=900))
    counts = Counter(label for _, label in train)
    assert set(counts) == set(LABELS)
    assert all(230 < count < 370 for count in counts.values())
    assert not {texts for texts, _ in train} & {texts for texts, _ in Entailment("test", size=300)}
    assert Entailment("test", size=9)[5] == Entailment("test", size=99)[5]


def test_the_words_of_the_lexicon_are_told_apart():
    assert len(NOUNS) == 30
    assert len(VERBS) == 9
    assert not {*NOUNS} & {*VERBS, *ADJECTIVES}


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="train"):
        Entailment("trian")
    with pytest.raises(InputError, match="negative"):
        Entailment(size=-1)
