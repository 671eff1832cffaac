"""Builtin sequence problems: the right answers, the same for everybody, and no source in two splits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.generated import SPLITS
from regard.data.sequences import KINDS, Sequences, dictionary
from regard.errors import InputError

problems = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "symbols": st.integers(8, 40),
        "shortest": st.integers(4, 6),
        "longest": st.integers(6, 8),
        "size": st.integers(1, 40),
        "seed": st.integers(0, 2**40),
    }
)


def numbers(text: str) -> list[int]:
    return [int(symbol[1:]) for symbol in text.split()]


def answer(kind: str, source: str, symbols: int) -> str:
    """What the target has to be, worked out from the source alone."""
    words = source.split()
    book = dictionary(symbols)
    match kind:
        case "copy":
            return source
        case "reversal":
            return " ".join(reversed(words))
        case "sorting":
            return " ".join(sorted(words, key=lambda word: int(word[1:])))
        case "dictionary":
            return " ".join(f"t{book[n - 1]}" for n in numbers(source))
        case "reversed_dictionary":
            return " ".join(f"t{book[n - 1]}" for n in reversed(numbers(source)))
        case "recall":
            return words[0]
        case _:
            *pairs, asked = words
            return dict(zip(pairs[::2], pairs[1::2], strict=True))[asked]


@given(problem=problems, split=st.sampled_from(SPLITS))
@settings(max_examples=60, deadline=None)
def test_every_answer_is_right_and_every_length_in_range(problem, split):
    made = Sequences(split, **problem)
    known = [set(text.split()) for text in made.alphabet()]
    for source, target in made:
        assert target == answer(problem["kind"], source, problem["symbols"])
        assert set(source.split()) <= known[0]
        assert set(target.split()) <= known[1]
        length = len(source.split())
        if problem["kind"] == "association":
            keys = source.split()[:-1:2]
            assert len(set(keys)) == len(keys)
            length = len(keys)
        elif problem["kind"] == "recall":
            length -= 1
        assert problem["shortest"] <= length <= problem["longest"]


@given(problem=problems, split=st.sampled_from(SPLITS), more=st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_an_example_is_a_function_of_seed_and_index_alone(problem, split, more):
    made = Sequences(split, **problem)
    longer = Sequences(split, **(problem | {"size": problem["size"] + more}))
    last = problem["size"] - 1
    assert longer[last] == made[last] == made[-1] == list(made)[last] == made[last:][0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_source_is_in_two_splits_whatever_seed_size_and_lengths(kind):
    """Small enough that the splits would meet, were they drawn apart only by their seeds."""
    common = {"kind": kind, "symbols": 5, "longest": 4}
    seen = {
        split: {
            source
            for seed, shortest in ((0, 3), (1, 4), (2, 2))
            for source, _ in Sequences(split, seed=seed, shortest=shortest, size=60, **common)
        }
        for split in SPLITS
    }
    assert all(len(sources) > 20 for sources in seen.values())
    assert seen["train"].isdisjoint(seen["validation"] | seen["test"])
    assert seen["validation"].isdisjoint(seen["test"])


def test_seeds_differ_and_lengths_are_uniform():
    one, other = (Sequences(kind="copy", shortest=3, longest=7, size=2000, seed=seed) for seed in (0, 1))
    assert one[:20] != other[:20]
    lengths = [len(source.split()) for source, _ in one]
    for length in range(3, 8):
        assert lengths.count(length) == pytest.approx(400, abs=100)


def test_the_texts_are_those_of_every_other_machine():
    """Chance comes from Python's generator and from BLAKE2, whose numbers are promised."""
    assert Sequences(kind="reversal", symbols=9, shortest=4, longest=6)[0] == ("s5 s1 s3 s2", "s2 s3 s1 s5")
    assert dictionary(6) == (5, 4, 2, 3, 6, 1)
    assert (
        Sequences("test", kind="association", symbols=9, shortest=2, longest=3, seed=5)[1].source
        == "k7 v7 k2 v1 k1 v9 k1"
    )


def test_the_dictionary_maps_one_to_one_and_is_not_the_identity():
    for size in (2, 17, 40):
        assert sorted(dictionary(size)) == list(range(1, size + 1))
    assert dictionary(40) != tuple(range(1, 41))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "training"}, "no split 'training'; did you mean 'train'"),
        ({"kind": "reverse"}, "no kind 'reverse'; did you mean 'reversal'"),
        ({"symbols": 1}, "symbols is 1; give at least 2"),
        ({"shortest": 0}, "lengths from 0 to 12"),
        ({"shortest": 13}, "lengths from 13 to 12"),
        ({"size": -1}, "size must not be negative"),
        ({"kind": "association", "symbols": 11}, "12 pairs need as many different keys, and symbols is 11"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Sequences(**wrong)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(20)
def test_too_few_sources_are_refused_at_once(kind):
    """Never a hang, and never the same few sources over and over."""
    few = {"kind": kind, "symbols": 3, "shortest": 1, "longest": 2}
    with pytest.raises(
        InputError, match=r"only about \d+ different sources .* 5000 are needed; raise symbols or longest"
    ):
        Sequences("train", size=5000, **few)
    assert len(list(Sequences("train", size=2, **few))) == 2


def test_the_count_of_sources_is_exact():
    # 3^2 = 9 sources of two symbols, 3^3 of three: 36 in all, of which 28.8 are eight tenths.
    common = {"kind": "copy", "symbols": 3, "shortest": 2, "longest": 3}
    assert len(Sequences("train", size=28, **common)) == 28
    with pytest.raises(InputError, match="about 28"):
        Sequences("train", size=29, **common)
    # Two keys out of two in order, a value out of two for each, one of them asked for: 2 * 2^2 * 2 = 16; recall has 2 * 2^1.
    with pytest.raises(InputError, match="about 12 "):
        Sequences("train", kind="association", symbols=2, shortest=2, longest=2, size=13)
    with pytest.raises(InputError, match="about 3 "):
        Sequences("train", kind="recall", symbols=2, shortest=1, longest=1, size=4)


@pytest.mark.timeout(20)
def test_numbers_beyond_measure_are_no_trouble():
    assert len(Sequences(symbols=10**6, shortest=5, longest=10**9, size=10**8)) == 10**8


def test_an_index_that_is_not_there():
    made = Sequences(size=3)
    with pytest.raises(IndexError):
        made[3]
    with pytest.raises(IndexError):
        made[-4]
