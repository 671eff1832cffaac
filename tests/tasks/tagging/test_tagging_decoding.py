"""Tags that keep the rules, and are the best that do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tags import SCHEMES, faults
from regard.tasks.tagging_data import Transitions, all_tags

TAGS = {scheme: ("O", *all_tags("PER", scheme), *all_tags("LOC", scheme)) for scheme in SCHEMES}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_rules_are_those_by_which_faults_are_found(scheme):
    tags = TAGS[scheme]
    rules = Transitions(tags, scheme)
    for length in (1, 2, 3):
        for path in itertools.product(range(len(tags)), repeat=length):
            kept = not faults([tags[number] for number in path], scheme)
            assert rules.allows(path) == kept, [tags[number] for number in path]


@given(st.sampled_from(SCHEMES), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_path_is_the_best_of_all_that_keep_the_rules(scheme, length, seed):
    tags = TAGS[scheme][:5]
    rules = Transitions(tags, scheme)
    scores = np.random.default_rng(seed).normal(size=(length, len(tags)))
    found = rules.best(scores)
    allowed = [path for path in itertools.product(range(len(tags)), repeat=length) if rules.allows(path)]
    totals = [sum(scores[place, number] for place, number in enumerate(path)) for path in allowed]
    assert rules.allows(found)
    assert sum(scores[np.arange(length), found]) == pytest.approx(max(totals))


def test_greedy_tags_that_keep_the_rules_stay_as_they_are():
    rules = Transitions(TAGS["BIO"], "BIO")
    scores = np.eye(5)[[1, 2, 0, 3]]
    assert rules.best(scores).tolist() == [1, 2, 0, 3]


def test_one_strong_word_changes_the_tag_of_its_weak_neighbour():
    rules = Transitions(("O", "B-PER", "I-PER"), "BIO")
    scores = np.log(np.array([[0.5, 0.4, 0.1], [0.05, 0.05, 0.9]]))
    assert scores.argmax(axis=1).tolist() == [0, 2]
    assert rules.best(scores).tolist() == [1, 2]


def test_tags_without_a_scheme_stand_in_any_order():
    rules = Transitions(("I-NN", "E", "VB"), None)
    assert rules.first.all()
    assert rules.follows.all()
    assert rules.last.all()


def test_where_no_tags_keep_the_rules_the_best_of_each_word_are_taken():
    rules = Transitions(("I-PER", "I-LOC"), "BIO")
    assert rules.best(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist() == [1, 0]


def test_spans_without_a_type():
    rules = Transitions(("O", "B", "I"), "BIO")
    assert rules.allows([1, 2, 0])
    assert not rules.allows([0, 2])
