"""Neural Turing machines, and the LSTM they are compared with: the equations step by step, and what depends on what."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.checkpoints import parameters_of, read_model, write_model
from regard.errors import InputError
from regard.models import NTM, LSTMTransducer, LSTMTransducerConfig, NTMConfig
from regard.models.config import config_from_json, config_to_json


def tiny(**changes: Any) -> NTMConfig:
    sizes: dict[str, Any] = {
        "inputs": 3,
        "outputs": 2,
        "slots": 5,
        "slot_width": 4,
        "heads": 2,
        "controller_width": 6,
    }
    return NTMConfig(**(sizes | changes))


VARIANTS = {
    "lstm": tiny(),
    "feedforward": tiny(controller="feedforward"),
    "one head": tiny(heads=1, reach=2),
    "baseline": LSTMTransducerConfig(inputs=3, outputs=2, hidden_width=6, layers=2),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def built(config: Any, randomize: Any, scale: float = 1.0) -> Any:
    kind = NTM if isinstance(config, NTMConfig) else LSTMTransducer
    return randomize(kind(config), scale=scale).double().eval()


def drawn(generator: torch.Generator, steps: int = 6) -> Tensor:
    return torch.randn(2, steps, 3, generator=generator, dtype=torch.float64)


def softplus(x: Tensor) -> Tensor:
    return (1 + x.exp()).log()


def written_out(model: NTM, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """One sequence (T, I) by the equations, head by head: logits (T, O), and the weights of each step (2H, N)."""
    config = model.config
    slots, width, heads = config.slots, config.slot_width, config.heads
    memory = torch.full((slots, width), 1e-6, dtype=torch.float64)
    weights = [model.places[head].softmax(dim=0) for head in range(2 * heads)]
    read = torch.zeros(heads * width, dtype=torch.float64)
    n = config.controller_width
    hidden, cell = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    told, looked = [], []
    for vector in x:
        controller = model.controller
        if config.controller == "lstm":
            i, f, g, o = (
                controller.input.weight @ vector
                + controller.input.bias
                + controller.context.weight @ read
                + controller.recurrent.weight @ hidden
            ).split(n)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
        else:
            hidden = torch.tanh(controller.input(vector) + controller.read.weight @ read)
        parts = model.address(hidden).view(2 * heads, -1)
        found = []
        for head in range(2 * heads):
            key, beta, gate, shift, gamma = parts[head].split((width, 1, 1, 2 * config.reach + 1, 1))
            cosines = torch.stack([key @ row / (key.norm() * row.norm()) for row in memory])
            content = (softplus(beta) * cosines).exp()
            gated = torch.sigmoid(gate) * content / content.sum() + (1 - torch.sigmoid(gate)) * weights[head]
            shares = shift.exp() / shift.exp().sum()
            moved = sum(shares[j + config.reach] * gated.roll(j) for j in range(-config.reach, config.reach + 1))
            sharp = moved ** (1 + softplus(gamma))
            found.append(sharp / sharp.sum())
        weights = found
        read = torch.cat([weights[head] @ memory for head in range(heads)])
        erased, added = model.write(hidden).view(heads, 2, width).unbind(dim=1)
        for head in range(heads):
            memory = memory * (1 - torch.outer(weights[heads + head], torch.sigmoid(erased[head])))
        for head in range(heads):
            memory = memory + torch.outer(weights[heads + head], added[head])
        told.append(model.output(torch.cat((hidden, read))))
        looked.append(torch.stack(weights))
    return torch.stack(told), looked


@pytest.mark.parametrize("variant", ["lstm", "feedforward", "one head"])
def test_every_step_is_that_of_the_equations(variant, randomize, generator, seeded):
    model, x = built(VARIANTS[variant], randomize), drawn(generator)
    logits = model(x)
    for row in range(2):
        expected, _ = written_out(model, x[row])
        torch.testing.assert_close(logits[row], expected, rtol=1e-8, atol=1e-10)


def test_the_weights_of_all_heads_are_seen_a_row_for_each_step(randomize, generator, seeded):
    model, x = built(tiny(), randomize), drawn(generator)
    with regard.look(model) as seen:
        model(x)
    (address,) = seen.addresses
    weights = seen.weights(address)
    assert weights.shape == (2, 4, 6, 5)  # batch, two heads that read and two that write, steps, slots
    for row in range(2):
        expected = torch.stack(written_out(model, x[row])[1], dim=1)
        torch.testing.assert_close(weights[row].double(), expected, rtol=1e-5, atol=1e-6)


@every_variant
def test_a_step_depends_on_those_up_to_it_and_on_no_other_row(variant, randomize, generator, seeded):
    model, x = built(VARIANTS[variant], randomize), drawn(generator).requires_grad_()
    logits = model(x)
    assert logits.shape == (2, 6, 2)
    for t in range(6):
        (gradient,) = torch.autograd.grad(logits[1, t].square().sum(), x, retain_graph=True)
        assert (gradient[1, t + 1 :] == 0).all()
        assert (gradient[1, : t + 1].abs().amax(dim=-1) > 0).all()
        assert (gradient[0] == 0).all()


@every_variant
def test_every_parameter_learns_and_folders_give_the_model_back(variant, randomize, generator, seeded, tmp_path):
    config = VARIANTS[variant]
    model = built(config, randomize)
    model(drawn(generator)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name
    model = model.float()
    write_model(tmp_path, config, parameters_of(model), task={}, recipe={}, metrics={})
    x = drawn(generator).float()
    torch.testing.assert_close(read_model(tmp_path)(x), model(x), rtol=0, atol=0)
    assert config_from_json(type(config), config_to_json(config), "config") == config


def test_a_fresh_machine_can_tell_its_slots_apart(seeded):
    """All slots are equal at first: only first weights that differ let one be written and not the others."""
    model = NTM(tiny())
    weights = model.start(torch.zeros(1, 3)).weights
    assert weights.std() > 0.01
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 4, 1))


def test_the_baseline_is_torchs_lstm(generator, randomize, seeded):
    model = built(VARIANTS["baseline"], randomize)
    oracle = torch.nn.LSTM(3, 6, 2, batch_first=True).double()
    with torch.no_grad():
        for place, cell in enumerate(model.stack.layers):
            getattr(oracle, f"weight_ih_l{place}").copy_(cell.input.weight)
            getattr(oracle, f"weight_hh_l{place}").copy_(cell.recurrent.weight)
            getattr(oracle, f"bias_ih_l{place}").copy_(cell.input.bias)
            getattr(oracle, f"bias_hh_l{place}").zero_()
    x = drawn(generator)
    torch.testing.assert_close(model(x), model.output(oracle(x)[0]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["slots", "slot_width", "heads", "reach", "controller_width", "inputs"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(InputError, match=f"{name} is 0"):
        tiny(**{name: 0})


def test_a_controller_that_is_none_is_refused():
    with pytest.raises(InputError, match="controller"):
        tiny(controller="lstmm")
