from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention import Addressed, AttentionInputs, Cosine, Dense, Padding, ScoredAttention

MEMORY = ScoredAttention(Cosine(), Addressed())


def written_out(
    memory: Tensor, key: Tensor, beta: float, previous: Tensor, gate: float, shift: Tensor, gamma: float
) -> Tensor:
    """Equations 5 to 9 for one head, slot by slot."""
    slots, reach = len(memory), len(shift) // 2
    scores = [beta * torch.dot(key, row) / (key.norm() * row.norm()) for row in memory]
    content = torch.stack([score.exp() for score in scores])
    content = content / content.sum()
    gated = gate * content + (1 - gate) * previous
    moved = torch.zeros(slots, dtype=torch.float64)
    for i in range(slots):
        for j in range(-reach, reach + 1):
            moved[i] += gated[(i - j) % slots] * shift[j + reach]
    sharp = moved**gamma
    return sharp / sharp.sum()


def drawn(seed: int, *, heads: int = 2, slots: int = 5, width: int = 3, reach: int = 1) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return {
        "query": random(1, heads, 1, width),
        "key": random(1, 1, slots, width),
        "record": {
            "strength": random(1, heads, 1).exp(),
            "previous": random(1, heads, 1, slots).softmax(dim=-1),
            "gate": torch.sigmoid(random(1, heads, 1)),
            "shift": random(1, heads, 1, 2 * reach + 1).softmax(dim=-1),
            "sharpness": 1 + random(1, heads, 1).exp(),
        },
    }


@pytest.mark.parametrize(("slots", "reach"), [(5, 1), (7, 2), (3, 1), (2, 1), (1, 1), (4, 5)])
def test_addressing_is_that_of_the_equations(slots, reach):
    """Also where a step is as long as the ring, or longer."""
    case = drawn(3, slots=slots, reach=reach)
    weights = MEMORY.weights(AttentionInputs(**case))
    for head in range(2):
        parts = {name: part[0, head, 0] for name, part in case["record"].items()}
        expected = written_out(
            case["key"][0, 0],
            case["query"][0, head, 0],
            float(parts["strength"]),
            parts["previous"],
            float(parts["gate"]),
            parts["shift"],
            float(parts["sharpness"]),
        )
        torch.testing.assert_close(weights[0, head, 0], expected, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10_000), slots=st.integers(1, 6), reach=st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_a_memory_with_masked_slots_is_the_memory_without_them(seed, slots, reach):
    """The ring closes over what is seen; the other way of computing it agrees with the short one."""
    case = drawn(seed, slots=slots, reach=reach)
    plain = MEMORY.weights(AttentionInputs(**case))
    everything = torch.ones(1, slots, dtype=torch.bool)
    torch.testing.assert_close(MEMORY.weights(AttentionInputs(**case, mask=Padding(everything))), plain)
    between = torch.tensor([bit for place in range(slots) for bit in (True, False)])
    wide = {name: torch.randn(1, 1, 2 * slots, 3, dtype=torch.float64) for name in ("key",)}
    wide["key"][:, :, between] = case["key"]
    previous = torch.full((1, 2, 1, 2 * slots), 0.3, dtype=torch.float64)
    previous[..., between] = case["record"]["previous"]
    record = case["record"] | {"previous": previous}
    masked = AttentionInputs(query=case["query"], **wide, record=record, mask=Dense(between.view(1, 1, 1, -1)))
    weights = MEMORY.weights(masked)
    torch.testing.assert_close(weights[..., between], plain)
    assert (weights[..., ~between] == 0).all()


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_a_weight_moves_to_the_slot_the_shift_says_and_round_the_end(step):
    for place in range(4):
        previous = torch.nn.functional.one_hot(torch.tensor(place), 4).view(1, 1, 1, 4).float()
        shift = torch.nn.functional.one_hot(torch.tensor(step + 1), 3).view(1, 1, 1, 3).float()
        one = torch.ones(1, 1, 1)
        record = {"previous": previous, "gate": 0 * one, "shift": shift, "sharpness": one}
        inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.ones(1, 1, 4, 2), record=record)
        assert MEMORY.weights(inputs).argmax() == (place + step) % 4
        assert MEMORY.weights(inputs).max() > 1 - 1e-6


def test_a_shift_that_is_not_sure_blurs_and_sharpening_takes_it_back():
    """The paper's example: shares of 0.1, 0.8 and 0.1 over a weight on one slot."""
    previous = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).view(1, 1, 1, 5)
    shift = torch.tensor([0.1, 0.8, 0.1]).view(1, 1, 1, 3)
    one = torch.ones(1, 1, 1)
    found = []
    for gamma in (1.0, 4.0):
        record = {"previous": previous, "gate": 0 * one, "shift": shift, "sharpness": gamma * one}
        inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.ones(1, 1, 5, 2), record=record)
        found.append(MEMORY.weights(inputs).flatten())
    torch.testing.assert_close(found[0], torch.tensor([0.0, 0.1, 0.8, 0.1, 0.0]))
    assert found[1][2] > 0.999


def test_great_sharpness_and_weights_of_nothing_stay_numbers_and_have_gradients():
    """0.1^400 is no float32; a plain power over its sum would be zero over zero."""
    previous = torch.full((1, 1, 1, 6), 0.1).requires_grad_()
    gate = torch.zeros(1, 1, 1, requires_grad=True)
    shift = torch.tensor([0.2, 0.6, 0.2]).view(1, 1, 1, 3)
    sharpness = torch.full((1, 1, 1), 400.0, requires_grad=True)
    record = {
        "previous": previous * torch.tensor([0.0, 1, 1, 0.5, 0, 0]),
        "gate": gate,
        "shift": shift,
        "sharpness": sharpness,
    }
    inputs = AttentionInputs(query=torch.ones(1, 1, 1, 2), key=torch.ones(1, 1, 6, 2), record=record)
    weights = MEMORY.weights(inputs)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0))
    weights.square().sum().backward()
    for leaf in (previous, gate, sharpness):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "part", "said"),
    [
        ("gate", None, r"record\['gate'\] is missing"),
        ("previous", torch.zeros(1, 2, 1, 4), r"previous has shape \(1, 2, 1, 4\)"),
        ("shift", torch.zeros(1, 2, 1, 2), "an odd size"),
        ("sharpness", torch.zeros(1, 2), "sharpness has shape"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(name, part, said):
    case = drawn(1)
    record = {key: value for key, value in case["record"].items() if key != name}
    case["record"] = record if part is None else record | {name: part}
    with pytest.raises(ValueError, match=said):
        MEMORY.weights(AttentionInputs(**case))
