"""Rollout against a loop over single paths, and its known properties."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.errors import InputError
from regard.inspection import AttentionView
from regard.inspection.analysis import Rollout


def stack(
    layers: int, batch: int, heads: int, length: int, *, causal: bool = False, seed: int = 3
) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    found = {}
    for layer in range(layers):
        scores = 2 * torch.randn(batch, heads, length, length, generator=draw)
        if causal:
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        found[f"layers.{layer}"] = scores.softmax(dim=-1)
    return found


def by_paths(layers: list[torch.Tensor], residual: float) -> torch.Tensor:
    """Every path from the input to the top, its weights multiplied, summed: (L, L) for one sentence."""
    length = layers[0].shape[-1]
    steps = []
    for weights in layers:
        mean = [
            [sum(float(weights[h, i, j]) for h in range(len(weights))) / len(weights) for j in range(length)]
            for i in range(length)
        ]
        steps.append(
            [[(1 - residual) * mean[i][j] + residual * (i == j) for j in range(length)] for i in range(length)]
        )
    total = torch.zeros(length, length, dtype=torch.float64)
    for path in itertools.product(range(length), repeat=len(layers) + 1):  # from the input up
        share = 1.0
        for layer, (below, above) in enumerate(itertools.pairwise(path)):
            share *= steps[layer][above][below]
        total[path[-1], path[0]] += share
    return total.float()


@pytest.mark.parametrize(("causal", "residual"), [(False, 0.5), (True, 0.5), (False, 0.0), (False, 0.8)])
def test_it_is_the_sum_over_all_paths_through_the_stack(causal, residual):
    layers = stack(3, 2, 2, 4, causal=causal)
    found = Rollout.of(layers, residual=residual)
    assert found.addresses == tuple(layers)
    for depth in range(3):
        for row in range(2):
            wanted = by_paths([weights[row] for weights in list(layers.values())[: depth + 1]], residual)
            torch.testing.assert_close(found.weights[depth, row], wanted)
    torch.testing.assert_close(found.after("layers.1"), found.weights[1])


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from(["mean", "max", "min"]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_sum_to_one_and_causal_stacks_stay_causal(seed, length, heads, causal):
    found = Rollout.of(stack(4, 2, 3, length, causal=causal, seed=seed), heads=heads)
    torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(4, 2, length))
    assert (found.weights >= 0).all()
    if causal:
        assert not found.weights.triu(1).any()


def test_attention_to_oneself_moves_nothing_and_even_attention_evens_out():
    identity = {f"layers.{i}": torch.eye(5).expand(1, 3, 5, 5) for i in range(4)}
    assert torch.equal(Rollout.of(identity).weights[-1, 0], torch.eye(5))
    even = {"layers.0": torch.full((1, 1, 4, 4), 0.25)}
    wanted = 0.5 * torch.full((4, 4), 0.25) + 0.5 * torch.eye(4)
    torch.testing.assert_close(Rollout.of(even).weights[0, 0], wanted)


def test_largest_and_smallest_heads_are_divided_by_their_sum():
    weights = stack(1, 1, 2, 3)["layers.0"]
    for name, fused in (("max", weights[0].amax(dim=0)), ("min", weights[0].amin(dim=0))):
        mixed = 0.5 * fused + 0.5 * torch.eye(3)
        found = Rollout.of({"a": weights}, heads=name).weights[0, 0]  # type: ignore[arg-type]
        torch.testing.assert_close(found, mixed / mixed.sum(dim=-1, keepdim=True))


@pytest.mark.parametrize("left", [0, 2])
def test_padding_on_either_side_changes_nothing(left):
    layers = stack(2, 1, 2, 3)
    alone = Rollout.of(layers)
    place = slice(left, left + 3)
    valid = torch.zeros(1, 5, dtype=torch.bool)
    valid[:, place] = True
    wide = {}
    for address, weights in layers.items():
        wide[address] = torch.rand(1, 2, 5, 5)  # queries at padding hold anything
        wide[address][:, :, place] = 0
        wide[address][:, :, place, place] = weights
    found = Rollout.of(wide, valid=valid)
    torch.testing.assert_close(found.weights[:, :, place, place], alone.weights)
    outside = ~(valid.unsqueeze(1) & valid.unsqueeze(2))
    assert not found.weights[:, outside].any()
    view = found.view(tokens=["x", "y", "z"])
    assert view.map("layers.1").weights.shape == (1, 3, 3)


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        ({}, {}, "layers is empty"),
        ({"a": torch.ones(1, 2, 3, 4)}, {}, "follows self-attention"),
        ({"a": torch.ones(1, 2, 3, 3), "b": torch.ones(1, 2, 4, 4)}, {}, "b: is for another batch or length"),
        ({"a": torch.ones(1, 2, 3, 3)}, {"residual": 1.0}, "residual is 1.0"),
        ({"a": torch.ones(1, 2, 3, 3)}, {"heads": "men"}, "did you mean 'mean'"),
        ({"a": torch.ones(1, 2, 3, 3)}, {"valid": torch.ones(1, 2)}, "give bool"),
    ],
)
def test_what_is_no_stack_of_self_attention_is_refused(layers, options, message):
    with pytest.raises(InputError, match=message):
        Rollout.of(layers, **options)


def test_a_record_is_rolled_out_one_stack_at_a_time(translator):
    model = translator("transformer")
    with regard.look(model.model) as seen, torch.no_grad():
        batch = model.teacher_forced([("abcdefgh", "AB"), ("abc", "ABCDE")])
        model.model(batch.source, batch.target)
    found = Rollout.of_record(seen, "encoder.*", row=1)
    assert found.addresses == ("encoder.layers.0.attention", "encoder.layers.1.attention")
    length = int(batch.source.valid[1].sum())
    assert found.weights.shape == (2, 1, length, length)
    plain = {address: seen.weights(address) for address in found.addresses}
    wanted = Rollout.of(plain, valid=batch.source.valid)
    torch.testing.assert_close(found.weights[:, 0], wanted.weights[:, 1, :length, :length])
    causal = Rollout.of_record(seen, ["decoder.layers.*.attention"], row=1)
    assert not causal.weights.triu(1).any()
    assert isinstance(found.view(), AttentionView)
    assert len(found.view().maps[0].key_tokens) == length
    for chosen, message in (
        ("*", "looks at another sentence"),
        ("decoder.layers.0.*", "looks at another sequence"),
        ("encodr.*", "choose from encoder"),
    ):
        with pytest.raises(InputError, match=message):
            Rollout.of_record(seen, chosen)
    with pytest.raises(InputError, match="did you mean"):
        found.after("encoder.layers.2.attention")
    with pytest.raises(InputError, match="row 3 of 1"):
        found.view(3)
