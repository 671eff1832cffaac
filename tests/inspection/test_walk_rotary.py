"""The walk through a head whose queries and keys are turned by their positions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard.attention import RotaryScaling
from regard.inspection import walk
from regard.models import GPTNeoX, GPTNeoXConfig, Llama, LlamaConfig
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.text import Tokenizer

TEXT = "a cat sat on a mat"
SIZES = {"width": 16, "heads": 4, "feedforward_width": 16, "layers": 2, "maximum_positions": 30}


@pytest.fixture
def reader(randomize):
    """A language model of Llama's type that reads words."""

    def make(**changes) -> LanguageModel:
        task = LanguageModellingTask(Tokenizer.train([TEXT], kind="word", size=20))
        config = LlamaConfig(**task.model_settings(), **SIZES, **changes)
        model = randomize(Llama(config), scale=2.0).eval()
        return LanguageModel(model, task)

    return make


def turned(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """One vector, its pairs half by half, turned."""
    half, found = len(angles), x.copy()
    for k, angle in enumerate(angles):
        a, b = x[k], x[k + half]
        found[k] = a * math.cos(angle) - b * math.sin(angle)
        found[k + half] = b * math.cos(angle) + a * math.sin(angle)
    return found


@pytest.mark.parametrize("key_heads", [None, 2, 1])
@pytest.mark.parametrize("query_key_norm", [False, True])
def test_query_and_keys_are_turned_by_their_positions_and_are_then_what_is_compared(reader, key_heads, query_key_norm):
    model = reader(key_heads=key_heads, query_key_norm=query_key_norm)
    seen = walk(model, TEXT, position=6, layer="layers.1.attention", head=3)
    titles = [step.title for step in seen.steps]
    assert titles[:2] == ["Queries, keys, values", "Rotation"]
    before, step = seen.steps[0], seen.step("Rotation")
    place = 6
    frequencies = 100_000.0 ** (-np.arange(0, 4, 2) / 4)
    np.testing.assert_allclose(step["p w"], place * frequencies)
    np.testing.assert_allclose(step["p w of keys"], np.arange(len(step["k before"]))[:, None] * frequencies)
    np.testing.assert_allclose(step["q after"], turned(step["q before"], step["p w"]), rtol=1e-4, atol=1e-5)
    for held, angles, after in zip(step["k before"], step["p w of keys"], step["k after"], strict=True):
        np.testing.assert_allclose(after, turned(held, angles), rtol=1e-4, atol=1e-5)
    assert float(step["largest difference"]) < 1e-5
    names = [item.name for item in step.shown]
    assert ("q normalised" in names) is ("k normalised" in names) is query_key_norm
    if not query_key_norm:
        np.testing.assert_array_equal(before["q"], step["q before"])
        np.testing.assert_array_equal(before["k"], step["k before"])
    assert any("shares key head" in note for note in step.notes) is (key_heads is not None)


def test_scaled_frequencies_are_named_and_shown(reader):
    scaling = RotaryScaling(kind="yarn", factor=4.0, trained_positions=8)
    step = walk(reader(rotary_scaling=scaling), TEXT, position=5).step("Rotation")
    assert any("yarn, factor 4" in note and "multiplied by" in note for note in step.notes)
    assert float(step["largest difference"]) < 1e-5


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_of_heads_that_are_turned_in_part_the_first_channels_are(share, randomize):
    task = LanguageModellingTask(Tokenizer.train([TEXT], kind="word", size=20))
    config = GPTNeoXConfig(**task.model_settings(), **SIZES | {"width": 32}, rotary_share=share)
    model = LanguageModel(randomize(GPTNeoX(config), scale=2.0).eval(), task)
    step = walk(model, TEXT, position=6, layer="layers.1.attention", head=3).step("Rotation")
    each = round(8 * share)
    np.testing.assert_allclose(step["p w"], 6 * 10_000.0 ** (-np.arange(0, each, 2) / each))
    wanted = step["q before"].copy()
    wanted[:each] = turned(wanted[:each], step["p w"])
    np.testing.assert_allclose(step["q after"], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(step["q after"][each:], step["q before"][each:], rtol=1e-5, atol=1e-6)
    assert float(step["largest difference"]) < 1e-5


def test_layers_that_turn_nothing_have_no_such_step(translator):
    assert "Rotation" not in [
        step.title for step in walk(translator("transformer"), "abcd", "c", layer="encoder.layers.0.attention").steps
    ]
