"""Weights in whole numbers: how near they are, and the order in which kernels read them."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.quantization.linear import GROUP, QuantizedLinear, QuantizedWeights

NONE = Kernels(None, "left out by a test")

built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")


def drawn(generator, *shape, scale=1.0):
    return torch.randn(*shape, generator=generator) * scale


def after(layer, activation, x):
    """What the kernel gives that applies an activation behind the layer."""
    struct, library = layer.struct(activation), kernels().library
    y = torch.empty(len(x), layer.out_features)
    scratch = torch.empty(library.regard_linear_scratch(struct, len(x)), dtype=torch.uint8)
    library.regard_linear(struct, x.data_ptr(), len(x), y.data_ptr(), layer.out_features, scratch.data_ptr())
    return y


def in_bytes(x):
    """Activations as the kernels round them: each group of 32 by its own largest magnitude."""
    filled = torch.nn.functional.pad(x, (0, -x.shape[1] % GROUP)).unflatten(1, (-1, GROUP))
    inverse = torch.where(filled.abs().amax(2, keepdim=True) == 0, 0.0, 127 / filled.abs().amax(2, keepdim=True))
    scale = filled.abs().amax(2, keepdim=True) / 127
    return ((filled * inverse).round() * scale).flatten(1)[:, : x.shape[1]]


@given(
    st.integers(1, 70),
    st.integers(1, 100),
    st.sampled_from([8, 4]),
    st.floats(1e-6, 1e4),
    st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=40)
def test_no_weight_is_further_from_its_number_than_half_a_step_of_the_widest_scale(outputs, inputs, bits, scale, seed):
    weight = drawn(torch.Generator().manual_seed(seed), outputs, inputs, scale=scale)
    found = QuantizedWeights.of(weight, bits)
    assert found.shape == (outputs, inputs)
    error = (found.dequantized() - weight).abs()
    if bits == 8:
        step = weight.abs().amax(dim=1, keepdim=True) / 127
        assert (error <= step * 0.501).all()
    else:  # in the squared mean of a group no worse than the plain scale, whose steps are an eighth of the largest
        padded = torch.nn.functional.pad(weight, (0, -inputs % GROUP)).unflatten(1, (-1, GROUP))
        largest = padded.gather(2, padded.abs().argmax(2, keepdim=True))
        plain_scale = (largest / -8).bfloat16().float()
        plain = torch.where(plain_scale == 0, 0.0, (padded / plain_scale).round().clamp(-8, 7) * plain_scale)
        ours = torch.nn.functional.pad(error, (0, -inputs % GROUP)).unflatten(1, (-1, GROUP)).square().sum(2)
        assert (ours <= (plain - padded).square().sum(2) * 1.0001 + 1e-30).all()


def test_whole_numbers_come_back_exactly():
    numbers = torch.arange(-127, 128).float()[None]
    assert torch.equal(QuantizedWeights.of(numbers, 8).dequantized(), numbers)
    nibbles = torch.arange(-8, 8).float().repeat(2)[None]
    assert torch.equal(QuantizedWeights.of(nibbles, 4).dequantized(), nibbles)
    assert torch.equal(QuantizedWeights.of(torch.zeros(3, 5), 4).dequantized(), torch.zeros(3, 5))


@built
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 13, 19])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (64, 96), (70, 100), (33, 32)])
def test_the_kernel_multiplies_the_numbers_that_it_was_given(generator, rows, outputs, inputs, bits):
    """Against the plain product, in float64, of the rounded weights and the rounded activations."""
    weight, bias = drawn(generator, outputs, inputs), drawn(generator, outputs)
    x = drawn(generator, rows, inputs, scale=3.0)
    found = QuantizedLinear(weight, bias, bits)(x)
    wanted = in_bytes(x).double() @ QuantizedWeights.of(weight, bits).dequantized().double().t() + bias
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)


@built
@pytest.mark.parametrize("bits", [8, 4])
def test_a_row_is_the_same_to_the_bit_whoever_stands_beside_it(generator, bits):
    layer = QuantizedLinear(drawn(generator, 70, 100), drawn(generator, 70), bits)
    x = drawn(generator, 19, 100)
    together = layer(x)
    for row in range(19):
        assert torch.equal(layer(x[row : row + 1])[0], together[row])
    shuffled = torch.randperm(19, generator=generator)[:11]
    assert torch.equal(layer(x[shuffled]), together[shuffled])


@built
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swish"])
def test_the_kernels_activations_are_pytorchs(generator, activation):
    weight, x = torch.eye(64), 60 * torch.linspace(-1, 1, 64 * 9).pow(3).view(9, 64)  # dense near 0, and far out
    plain = QuantizedLinear(weight, None, 8)(x)
    found = after(QuantizedLinear(weight, None, 8), activation, x)
    kind = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "swish": torch.nn.functional.silu}.get(activation)
    wanted = kind(plain) if kind else torch.nn.functional.gelu(plain, approximate="tanh")
    torch.testing.assert_close(found, wanted, rtol=2e-6, atol=2e-6)


@built
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_stays_so_and_stays_in_its_row(generator, poison):
    layer = QuantizedLinear(drawn(generator, 40, 64), None, 8)
    x = drawn(generator, 3, 64)
    clean = layer(x)
    x[1, 5] = poison
    found = layer(x)
    assert not found[1].isfinite().any()
    assert torch.equal(found[[0, 2]], clean[[0, 2]])


@built
@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "gelu_tanh", "swish"])
def test_numbers_too_small_to_be_divided_by_are_taken_as_zero(generator, activation):
    """127 divided by their largest would be infinite."""
    weight, bias = drawn(generator, 40, 64), drawn(generator, 40)
    layer = QuantizedLinear(weight, bias, 8)
    tiny = torch.linspace(-1e-37, 1e-37, 64)[None] * torch.tensor([[1.0], [1e-3], [1e-7], [0.0]])
    assert torch.equal(after(layer, activation, tiny), after(layer, activation, torch.zeros(4, 64)))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(poison, bits):
    """Of 4 bits, a group with an infinite weight would be nothing but zeros."""
    weight = torch.ones(3, 40)
    weight[1, 35] = poison
    with pytest.raises(InputError, match=f"NaN or infinite numbers cannot be rounded to {bits} bits"):
        QuantizedWeights.of(weight, bits)


@pytest.mark.parametrize("bits", [8, 4])
def test_without_a_compiler_pytorch_multiplies_the_same_weights(generator, bits):
    weight, bias, x = drawn(generator, 40, 64), drawn(generator, 40), drawn(generator, 3, 64)
    layer = QuantizedLinear(weight, bias, bits, compiled=NONE)
    assert layer.scales is None
    wanted = x @ QuantizedWeights.of(weight, bits).dequantized().t() + bias
    torch.testing.assert_close(layer(x), wanted, rtol=3e-2, atol=0.15)
    if kernels().library is not None:
        assert QuantizedLinear(weight, bias, bits).scales is not None


@pytest.mark.skipif(
    not kernels().reads_bfloat16, reason="the kernels do not multiply bfloat16 here, or PyTorch has matrix tiles"
)
@pytest.mark.parametrize("inputs", [64, 96, 70])
def test_rows_times_weights_in_bfloat16_have_their_own_bits_and_a_bias_in_float32(inputs, generator):
    weight, bias = torch.randn(50, inputs, generator=generator), 100 + torch.randn(50, generator=generator)
    layer = QuantizedLinear(weight, bias, 16)
    layer.batch_invariant = True
    assert layer.by_kernel == (inputs % 32 == 0)
    x = torch.randn(37, inputs, generator=generator)
    found = layer(x)
    # Without instructions for bfloat16 the kernel leaves rows in float32.
    halves = kernels().library.regard_multiplies_bfloat16() or not layer.by_kernel
    rows = x.bfloat16() if halves else x
    exact = rows.double() @ weight.bfloat16().double().T + bias.double()
    # PyTorch's bias and output are rounded to bfloat16, whose steps near 100 are 0.5.
    assert (found - exact).abs().max() <= (1e-4 if layer.by_kernel else 0.5)
    for count in (1, 2, 3, 4, 8, 9):
        assert torch.equal(layer(x[:count]), found[:count])
    without = QuantizedLinear(weight, bias, 16, compiled=Kernels(None))
    assert not without.by_kernel
    assert not pickle.loads(pickle.dumps(without)).by_kernel
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), found)
