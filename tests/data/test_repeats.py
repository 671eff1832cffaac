"""Texts that say everything twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.sequences import Repeats
from regard.errors import InputError


@settings(max_examples=30, deadline=None)
@given(symbols=st.integers(2, 40), length=st.integers(1, 70), index=st.integers(0, 10_000), seed=st.integers(0, 9))
def test_a_text_is_a_row_of_symbols_said_twice(symbols, length, index, seed):
    words = Repeats(symbols=symbols, length=length, size=10_001, seed=seed)[index].split()
    assert words[0] == "0"
    assert words == words[: length + 1] * 2
    assert len(words) == 2 * length + 2
    assert set(words[1 : length + 1]) <= {f"s{number}" for number in range(1, symbols + 1)}


def test_every_symbol_is_as_likely_and_no_text_hangs_on_another():
    texts = Repeats(symbols=4, length=50, size=200)
    words = [word for text in texts for word in text.split()[1:51]]
    assert all(2300 < words.count(f"s{number}") < 2700 for number in (1, 2, 3, 4))
    assert Repeats(symbols=4, length=50, size=7)[3] == texts[3]
    assert texts[-1] == texts[199]
    assert texts[2:4] == [texts[2], texts[3]]


def test_splits_and_seeds_are_other_texts():
    drawn = [
        Repeats(split, length=20, size=5, seed=seed)[0] for split in ("train", "validation", "test") for seed in (0, 1)
    ]
    assert len(set(drawn)) == 6


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"split": "tests"}, "test"),
        ({"symbols": 1}, "2 symbols"),
        ({"length": 0}, "length"),
        ({"size": -1}, "negative"),
    ],
)
def test_what_cannot_be_is_refused(wrong, told):
    with pytest.raises(InputError, match=told):
        Repeats(**wrong)


def test_there_is_no_text_beyond_the_last():
    with pytest.raises(IndexError):
        Repeats(size=3)[3]
