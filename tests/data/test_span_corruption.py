"""Span corruption: counts exact, texts restored, every way to cut as probable as another, and what it is a function of."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.pretraining import Corrupted, SpanCorruption, spans_of_target
from regard.errors import InputError

SENTINELS = tuple(range(1099, 999, -1))
"""As in T5 the first to be used has the highest id."""

DENSITIES = st.sampled_from([0.15, 0.3, 0.5, 0.9])
MEANS = st.sampled_from([1.0, 2.0, 3.0, 10.0])


def text(length: int, first: int = 0) -> np.ndarray:
    """Tokens that are all different, so that each tells where it stood."""
    return np.arange(first, first + length, dtype=np.uint16)


def one(length: int, **settings) -> Corrupted:
    return SpanCorruption(**settings).corrupt([text(length)], [0], SENTINELS)[0]


def official(tokens: list[int], noise: list[bool]) -> tuple[list[int], list[int]]:
    """noise_span_to_unique_sentinel and nonnoise_span_to_unique_sentinel of the authors' preprocessors.py, as loops."""

    def replaced(mask: list[bool]) -> list[int]:
        made, sentinel = [], iter(SENTINELS)
        for place, (token, gone) in enumerate(zip(tokens, mask, strict=True)):
            if not gone:
                made.append(token)
            elif place == 0 or not mask[place - 1]:
                made.append(next(sentinel))
        return made

    return replaced(noise), replaced([not each for each in noise])


def noise_of(parts: Corrupted, length: int) -> list[bool]:
    kept = set(parts.input.tolist())
    return [place not in kept for place in range(length)]


@pytest.mark.parametrize(
    ("inputs", "raw", "targets", "noise", "spans"),
    [(512, 568, 114, 85, 28), (128, 141, 29, 21, 7), (1024, 1137, 229, 171, 57)],
)
def test_counts_of_published_and_other_lengths(inputs, raw, targets, noise, spans):
    corruption = SpanCorruption()
    assert corruption.stretch(inputs) == raw
    assert [each.tolist() for each in corruption.counts(np.array([raw]))] == [[noise], [spans]]
    assert corruption.lengths(np.array([raw])).tolist() == [[inputs, targets]]
    parts = one(raw)
    # The end tokens are the task's.
    assert (len(parts.input) + 1, len(parts.target) + 1) == (inputs, targets)


def test_a_target_is_a_fifth_of_its_text():
    """Which is why training on spans is cheap: the decoder writes a fifth of what it would have to for the whole text."""
    read, told = SpanCorruption().lengths(np.array([568]))[0].tolist()
    assert 568 / (told - 1) > 4.5
    assert read > 4 * told


@given(length=st.integers(2, 300), density=DENSITIES, mean=MEANS, seed=st.integers(0, 50), draw=st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_input_and_target_together_are_the_text(length, density, mean, seed, draw):
    corruption = SpanCorruption(density=density, mean_span=mean, seed=seed)
    noise, spans = (int(each[0]) for each in corruption.counts(np.array([length])))
    if spans > len(SENTINELS):
        return
    parts = corruption.corrupt([text(length)], [3], SENTINELS, draw=draw)[0]
    told = spans_of_target(parts.target, SENTINELS)
    whole = [
        each
        for token in parts.input.tolist()
        for each in (told[SENTINELS.index(token)] or [] if token in SENTINELS else [token])
    ]
    assert whole == list(range(length))
    gone = noise_of(parts, length)
    assert sum(gone) == noise
    assert sum(now and not before for before, now in zip([False, *gone], gone, strict=False)) == spans
    assert not gone[0]  # a text begins with what is kept and ends with what is not,
    assert gone[-1]  # so that no sentinel closes a target
    assert (parts.input.tolist(), parts.target.tolist()) == official(list(range(length)), gone)
    assert parts.target[0] == SENTINELS[0]
    assert parts.target[-1] not in SENTINELS


@given(length=st.integers(2, 2000), density=DENSITIES, mean=MEANS)
@settings(max_examples=200, deadline=None)
def test_counts_are_the_equation_within_what_a_text_can_have(length, density, mean):
    noise, spans = (int(each[0]) for each in SpanCorruption(density=density, mean_span=mean).counts(np.array([length])))
    assert noise == min(max(round(length * density), 1), length - 1)
    assert spans == max(1, min(round(noise / mean), noise, length - noise))


def test_all_ways_to_cut_are_as_probable():
    """Of 10 tokens 4 go in 2 spans: 3 ways to cut these, and 5 to cut the 6 that stay."""
    rows = 4_000
    corruption = SpanCorruption(density=0.4, mean_span=2.0)
    found = corruption.corrupt([text(10)] * rows, range(rows), SENTINELS, draw=1)
    counts = Counter(tuple(noise_of(each, 10)) for each in found)
    assert len(counts) == 15
    share = 1 / 15
    assert all(abs(count - rows * share) <= 5 * math.sqrt(rows * share * (1 - share)) for count in counts.values())


def test_spans_are_of_the_mean_length_asked_for():
    found = SpanCorruption(mean_span=3.0).corrupt([text(568)] * 50, range(50), SENTINELS)
    lengths = [len(span) for each in found for span in spans_of_target(each.target, SENTINELS) if span is not None]
    assert sum(lengths) / len(lengths) == pytest.approx(85 / 28)
    assert set(lengths) >= {1, 2, 3, 4, 5, 6}


def test_it_is_a_function_of_seed_draw_and_row_alone():
    texts = [text(60, row) for row in range(8)]

    def inputs(rows, draw, **settings):
        found = SpanCorruption(**({"seed": 4} | settings)).corrupt(
            [texts[row] for row in rows], rows, SENTINELS, draw=draw
        )
        return [each.input.tolist() for each in found]

    together = inputs(range(8), 5)
    assert inputs([6, 2], 5) == [together[6], together[2]]
    assert inputs(range(8), 6) != together
    assert inputs(range(8), None) == inputs(range(8), None) != together
    assert inputs(range(8), 5, seed=5) != together
    assert inputs(range(8), 5, static=True) == inputs(range(8), 6, static=True)


def test_too_few_sentinels_are_told_before_anything_is_made():
    with pytest.raises(InputError, match="568 tokens has 28 removed spans, and the tokenizer has 20 sentinels"):
        SpanCorruption().corrupt([text(568)], [0], SENTINELS[:20])
    SpanCorruption().corrupt([text(568)], [0], SENTINELS[:28])


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"density": 0.0}, "density"), ({"density": 1.0}, "density"), ({"mean_span": 0.5}, "mean_span")],
)
def test_shares_that_are_none(settings, name):
    with pytest.raises(InputError, match=f"data.{name}"):
        SpanCorruption(**settings)


def test_what_a_model_writes_in_disorder_is_read_as_far_as_it_goes():
    assert spans_of_target([7, 1099, 5, 1097, 1099, 6], SENTINELS[:3]) == [[5], None, []]
    assert spans_of_target([], SENTINELS[:2]) == [None, None]
