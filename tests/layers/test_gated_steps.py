"""All steps of a gated recurrent network by the compiled kernel: its equation, both ways, and when it is not used."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.kernels import Kernels, kernels
from regard.layers import BidirectionalReader, Tokens, gated_steps, step_kernels
from regard.layers.gated_steps import Attended, by_equation
from regard.models import Bahdanau, BahdanauConfig

built = pytest.mark.skipif(kernels().library is None, reason=f"no compiled kernels: {kernels().why}")
NONE = Kernels(None, "left out by a test")


def drawn(generator, *shape, scale=1.0):
    return (scale * torch.randn(shape, generator=generator)).requires_grad_()


def problem(generator, rows, steps, width, asked=0, asking=0, wide=0):
    """What `gated_steps` takes and its tensors that have gradients, in the order of `by_equation`."""
    real = torch.rand(rows, steps, generator=generator) < 0.8
    leaves = [
        drawn(generator, rows, steps, 3 * width),
        drawn(generator, rows, width),
        drawn(generator, 2 * width, width, scale=width**-0.5),
        drawn(generator, width, width, scale=width**-0.5),
    ]
    attended = None
    if asked:
        visible = torch.rand(rows, asked, generator=generator) < 0.7
        visible[:, 0] = True
        context, query = (drawn(generator, *shape, scale=0.2) for shape in ((3 * width, wide), (asking, width)))
        weight, keys = drawn(generator, asking), drawn(generator, rows, asked, asking)
        values = drawn(generator, rows, asked, wide)
        attended = Attended(query=query, weight=weight, context=context, keys=keys, values=values, visible=visible)
        leaves += [context, query, weight, keys, values]
    return real, leaves, attended


def wanted(real, leaves, attended):
    """By the equation in float64: states, contexts and the tensors to differentiate by."""
    exact = [x.detach().double().requires_grad_() for x in leaves]
    projected = exact[0].transpose(0, 1).unflatten(-1, (3, exact[1].shape[1]))
    visible = None if attended is None else attended.visible
    states, contexts = by_equation(real.t(), visible, projected, *exact[1:])
    return states.transpose(0, 1), contexts.transpose(0, 1), exact


@built
@given(
    rows=st.integers(1, 20),
    steps=st.integers(1, 5),
    width=st.sampled_from([1, 5, 31, 32, 40, 64]),
    asked=st.sampled_from([0, 1, 3, 7]),
    asking=st.sampled_from([1, 24, 32]),
    wide=st.sampled_from([2, 32, 70]),
    low=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None)
def test_states_contexts_and_gradients_equal_the_equation_in_float64(
    rows, steps, width, asked, asking, wide, low, seed
):
    generator = torch.Generator().manual_seed(seed)
    real, leaves, attended = problem(generator, rows, steps, width, asked, asking, wide)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        states, contexts = gated_steps.gated_steps(leaves[0], real, *leaves[1:4], attended)
    found = [states] if contexts is None else [states, contexts]
    right_states, right_contexts, exact = wanted(real, leaves, attended)
    right = [right_states, right_contexts][: len(found)]
    upstreams = [torch.randn(x.shape, generator=generator) for x in found]
    gradients = torch.autograd.grad(found, leaves, upstreams)
    right_gradients = torch.autograd.grad(right, exact, [x.double() for x in upstreams])
    for one, other in zip([*found, *gradients], [*right, *right_gradients], strict=True):
        assert one.shape == other.shape
        rounding = 0.08 if low else 1e-4
        error = (one.double() - other).abs().max()
        assert error <= rounding * (1 + other.abs().max())


@built
def test_no_bit_depends_on_the_number_of_threads_or_on_other_rows(generator):
    real, leaves, attended = problem(generator, 40, 6, 64, 5, 32, 96)
    assert attended is not None
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            states, contexts = gated_steps.gated_steps(leaves[0], real, *leaves[1:4], attended)
            found.append((states, contexts, *torch.autograd.grad(states.sum() + contexts.sum(), leaves[:2])))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    few = Attended(
        query=attended.query,
        weight=attended.weight,
        context=attended.context,
        keys=attended.keys[3:7],
        values=attended.values[3:7],
        visible=attended.visible[3:7],
    )
    states, contexts = gated_steps.gated_steps(leaves[0][3:7], real[3:7], leaves[1][3:7], *leaves[2:4], few)
    assert torch.equal(states, found[0][0][3:7])
    assert torch.equal(contexts, found[0][1][3:7])


@built
@pytest.mark.parametrize("asked", [0, 4])
def test_the_gradient_has_a_gradient(asked, generator):
    real, leaves, attended = problem(generator, 3, 4, 8, asked, 6, 10)
    leaves[2].requires_grad_(False)
    needing = [leaves[0], leaves[3]]
    states, _ = gated_steps.gated_steps(leaves[0], real, *leaves[1:4], attended)
    slopes = torch.autograd.grad(states.square().sum(), needing, create_graph=True)
    found = torch.autograd.grad(sum(x.square().sum() for x in slopes), needing)
    right, _, exact = wanted(real, leaves, attended)
    slopes = torch.autograd.grad(right.square().sum(), [exact[0], exact[3]], create_graph=True)
    for one, other in zip(
        found, torch.autograd.grad(sum(x.square().sum() for x in slopes), [exact[0], exact[3]]), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def model(**given):
    sizes = {"source_vocabulary": 19, "target_vocabulary": 17, "embedding_width": 8, "hidden_width": 12}
    return Bahdanau(BahdanauConfig(**sizes | {"attention_width": 10, "maxout_width": 6} | given)).train()


SOURCE, TARGET = Tokens.pad([[3, 4, 5, 2], [6, 7], [8, 9, 10, 11, 12]]), Tokens.pad([[1, 3, 4], [1], [1, 6, 7, 8]])


@built
@pytest.mark.parametrize("way", ["evaluation", "no gradients", "double", "hook", "other score", "adapted", "kernels"])
def test_the_steps_are_plain_ones_wherever_the_kernel_would_miss_something(way, monkeypatch):
    monkeypatch.setattr(step_kernels.Call, "run", lambda *given: pytest.fail("the kernel was called"))
    found = model(score="dot") if way == "other score" else model()
    if way == "other score":
        with pytest.raises(pytest.fail.Exception):  # the encoder's steps are still those of the kernel
            found(SOURCE, TARGET)
        encoded = [x.detach() for x in found.eval().encoder(SOURCE)]
        found.train().decoder(found.decoder.begin(*encoded, SOURCE), TARGET)
    elif way == "evaluation":
        found.eval()(SOURCE, TARGET)
    elif way == "no gradients":
        with torch.no_grad():
            found(SOURCE, TARGET)
    elif way == "double":
        found.double()(SOURCE, TARGET)
    elif way == "hook":
        seen = []
        for part in (found.decoder.cell.candidate, found.encoder.reader.forwards.gates):
            part.register_forward_hook(lambda *given: seen.append(given))
        found.encoder.reader.backwards.gates.register_forward_hook(lambda *given: None)
        found(SOURCE, TARGET)
        assert len(seen) == TARGET.ids.shape[1]
    elif way == "adapted":

        class Own(nn.Linear):
            pass

        for part in (found.decoder, found.encoder.reader.forwards, found.encoder.reader.backwards):
            cell = getattr(part, "cell", part)
            cell.candidate.__class__ = Own
        found(SOURCE, TARGET)
    else:
        monkeypatch.setattr(step_kernels, "kernels", lambda: NONE)
        found(SOURCE, TARGET)


@built
def test_a_reader_gives_the_same_states_in_training_and_in_evaluation(generator):
    reader = BidirectionalReader(6, 10)
    x, valid = torch.randn(3, 7, 6, generator=generator), torch.rand(3, 7, generator=generator) < 0.7
    for one, other in zip(reader.train()(x, valid), copy.deepcopy(reader).eval()(x, valid), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
