"""BART's noise: counts exact, what stays in its order, masks for spans of any length, and what it is a function of."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.denoising import Denoising, infilled, permuted_sentences, sentence_ends, span_lengths
from regard.errors import InputError

MASK = 9999


def text(length: int, first: int = 0) -> np.ndarray:
    """Tokens that are all different, so that each tells where it stood."""
    return np.arange(first, first + length, dtype=np.uint16)


def chances(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(length=st.integers(0, 300), density=st.sampled_from([0.0, 0.15, 0.3, 0.9]), seed=st.integers(0, 50))
@settings(max_examples=150, deadline=None)
def test_exactly_so_many_tokens_go_and_the_others_keep_their_order(length, density, seed):
    noising = Denoising(density=density, permute=False, seed=seed)
    noisy = noising.corrupt([text(length)], [3], mask=MASK, draw=1)[0]
    kept = noisy[noisy != MASK].tolist()
    assert len(kept) == length - round(density * length)
    assert kept == sorted(kept)
    assert len(noisy) <= length
    if round(density * length) == 0:
        assert noisy.tolist() == list(range(length))


@given(noise=st.integers(0, 200), mean=st.sampled_from([1.0, 3.0, 10.0]), seed=st.integers(0, 50))
@settings(max_examples=150, deadline=None)
def test_spans_have_the_tokens_asked_for(noise, mean, seed):
    lengths = span_lengths(noise, mean, chances(seed))
    assert lengths.sum() == noise
    assert (lengths >= 0).all()
    assert len(lengths) <= noise


@given(lengths=st.lists(st.integers(0, 5), max_size=8), kept=st.integers(0, 20), seed=st.integers(0, 50))
@settings(max_examples=150, deadline=None)
def test_one_mask_stands_for_each_span(lengths, kept, seed):
    spans = np.array(lengths, dtype=np.int64)
    noisy = infilled(text(kept + int(spans.sum())), spans, MASK, chances(seed))
    assert int((noisy == MASK).sum()) == len(lengths)
    assert len(noisy) == kept + len(lengths)
    # Put the spans back, in order, and the text is there again.
    whole, left = [], list(lengths)
    for token in noisy.tolist():
        count = left.pop(0) if token == MASK else 1
        if token != MASK:
            assert token == len(whole)
        whole += range(len(whole), len(whole) + count)
    assert len(whole) == kept + sum(lengths)


def test_spans_of_length_zero_insert_masks():
    noisy = infilled(text(4), np.zeros(3, dtype=np.int64), MASK, chances(0))
    assert noisy[noisy != MASK].tolist() == [0, 1, 2, 3]
    assert len(noisy) == 7


def test_all_places_are_as_probable():
    """Two tokens stay and two spans go: 6 ways to lay them in a row."""
    rounds, generator = 3_000, chances(1)
    spans = np.array([2, 0])
    counts = Counter(tuple(infilled(text(4), spans, MASK, generator).tolist()) for _ in range(rounds))
    assert len(counts) == 6
    assert all(abs(count - rounds / 6) <= 5 * math.sqrt(rounds * 5 / 36) for count in counts.values())


def test_lengths_are_poisson():
    generator = chances(2)
    lengths = np.concatenate([span_lengths(600, 3.0, generator)[:-1] for _ in range(50)])
    assert lengths.mean() == pytest.approx(3.0, abs=0.15)
    assert lengths.var() == pytest.approx(3.0, abs=0.3)
    assert (lengths == 0).mean() == pytest.approx(math.exp(-3), abs=0.015)


@given(ids=st.lists(st.integers(0, 3), max_size=40), seed=st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_a_permutation_keeps_each_sentence_whole(ids, seed):
    tokens = np.array(ids, dtype=np.int64)

    def sentences(of):
        return Counter(tuple(each.tolist()) for each in np.split(of, sentence_ends(of, [0])[:-1]))

    moved = permuted_sentences(tokens, [0], chances(seed))
    assert sorted(moved.tolist()) == sorted(ids)
    if ids and ids[-1] == 0 and ids[0] != 0:  # else the pieces run into each other where they are laid anew
        assert sentences(moved) == sentences(tokens)


def test_all_orders_of_sentences_are_as_probable():
    rounds, generator = 3_000, chances(3)
    tokens = np.array([1, 0, 2, 0, 3, 0])
    counts = Counter(tuple(permuted_sentences(tokens, [0], generator).tolist()) for _ in range(rounds))
    assert len(counts) == 6
    assert all(abs(count - rounds / 6) <= 5 * math.sqrt(rounds * 5 / 36) for count in counts.values())


def test_it_is_a_function_of_seed_draw_and_row_alone():
    texts = [text(60, row) for row in range(8)]

    def inputs(rows, draw, **settings):
        noising = Denoising(**({"seed": 4} | settings))
        found = noising.corrupt([texts[row] for row in rows], rows, mask=MASK, separators=[20, 40], draw=draw)
        return [each.tolist() for each in found]

    together = inputs(range(8), 5)
    assert inputs([6, 2], 5) == [together[6], together[2]]
    assert inputs(range(8), 6) != together
    assert inputs(range(8), None) == inputs(range(8), None) != together
    assert inputs(range(8), 5, seed=5) != together
    assert inputs(range(8), 5, static=True) == inputs(range(8), 6, static=True)


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"density": -0.1}, "density"), ({"density": 1.0}, "density"), ({"mean_span": 0.5}, "mean_span")],
)
def test_shares_that_are_none(settings, name):
    with pytest.raises(InputError, match=f"data.{name}"):
        Denoising(**settings)
