"""Which examples are shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.prompting import Example, Shots

TRAIN = [Example({"n": n}) for n in range(12)]


def numbers(shots: Shots, place: int, tested: Example) -> list[int]:
    return [each.fields["n"] for each in shots.of(place, tested)]


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 11), seed=st.integers(0, 99), draw=st.sampled_from(["once", "each"]), place=st.integers(0, 11)
)
def test_so_many_none_twice_and_never_the_tested_one(count, seed, draw, place):
    found = numbers(Shots(train=TRAIN, count=count, seed=seed, sample=draw), place, Example({"n": place}, "elsewhere"))
    assert len(set(found)) == count
    assert place not in found


def test_once_shows_the_same_to_all_and_each_does_not():
    other = Example({"n": -1})
    once, each = (Shots(train=TRAIN, count=3, seed=1, sample=draw) for draw in ("once", "each"))
    assert len({tuple(numbers(once, place, other)) for place in range(9)}) == 1
    assert len({tuple(numbers(each, place, other)) for place in range(9)}) > 5
    assert numbers(once, 0, other) != numbers(Shots(train=TRAIN, count=3, seed=2), 0, other)
    fewer = Shots(train=TRAIN, count=2, seed=1)
    assert numbers(once, 0, other)[:2] == numbers(fewer, 0, other)


def test_too_few_to_draw_from():
    with pytest.raises(InputError, match="13 shots are asked for, and there are 12"):
        Shots(train=TRAIN, count=13)
    with pytest.raises(InputError, match=r"a\.tsv, line 4: 12 shots are asked for, and 11 training examples differ"):
        Shots(train=TRAIN, count=12).of(0, Example({"n": 4}, "a.tsv, line 4"))
    with pytest.raises(InputError, match="shots is -1"):
        Shots(train=TRAIN, count=-1)
