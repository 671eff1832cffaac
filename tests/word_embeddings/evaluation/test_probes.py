"""Which of two pairs is nearer."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.probes import Probe, read_probes, run_probes

TABLE = WordVectors(
    words=("tea", "milk", "iron", "Steel"), matrix=np.array([[1, 0], [1, 1], [0, 1], [0, 2]], dtype=np.float32)
)


def test_cosines_and_what_was_expected():
    near, far = ("tea", "milk"), ("tea", "iron")
    asked = [
        Probe(first=near, second=far, expected="first"),
        Probe(first=near, second=far, expected="second"),
        Probe(first=far, second=near),
        Probe(first=("tea", "coal"), second=near, expected="first"),
        Probe(first=("tea", "iron"), second=("tea", "steel"), expected="first"),
    ]
    found = run_probes(TABLE, asked)
    assert found[0].cosines == pytest.approx((2**-0.5, 0.0))
    assert [each.nearer for each in found] == ["first", "first", "second", None, None]
    assert [each.as_expected for each in found] == [True, False, None, None, None]
    assert found[3].cosines[0] is None
    assert found[3].to_json()["first"] == ("tea", "coal")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("first: [a, b]\n", "is not a list of probes"),
        ("- {first: [a, b], second: [c]}", "probe 1"),
        ("- {first: [a, b], second: [c, d], expects: first}", "did you mean 'expected'"),
        ("- {first: [a, b], second: [c, d], expected: third}", "probe 1.expected"),
        ("- {first: [a, b", "is not YAML"),
        ("[" * 1500, "YAML"),
    ],
)
def test_files_of_something_else_are_refused(tmp_path, text, says):
    file = tmp_path / "probes.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        read_probes(file)
    with pytest.raises(InputError, match="no such file"):
        read_probes(tmp_path / "none.yaml")
