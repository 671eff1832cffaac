"""Masking: the counts exact, the shares within their binomial bounds, and what it is a function of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.pretraining import Masking
from regard.errors import InputError
from regard.text import Tokenizer

WORDS = [f"{a}{b}" for a in "abcdefgh" for b in "klmnopqr"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(f"##{word}" for word in WORDS)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocabulary(PIECES)


def text(length: int, seed: int = 0, *, words: int | None = None) -> np.ndarray:
    """[CLS] pieces [SEP] pieces [SEP], `length` in all."""
    last = 5 + (words or len(PIECES) - 5)
    ids = np.random.default_rng(seed).integers(5, last, length)
    ids[[0, length // 2, length - 1]] = [2, 3, 3]
    return ids


def within(count: int, total: int, share: float) -> bool:
    """Within five standard deviations of a binomial."""
    return abs(count - share * total) <= 5 * math.sqrt(total * share * (1 - share))


@pytest.mark.parametrize(
    ("length", "settings", "count"),
    [
        (128, {}, 19),
        (128, {"maximum_predictions": 10}, 10),
        (512, {"maximum_predictions": 20}, 20),
        (512, {}, 77),
        (8, {}, 1),
        (5, {}, 1),
        (10, {}, 2),  # round(1.5)
        (20, {"chosen_share": 1.0}, 17),  # all that are not special
    ],
)
def test_how_many_are_chosen(tokenizer, length, settings, count):
    masking = Masking(**settings)
    ordinary = length - 3
    assert masking.counts(np.array([length]), np.array([ordinary])).tolist() == [count]
    hidden = masking.hide(tokenizer, [text(length)], [0])
    assert len(hidden.places[0]) == count


def test_special_tokens_are_never_hidden_and_never_put_in(tokenizer):
    texts = [text(40, row) for row in range(200)]
    for row in texts:
        row[5] = tokenizer.unknown_id
    hidden = Masking(chosen_share=0.6, mask_share=0.2, random_share=0.8).hide(tokenizer, texts, range(200), draw=0)
    for before, after, places in zip(texts, hidden.texts, hidden.places, strict=True):
        assert not np.isin(before[places], list(tokenizer.special_ids)).any()
        assert set(after[places]) & set(tokenizer.special_ids) <= {tokenizer.mask_id}
        untouched = np.setdiff1d(np.arange(len(before)), places)
        assert (before[untouched] == after[untouched]).all()


@pytest.mark.parametrize(("mask", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.3, 0.3), (0.0, 0.0)])
def test_what_takes_the_place_follows_the_shares(tokenizer, mask, random):
    texts = [text(128, row) for row in range(400)]
    hidden = Masking(mask_share=mask, random_share=random).hide(tokenizer, texts, range(400), draw=3)
    before = np.concatenate([one[places] for one, places in zip(texts, hidden.places, strict=True)])
    after = np.concatenate([one[places] for one, places in zip(hidden.texts, hidden.places, strict=True)])
    total, ordinary = len(before), len(PIECES) - 5
    assert total == 400 * 19
    masked, changed = after == tokenizer.mask_id, (after != before) & (after != tokenizer.mask_id)
    assert within(int(masked.sum()), total, mask)
    # A random token is the same as before once in as many times as there are tokens.
    assert within(int(changed.sum()), total, random * (1 - 1 / ordinary))
    if random:
        drawn = np.bincount(after[changed], minlength=len(PIECES))[5:]
        assert (drawn > 0).all()
        assert all(within(int(count), int(changed.sum()), 1 / ordinary) for count in drawn)


def test_every_place_is_chosen_as_often_as_another(tokenizer):
    rows = 3000
    hidden = Masking().hide(tokenizer, [text(32)] * rows, range(rows), draw=1)
    counts = np.bincount(np.concatenate(hidden.places), minlength=32)
    assert counts[[0, 16, 31]].tolist() == [0, 0, 0]
    others = np.delete(counts, [0, 16, 31])
    assert others.sum() == rows * 5  # round(0.15 * 32)
    assert all(within(int(count), rows, 5 / 29) for count in others)


def test_it_is_a_function_of_seed_draw_and_row_alone(tokenizer):
    texts = [text(50, row) for row in range(8)]
    masking = Masking(seed=4)

    def places(rows, draw, masking=masking):
        return [one.tolist() for one in masking.hide(tokenizer, [texts[row] for row in rows], rows, draw=draw).places]

    together = places(range(8), 5)
    assert places([6, 2], 5) == [together[6], together[2]]
    assert places(range(8), 5) == together
    assert places(range(8), 6) != together
    assert places(range(8), None) == places(range(8), None) != together
    assert places(range(8), 5, Masking(seed=5)) != together
    assert len({tuple(one) for one in places(range(8), 5)}) > 6


def test_static_masks_are_the_same_in_every_epoch(tokenizer):
    texts, static = [text(60, row) for row in range(5)], Masking(static=True, seed=2)
    one, other = (static.hide(tokenizer, texts, range(5), draw=draw) for draw in (0, 7))
    assert all((a == b).all() for a, b in zip(one.texts, other.texts, strict=True))


@settings(max_examples=40, deadline=None)
@given(length=st.integers(5, 80), seed=st.integers(0, 99), share=st.sampled_from([0.15, 0.4]))
def test_whole_words_are_hidden_whole(tokenizer, length, seed, share):
    ids = text(length, seed)
    hidden = Masking(chosen_share=share, whole_words=True, seed=seed).hide(tokenizer, [ids], [0])
    continues, chosen = tokenizer.continues(ids), set(hidden.places[0].tolist())
    words: list[list[int]] = []
    for place in np.flatnonzero(~np.isin(ids, list(tokenizer.special_ids))):
        if continues[place]:
            words[-1].append(int(place))
        else:
            words.append([int(place)])
    for word in words:
        assert chosen.issuperset(word) or chosen.isdisjoint(word)
    aimed = int(Masking(chosen_share=share).counts(np.array([length]), np.array([length - 3]))[0])
    longest = max(map(len, words))
    assert 1 <= len(chosen) <= max(aimed, longest)


def test_whole_words_hide_as_many_where_words_are_short(tokenizer):
    texts = [text(100, row, words=64) for row in range(50)]  # no piece goes on
    hidden = Masking(whole_words=True).hide(tokenizer, texts, range(50))
    assert {len(places) for places in hidden.places} == {15}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chosen_share": 0.0}, "data.chosen_share"),
        ({"mask_share": 0.9, "random_share": 0.2}, "at most 1"),
        ({"random_share": -0.1}, "data.random_share"),
        ({"maximum_predictions": 0}, "data.maximum_predictions"),
    ],
)
def test_shares_that_are_none(settings, message):
    with pytest.raises(InputError, match=message):
        Masking(**settings)


def test_a_tokenizer_without_a_mask(tokenizer):
    words = Tokenizer.train(["a b c"], kind="word", size=9)
    with pytest.raises(InputError, match="no mask token"):
        Masking().hide(words, [np.array([2, 3])], [0])
