"""Models whose recurrent steps are taken by compiled kernels in training: the same as without, also for who looks."""

from __future__ import annotations

import contextlib

import pytest
import torch

import regard
from regard.kernels import Kernels, kernels
from regard.layers import Tokens, step_kernels
from regard.models import Bahdanau, BahdanauConfig, Luong, LuongConfig

pytestmark = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
NONE = Kernels(None, "left out by a test")
SIZES = {"source_vocabulary": 19, "target_vocabulary": 17, "embedding_width": 8, "hidden_width": 12}
SOURCES = [[3, 4, 5, 2], [6, 7], [8, 9, 10, 11, 12]]
SOURCE, TARGET = Tokens.pad(SOURCES), Tokens.pad([[1, 3, 4], [1], [1, 6, 7, 8]])


def bahdanau(**given):
    return Bahdanau(BahdanauConfig(**SIZES | {"attention_width": 10, "maxout_width": 6} | given)).train()


def luong(**given):
    return Luong(LuongConfig(**SIZES | {"layers": 2, "dropout": 0.0} | given)).train()


def trained(found, source, precision):
    """The logits of real tokens and all gradients, by name."""
    found.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        logits = found(source, TARGET)[TARGET.valid]
    (logits.float() * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum().backward()
    gradients = {name: p.grad.clone() for name, p in found.named_parameters() if p.grad is not None}
    return {"logits": logits.detach(), **gradients}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("kind", "given", "kernel", "calls"),
    [
        (bahdanau, {}, "regard_recurrent", (3, 3)),
        (luong, {}, "regard_lstm", (1, 3)),  # in bfloat16 each layer of the encoder too
        (luong, {"score": "dot", "layers": 1}, "regard_lstm", (1, 2)),
        (luong, {"layers": 3}, "regard_lstm", (1, 4)),
    ],
    ids=["bahdanau", "luong", "luong dot", "luong deep"],
)
def test_a_model_trains_the_same_with_and_without_kernels(kind, given, kernel, calls, precision, side, monkeypatch):
    model, real = kind(**given), step_kernels.Call.run
    source, seen = Tokens.pad(SOURCES, side=side), []
    monkeypatch.setattr(step_kernels.Call, "run", lambda self, *given: (seen.append(given[0]), real(self, *given)))
    ours = trained(model, source, precision)
    expected = calls[precision == "bfloat16"]
    assert sorted(seen) == [kernel] * expected + [f"{kernel}_gradient"] * expected
    monkeypatch.setattr(step_kernels, "kernels", lambda: NONE)
    plain = trained(model, source, precision)
    assert len(seen) == 2 * expected
    assert ours.keys() == plain.keys()
    for name, right in plain.items():
        error = (ours[name].float() - right.float()).abs().max()
        assert error <= (0.05 if precision == "bfloat16" else 1e-5) * (1 + right.abs().max()), name


@pytest.mark.parametrize("kind", [bahdanau, luong])
def test_who_looks_in_training_sees_the_weights_and_changes_no_bit(kind):
    model, results = kind(dropout=0.3), []
    for looks in (False, True):
        torch.manual_seed(5)
        with regard.look(model) if looks else contextlib.nullcontext() as record:
            logits = model(SOURCE, TARGET)
        model.zero_grad()
        logits.sum().backward()
        results.append((logits, model.decoder.embedding.weight.grad.clone(), torch.get_rng_state()))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    weights = record.weights("decoder.attention")
    assert weights.shape[-1] == 5
    torch.testing.assert_close(weights.sum(dim=-1)[:, :, :1], torch.ones_like(weights.sum(dim=-1)[:, :, :1]))
