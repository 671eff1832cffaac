"""The association test against its equations, written plainly, and where words are missing."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.word_embeddings.bias import (
    NamedWords,
    association_test,
    association_test_of_texts,
    property_association,
    read_association_tests,
    sentence_means,
)
from regard.word_embeddings.bias.association import count_at_least, permutation_test
from regard.word_embeddings.store import WordVectors

SETS = {"x": 4, "y": 4, "a": 3, "b": 5}


@pytest.fixture
def drawn():
    draw = np.random.default_rng(3)
    words = tuple(f"{letter}{number}" for letter, count in SETS.items() for number in range(count))
    return WordVectors(words=words, matrix=draw.normal(size=(len(words), 6)).astype(np.float32))


def _sets(vectors):
    return [[word for word in vectors.words if word.startswith(letter)] for letter in SETS]


def _cosine(one, other) -> float:
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


def test_it_is_the_equation(drawn, make_test):
    x, y, a, b = _sets(drawn)

    def s(word):
        vector = drawn[word].astype(float)
        return np.mean([_cosine(vector, drawn[each]) for each in a]) - np.mean(
            [_cosine(vector, drawn[each]) for each in b]
        )

    values = {word: s(word) for word in x + y}
    found = association_test(drawn, make_test(x, y, a, b))
    assert found.associations == pytest.approx(values, abs=1e-6)
    total = sum(values[word] for word in x) - sum(values[word] for word in y)
    assert found.statistic == pytest.approx(total, abs=1e-6)
    assert found.to_json()["p_test"] == "one-sided permutation test, exact, all 70 partitions"
    assert found.effect_size == pytest.approx(total / 4 / np.std(list(values.values())), abs=1e-5)
    partitions = [
        sum(values[word] for word in half) - sum(values[word] for word in {*values} - {*half})
        for half in itertools.combinations(values, 4)
    ]
    assert found.p == pytest.approx(sum(each >= total - 1e-9 for each in partitions) / len(partitions))
    assert (found.permutation.method, found.permutation.partitions, found.sizes) == ("exact", 70, (4, 4, 3, 5))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=11), st.data())
def test_counting_by_halves_is_counting_all(values, data):
    size = data.draw(st.integers(0, len(values)))
    least = data.draw(st.integers(-12, 12))
    plain = sum(sum(subset) >= least for subset in itertools.combinations(values, size))
    assert count_at_least(np.array(values, dtype=float), size, least) == plain


@pytest.mark.parametrize(("first", "second"), [(2, 6), (6, 2), (5, 3), (4, 4)])
def test_the_permutation_test_counts_partitions_of_both_sizes(first, second):
    """p of the difference of means, over all ways to choose so many words for X as there are."""
    values = np.random.default_rng(first).normal(size=first + second)

    def difference(chosen) -> float:
        rest = [each for place, each in enumerate(values) if place not in chosen]
        return float(np.mean(values[list(chosen)]) - np.mean(rest))

    partitions = list(itertools.combinations(range(first + second), first))
    there = difference(tuple(range(first)))
    plain = sum(difference(chosen) >= there - 1e-12 for chosen in partitions) / len(partitions)
    exact = permutation_test(values[:first], values[first:], exact_below=10**9, samples=1, seed=0)
    assert (exact.p, exact.partitions, exact.method) == (pytest.approx(plain), len(partitions), "exact")
    sampled = permutation_test(values[:first], values[first:], exact_below=0, samples=20_000, seed=4)
    assert abs(sampled.p - plain) < 4 * sampled.standard_error


def test_few_words_against_many_are_counted_without_all_their_subsets():
    """2 words of 102 make 5,151 partitions; all subsets of half of them would be 2^51."""
    values = np.arange(102.0)[::-1]
    assert permutation_test(values[:2], values[2:], exact_below=10**9, samples=1, seed=0).p == 1 / 5151
    assert permutation_test(values[:100], values[100:], exact_below=10**9, samples=1, seed=0).p == 1 / 5151
    assert permutation_test(values[:60], values[60:], exact_below=10**40, samples=9, seed=0).method == "sampled"


def test_p_is_never_zero_and_what_is_alike_counts():
    best = permutation_test(np.array([5.0, 4.0, 3.0]), np.array([2.0, 1.0, 0.0]), exact_below=10**9, samples=10, seed=0)
    assert best.p == 1 / 20
    alike = permutation_test(np.full(3, 0.1), np.full(3, 0.1), exact_below=10**9, samples=10, seed=0)
    assert alike.p == 1.0
    falling = np.arange(12.0)[::-1]
    drawn = permutation_test(falling[:6], falling[6:], exact_below=0, samples=99, seed=0)
    assert drawn.p == pytest.approx(1 / 100, abs=1e-2)
    assert drawn.p >= 1 / 100


@pytest.mark.parametrize("shift", [0.0, 0.6])
def test_a_sampled_p_is_near_the_exact_one(shift):
    values = np.random.default_rng(1).normal(size=16)
    values[:8] += shift
    exact = permutation_test(values[:8], values[8:], exact_below=10**9, samples=1, seed=0)
    sampled = permutation_test(values[:8], values[8:], exact_below=0, samples=20_000, seed=4)
    assert (exact.partitions, exact.standard_error, sampled.method) == (12_870, 0.0, "sampled")
    assert abs(sampled.p - exact.p) < 4 * sampled.standard_error
    again = permutation_test(values[:8], values[8:], exact_below=0, samples=20_000, seed=4)
    assert again == sampled


def test_both_deviations_and_swapped_sets(drawn, make_test):
    x, y, a, b = _sets(drawn)
    population, sample = (association_test(drawn, make_test(x, y, a, b), ddof=ddof) for ddof in (0, 1))
    assert population.effect_size / sample.effect_size == pytest.approx(math.sqrt(8 / 7))
    swapped = association_test(drawn, make_test(y, x, a, b))
    assert swapped.effect_size == pytest.approx(-population.effect_size)
    assert abs(population.effect_size) <= 2
    with pytest.raises(InputError, match="ddof is 2; give 0"):
        association_test(drawn, make_test(x, y, a, b), ddof=2)  # type: ignore[arg-type]


def test_words_without_a_vector_alone_are_left_out(drawn, make_test):
    """The longer list of targets keeps all its words, in whatever order they stand."""
    x, y, a, b = _sets(drawn)
    found = association_test(drawn, make_test([*x, "unheard"], y[:3], a, [*b, "nobody"]))
    assert found.missing == ("unheard", "nobody")
    assert found.sizes == (4, 3, 3, 5)
    assert found.words == (tuple(x), tuple(y[:3]), tuple(a), tuple(b))
    said = found.to_json()
    assert (said["sizes"], said["words"][1], said["missing"]) == ([4, 3, 3, 5], y[:3], ["unheard", "nobody"])
    values = [found.associations[word] for word in (*x, *y[:3])]
    assert found.effect_size == pytest.approx((np.mean(values[:4]) - np.mean(values[4:])) / np.std(values))
    assert found.permutation.partitions == math.comb(7, 3)
    turned = association_test(drawn, make_test(x[::-1], y[:3], a, b))
    assert (turned.effect_size, turned.p) == (pytest.approx(found.effect_size), pytest.approx(found.p))
    assert any("more words with vectors than the other" in each for each in found.cautions)
    with pytest.raises(InputError, match="has 1 of the 2 words of x, and at least 2 are needed"):
        association_test(drawn, make_test(["x0", "unheard"], y, a, b))
    with pytest.raises(InputError, match="has 0 of the 1 words of a, and at least 1 are needed"):
        association_test(drawn, make_test(x, y, ["unheard"], b))


def test_a_word_that_small_letters_put_in_both_targets_is_refused(drawn, make_test):
    """Rose, a name, and rose, a flower, have one vector in lower-cased vectors; s would count it for both."""
    x, y, a, b = _sets(drawn)
    with pytest.raises(
        InputError, match="test 'made': words of both x and y are looked up as 'x0'; leave it out of one, or"
    ):
        association_test(drawn, make_test(x, [*y, "X0"], a, b))
    with pytest.raises(InputError, match="words of both a and b are looked up as 'a0'"):
        association_test(drawn, make_test(x, y, a, [*b, "A0"]))
    assert association_test(drawn, make_test(x, [*y, "X0"], a, b), case="exact").missing == ("X0",)


def test_a_vector_of_zeros_counts_as_none(drawn, make_test):
    x, y, a, b = _sets(drawn)
    matrix = drawn.matrix.copy()
    matrix[0] = 0
    assert association_test(drawn.with_matrix(matrix), make_test(x, y, a, b)).missing == ("x0",)


def test_it_says_what_it_does_not_show(drawn, make_test):
    x, y, a, b = _sets(drawn)
    few = association_test(drawn, make_test(x[:2], y[:2], a, b))
    assert any("no proof that there is no bias" in each for each in few.cautions)
    assert any("smallest possible p is 0.167" in each for each in few.cautions)
    flat = drawn.with_matrix(np.ones_like(drawn.matrix))
    found = association_test(flat, make_test(x, y, a, b))
    assert math.isnan(found.effect_size)
    assert found.p == 1.0
    assert any("same association" in each for each in found.cautions)


def test_what_rounding_leaves_after_debiasing_has_no_effect_size(drawn, make_test):
    """Divided by its own deviation, noise of 1e-9 would be a large effect."""
    x, y, a, b = _sets(drawn)
    matrix = np.random.default_rng(1).normal(size=drawn.matrix.shape).astype(np.float32)
    shared = min(len(a), len(b))
    a, b = a[:shared], b[:shared]
    matrix[[drawn.words.index(word) for word in b]] = matrix[[drawn.words.index(word) for word in a]] / np.float32(3)
    found = association_test(drawn.with_matrix(matrix), make_test(x, y, a, b))
    assert 0 <= np.abs(list(found.associations.values())).max() < 1e-6
    assert math.isnan(found.effect_size)
    assert found.p == 1.0
    assert any("0 but for rounding" in each for each in found.cautions)


def test_sentences_are_embedded_once_and_tested(make_test):
    texts = ["a rose", "a lily", "an ant", "a wasp", "love", "pain"]
    calls = []

    def embed(asked):
        calls.append(list(asked))
        return np.array([[3, 1], [4, 1], [1, 4], [1, 3], [1, 0], [0, 1]], dtype=np.float64)

    found = association_test_of_texts(embed, make_test(texts[:2], texts[2:4], texts[4:5], texts[5:]))
    assert calls == [texts]
    assert (round(found.effect_size, 2), found.p) == (2.0, pytest.approx(1 / 6))
    with pytest.raises(InputError, match="it must return one row per text"):
        association_test_of_texts(
            lambda asked: np.zeros((2, 2)), make_test(texts[:2], texts[2:4], texts[4:5], texts[5:])
        )


def test_sentences_of_words_that_have_vectors():
    vectors = WordVectors(words=("this", "rose", "It"), matrix=np.eye(3, dtype=np.float32))
    found = sentence_means(vectors)(["This is a ROSE!", "It", "nothing known"])
    np.testing.assert_allclose(found, [[0.5, 0.5, 0], [0, 0, 1], [0, 0, 0]])


def test_an_association_that_goes_with_a_number():
    draw = np.random.default_rng(2)
    shares = {f"job{number}": float(share) for number, share in enumerate(draw.random(30))}
    rows = [[share, 1 - share, *draw.normal(size=2) / 20] for share in shares.values()]
    vectors = WordVectors(
        words=(*shares, "she", "he"), matrix=np.array([*rows, [1, 0, 0, 0], [0, 1, 0, 0]], dtype=np.float32)
    )
    ends = (NamedWords(name="female", words=("she", "hers")), NamedWords(name="male", words=("he",)))
    assert property_association(vectors, shares, ends).correlation > 0.8
    turned = property_association(vectors, {job: -share for job, share in shares.items()}, ends)
    assert turned.correlation < -0.8
    with pytest.raises(InputError, match="has 1 of the words of the numbers"):
        property_association(vectors, {"job1": 0.3, "unheard": 0.1}, ends)


OBJECT = {
    "targ1": {"category": "Flowers", "examples": ["rose", "lily", "rose"]},
    "targ2": {"category": "Insects", "examples": ["ant", "wasp"]},
    "attr1": ["love"],
    "attr2": ["pain"],
}


def test_files_of_either_form(tmp_path):
    file = tmp_path / "flowers.jsonl"
    file.write_text(json.dumps(OBJECT, indent=2))
    (test,) = read_association_tests(file)
    assert (test.name, test.targets[0].name, test.targets[0].words) == ("flowers", "Flowers", ("rose", "lily"))
    other = {
        key: {"name": key, "words": words, "remove": ["wasp"]}
        for key, words in zip(
            ("first_target", "second_target", "first_attribute", "second_attribute"),
            (["rose"], ["ant", "wasp"], ["love"], ["pain"]),
            strict=True,
        )
    }
    file.write_text(json.dumps([OBJECT, other]) + "\n" + json.dumps(OBJECT | {"name": "named"}))
    tests = read_association_tests(file)
    assert [test.name for test in tests] == ["flowers 1", "flowers 2", "named"]
    assert tests[1].targets[1].words == ("ant",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty; give JSON objects with the lists targ1, targ2, attr1 and attr2"),
        ("rose lily", "line 1: is not JSON .*; give JSON objects with the lists targ1"),
        ('{"targ1": ["rose"]', "line 1: is not JSON"),
        ('{"targ1": ["rose"]}', "has no targ2; give targ1, targ2"),
        ("[1]", "give an object with targ1"),
        (json.dumps(OBJECT | {"targ1": "rose"}), "give a list of words"),
        (json.dumps(OBJECT | {"targ1": []}), "targ1: has no words"),
        (json.dumps(OBJECT | {"targ1": [3]}), "has the word 3; give texts"),
        (json.dumps(OBJECT | {"targ1": ["ant"]}), "'ant' is both among targ1 and Insects"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_files_that_are_no_tests_are_refused(tmp_path, content, says):
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(InputError, match=says):
        read_association_tests(file)
