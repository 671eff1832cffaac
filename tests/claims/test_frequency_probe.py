"""Vectors trained on a small text, and the three tests of them that the claim compares."""

from __future__ import annotations

import gzip
import random

import pytest

from regard.claims.catalogue import compute
from regard.claims.claim import claim
from regard.errors import InputError
from regard.word_embeddings.evaluation.categories import CATEGORIES
from regard_claims.frequency_in_vectors.frequency_probe import FrequencyInVectors

SMALL = {"width": 12, "minimum_count": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences of words of one category each, among function words; and pairs of one category or of two."""
    place = tmp_path_factory.mktemp("text")
    draw = random.Random(1)
    names = list(CATEGORIES)
    common = [f"the{number}" for number in range(60)]
    rare = [f"odd{number}" for number in range(300)]
    lines = []
    for _ in range(1500):
        words = CATEGORIES[draw.choice(names)]
        lines.append(" ".join(draw.choice([*words, *words[:3], *common, draw.choice(rare)]) for _ in range(8)).lower())
    (place / "train.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    pairs = []
    for _ in range(40):
        one, other = draw.sample(names, 2)
        first, second = draw.sample(CATEGORIES[one], 2)
        pairs += [f"{first}\t{second}\t{draw.uniform(7, 9)}", f"{first}\t{draw.choice(CATEGORIES[other])}\t1"]
    (place / "pairs.txt").write_text("\n".join(pairs))
    return place


@pytest.mark.parametrize("method", ["skipgram", "fasttext"])
def test_three_figures_of_a_text(folder, method):
    settings = FrequencyInVectors(path=str(folder), pairs="pairs.txt", method=method, **SMALL)
    found = settings.run(1)
    assert tuple(found) == settings.measures
    assert -1 <= found["similarity"] <= 1
    assert 0.1 <= found["purity"] <= 1
    assert 0 <= found["frequency probe"] <= 1
    assert settings.run(1) == found


def test_arms_are_methods(folder, tmp_path):
    sections = {
        "experiment": {"name": "frequency_probe", "path": str(folder), "pairs": str(folder / "pairs.txt"), **SMALL},
        "arms": {"a": {"method": "cbow"}, "b": {"method": "skipgram", "width": 9}},
        "seeds": [1],
    }
    compared = compute(sections, output=tmp_path)
    assert [run.arm for run in compared.runs] == ["a", "b"]
    assert compared.runs[0].values["purity"].number != compared.runs[1].values["purity"].number


def test_the_claim_asks_for_four_methods():
    found = claim("4.6")
    assert found.needs_data
    experiments = [found.resolved.experiment_of(arm) for arm in found.resolved.arms]
    assert [each.method for each in experiments] == ["skipgram", "cbow", "fasttext", "glove"]
    assert {each.width for each in experiments} == {50}


class Table:
    """The numbers of each arm, with every seed."""

    def __init__(self, **tests):
        self.tests = tests

    def values(self, arm, measure, length=None):
        place = ["skip-gram", "CBoW", "fastText", "GloVe"].index(arm)
        return {1: self.tests[measure.replace(" ", "_")][place]}


@pytest.mark.parametrize(
    ("probe", "purity", "holds"),
    [
        ([0.9, 0.85, 0.82, 0.8], [0.5, 0.4, 0.3, 0.2], False),  # all rank alike
        ([0.9, 0.85, 0.82, 0.8], [0.5, 0.4, 0.2, 0.3], True),
        ([0.9, 0.85, 0.82, 0.79], [0.5, 0.4, 0.2, 0.3], False),  # one tells too little
    ],
)
def test_the_judge_looks_at_every_method_and_every_two_tests(probe, purity, holds):
    numbers = Table(similarity=[0.4, 0.3, 0.2, 0.1], purity=purity, frequency_probe=probe)
    assert claim("4.6").expressions[0].holds(numbers) == holds


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(InputError, match=r"experiment\.path"):
        FrequencyInVectors().run(1)
    with pytest.raises(InputError, match=r"EN-WS-353-ALL\.txt: no such file"):
        FrequencyInVectors(path=str(folder)).run(1)
    with pytest.raises(InputError, match="holds no train"):
        FrequencyInVectors(path=str(tmp_path), pairs=str(folder / "pairs.txt")).run(1)
    with pytest.raises(InputError, match=r"experiment\.share"):
        FrequencyInVectors(share=0.6)
