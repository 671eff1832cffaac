"""Texts of one map each: every image is that of its symbol, and no map is in two splits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.generated import SPLITS
from regard.data.sequences import Maps
from regard.errors import InputError

numbers = st.fixed_dictionaries(
    {
        "symbols": st.integers(3, 9),
        "pairs": st.integers(1, 20),
        "size": st.integers(1, 9),
        "seed": st.integers(0, 2**40),
    }
)


@given(given_numbers=numbers, split=st.sampled_from(SPLITS))
@settings(max_examples=50, deadline=None)
def test_a_text_is_the_pairs_of_one_map(given_numbers, split):
    texts = Maps(split, **given_numbers)
    for index, text in enumerate(texts):
        words = text.split()
        pairs = list(zip(words[::2], words[1::2], strict=True))
        assert pairs == texts.pairs_of(index)
        assert len(pairs) == given_numbers["pairs"]
        assert len(set(pairs)) == len({x for x, _ in pairs})
        allowed = range(1, given_numbers["symbols"] + 1)
        assert all(x[0] == "a" and y[0] == "b" and {int(x[1:]), int(y[1:])} <= set(allowed) for x, y in pairs)


def test_no_map_is_in_two_splits_and_texts_are_the_same_for_everybody():
    maps = {}
    for split in SPLITS:
        texts = Maps(split, symbols=3, pairs=60, size=200, seed=SPLITS.index(split))
        found = [dict(texts.pairs_of(i)) for i in range(len(texts))]
        maps[split] = {tuple(sorted(each.items())) for each in found if len(each) == 3}
        assert texts[:3] == Maps(split, symbols=3, pairs=60, size=3, seed=SPLITS.index(split))[:]
    assert all(maps.values())
    assert not (maps["train"] & maps["test"])
    assert not (maps["train"] & maps["validation"])
    assert not (maps["validation"] & maps["test"])


def test_as_many_as_can_be_told_are_as_many_as_it_says():
    """1 - (1 - 1/n)^(k+1): the image was seen, or is guessed."""
    texts = Maps("test", symbols=4, pairs=6, size=4000)
    for k in (0, 1, 5):
        told = 0.0
        for i in range(len(texts)):
            pairs = texts.pairs_of(i)
            told += 1.0 if pairs[k][0] in {x for x, _ in pairs[:k]} else 1 / 4
        assert told / len(texts) == pytest.approx(1 - 0.75 ** (k + 1), abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "no split 'dev'"),
        ({"symbols": 2}, "symbols is 2; give at least 3"),
        ({"pairs": 0}, "pairs is 0"),
        ({"size": -1}, "got -1"),
    ],
)
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(InputError, match=message):
        Maps(**arguments)
    with pytest.raises(IndexError):
        Maps(size=3)[3]
