"""All steps of LSTM layers by the compiled kernel, alone or with attention and input feeding: equations, and when not used."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.kernels import Kernels, kernels
from regard.layers import LSTMStack, Tokens, lstm_steps, step_kernels
from regard.layers.lstm_steps import FedLayer, by_equation
from regard.models import Luong, LuongConfig

built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
NONE = Kernels(None, "left out by a test")


def drawn(generator, *shape, scale=1.0):
    return (scale * torch.randn(shape, generator=generator)).requires_grad_()


def problem(generator, rows, steps, width, asked, count, dropped):
    """What `fed_steps` takes, its tensors that have gradients, and these in float64 as `by_equation` takes them."""
    real = torch.rand(rows, steps, generator=generator) < 0.8
    visible = torch.rand(rows, asked, generator=generator) < 0.7
    visible[:, 0] = True
    projected, first = drawn(generator, rows, steps, 4 * width), drawn(generator, rows, width)
    combination = drawn(generator, width, 2 * width, scale=width**-0.5)
    keys, values = drawn(generator, rows, asked, width), drawn(generator, rows, asked, width)
    layers = []
    for number in range(count):
        mask = (torch.rand(rows, steps, width, generator=generator) < 0.8) / 0.8
        layers.append(
            FedLayer(
                input=drawn(generator, 4 * width, width, scale=width**-0.5),
                bias=drawn(generator, 4 * width) if number else None,
                hidden=drawn(generator, 4 * width, width, scale=width**-0.5),
                mask=mask if number and dropped else None,
                first=drawn(generator, rows, width),
                first_cell=drawn(generator, rows, width),
            )
        )
    leaves, exact = [projected, first, combination, keys, values], []
    for layer in layers:
        leaves += [x for x in (layer.input, layer.bias, layer.hidden, layer.first, layer.first_cell) if x is not None]
    exact = [x.detach().double().requires_grad_() for x in leaves]
    turned = exact[0].transpose(0, 1).unflatten(-1, (4, width))
    equation = [turned, *exact[1:6], None, *exact[6:]]
    masks = [None if layer.mask is None else layer.mask.transpose(0, 1).double() for layer in layers]
    given = (projected, real, first, layers, combination, keys, values, visible)
    return given, leaves, exact, lambda: by_equation(real.t(), visible, masks, *equation)[0].transpose(0, 1)


@built
@given(
    rows=st.integers(1, 20),
    steps=st.integers(1, 5),
    width=st.sampled_from([1, 5, 31, 32, 40, 64]),
    asked=st.sampled_from([1, 3, 7]),
    count=st.integers(1, 3),
    dropped=st.booleans(),
    low=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=50, deadline=None)
def test_results_and_gradients_equal_the_equation_in_float64(rows, steps, width, asked, count, dropped, low, seed):
    generator = torch.Generator().manual_seed(seed)
    given, leaves, exact, equation = problem(generator, rows, steps, width, asked, count, dropped)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        found = lstm_steps.fed_steps(*given)
    right, upstream = equation(), torch.randn(found.shape, generator=generator)
    gradients = torch.autograd.grad(found, leaves, upstream)
    for one, other in zip(
        [found, *gradients], [right, *torch.autograd.grad(right, exact, upstream.double())], strict=True
    ):
        assert one.shape == other.shape
        rounding = 0.08 if low else 1e-4
        assert (one.double() - other).abs().max() <= rounding * (1 + other.abs().max())


@built
def test_no_bit_depends_on_the_number_of_threads(generator):
    given, leaves, _, _ = problem(generator, 40, 6, 64, 5, 2, True)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            fed = lstm_steps.fed_steps(*given)
            found.append((fed, *torch.autograd.grad(fed.sum(), leaves[:2])))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@built
def test_states_may_be_parts_of_other_tensors(generator):
    """Of any strides: gradients are of the same places."""
    given, leaves, exact, equation = problem(generator, 6, 3, 32, 4, 2, False)
    turned = [x.detach().t().contiguous().t().requires_grad_() for x in (leaves[1], given[3][1].first)]
    layers = [given[3][0], dataclasses.replace(given[3][1], first=turned[1])]
    found = lstm_steps.fed_steps(given[0], given[1], turned[0], layers, *given[4:])
    right = torch.autograd.grad(equation().sum(), [exact[1], exact[-2]])
    for one, other in zip(torch.autograd.grad(found.sum(), turned), right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@built
def test_the_gradient_has_a_gradient(generator):
    given, leaves, exact, equation = problem(generator, 3, 4, 8, 4, 2, False)
    found = []
    for result, needing in ((lstm_steps.fed_steps(*given), leaves), (equation(), exact)):
        slopes = torch.autograd.grad(result.square().sum(), needing, create_graph=True)
        found.append(torch.autograd.grad(sum(x.square().sum() for x in slopes), needing))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


def problem_alone(generator, rows, steps, width):
    """What `lstm_steps` takes, its tensors that have gradients, and the equation of these in float64."""
    real = torch.rand(rows, steps, generator=generator) < 0.8
    leaves = [drawn(generator, rows, steps, 4 * width), drawn(generator, rows, width), drawn(generator, rows, width)]
    leaves.append(drawn(generator, 4 * width, width, scale=width**-0.5))
    exact = [x.detach().double().requires_grad_() for x in leaves]
    projected, first, cell, hidden = exact
    layer = (None, None, hidden, first, cell)

    def equation():
        turned = projected.transpose(0, 1).unflatten(-1, (4, width))
        states, cells = by_equation(real.t(), None, [None], turned, *(None,) * 4, *layer)
        return states.transpose(0, 1), cells

    return (leaves[0], real, *leaves[1:]), leaves, exact, equation


@built
@given(
    rows=st.integers(1, 20),
    steps=st.integers(1, 5),
    width=st.sampled_from([1, 5, 31, 32, 40, 64]),
    low=st.booleans(),
    outputs=st.sampled_from([(0,), (1,), (0, 1)]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=50, deadline=None)
def test_a_layer_alone_equals_the_equation_in_float64(rows, steps, width, low, outputs, seed):
    """Also where only the states or only the last cells are used."""
    generator = torch.Generator().manual_seed(seed)
    given, leaves, exact, equation = problem_alone(generator, rows, steps, width)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        both = lstm_steps.lstm_steps(*given)
    found, right = ([each[n] for n in outputs] for each in (both, equation()))
    upstreams = [torch.randn(x.shape, generator=generator) for x in found]
    gradients = torch.autograd.grad(found, leaves, upstreams)
    wanted = torch.autograd.grad(right, exact, [x.double() for x in upstreams])
    for one, other in zip([*found, *gradients], [*right, *wanted], strict=True):
        assert one.shape == other.shape
        assert (one.double() - other).abs().max() <= (0.08 if low else 1e-4) * (1 + other.abs().max())


@built
def test_the_gradient_of_a_layer_alone_has_a_gradient(generator):
    given, leaves, exact, equation = problem_alone(generator, 3, 4, 8)
    found = []
    for (states, cells), needing in ((lstm_steps.lstm_steps(*given), leaves), (equation(), exact)):
        slopes = torch.autograd.grad(states.square().sum() + cells.sum(), needing, create_graph=True)
        found.append(torch.autograd.grad(sum(x.square().sum() for x in slopes), needing))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


@built
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_stack_reads_the_same_by_the_kernel_and_by_pytorch(side, generator, monkeypatch):
    """Each layer in bfloat16 training, with padding on both sides, a text without any token, states given and a context."""
    stack = LSTMStack(6, 10, 2, residual_from=1, context_width=3).train()
    x, context = torch.randn(4, 5, 6, generator=generator), torch.randn(4, 5, 3, generator=generator)
    valid = torch.arange(5) < torch.tensor([[5], [2], [0], [3]])
    valid = valid.flip(1) if side == "left" else valid
    states = tuple(tuple(torch.randn(4, 10, generator=generator) for _ in range(2)) for _ in range(2))
    calls, found = [], []
    real = step_kernels.Call.run
    monkeypatch.setattr(step_kernels.Call, "run", lambda self, *given: (calls.append(given[0]), real(self, *given)))
    for kernel in (True, False):
        if not kernel:
            monkeypatch.setattr(step_kernels, "kernels", lambda: NONE)
        stack.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            outputs, after = stack.read(x, valid, states, context=context)
        results = [outputs[valid], *(each for pair in after for each in pair)]
        sum(each.float().square().sum() for each in results).backward()
        found.append([*results, *(parameter.grad.clone() for parameter in stack.parameters())])
    assert calls == ["regard_lstm"] * 2 + ["regard_lstm_gradient"] * 2
    for one, other in zip(*found, strict=True):
        assert (one.float() - other.float()).abs().max() <= 0.05 * (1 + other.float().abs().max())


def model(**given):
    sizes = {"source_vocabulary": 19, "target_vocabulary": 17, "embedding_width": 8, "hidden_width": 12, "layers": 2}
    return Luong(LuongConfig(**sizes | {"dropout": 0.0} | given)).train()


SOURCE, TARGET = Tokens.pad([[3, 4, 5, 2], [6, 7], [8, 9, 10, 11, 12]]), Tokens.pad([[1, 3, 4], [1], [1, 6, 7, 8]])


@built
def test_dropout_between_layers_is_drawn_anew_for_each_entry(monkeypatch):
    seen = []
    real = lstm_steps.fed_steps
    monkeypatch.setattr("regard.models.luong.fed_steps", lambda *given: (seen.append(given[3]), real(*given))[1])
    trained = model(dropout=0.4, hidden_width=64)
    first, second = trained(SOURCE, TARGET), trained(SOURCE, TARGET)
    assert not torch.equal(first, second)
    for lowest, upper in seen:
        assert lowest.mask is None
        kept = upper.mask != 0
        assert 0.5 < kept.float().mean() < 0.7
        torch.testing.assert_close(upper.mask[kept], torch.full_like(upper.mask[kept], 1 / 0.6), rtol=1e-4, atol=0)
    assert not torch.equal(seen[0][1].mask, seen[1][1].mask)


@built
@pytest.mark.parametrize(
    "way", ["evaluation", "no gradients", "double", "hook", "concat", "local_m", "no feeding", "kernels"]
)
def test_the_steps_are_plain_ones_wherever_the_kernel_would_miss_something(way, monkeypatch):
    monkeypatch.setattr(step_kernels.Call, "run", lambda *given: pytest.fail("the kernel was called"))
    changes = {
        "concat": {"score": "concat"},
        "local_m": {"attention": "local_m"},
        "no feeding": {"input_feeding": False},
    }
    found = model(**changes.get(way, {}))
    if way == "evaluation":
        found.eval()(SOURCE, TARGET)
    elif way == "no gradients":
        with torch.no_grad():
            found(SOURCE, TARGET)
    elif way == "double":
        found.double()(SOURCE, TARGET)
    elif way == "hook":
        seen = []
        found.decoder.combination.register_forward_hook(lambda *given: seen.append(given))
        found(SOURCE, TARGET)
        assert len(seen) == TARGET.ids.shape[1]
    else:
        if way == "kernels":
            monkeypatch.setattr(step_kernels, "kernels", lambda: NONE)
        found(SOURCE, TARGET)
