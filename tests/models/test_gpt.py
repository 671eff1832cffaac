"""How GPT's family is drawn: what residual maps drawn smaller are for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.layers import Tokens
from regard.models import GPT, GPT2, GPT2Config, GPTConfig

SIZES: dict[str, Any] = {
    "vocabulary": 100,
    "width": 64,
    "heads": 4,
    "feedforward_width": 256,
    "layers": 12,
    "maximum_positions": 64,
}
FAMILIES = {"gpt": (GPT, GPTConfig), "gpt2": (GPT2, GPT2Config)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_maps_are_drawn_smaller_by_the_root_of_the_sub_layers(family, seeded):
    model, config = FAMILIES[family]
    plain, scaled = (model(config(scaled_residuals=scaled, **SIZES)) for scaled in (False, True))
    for name, parameter in scaled.named_parameters():
        if not name.endswith("weight") or parameter.dim() < 2:
            continue
        last = name.endswith(("attention.output.weight", "feedforward.outer.weight"))
        ratio = parameter.std() / plain.get_parameter(name).std()
        assert ratio.item() == pytest.approx(1 / math.sqrt(24) if last else 1, rel=0.1), name


def variances(model: GPT2, tokens: Tokens) -> torch.Tensor:
    """Of what leaves each block, over that of the embeddings."""
    positions = torch.arange(tokens.ids.shape[1]).expand(len(tokens), -1)
    seen = [model.embedding(tokens.ids, positions).var()]
    for block in model.layers:
        block.register_forward_hook(lambda block, inputs, outputs: seen.append(outputs[0].var()))
    with torch.no_grad():
        model(tokens)
    return torch.stack(seen[1:]) / seen[0]


def test_activations_grow_with_depth_unless_residual_maps_are_drawn_smaller(seeded):
    """In a new model of the size of claim 3.7a: linearly, to many times the embedding's variance; else below twice as much."""
    tokens = Tokens.pad(torch.randint(0, 100, (8, 64)).tolist())
    plain, scaled = (
        variances(GPT2(GPT2Config(scaled_residuals=scaled, **SIZES)).eval(), tokens) for scaled in (False, True)
    )
    straight = torch.corrcoef(torch.stack((plain, torch.arange(12.0))))[0, 1]
    assert straight > 0.99
    assert plain[-1] > 10
    assert scaled.max() < 2
