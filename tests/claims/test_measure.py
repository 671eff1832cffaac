from __future__ import annotations

import pytest

import regard
from regard.claims.measure import Measure, read_measures


def test_short_names_stand_for_what_they_say():
    found = read_measures(
        ["loss", "bleu", "steps_to:token_accuracy=0.9", "parameters", "{metric: chrf, kind: decoded}"]
    )
    assert [(m.name, m.kind, m.metric, m.threshold) for m in found] == [
        ("loss", "validation", "loss", None),
        ("bleu", "decoded", "bleu", None),
        ("steps to token_accuracy 0.9", "steps_to", "token_accuracy", 0.9),
        ("parameters", "parameters", None, None),
        ("chrf", "decoded", "chrf", None),
    ]


def test_a_mapping_is_read_back():
    measure = Measure(
        name="x", kind="decoded", metric="bleu", bins=(5, 9), generation={"beam": 3}, data={"validation": "a.tsv"}
    )
    assert read_measures([measure.to_mapping()]) == (measure,)
    assert "seed" not in measure.to_mapping()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("blue", "there is no measure 'blue'; did you mean 'bleu'"),
        ("steps_to:loss", "write steps_to:METRIC=NUMBER"),
        ("steps_to:loss=low", "write steps_to:METRIC=NUMBER"),
        ("steps_to:los=1", "metric is 'los'; did you mean 'loss'"),
        ({"kind": "decoded", "metric": "loss"}, "metric is 'loss'"),
        ({"kind": "parameters", "metric": "loss"}, "leave metric out"),
        ({"kind": "decoded", "metric": "bleu", "threshold": 1}, "kind steps_to needs a threshold"),
        ({"kind": "validation", "metric": "loss", "bins": [3]}, "does not read pairs"),
        ({"kind": "teacher_forced", "metric": "loss", "generation": {"beam": 2}}, "does not decode"),
        ({"kind": "decoded", "metric": "bleu", "bins": [5, 5]}, "rising lengths"),
        ({"kind": "decoded", "metric": "bleu", "sise": 3}, "unknown key 'sise'; did you mean 'size'"),
        ({"kind": "decoded", "metric": "bleu", "size": 0}, "at least 1"),
        ({"name": " ", "kind": "parameters"}, "empty name"),
        ("{kind: [", "is not YAML"),
        (3, r"measures\[1\] is 3"),
    ],
)
def test_mistakes_are_one_sentence(value, sentence):
    with pytest.raises(regard.InputError, match=sentence):
        read_measures([value])


def test_names_are_given_once():
    with pytest.raises(regard.InputError, match="two measures have the name 'loss'"):
        read_measures(["loss", {"name": "loss", "kind": "training_loss"}])
    with pytest.raises(regard.InputError, match="must be a list"):
        read_measures("loss")  # type: ignore[arg-type]
