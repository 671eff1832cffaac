"""Attribution of any module's score: closed forms, finite differences, completeness, and that nothing is left behind."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.errors import InputError
from regard.inspection.analysis import GradientTimesInput, IntegratedGradients, token, zeros
from regard.inspection.analysis.gradients import nodes

IDS = torch.tensor([[1, 4, 2, 2], [3, 0, 4, 1]])


class Reader(nn.Module):
    """Embeds, mixes over places, and gives one number for each row."""

    def __init__(self, generator: torch.Generator, *, smooth: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 3)
        self.inner = nn.Linear(3, 5)
        self.outer = nn.Linear(5, 1)
        self.smooth = smooth
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, ids: Tensor, shift: float = 0.0) -> Tensor:
        hidden = self.inner(self.table(ids)) + shift
        mixed = (hidden.tanh() if self.smooth else hidden.relu()).mean(dim=1)
        return self.outer(mixed * mixed.roll(1, dims=-1)).squeeze(-1)


@pytest.fixture
def reader(generator) -> Reader:
    return Reader(generator).double().eval()


def of_vectors(reader: Reader, x: Tensor) -> Tensor:
    mixed = reader.inner(x).tanh().mean(dim=1)
    return reader.outer(mixed * mixed.roll(1, dims=-1)).squeeze(-1)


@pytest.mark.parametrize("method", [GradientTimesInput(), IntegratedGradients(steps=3)])
def test_a_linear_score_is_attributed_exactly(method):
    table, weight = nn.Embedding(6, 3).eval(), torch.randn(4, 3)
    found = method(table, lambda: (table(IDS) * weight).sum(dim=(1, 2)) + 7.0)
    torch.testing.assert_close(found.inputs[0].values, table.weight[IDS].detach() * weight)
    torch.testing.assert_close(found.inputs[0].scores, (table.weight[IDS].detach() * weight).sum(dim=-1))
    assert torch.equal(found.inputs[0].inputs, IDS)
    if isinstance(method, IntegratedGradients):
        assert found.error is not None
        assert found.error.abs().max() < 1e-5
        torch.testing.assert_close(found.baseline_score, torch.tensor([7.0, 7.0]))
    else:
        assert found.error is None


def test_gradient_times_input_is_the_finite_difference_times_the_input(reader):
    found = GradientTimesInput()(reader, lambda: reader(IDS))
    x, step = reader.table(IDS).detach(), 1e-6
    for b, s, d in np.ndindex(*x.shape):
        up, down = x.clone(), x.clone()
        up[b, s, d] += step
        down[b, s, d] -= step
        slope = (of_vectors(reader, up) - of_vectors(reader, down))[b] / (2 * step)
        assert float(found.inputs[0].values[b, s, d]) == pytest.approx(float((x[b, s, d] * slope).detach()), abs=1e-5)


@pytest.mark.parametrize(
    ("rule", "steps", "close"),
    [("gauss-legendre", 30, 1e-6), pytest.param("trapezoid", 1000, 1e-4, marks=pytest.mark.slow)],
)
def test_integrated_gradients_are_the_integral_of_finite_differences(reader, rule, steps, close):
    """The definition by hand: at each place of a fine grid the slope along each dimension, by Simpson's rule."""
    x, step, places = reader.table(IDS).detach(), 1e-5, 100
    weights = [1, *[4, 2] * (places // 2 - 1), 4, 1]
    wanted = torch.zeros_like(x)
    with torch.no_grad():
        for number, weight in enumerate(weights):
            point = number / places * x
            for s, d in np.ndindex(*x.shape[1:]):
                up, down = point.clone(), point.clone()
                up[:, s, d] += step
                down[:, s, d] -= step
                slope = (of_vectors(reader, up) - of_vectors(reader, down)) / (2 * step)
                wanted[:, s, d] += weight / (3 * places) * slope * x[:, s, d]
    found = IntegratedGradients(steps=steps, rule=rule)(reader, lambda: reader(IDS))
    torch.testing.assert_close(found.inputs[0].values, wanted, atol=close, rtol=1e-4)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_attributions_sum_to_the_difference_from_the_baseline(seed, padding):
    reader = Reader(torch.Generator().manual_seed(seed)).double().eval()
    for baseline in (zeros, token(padding), lambda embedded: torch.full((3,), 0.5)):
        found = IntegratedGradients(steps=60, baseline=baseline)(reader, lambda: reader(IDS))
        total = found.inputs[0].scores.sum(dim=1)
        assert found.baseline_score is not None
        torch.testing.assert_close(total, (found.score - found.baseline_score), atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(found.error, (total - found.score + found.baseline_score).float())


def test_a_token_that_is_the_baseline_gets_nothing(reader):
    found = IntegratedGradients(baseline=token(4))(reader, lambda: reader(IDS))
    assert not found.inputs[0].values[IDS == 4].any()
    assert found.inputs[0].values[IDS != 4].all()


@pytest.mark.slow
def test_the_error_shrinks_with_more_steps_and_says_the_truth_where_there_are_few(generator):
    reader = Reader(generator, smooth=False).double().eval()  # with kinks
    errors = {
        steps: float(IntegratedGradients(steps=steps, rule="trapezoid")(reader, lambda: reader(IDS)).error.abs().max())  # type: ignore[union-attr]
        for steps in (2, 20, 2000)
    }
    assert errors[2] > errors[20] > errors[2000]
    assert errors[2000] < 1e-3 < errors[2]


def test_rules_are_exact_up_to_their_degree():
    for steps in (1, 2, 5):
        places, weights = nodes(steps, "gauss-legendre")
        for degree in range(2 * steps):
            assert (weights * places**degree).sum() == pytest.approx(1 / (degree + 1))
    places, weights = nodes(4, "trapezoid")
    assert places.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert weights.sum() == pytest.approx(1)
    assert (weights * places).sum() == pytest.approx(1 / 2)


def test_rows_of_a_batch_are_attributed_as_if_alone_and_a_scalar_as_their_sum(reader):
    method = IntegratedGradients(steps=9)
    whole = method(reader, lambda: reader(IDS))
    for row in range(2):
        alone = method(reader, lambda row=row: reader(IDS[row : row + 1]))
        torch.testing.assert_close(alone.inputs[0].values[0], whole.inputs[0].values[row])
        torch.testing.assert_close(alone.error, whole.error[row : row + 1])  # type: ignore[index]
    summed = method(reader, lambda: reader(IDS).sum())
    torch.testing.assert_close(summed.inputs[0].values, whole.inputs[0].values)
    assert summed.score.dim() == 0
    torch.testing.assert_close(summed.error, whole.error.sum())  # type: ignore[union-attr]


def test_nothing_of_the_module_is_changed(reader):
    before = {name: value.clone() for name, value in reader.state_dict().items()}
    reader.table.weight.grad = torch.full_like(reader.table.weight, 3.0)
    output = reader(IDS)
    IntegratedGradients(steps=3)(reader, lambda: reader(IDS))
    with pytest.raises(RuntimeError, match="on purpose"):
        IntegratedGradients(steps=3)(reader, lambda: failing(reader))
    assert all(not part._forward_hooks for part in reader.modules())
    assert all(torch.equal(value, before[name]) for name, value in reader.state_dict().items())
    assert torch.equal(reader.table.weight.grad, torch.full_like(reader.table.weight, 3.0))
    assert all(parameter.grad is None for name, parameter in reader.named_parameters() if name != "table.weight")
    assert torch.equal(reader(IDS), output)


def failing(reader: Reader) -> Tensor:
    reader(IDS)
    raise RuntimeError("on purpose")


def test_frozen_parameters_and_a_callers_no_grad_do_not_matter(reader):
    method = IntegratedGradients(steps=5)
    wanted = method(reader, lambda: reader(IDS)).inputs[0].values
    reader.requires_grad_(False)
    for guard in (torch.no_grad, torch.inference_mode):
        with guard():
            torch.testing.assert_close(method(reader, lambda: reader(IDS)).inputs[0].values, wanted)


class Two(nn.Module):
    """One table under two names, read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(6, 3)
        self.target = self.source
        self.place = nn.Embedding(4, 3)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.source(source) + self.place(torch.arange(source.shape[1]))
        return (x.sum(dim=1) * self.target(target).sum(dim=1)).sum(dim=-1)


def test_a_shared_table_that_is_read_twice_is_two_inputs(generator):
    two = Two().eval()
    other = IDS[:, :2]
    for names in (["source"], ["target"], ["source", "target"]):
        found = GradientTimesInput()(two, lambda: two(IDS, other), embeddings=names)
        first, second = found.inputs
        assert torch.equal(first.inputs, IDS)
        assert torch.equal(second.inputs, other)
        x, y = two.source(IDS).detach(), two.source(other).detach()
        places = two.place.weight.sum(dim=0).detach()
        torch.testing.assert_close(first.values, x * y.sum(dim=1, keepdim=True))
        torch.testing.assert_close(second.values, y * (x.sum(dim=1, keepdim=True) + places))
    with pytest.raises(InputError, match="several embeddings in this module; choose from source, place"):
        GradientTimesInput()(two, lambda: two(IDS, other))


def test_what_cannot_be_attributed_is_refused(reader):
    method = GradientTimesInput()
    with pytest.raises(InputError, match="did you mean 'table'"):
        method(reader, lambda: reader(IDS), embeddings=["tabel"])
    with pytest.raises(InputError, match=r"no nn\.Embedding in this module"):
        method(nn.Linear(2, 3).eval(), lambda: torch.ones(1))
    with pytest.raises(InputError, match="does not call table"):
        method(reader, lambda: torch.ones(1))
    with pytest.raises(InputError, match="has no gradient"):
        method(reader, lambda: reader(IDS).detach())
    with pytest.raises(InputError, match=r"the score is \(2, 1\)"):
        method(reader, lambda: reader(IDS).unsqueeze(1))
    with pytest.raises(InputError, match="is no embedding"):
        _attribute_to_a_vector()
    with pytest.raises(InputError, match="training mode"):
        method(reader.train(), lambda: reader(IDS))
    reader.eval()
    with pytest.raises(InputError, match="does not broadcast"):
        IntegratedGradients(baseline=lambda embedded: torch.zeros(7))(reader, lambda: reader(IDS))
    with pytest.raises(InputError, match="none with the id 6"):
        IntegratedGradients(baseline=token(6))(reader, lambda: reader(IDS))
    with pytest.raises(InputError, match="is a Linear"):
        IntegratedGradients(baseline=token(1))(reader, lambda: reader(IDS), embeddings=["inner"])


def _attribute_to_a_vector() -> None:
    pooled = nn.Sequential(nn.Embedding(6, 3), nn.Flatten(0)).eval()
    GradientTimesInput()(pooled, lambda: pooled(IDS).sum(), embeddings=["1"])


def test_methods_say_their_settings():
    assert GradientTimesInput().description == "gradient times input"
    found = IntegratedGradients(steps=7, rule="trapezoid", baseline=token(4)).description
    assert found == "integrated gradients (7 steps, trapezoid, baseline token 4)"


def test_gradients_that_are_not_finite_are_refused():
    """The norm has no gradient at zero, where the way begins."""
    table = nn.Embedding(6, 3).eval()
    with pytest.raises(InputError, match="choose another baseline"):
        IntegratedGradients(steps=2, rule="trapezoid")(table, lambda: table(IDS).square().sum(dim=(1, 2)).sqrt())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "at least 1"),
        ({"steps": 1, "rule": "trapezoid"}, "at least 2"),
        ({"rule": "simpson"}, "choose from gauss-legendre, trapezoid"),
        ({"tokens_at_once": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        IntegratedGradients(**options)


def test_a_score_whose_calls_vary_is_refused(reader):
    turns = iter([1, 2, 2, 2])

    def score() -> Tensor:
        return sum(reader(IDS) for _ in range(next(turns)))  # type: ignore[return-value]

    with pytest.raises(InputError, match="must not vary"):
        IntegratedGradients(steps=2)(reader, score)


def test_what_other_threads_read_meanwhile_is_theirs(reader):
    wanted = reader(IDS.flip(1)).detach()
    found: list[Tensor] = []

    def score() -> Tensor:
        other = threading.Thread(target=lambda: found.append(reader(IDS.flip(1)).detach()))
        other.start()
        other.join()
        return reader(IDS)

    alone = IntegratedGradients(steps=3)(reader, lambda: reader(IDS))
    beside = IntegratedGradients(steps=3)(reader, score)
    assert len(beside.inputs) == 1
    assert torch.equal(beside.inputs[0].values, alone.inputs[0].values)
    assert all(torch.equal(each, wanted) for each in found)


def test_a_compiled_module_is_refused(reader):
    reader._compiled_call_impl = reader.forward  # what `reader.compile()` sets, without waiting for the compiler
    with pytest.raises(InputError, match=r"torch\.compile"):
        GradientTimesInput()(reader, lambda: reader(IDS))


def test_transformers_models_say_which_their_embedding_is(generator):
    """GPT-2 has two tables, one of positions; attributed by hand through inputs_embeds."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=11, n_positions=8, n_embd=6, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)

    def score(**inputs: Tensor) -> Tensor:
        return model(**inputs).logits[:, -1].log_softmax(dim=-1)[:, 3]

    found = IntegratedGradients(steps=8)(model, lambda: score(input_ids=IDS))
    assert found.inputs[0].address == "transformer.wte"
    x = model.transformer.wte(IDS).detach()
    total = torch.zeros_like(x)
    for place, weight in zip(*nodes(8, "gauss-legendre"), strict=True):
        point = (float(place) * x).requires_grad_()
        (slope,) = torch.autograd.grad(score(inputs_embeds=point).sum(), point)
        total += float(weight) * slope
    torch.testing.assert_close(found.inputs[0].values, total * x, atol=1e-5, rtol=1e-4)
    assert not math.isnan(float(found.error.sum()))  # type: ignore[union-attr]
