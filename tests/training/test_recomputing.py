"""Activation checkpointing: the same numbers from less memory."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import regard
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import GPT2, Bert, BertConfig, GPT2Config, Transformer, TransformerConfig
from regard.training.precision import recompute_blocks

SIZES = {"width": 16, "heads": 2, "feedforward_width": 32}
DROPS = {"dropout": 0.2, "attention_dropout": 0.1}


def encoder() -> nn.Module:
    return Bert(BertConfig(vocabulary=13, layers=6, head="masked", maximum_positions=32, **SIZES, **DROPS))


def causal() -> nn.Module:
    return GPT2(GPT2Config(vocabulary=13, layers=6, maximum_positions=32, **SIZES, **DROPS))


def both() -> nn.Module:
    return Transformer(
        TransformerConfig(
            source_vocabulary=13, target_vocabulary=13, encoder_layers=3, decoder_layers=3, **SIZES, **DROPS
        )
    )


KINDS = pytest.mark.parametrize("build", [encoder, causal, both])
TEXTS = [[1, 5, 6, 7, 8, 9, 3, 2], [1, 4, 5, 2], [1, 12, 2]]


def loss_of(model: nn.Module, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    tokens = Tokens.pad(TEXTS)
    with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
        if isinstance(model, Transformer):
            return model(tokens, Tokens.pad(TEXTS)).float().square().mean()
        made = model(tokens)
        return (made if isinstance(model, GPT2) else made.logits).float().square().mean()


def gradients_of(model: nn.Module, dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(7)
        loss = loss_of(model, dtype)
        loss.backward()
    return loss.detach(), [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def kept_by(model: nn.Module) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, parameters left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}
    alive = []  # a storage that is freed meanwhile would give its address to another

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(model)
    del loss
    return sum(kept.values())


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradients_are_the_same_bits_with_dropout(build, dtype, seeded):
    model = build()
    other = copy.deepcopy(model)
    assert recompute_blocks(other) == 6
    loss, gradients = gradients_of(model, dtype)
    again, recomputed = gradients_of(other, dtype)
    assert torch.equal(loss, again)
    assert len(gradients) == len(recomputed) > 50
    assert all(torch.equal(one, two) for one, two in zip(gradients, recomputed, strict=True))


@KINDS
def test_less_is_kept_for_the_backward_pass(build, seeded):
    model = build()
    before = kept_by(model)
    recompute_blocks(model)
    assert kept_by(model) < before / 3


def test_a_copy_of_the_model_runs_its_own_blocks(seeded):
    model = causal()
    recompute_blocks(model)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in copied.layers.parameters():
            parameter.zero_()
    model.train()
    copied.train()
    loss_of(copied).backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert copied.layers[0].attention.query.weight.grad is not None


def test_names_and_evaluation_stay(seeded):
    model = causal().eval()
    names = list(model.state_dict())
    expected = model(Tokens.pad(TEXTS))
    recompute_blocks(model)
    assert list(model.state_dict()) == names
    with torch.no_grad():
        assert torch.equal(model(Tokens.pad(TEXTS)), expected)


def test_a_model_without_blocks_is_refused(recipe, pairs, tmp_path):
    with pytest.raises(InputError, match="a Bahdanau has no blocks"):
        regard.train(recipe("bahdanau", activation_checkpointing=True), output=tmp_path / "run", data=pairs)


def test_the_same_run_comes_out(recipe, pairs, tmp_path):
    said: list[str] = []
    for name, setting in (("plain", False), ("recomputed", True)):
        values = recipe("transformer", activation_checkpointing=setting)
        regard.train(values, output=tmp_path / name, data=pairs, say=said.append)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "recomputed"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert sum("computed again" in sentence for sentence in said) == 1


@pytest.mark.slow
@KINDS
def test_the_compiler_makes_the_same_of_it(build, seeded):
    """Its graphs without the code that it would write for them, and without dropout, which the two draw differently."""
    model = build().eval()
    loss = loss_of(model)
    loss.backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    recompute_blocks(model)
    torch._dynamo.reset()
    try:
        model.compile(backend="aot_eager", dynamic=True)
        again = loss_of(model)
        again.backward()
    finally:
        torch._dynamo.reset()
    assert torch.allclose(loss, again, rtol=1e-5)
    found = dict(model.named_parameters())
    for name, gradient in wanted.items():
        assert torch.allclose(found[name].grad, gradient, atol=1e-6), name
