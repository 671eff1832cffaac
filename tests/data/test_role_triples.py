"""Triples of sentences: the same said in other words, and the same words said the other way round."""

from __future__ import annotations

import pytest

from regard.data.synthetic_texts import SYNONYM_ADJECTIVES, SYNONYM_ADVERBS, SYNONYM_NOUNS, SYNONYM_VERBS, RoleTriples
from regard.errors import InputError

THING = {
    word: row
    for table in (SYNONYM_NOUNS, SYNONYM_VERBS, SYNONYM_ADJECTIVES, SYNONYM_ADVERBS)
    for row in table
    for word in row
}


def meant(sentence: str) -> list[tuple[str, ...]]:
    return [THING[word] for word in sentence.split() if word != "the"]


def test_the_second_says_the_same_and_the_third_has_its_words_with_the_nouns_exchanged():
    for anchor, positive, negative in RoleTriples("train", size=200):
        assert meant(anchor) == meant(positive)
        assert sorted(positive.split()) == sorted(negative.split())
        nouns = [[word for word in each.split() if THING.get(word) in SYNONYM_NOUNS] for each in (positive, negative)]
        assert nouns[0] == nouns[1][::-1]
        assert THING[nouns[0][0]] != THING[nouns[0][1]]


def test_no_who_what_and_whom_is_in_two_splits():
    found = {
        split: {
            tuple(row for row in meant(triple.anchor) if row in SYNONYM_NOUNS or row in SYNONYM_VERBS)
            for triple in RoleTriples(split, size=400)
        }
        for split in ("train", "validation", "test")
    }
    assert not found["train"] & found["test"]
    assert not found["train"] & found["validation"]
    assert RoleTriples("test", size=9)[4] == RoleTriples("test", size=99)[4]


def test_every_word_is_one_thing():
    assert len(THING) == 3 * (len(SYNONYM_NOUNS) + len(SYNONYM_VERBS) + len(SYNONYM_ADJECTIVES) + len(SYNONYM_ADVERBS))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="test"):
        RoleTriples("tests")
    with pytest.raises(InputError, match="negative"):
        RoleTriples(size=-3)
