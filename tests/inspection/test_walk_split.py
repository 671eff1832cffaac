"""The score of a first layer in its parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.inspection import walk
from regard.inspection.walk.layer_steps import PARTS

FIRST = "encoder.layers.0.attention"


def parts(looked_at, seen, place: int) -> dict[str, np.ndarray]:
    """The parts by loops over keys, in double precision."""
    model = looked_at.model.double()
    layer = model.encoder.layers[0].attention
    ids = torch.tensor([*looked_at.task.source_tokenizer.encode("abcd"), looked_at.task.source_tokenizer.end_id])
    with torch.no_grad():
        content = model.encoder.embedding.tokens(ids) * np.sqrt(12)
        position = torch.zeros_like(content) + model.encoder.embedding.positions(torch.arange(5)[None])[0]
        rows = slice(4 * seen.head, 4 * seen.head + 4)
        wq, wk = layer.query.weight[rows], layer.key.weight[rows]
        bq = torch.zeros(4) if layer.query.bias is None else layer.query.bias[rows]
        bk = torch.zeros(4) if layer.key.bias is None else layer.key.bias[rows]
        found = {name: [] for name in (*PARTS, "with a bias", "score")}
        for key in range(5):
            asks = {"content": wq @ content[place], "position": wq @ position[place]}
            held = {"content": wk @ content[key], "position": wk @ position[key]}
            for name in PARTS:
                one, other = name.split(" · ")
                found[name].append(float(asks[one] @ held[other]) / 2)
            whole = float((wq @ (content + position)[place] + bq) @ (wk @ (content + position)[key] + bk)) / 2
            found["score"].append(whole)
            found["with a bias"].append(whole - sum(found[name][-1] for name in PARTS))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_the_parts_are_the_products_and_add_up_to_the_score(positions, bias, translator):
    looked_at = translator("transformer", norm="post", positions=positions, attention_bias=bias)
    seen = walk(looked_at, "abcd", "c", layer=FIRST)
    split = seen.step("Content and position")
    names = (*PARTS, "with a bias") if bias else PARTS
    assert [item.name for item in split.shown[: len(names)]] == list(names)
    expected = parts(looked_at, seen, 2)
    for name in (*names, "score"):
        np.testing.assert_allclose(split[name], expected[name], rtol=1e-4, atol=1e-4)
    total = sum(split[name] for name in names)
    np.testing.assert_allclose(total, seen.step("Scale")["score"], rtol=1e-4, atol=1e-4)
    assert float(split["largest difference"]) < 1e-4
    assert (np.abs(split["content · content"]) > 1e-3).any()
    if positions == "none":
        assert not any(split[name].any() for name in PARTS[1:])
    else:
        assert all((np.abs(split[name]) > 1e-3).any() for name in PARTS)
    said = " ".join(split.notes)
    assert ("fifth part" in said) == bias
    assert ("no biases" in said) != bias


def test_the_targets_first_layer_can_be_split_too(translator):
    seen = walk(translator("transformer", norm="post"), "abcd", "C", target="DCB", layer="decoder.layers.0.attention")
    split = seen.step("Content and position")
    np.testing.assert_allclose(split["their sum"], seen.step("Scale")["score"], rtol=1e-4, atol=1e-4)


def test_a_norm_in_between_is_named_as_the_reason(translator):
    split = walk(translator("transformer", norm="pre"), "abcd", "c", layer=FIRST).step("Content and position")
    assert split.shown == ()
    assert "cannot be split" in split.sentence
    assert "a layer norm (encoder.layers.0.attention_residual.before) stands between" in split.sentence
    assert "standard deviation" in split.sentence


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_later_layer_is_not_split(norm, translator):
    seen = walk(translator("transformer", norm=norm), "abcd", "c", layer="encoder.layers.1.attention")
    assert "not the first layer" in seen.step("Content and position").sentence


def test_between_two_sequences_nothing_is_said_of_it(translator):
    seen = walk(translator("transformer", norm="post"), "abcd", position=0, target="DCB")
    assert "Content and position" not in [step.title for step in seen.steps]
