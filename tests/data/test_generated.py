"""What all builtin data that is drawn shares."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.generated import SPLITS, Generated, below, one_of, split_of


class Throws(Generated[int]):
    called: ClassVar[str] = "throws"
    noun: ClassVar[str] = "throw"

    def __init__(self, split: str = "train", *, sides: int = 6, size: int = 100, seed: int = 0) -> None:
        super().__init__(split, size=size, seed=seed)
        self.sides = sides

    def sample(self, rng: Random) -> int:
        return 1 + below(rng, self.sides)


@given(st.integers(0, 30), st.slices(30))
def test_it_is_a_sequence_like_a_list(size, part):
    throws = Throws(size=size)
    assert list(throws) == [throws[place] for place in range(size)]
    assert throws[part] == list(throws)[part]
    assert len(throws) == size
    assert list(reversed(throws)) == list(throws)[::-1]


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 99))
def test_an_example_does_not_hang_on_the_size(one, other, seed):
    least = min(one, other)
    assert Throws(size=one, seed=seed)[:least] == Throws(size=other, seed=seed)[:least]


def test_seeds_and_splits_give_others():
    drawn = {tuple(Throws(split, seed=seed)) for split in SPLITS for seed in range(3)}
    assert len(drawn) == 9


@pytest.mark.parametrize("index", [100, -101])
def test_there_is_no_example_beyond_the_ends(index):
    with pytest.raises(IndexError, match=f"throws: no throw {index} among 100"):
        Throws()[index]


def test_its_repr_makes_it_again():
    throws = Throws("test", sides=20, size=7, seed=3)
    assert repr(throws) == "Throws('test', sides=20, size=7, seed=3)"
    assert list(eval(repr(throws))) == list(throws)


@pytest.mark.parametrize(("split", "size", "says"), [("tset", 1, "no split 'tset'.*test"), ("test", -1, "got -1")])
def test_an_unknown_split_and_a_negative_size_are_refused(split, size, says):
    with pytest.raises(regard.InputError, match=f"throws: .*{says}"):
        Throws(split, size=size)


@given(st.integers(1, 1000), st.integers(0, 2**32))
def test_what_is_drawn_is_one_of_them(count, seed):
    assert 0 <= below(Random(seed), count) < count
    assert one_of(Random(seed), range(count)) == below(Random(seed), count)


def test_eight_tenths_of_all_texts_are_to_learn_from():
    found = [split_of(f"text {number}") for number in range(5_000)]
    shares = [found.count(split) / len(found) for split in SPLITS]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
