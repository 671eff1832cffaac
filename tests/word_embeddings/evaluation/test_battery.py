"""All tests in one call, and several tables beside one another."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation import Battery, evaluate
from regard.word_embeddings.evaluation.battery import in_common, read_battery, table
from regard.word_embeddings.evaluation.categories import NOUNS


def vectors(name: str, words: tuple[str, ...], seed: int = 0) -> WordVectors:
    matrix = np.random.default_rng(seed).normal(size=(len(words), 8)).astype(np.float32)
    return WordVectors(words=words, matrix=matrix, name=name)


@pytest.fixture
def battery(tmp_path):
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "a.txt").write_text("dog cat 9\ncar bus 8\ndog bus 1\ncat car 2\nking queen 8\nking book 3\n")
    (sets / "b.txt").write_text("dog\tcat\t1\nnowhere\tcar\t2\n")
    (sets / "README.md").write_text("not a set")
    (tmp_path / "q.txt").write_text(": family\nking man woman child\n: gram1\ndog cat car bus\n")
    return read_battery([sets], [tmp_path / "q.txt"], resamples=50)


def test_one_call_runs_everything_its_inputs_allow(battery):
    one, other = vectors("one", NOUNS), vectors("other", NOUNS[::-1], 1)
    report = evaluate(one, battery, [other])
    found = json.loads(json.dumps(report.to_json()))
    assert [each["name"] for each in found["similarity"]] == ["a", "b"]
    assert [(each["pairs"], each["used"], each["unknown"]) for each in found["similarity"]] == [(6, 5, 1), (2, 1, 1)]
    assert set(found["similarity"][0]["interval"]) == {"value", "low", "high", "level"}
    assert math.isnan(found["similarity"][1]["spearman"])
    assert [each["name"] for each in found["analogies"][0]["sections"]] == ["family", "gram1"]
    assert found["categories"][0]["words"] == 100
    assert [each["judge"] for each in found["coherence"]] == ["one", "other"]
    assert {each["kind"] for each in found["robustness"]} >= {"typo", "plural"}
    assert found["frequency"]["by"] == "order"
    assert found["probes"][1]["nearer"] in ("first", "second")
    # All that is sampled depends on the seed. NaN is equal to nothing, so what is written is compared.
    assert json.dumps(report.to_json()) == json.dumps(evaluate(one, battery, [other]).to_json())


def test_the_table_has_every_figure_of_every_report(battery):
    one, other = vectors("one", NOUNS), vectors("other", ("dog", "cat", "car", "bus", "book"), 1)
    reports = [evaluate(one, battery, [other]), evaluate(other, battery, [one])]
    shown = table(reports)
    names = list(shown.columns[0].cells)
    assert {str(name) for name in names} == {name for report in reports for name in report.figures()}
    assert len(shown.columns) == 3
    places = [str(name) for name in names]
    assert abs(places.index("intruders found by other") - places.index("intruders found by one")) == 1
    assert [str(cell) for cell in shown.columns[2].cells][places.index("intruders found by other")] == "-"


def test_vectors_that_know_none_of_the_words_have_a_report_too(battery):
    found = evaluate(vectors("foreign", ("eins", "zwei", "drei")), battery)
    assert found.similarity[0].used == 0
    assert found.categories[0].purity is None
    assert found.coherence == ()
    assert table([found]).row_count == len(found.figures())


def test_words_in_common_are_all_that_counts(battery):
    one, other = vectors("one", (*NOUNS, "queen", "Dog")), vectors("other", ("queen", *NOUNS[::2]), 1)
    fair = in_common([one, other])
    assert fair[0].words == fair[1].words == (*NOUNS[::2], "queen")
    np.testing.assert_array_equal(fair[1]["queen"], other["queen"])
    found = [evaluate(each, battery) for each in fair]
    assert found[0].similarity[0].used == found[1].similarity[0].used
    with pytest.raises(InputError, match="no word in common"):
        in_common([one, vectors("foreign", ("eins",))])


def test_only_the_first_words_count(battery):
    table = vectors("one", NOUNS)
    few = evaluate(table, Battery(similarity=battery.similarity, among=12))
    cut = evaluate(table.first(12), Battery(similarity=battery.similarity))
    assert repr(few.similarity) == repr(cut.similarity)  # where a correlation is NaN too
    assert few.categories == cut.categories


def test_what_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="did you mean 'multiply'"):
        Battery(method="multply")
    with pytest.raises(InputError, match=r"holds no \*\.txt"):
        read_battery([tmp_path])
