"""ROUGE against its definition, written out."""

from __future__ import annotations

from collections import Counter

import pytest

from regard.errors import InputError
from regard.metrics.answers import rouge_scores

pytest.importorskip("rouge_score")

TEXTS = ["the dog runs in the big park", "a bird", "one two three four", "nothing here"]
REFERENCES = ["a dog runs in a park", "the bird", "four three two one", "all is new"]


def longest_common(one: list[str], other: list[str]) -> int:
    """Of subsequences, by its recurrence."""
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return longest_common(one[:-1], other[:-1]) + 1
    return max(longest_common(one[:-1], other), longest_common(one, other[:-1]))


def f_of(overlap: int, said: int, right: int) -> float:
    return 0.0 if not overlap else 2 * (overlap / said) * (overlap / right) / (overlap / said + overlap / right)


def grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def by_hand(text: str, reference: str) -> dict[str, float]:
    """For words that Porter's stemmer leaves alone."""
    said, right = text.split(), reference.split()
    found = {}
    for n in (1, 2):
        one, other = grams(said, n), grams(right, n)
        found[f"rouge{n}"] = f_of((one & other).total(), one.total(), other.total())
    found["rougeL"] = f_of(longest_common(said, right), len(said), len(right))
    return found


def test_scores_are_those_of_the_definition():
    plain = [("one two four", "four two one"), ("a dog in a park", "a big dog in the park"), ("x", "y")]
    hands = [by_hand(text, reference) for text, reference in plain]
    found = rouge_scores([text for text, _ in plain], [[reference] for _, reference in plain])
    for name, value in found.items():
        assert value == pytest.approx(100 * sum(hand[name] for hand in hands) / len(hands))


def test_of_several_references_the_best_counts_and_case_and_endings_do_not():
    assert rouge_scores(["The dogs run"], [["cats", "the dog runs"]])["rouge1"] == pytest.approx(100)
    alone = rouge_scores(TEXTS, [[each] for each in REFERENCES])
    more = rouge_scores(TEXTS, [["nothing of it", each] for each in REFERENCES])
    assert all(more[name] >= alone[name] for name in alone)


def test_nothing_to_score():
    with pytest.raises(InputError, match="no text to score"):
        rouge_scores([], [])
