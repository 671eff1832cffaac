"""The linear maps of a prepared encoder against torch's own, with activation and residual sum."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.quantization import encoder_linear as maps
from regard.quantization.encoder_linear import FusedLinear, PlainLinear, packed_linear

ACTIVATIONS = {"none": None, "gelu": F.gelu, "relu": F.relu, "tanh gelu": partial(F.gelu, approximate="tanh")}
TOLERANCE = {"float32": 1e-5, "bfloat16": 4e-2, "int8": 6e-2, "int4": 0.3}


@pytest.fixture
def layers() -> list[nn.Linear]:
    """Three that read the same."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return [nn.Linear(24, width) for width in (7, 9, 16)]


def inputs(rows: int = 13) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    return torch.randn(rows, 24, generator=draw), torch.randn(rows, 32, generator=draw)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_several_layers_are_one_map(layers, precision, activation):
    x, residual = inputs()
    f = ACTIVATIONS[activation]
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    wanted = torch.cat([layer(x) for layer in layers], dim=1)
    found = packed_linear(layers, precision, f)(x.to(dtype)).float()
    torch.testing.assert_close(found, wanted if f is None else f(wanted), rtol=0, atol=TOLERANCE[precision])
    if f is None:
        found = packed_linear(layers, precision)(x.to(dtype), residual.to(dtype)).float()
        torch.testing.assert_close(found, wanted + residual, rtol=0, atol=TOLERANCE[precision])


def test_the_kernels_in_one_are_taken_where_they_are_and_left_where_they_are_not(layers, monkeypatch):
    if maps.fuses():
        assert isinstance(packed_linear(layers, "bfloat16", F.gelu), FusedLinear)
    assert isinstance(packed_linear(layers, "bfloat16", partial(F.gelu, approximate="tanh")), PlainLinear)
    assert isinstance(packed_linear(layers, "float32", F.gelu), PlainLinear)
    monkeypatch.setattr(maps, "_laid_out", lambda weight: torch.ops.mkldnn.no_such_operation(weight))
    maps.fuses.cache_clear()
    try:
        assert not maps.fuses()
        assert isinstance(packed_linear(layers, "bfloat16", F.gelu), PlainLinear)
    finally:
        monkeypatch.undo()
        maps.fuses.cache_clear()


def test_a_kernel_that_computes_something_else_is_not_taken(monkeypatch):
    monkeypatch.setattr(maps, "_laid_out", lambda weight: -weight)
    maps.fuses.cache_clear()
    try:
        assert not maps.fuses()
    finally:
        monkeypatch.undo()
        maps.fuses.cache_clear()


def test_a_token_in_int8_does_not_depend_on_others(layers):
    byte = packed_linear(layers, "int8")
    x, _ = inputs()
    loud = x.clone()
    loud[1:] *= 1e4
    torch.testing.assert_close(byte(loud)[0], byte(x)[0])
    assert byte(torch.zeros(2, 24)).isfinite().all()


def test_a_map_without_a_bias():
    layer = nn.Linear(24, 5, bias=False)
    x, _ = inputs()
    for precision, tolerance in TOLERANCE.items():
        found = packed_linear([layer], precision)(x.bfloat16() if precision == "bfloat16" else x)
        torch.testing.assert_close(found.float(), layer(x), rtol=0, atol=tolerance)
