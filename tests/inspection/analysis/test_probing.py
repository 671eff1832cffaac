"""Probes: against scikit-learn by hand, on states that tell or do not tell, and what all layers share."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from regard.errors import InputError
from regard.inspection.analysis import Probed
from regard.inspection.analysis.probing import _held_out

linear_model = pytest.importorskip("sklearn.linear_model")


@pytest.fixture
def drawn() -> np.random.Generator:
    return np.random.default_rng(20190903)


def test_a_probe_is_logistic_regression_on_standardised_states(drawn):
    """The same split by hand, the optimum found by plain gradient steps in float64."""
    plain = drawn.normal(0, 1, (150, 4))
    states = plain * [0.01, 1, 10, 100] + 5  # the first tells most, and would be lost beside the last
    scores = plain @ (drawn.normal(0, 1, (4, 3)) * [[5], [1], [1], [1]])
    labels = (scores + drawn.normal(0, 1, scores.shape)).argmax(axis=1)
    found = Probed.of({"a": states}, labels.tolist(), seeds=[7], strength=0.5)
    test = _held_out(np.arange(150), 0.2, np.random.default_rng(7))
    train = ~test
    assert found.examples == (120, 30) == (train.sum(), test.sum())
    x = (states - states[train].mean(axis=0)) / states[train].std(axis=0)
    weight, bias = np.zeros((4, 3)), np.zeros(3)
    right = np.eye(3)[labels[train]]
    for _ in range(4000):  # of sum of losses + |W|^2 / (2 C)
        logits = x[train] @ weight + bias
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        weight -= 0.005 * (x[train].T @ (shares - right) + weight / 0.5)
        bias -= 0.005 * (shares - right).sum(axis=0)
    predicted = (x[test] @ weight + bias).argmax(axis=1)
    assert found.layer("a").accuracy[7] == pytest.approx((predicted == labels[test]).mean())
    often = np.bincount(labels[train]).argmax()
    assert found.majority[7] == pytest.approx((labels[test] == often).mean())


def test_what_is_in_the_states_is_found_and_what_is_not_is_not(drawn):
    labels = drawn.choice(["noun", "verb", "mark"], size=400, p=[0.5, 0.3, 0.2])
    codes = np.unique(labels, return_inverse=True)[1]
    told = np.eye(3)[codes] + drawn.normal(0, 0.05, (400, 3))
    found = Probed.of({"told": told, "noise": drawn.normal(0, 1, (400, 5))}, labels.tolist(), seeds=3)
    assert all(value == 1.0 for value in found.layer("told").accuracy.values())
    for seed, value in found.layer("noise").accuracy.items():
        assert value < found.majority[seed] + 0.1
    assert list(found.labels) == ["noun", "verb", "mark"]
    assert sum(found.labels.values()) == 400
    assert not found.layer("told").control
    assert not found.layer("told").selectivity


def test_states_that_only_name_the_word_are_not_selective_and_the_control_says_so(drawn):
    """One-hot words learn any labels by heart; states that hold the property itself do not."""
    words = drawn.integers(0, 12, 600)
    property_of = np.arange(12) % 3
    labels = property_of[words]
    by_word = np.eye(12)[words] + drawn.normal(0, 0.02, (600, 12))
    by_property = np.eye(3)[labels] + drawn.normal(0, 0.02, (600, 3))
    found = Probed.of({"word": by_word, "property": by_property}, labels.tolist(), types=words.tolist(), seeds=4)
    for seed in (1, 2, 3, 4):
        assert found.layer("word").accuracy[seed] == found.layer("property").accuracy[seed] == 1.0
        assert found.layer("word").control[seed] == 1.0
        assert found.layer("word").selectivity[seed] == 0.0
        assert found.layer("property").selectivity[seed] > 0.2
        assert found.seen_types[seed] == 1.0
        assert found.type_majority[seed] == 1.0


def test_the_control_task_is_the_same_for_all_layers_and_gives_a_type_one_label(drawn):
    states = drawn.normal(0, 1, (200, 3))
    words = drawn.integers(0, 9, 200)
    labels = drawn.integers(0, 2, 200)
    found = Probed.of({"a": states, "b": states.copy()}, labels.tolist(), types=words.tolist(), seeds=3)
    assert found.layer("a").accuracy == found.layer("b").accuracy
    assert found.layer("a").control == found.layer("b").control
    again = Probed.of({"b": states}, labels.tolist(), types=[f"w{word}" for word in words], seeds=3)
    assert again.layer("b").control == found.layer("b").control  # neither names nor other layers matter
    other = Probed.of({"b": states}, labels.tolist(), types=words.tolist(), seeds=[2])
    assert other.layer("b").accuracy[2] == found.layer("b").accuracy[2]


def test_baselines_by_hand(drawn):
    words = ["a", "a", "b", "b", "c", "a", "b", "c"] * 10
    labels = ["x", "x", "y", "x", "y", "x", "y", "y"] * 10
    states = drawn.normal(0, 1, (80, 2))
    found = Probed.of({"a": states}, labels, types=words, seeds=[5], test_share=0.25)
    test = _held_out(np.arange(80), 0.25, np.random.default_rng(5))
    seen: dict[str, list[str]] = {}
    for word, label, held in zip(words, labels, test, strict=True):
        if not held:
            seen.setdefault(word, []).append(label)
    right = [
        max(sorted(set(seen[word])), key=seen[word].count) == label
        for word, label, held in zip(words, labels, test, strict=True)
        if held
    ]
    assert found.type_majority[5] == pytest.approx(sum(right) / len(right))


@given(st.lists(st.integers(0, 20), min_size=2, max_size=60), st.floats(0.01, 0.99), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_no_group_is_in_both_parts_and_neither_part_is_empty(marks, share, seed):
    if len(set(marks)) < 2:
        return
    groups = np.array(marks)
    test = _held_out(groups, share, np.random.default_rng(seed))
    assert set(groups[test]).isdisjoint(groups[~test])
    assert test.any()
    assert not test.all()


def test_a_fit_that_did_not_converge_is_marked(drawn):
    states = drawn.normal(0, 1, (100, 6))
    labels = (states[:, 0] > 0).tolist()
    found = Probed.of({"a": states}, labels, seeds=1, strength=1e6, iterations=1)
    assert not found.layers[0].converged
    assert "a *" in printed(found)
    assert "raise iterations" in printed(found)
    assert "*" not in printed(Probed.of({"a": states}, labels, seeds=1))


def printed(found: Probed) -> str:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as shown:
        console.print(found)
    return shown.get()


def test_the_table_and_the_json_say_the_same(drawn):
    words = drawn.integers(0, 5, 120)
    labels = words % 2
    found = Probed.of({"layers.0": np.eye(5)[words]}, labels.tolist(), types=words.tolist(), seeds=2)
    text = printed(found)
    for part in ("layers.0", "selectivity", "each type's most frequent label", "96 training and 24 test examples"):
        assert part in text
    value = json.loads(json.dumps(found.to_json()))
    assert value["layers"][0]["accuracy"]["seeds"] == {"1": 1.0, "2": 1.0}
    assert value["layers"][0]["accuracy"]["median"] == 1.0
    assert value["majority"]["smallest"] <= value["majority"]["median"] <= value["majority"]["largest"]
    plain = Probed.of({"layers.0": np.eye(5)[words]}, labels.tolist(), seeds=2)
    assert plain.to_json()["layers"][0]["control"] is None
    assert "control" not in printed(plain)
    with pytest.raises(InputError, match=r"did you mean 'layers\.0'"):
        found.layer("layers.1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": {}}, "states is empty"),
        ({"states": {"a": np.ones((3, 2))}}, r"a: states are \(3, 2\) for 4 labels"),
        ({"states": {"a": np.full((4, 2), np.nan)}}, "not finite"),
        ({"labels": ["x"] * 4}, "all labels are the same"),
        ({"types": ["w"] * 3}, "types: 3 given for 4 labels"),
        ({"groups": [1] * 4}, "one group only"),
        ({"groups": [1, 1, 2, 2], "labels": ["x", "x", "y", "y"]}, "training examples all have one label"),
        ({"seeds": 0}, "at least 1"),
        ({"seeds": []}, "seeds is empty"),
        ({"test_share": 1.0}, "test_share is 1.0"),
        ({"strength": 0}, "strength is 0"),
    ],
)
def test_what_cannot_be_probed_is_refused(changes, message):
    settings = {"states": {"a": np.arange(8.0).reshape(4, 2)}, "labels": ["x", "y", "x", "y"], "seeds": 1} | changes
    with pytest.raises(InputError, match=message):
        Probed.of(**settings)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.linear_model", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[eval\]'"):
        Probed.of({"a": np.arange(8.0).reshape(4, 2)}, ["x", "y", "x", "y"], seeds=1)
