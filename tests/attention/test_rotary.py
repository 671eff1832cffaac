"""Rotary position embeddings (Su et al. 2021)."""

from __future__ import annotations

import cmath
import math

import pytest
import torch

from regard.attention import AttentionInputs, Causal, MultiHeadAttention, Positions, Rotary, SharedAttention
from regard.attention.layer import split_heads

B, H, L, E = 2, 3, 5, 8
PLACES = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 30]])


def turned(x, place: int, base: float = 10000.0, neighbours: bool = False) -> list[float]:
    """One vector at one place, by complex numbers: a pair of channels times e^(i p w_k)."""
    half = len(x) // 2
    pairs = [(2 * k, 2 * k + 1) if neighbours else (k, k + half) for k in range(half)]
    found = [0.0] * len(x)
    for k, (real, imaginary) in enumerate(pairs):
        number = complex(x[real], x[imaginary]) * cmath.exp(1j * place * base ** (-2 * k / len(x)))
        found[real], found[imaginary] = number.real, number.imag
    return found


@pytest.mark.parametrize("neighbours", [False, True])
def test_pairs_of_channels_turn_by_the_papers_angles(neighbours, generator):
    x = torch.randn(B, H, L, E, generator=generator)
    found = Rotary(E, 31, base=500.0, neighbours=neighbours)(x, PLACES)
    expected = [
        [[turned(x[b, h, i].tolist(), int(PLACES[b, i]), 500.0, neighbours) for i in range(L)] for h in range(H)]
        for b in range(B)
    ]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_products_hang_on_the_distance_alone_and_lengths_stay(generator):
    rotary = Rotary(E, 200)
    query, key = (torch.randn(1, 1, L, E, generator=generator) for _ in range(2))
    places = torch.arange(L).unsqueeze(0)
    near, far = (rotary(query, places + by) @ rotary(key, places + by).mT for by in (0, 150))
    torch.testing.assert_close(near, far, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(rotary(query, places + 9).norm(dim=-1), query.norm(dim=-1))


def test_far_angles_are_exact_and_a_number_format_stays():
    """At place 9999 an angle computed in float32 would be off by more than this."""
    found = Rotary(2, 10_000)(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[9999]]))
    torch.testing.assert_close(found.flatten(), torch.tensor([math.cos(9999), math.sin(9999)]), rtol=0, atol=1e-6)
    assert Rotary(2, 4)(torch.zeros(1, 1, 1, 2, dtype=torch.bfloat16), torch.tensor([[3]])).dtype == torch.bfloat16


def test_nothing_of_it_is_saved_and_it_comes_back_from_the_meta_device():
    with torch.device("meta"):
        rotary = Rotary(4, 6)
    assert not rotary.state_dict()
    rotary.to_empty(device="cpu").reset_parameters()
    assert torch.equal(rotary.sines, Rotary(4, 6).sines)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="3 channels are no pairs"):
        Rotary(3, 5)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_a_layer_turns_queries_and_keys_by_their_positions(key_heads, generator, seeded):
    """Whole, with padding in front, and step by step after a cached past: the same answers."""
    layer = MultiHeadAttention(16, 4, key_heads=key_heads, rotary=Rotary(4, 20)).double().eval()
    x = torch.randn(1, 6, 16, generator=generator, dtype=torch.float64)
    whole = layer(x, layer.keys_values(x), mask=Causal())
    plain = layer.inputs(x, layer.keys_values(x).key)
    torch.testing.assert_close(plain.query, layer.rotary(split_heads(layer.query(x), 4), torch.arange(6)[None]))
    # As if it began at place 5: distances are what counts.
    later = Positions(6, 6, of_queries=torch.arange(5, 11)[None], of_keys=torch.arange(5, 11)[None])
    moved = layer(x, layer.keys_values(x, later.keys), mask=Causal(), positions=later)
    torch.testing.assert_close(moved, whole)
    past, steps = None, []
    for place in range(6):
        new = layer.keys_values(x[:, place : place + 1], torch.tensor([[place]]))
        past = new if past is None else past.extended(new)
        steps.append(layer(x[:, place : place + 1], past))  # the query is the last of the keys
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


def test_a_shared_projection_is_turned_once(generator, seeded):
    linear = [torch.nn.Linear(8, 8) for _ in range(3)]
    layer = SharedAttention(query_key=linear[0], value=linear[1], output=linear[2], attention=None, heads=2)  # type: ignore[arg-type]
    layer.rotary = Rotary(4, 20)
    x = torch.randn(1, 6, 8, generator=generator)
    key = layer.keys_values(x).key
    assert torch.equal(layer.queries(x[:, 4:], key), key[:, :, 4:])
    torch.testing.assert_close(key, layer.rotary(split_heads(linear[0](x), 2), torch.arange(6)[None]))
    assert AttentionInputs(query=key, key=key).in_order
