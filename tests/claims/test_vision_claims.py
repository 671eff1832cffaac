"""The experiments of claims 2.5a and 2.6, small: they run, repeat, and measure what they say."""

from __future__ import annotations

import pytest

from regard.claims.claim import claim
from regard.data.labelled_images import read_labelled_images
from regard.errors import InputError
from regard_claims.inactive_attention.inactive_attention import InactiveAttention
from regard_claims.position_lambdas.corner_marks import CORNERS, CornerMarks, marked

pytest.importorskip("sklearn")


def test_inactive_attention_is_measured_on_a_trained_network():
    found = InactiveAttention(epochs=1).run(1)
    assert set(found) == set(InactiveAttention().measures)
    assert found["accuracy"] > 40
    assert found["parameters of queries and keys"] == 41_344
    assert found["largest gradient of queries and keys"] == 0
    assert found["largest gradient of values"] > 0
    assert found["largest change by deletion"] <= 1e-6
    assert found["largest difference from the values"] <= 1e-6


def test_without_queries_and_keys_there_is_nothing_to_delete():
    found = InactiveAttention(epochs=1, attention="deleted").run(1)
    assert found["accuracy"] > 40
    assert found["parameters of queries and keys"] == 0


@pytest.mark.parametrize("lambdas", ["both", "position", "content"])
def test_marked_digits_are_told_in_parts(lambdas):
    sizes = {"size": 200, "test_size": 40, "steps": 3, "width": 8, "key_width": 4, "convolutions": (8, 8)}
    found = CornerMarks(lambdas=lambdas, **sizes).run(2)
    assert set(found) == {"accuracy", "digit", "corner"}
    assert all(0 <= value <= 100 for value in found.values())
    assert found["accuracy"] <= min(found["digit"], found["corner"])


def test_the_mark_is_where_the_class_says_and_the_digit_stays():
    digit = read_labelled_images(None)[0].image
    images = [marked(digit, corner) for corner in range(len(CORNERS))]  # type: ignore[arg-type]
    for corner, image in enumerate(images):
        assert CORNERS[corner].split() == ["bottom" if corner >= 2 else "top", "right" if corner % 2 else "left"]
        half = (slice(16, 32) if corner >= 2 else slice(0, 16), slice(16, 32) if corner % 2 else slice(0, 16))
        brighter = image.astype(int) - images[3 - corner]
        assert (brighter[half] >= 0).all()
        assert brighter[half].sum() > 0


@pytest.mark.parametrize(
    ("experiment", "change", "said"),
    [
        (InactiveAttention, {"epochs": 0}, "experiment.epochs"),
        (CornerMarks, {"size": 10}, "experiment.size"),
        (CornerMarks, {"steps": 0}, "experiment.steps"),
    ],
)
def test_settings_out_of_range_are_refused(experiment, change, said):
    with pytest.raises(InputError, match=said):
        experiment(**change)


def test_the_claims_ask_for_mnist():
    for name in ("inactive-attention", "little-data", "position-lambdas"):
        found = claim(name)
        assert found.needs_data
        assert "MNIST" in found.own_data.says  # type: ignore[union-attr]
