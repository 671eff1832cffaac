"""Shares to the power S, exactly, the same for the same seed, and nothing twice before everything once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.running_text import read_texts
from regard.errors import InputError
from regard.text.sampling import sampled, smoothed

SIZES = {"en": 600, "de": 300, "is": 30}
TEXTS = {name: [f"{name} {number}" for number in range(size)] for name, size in SIZES.items()}
sizes = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1)


def counted(**keywords) -> Counter[str]:
    return Counter(name for name, _ in sampled(TEXTS, **keywords))


def test_shares_are_raised_to_the_power_and_normalised() -> None:
    assert smoothed(SIZES, 1) == pytest.approx({"en": 600 / 930, "de": 300 / 930, "is": 30 / 930})
    assert smoothed(SIZES, 0) == pytest.approx(dict.fromkeys(SIZES, 1 / 3))
    powers = {name: (size / 930) ** 0.7 for name, size in SIZES.items()}
    total = sum(powers.values())
    assert smoothed(SIZES, 0.7) == pytest.approx({name: power / total for name, power in powers.items()})
    # English at a fifth of the data, as in the authors' example, has less of it, and the smallest language more.
    assert smoothed({"en": 21, "is": 1, "rest": 78}, 0.7)["is"] > 0.01
    assert smoothed({"en": 1e300, "is": 1.0}, 1)["is"] == pytest.approx(1e-300)


def test_an_exponent_of_one_gives_every_text_once() -> None:
    found = list(sampled(TEXTS, exponent=1, seed=3))
    assert found == [(name, text) for name, each in TEXTS.items() for text in each]


@given(sizes=sizes, exponent=st.floats(0, 2), seed=st.integers(0, 2**31), wanted=st.integers(1, 200))
@settings(max_examples=80, deadline=None)
def test_every_language_has_its_share_and_its_texts_are_used_evenly(sizes, exponent, seed, wanted) -> None:
    texts = {name: [f"{name}{number}" for number in range(size)] for name, size in sizes.items()}
    found = list(sampled(texts, exponent=exponent, seed=seed, size=wanted))
    assert len(found) == wanted
    counts = Counter(name for name, _ in found)
    for name, share in smoothed(sizes, exponent).items():
        assert abs(counts[name] - share * wanted) < 1
        used = Counter(dict.fromkeys(texts[name], 0))
        used.update(text for language, text in found if language == name)
        assert used.keys() == set(texts[name])
        assert max(used.values()) - min(used.values()) <= 1


def test_the_seed_decides_which_texts() -> None:
    one, same, other = (list(sampled(TEXTS, exponent=0.5, seed=seed)) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert Counter(name for name, _ in one) == Counter(name for name, _ in other)
    # Of what is left out every part of a language has its share, not the end alone.
    kept = [int(text.split()[1]) for name, text in one if name == "en"]
    assert 0.4 < sum(number < 300 for number in kept) / len(kept) < 0.6


def test_small_languages_gain_as_the_exponent_falls() -> None:
    found = [counted(exponent=exponent)["is"] for exponent in (1, 0.7, 0.3, 0)]
    assert found == sorted(found)
    assert found[0] == 30
    assert found[-1] == 310
    assert sum(counted(exponent=0.7, size=50).values()) == 50


def test_files_are_read_in_a_stream_and_the_names_order_is_kept(tmp_path) -> None:
    for name, size in SIZES.items():
        (tmp_path / name).write_text("".join(f"{name} {number}\n" for number in range(size)))
    files = {name: (lambda path: lambda: read_texts(path))(tmp_path / name) for name in SIZES}
    for exponent in (0, 0.7, 1):
        assert list(sampled(files, exponent=exponent, seed=5)) == list(sampled(TEXTS, exponent=exponent, seed=5))


@pytest.mark.parametrize(
    ("texts", "settings", "says"),
    [
        ({}, {"exponent": 1}, "no language to sample from"),
        ({"en": []}, {"exponent": 1}, "'en' has the size 0; every language needs some text"),
        ({"en": ["a"]}, {"exponent": -1}, "exponent is -1; give one from 0"),
        ({"en": ["a"]}, {"exponent": float("nan")}, "exponent is nan"),
        ({"en": ["a"]}, {"exponent": 1, "size": 0}, "size is 0"),
        ({"en": "a dog"}, {"exponent": 1}, "the texts of 'en' can be read only once"),
        ({"en": iter(["a"])}, {"exponent": 1}, "give a list, or a function that opens them again"),
    ],
)
def test_mistakes_are_one_sentence(texts, settings, says) -> None:
    with pytest.raises(InputError, match=says):
        list(sampled(texts, **settings))


def test_a_stream_that_is_used_up_is_told() -> None:
    once = iter(["a", "b", "c"])
    with pytest.raises(InputError, match="the texts of 'en' were 3 in the first pass and 0 in the second"):
        list(sampled({"en": lambda: once}, exponent=1))
