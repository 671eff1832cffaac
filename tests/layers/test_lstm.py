"""LSTM layers: the whole-sequence kernel against steps, under padding, in every precision; residuals and contexts."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from regard.layers import DecoderState, LongShortTermMemoryCell, LSTMStack, LSTMStates

EXACT = {"rtol": 1e-10, "atol": 1e-12}
VALID = torch.tensor(
    [
        [True, True, True, True, True, True],
        [True, True, True, False, False, False],
        [False, False, False, False, True, True],
        [False, True, False, True, True, False],
        [False, False, False, False, False, False],
    ]
)
SETTINGS = {
    "plain": {},
    "residual": {"residual_from": 1},
    "residual from the bottom": {"residual_from": 0, "input_width": 5},
    "context": {"context_width": 3},
    "residual and context": {"residual_from": 1, "context_width": 3},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)


@pytest.fixture
def build(seeded, randomize):
    def make(setting: str, dtype: torch.dtype = torch.float64) -> LSTMStack:
        settings = {"input_width": 4, "width": 5, "layers": 3} | SETTINGS[setting]
        return randomize(LSTMStack(**settings)).to(dtype).eval()

    return make


def drawn(stack: LSTMStack, dtype: torch.dtype = torch.float64) -> tuple[Tensor, LSTMStates, Tensor | None]:
    """An input, states to start from, and a context where there is one."""
    draw = torch.Generator().manual_seed(3)
    bottom = stack.layers[0]
    rows, steps = VALID.shape

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype)

    states = tuple((noise(rows, 5), noise(rows, 5)) for _ in stack.layers)
    context = None if bottom.context is None else noise(rows, steps, bottom.context.in_features)
    return noise(rows, steps, bottom.input.in_features), states, context


def stepped(
    stack: LSTMStack, x: Tensor, states: LSTMStates, context: Tensor | None, *, backwards: bool = False
) -> tuple[Tensor, LSTMStates]:
    """`read`, one step after another over the whole batch, padding held by `real`."""
    outputs: dict[int, Tensor] = {}
    bottom = stack.layers[0]
    for t in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        a = None if context is None else context[:, t]
        projected = bottom.with_context(bottom.input(x[:, t]), a)
        outputs[t], states = stack.advance(x[:, t], projected, states, a, VALID[:, t : t + 1].to(x.dtype))
    return torch.stack([outputs[t] for t in range(x.shape[1])], dim=1), states


@every_setting
@pytest.mark.parametrize("backwards", [False, True])
def test_reading_is_stepping_with_padding_anywhere(setting, backwards, build):
    stack = build(setting)
    x, states, context = drawn(stack)
    outputs, after = stack.read(x, VALID, states, context=context, backwards=backwards)
    expected, last = stepped(stack, x, states, context, backwards=backwards)
    torch.testing.assert_close(outputs[VALID], expected[VALID], **EXACT)
    torch.testing.assert_close(after, last, **EXACT)


@every_setting
def test_the_gradients_of_reading_are_those_of_stepping(setting, build):
    """Of outputs and last states, to inputs, first states and parameters; and none to what stands at padding."""
    stack = build(setting)
    grads = []
    for read in (lambda x, s, c: stack.read(x, VALID, s, context=c), lambda x, s, c: stepped(stack, x, s, c)):
        stack.zero_grad()
        x, states, context = drawn(stack)
        leaves = [x, *itertools.chain(*states), *(() if context is None else (context,))]
        for leaf in leaves:
            leaf.requires_grad_()
        outputs, after = read(x, states, context)
        (outputs[VALID].square().sum() + sum(part.sin().sum() for state in after for part in state)).backward()
        grads.append([*(leaf.grad for leaf in leaves), *(parameter.grad for parameter in stack.parameters())])
        assert not x.grad[~VALID].any()
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_over_padding_the_cell_is_kept_bit_for_bit(dtype, autocast, build):
    """However much padding follows: what a row ends in is what it ended in after its last real token."""
    stack = build("plain", dtype)
    x, states, _ = drawn(stack, dtype)
    longer = torch.cat((x, 100 * torch.ones_like(x)), dim=1)
    padded = torch.cat((VALID, torch.zeros_like(VALID)), dim=1)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        _, expected = stack.read(x, VALID, states)
        _, after = stack.read(longer, padded, states)
    for old, new in zip(itertools.chain(*expected), itertools.chain(*after), strict=True):
        assert new.isfinite().all()
        assert torch.equal(old, new)
    for first, (hidden, memory) in zip(states, after, strict=True):
        assert torch.equal(hidden[-1], first[0][-1].to(hidden.dtype)), "a row without tokens stays where it was"
        assert torch.equal(memory[-1], first[1][-1].to(memory.dtype))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_low_precision_is_near_full(layers, seeded):
    """At widths the kernels are made for, odd and even, with padding."""
    for width in (31, 64):
        stack = LSTMStack(width, width, layers)
        x = torch.randn(5, 6, width)
        exact, states = stack.read(x, VALID)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough, after = stack.read(x, VALID)
            rough.float()[VALID].square().sum().backward()
        assert (rough.float() - exact)[VALID].norm() < 0.02 * exact[VALID].norm()
        for old, new in zip(itertools.chain(*states), itertools.chain(*after), strict=True):
            assert (old - new.float()).norm() < 0.02 * old.norm()
        assert all(parameter.grad.dtype == torch.float32 for parameter in stack.parameters())


def test_a_residual_layer_hands_up_its_input_too_but_does_not_remember_it(build):
    """x^i = m^i + x^{i-1}; the next step of layer i starts from m^i."""
    stack = build("residual")
    x, states, _ = drawn(stack)
    output, after = stack.step(x[:, 0], states)
    below, plain = x[:, 0], []
    for layer, (cell, state) in enumerate(zip(stack.layers, states, strict=True)):
        plain.append(cell(below, state))
        below = plain[-1][0] if layer == 0 else plain[-1][0] + below
    torch.testing.assert_close(output, below, **EXACT)
    torch.testing.assert_close(after, tuple(plain), **EXACT)
    assert not torch.allclose(output, after[-1][0])


def test_the_context_enters_every_layer(build):
    stack = build("context")
    x, states, context = drawn(stack)
    _, before = stack.read(x, VALID, states, context=context)
    for cell in stack.layers:
        kept = cell.context.weight.detach().clone()
        with torch.no_grad():
            cell.context.weight.zero_()
        _, after = stack.read(x, VALID, states, context=context)
        assert not torch.allclose(before[-1][1], after[-1][1])
        with torch.no_grad():
            cell.context.weight.copy_(kept)


def test_a_context_is_given_exactly_where_there_is_one(build):
    stack, plain = build("context"), build("plain")
    x, states, context = drawn(stack)
    for wrong in (
        lambda: stack.read(x, VALID, states),
        lambda: stack.step(x[:, 0], states),
        lambda: plain.read(x, VALID, states, context=context),
        lambda: plain.step(x[:, 0], states, context[:, 0]),
    ):
        with pytest.raises(ValueError, match="give a context if and only if"):
            wrong()


def test_dropout_lies_between_layers_only(seeded):
    """Not under the bottom layer, not on top, and what a residual adds is not dropped."""
    x = torch.ones(5, 6, 4)
    single = LSTMStack(4, 5, 1, dropout=0.5).train()
    assert torch.equal(single.read(x, VALID)[0], single.read(x, VALID)[0])
    double = LSTMStack(4, 5, 2, dropout=0.5, residual_from=1).train()
    with torch.no_grad():
        double.layers[1].input.weight.zero_()
    assert torch.equal(double.read(x, VALID)[0], double.read(x, VALID)[0]), "the dropped input counts for nothing now"
    deep = LSTMStack(4, 5, 2, dropout=0.5).train()
    assert not torch.equal(deep.read(x, VALID)[0], deep.read(x, VALID)[0])


def test_the_forget_bias_and_the_first_weights(seeded):
    cell = LongShortTermMemoryCell(40, 50, context_width=30, forget_bias=2.0)
    bias = cell.input.bias.view(4, 50)
    assert (bias[1] == 2).all()
    assert not bias[[0, 2, 3]].any()
    for weight in (cell.input.weight, cell.recurrent.weight, cell.context.weight):
        assert weight.abs().max() <= 50**-0.5
        assert weight.std().item() == pytest.approx((1 / 150) ** 0.5, rel=0.05)


def test_states_move_with_a_decoder_state(build):
    """Tuples of tensors are what `select` and `reorder` of a decoder state know to move."""
    from dataclasses import dataclass, field

    from regard.layers import TARGET

    @dataclass(frozen=True, kw_only=True, eq=False)
    class State(DecoderState):
        layers: LSTMStates = field(metadata=TARGET)

    stack = build("plain")
    _, states, _ = drawn(stack)
    rows = torch.tensor([4, 0, 0])
    moved = State(source_valid=VALID, layers=states).select(rows)
    torch.testing.assert_close(moved.layers, tuple((h[rows], c[rows]) for h, c in states), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_to_read(shape, build):
    stack = build("plain")
    outputs, states = stack.read(torch.zeros(*shape, 4, dtype=torch.float64), torch.ones(*shape, dtype=torch.bool))
    assert outputs.shape == (*shape, 5)
    assert all(part.shape == (shape[0], 5) and not part.any() for state in states for part in state)


@pytest.mark.parametrize(("layers", "residual_from"), [(0, None), (2, 0), (2, -1)])
def test_sizes_that_do_not_fit(layers, residual_from):
    with pytest.raises(ValueError, match=r"layers is 0|residual_from is -?[01]"):
        LSTMStack(4, 5, layers, residual_from=residual_from)
