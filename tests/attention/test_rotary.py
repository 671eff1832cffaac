"""Rotary position embeddings (Su et al. 2021)."""

from __future__ import annotations

import cmath
import math

import pytest
import torch
from torch import nn

from regard.attention import (
    AttentionInputs,
    Causal,
    MultiHeadAttention,
    Positions,
    Rotary,
    RotaryScaling,
    SharedAttention,
)
from regard.attention.layer import split_heads
from regard.errors import InputError

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
    with pytest.raises(ValueError, match="the width 3 is odd"):
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


# --- scaling for longer texts --------------------------------------------------------------------------------------

TRAINED = 16
SCALINGS = {
    "linear": RotaryScaling(kind="linear", factor=2.5),
    "dynamic": RotaryScaling(kind="dynamic", factor=2.0, trained_positions=TRAINED),
    "llama3": RotaryScaling(
        kind="llama3", factor=8.0, trained_positions=TRAINED, low_frequency=0.5, high_frequency=2.0
    ),
    "yarn": RotaryScaling(kind="yarn", factor=4.0, trained_positions=TRAINED, beta_fast=3.0, beta_slow=0.4),
    "yarn of whole channels": RotaryScaling(kind="yarn", factor=4.0, trained_positions=TRAINED, attention_factor=1.5),
}


def frequency(kind: str, k: int, place: int, width: int, base: float) -> float:
    """w_k of each scaling, written plainly."""
    said = SCALINGS[kind]
    plain = base ** (-2 * k / width)
    if kind == "linear":
        return plain / 2.5
    if kind == "dynamic":
        length = max(place + 1, TRAINED)
        return (base * (2.0 * length / TRAINED - 1) ** (width / (width - 2))) ** (-2 * k / width)
    if kind == "llama3":
        wave = 2 * math.pi / plain
        if wave < TRAINED / said.high_frequency:
            return plain
        if wave > TRAINED / said.low_frequency:
            return plain / 8.0
        share = (TRAINED / wave - said.low_frequency) / (said.high_frequency - said.low_frequency)
        return (1 - share) * plain / 8.0 + share * plain

    def channel(turns: float) -> float:
        return width * math.log(TRAINED / (2 * math.pi * turns)) / (2 * math.log(base))

    first = max(math.floor(channel(said.beta_fast)), 0)
    last = min(math.ceil(channel(said.beta_slow)), width - 1)
    ramp = min(max((k - first) / (last - first), 0.0), 1.0)
    return (1 - ramp) * plain + ramp * plain / 4.0


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_scaling_turns_by_its_own_frequencies(kind):
    width, base = 12, 50.0
    angles = Rotary(width, 40, base=base, scaling=SCALINGS[kind]).angles(torch.arange(40))
    expected = [[place * frequency(kind, k, place, width, base) for k in range(width // 2)] for place in range(40)]
    torch.testing.assert_close(angles, torch.tensor(expected, dtype=torch.float64))


def test_yarn_makes_vectors_longer_and_the_others_do_not(generator):
    x = torch.randn(1, 1, 3, 8, generator=generator)
    for kind, longer in (("yarn", 0.1 * math.log(4) + 1), ("yarn of whole channels", 1.5), ("llama3", 1.0)):
        found = Rotary(8, 20, scaling=SCALINGS[kind])(x, torch.tensor([[4, 9, 19]]))
        torch.testing.assert_close(found.norm(dim=-1), x.norm(dim=-1) * longer)


def test_the_first_channels_alone_are_turned_where_it_is_narrower_than_a_head(generator):
    rotary, x = Rotary(4, 9), torch.randn(2, 3, 5, 10, generator=generator)
    places = torch.arange(5)[None]
    found = rotary(x, places)
    assert torch.equal(found[..., 4:], x[..., 4:])
    assert torch.equal(found[..., :4], rotary(x[..., :4].contiguous(), places))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"kind": "longer", "factor": 2.0}, "kind is 'longer'"),
        ({"kind": "linear", "factor": 0.5}, "factor is 0.5"),
        ({"kind": "yarn", "factor": 2.0}, "trained_positions is None"),
        ({"kind": "llama3", "factor": 2.0, "trained_positions": 4, "low_frequency": 5.0}, "low_frequency is 5.0"),
        ({"kind": "yarn", "factor": 2.0, "trained_positions": 4, "beta_slow": 40.0}, "beta_slow is 40.0"),
        ({"kind": "yarn", "factor": 2.0, "trained_positions": 4, "attention_factor": 0.0}, "attention_factor is 0.0"),
    ],
)
def test_a_scaling_that_cannot_be_is_refused(said, message):
    with pytest.raises(InputError, match=message):
        RotaryScaling(**said)


def test_queries_and_keys_are_normalised_in_each_head_before_they_are_turned(generator):
    norms = [nn.RMSNorm(4) for _ in range(2)]
    for norm in norms:
        nn.init.normal_(norm.weight, generator=generator)
    layer = MultiHeadAttention(6, 2, head_width=4, rotary=Rotary(4, 9), query_norm=norms[0], key_norm=norms[1])
    x = torch.randn(2, 5, 6, generator=generator)
    keys = layer.keys_values(x).key
    seen = layer.inputs(x, keys, mask=Causal())
    plain = split_heads(layer.query(x), 2), split_heads(layer.key(x), 2)
    places = torch.arange(5)[None]
    for found, projected, norm in zip((seen.query, keys), plain, norms, strict=True):
        size = projected.pow(2).mean(dim=-1, keepdim=True) + torch.finfo(torch.float32).eps
        torch.testing.assert_close(found, layer.rotary(projected / size.sqrt() * norm.weight, places))


def test_heads_may_have_a_width_of_their_own_and_the_output_no_bias():
    layer = MultiHeadAttention(6, 4, head_width=5, key_heads=2, output_bias=False)
    assert [layer.query.out_features, layer.key.out_features, layer.output.in_features] == [20, 10, 20]
    assert layer.output.bias is None
    assert layer.query.bias is not None
