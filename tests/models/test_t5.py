"""T5 beside its equations, written out token by token, and what users do with it: search, look, change heads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import regard
from regard.attention import buckets_of
from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.layers import Tokens
from regard.models import T5, T5Config

SIZES = {
    "source_vocabulary": 13,
    "target_vocabulary": 13,
    "width": 6,
    "heads": 2,
    "head_width": 5,
    "feedforward_width": 7,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "buckets": 8,
    "maximum_distance": 9,
}
LATER = {"activation": "gelu_tanh", "gated": True, "sharing": "inputs", "scaled_output": False}
SOURCE, TARGET = [3, 9, 4, 4, 11, 5, 7, 1], [0, 6, 12, 6, 8]
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def build(seeded, randomize):
    def make(**changes) -> T5:
        return randomize(T5(T5Config(**(SIZES | changes)))).double().eval()

    return make


def plain(model: T5, source: list[int], target: list[int]) -> Tensor:
    """Logits by the paper's equations, one query and one head after another."""
    config, weights = model.config, dict(model.state_dict())
    table = weights["encoder.embedding.weight"]

    def norm(x: Tensor, name: str) -> Tensor:
        return weights[f"{name}.weight"] * x / torch.sqrt(x.square().mean(-1, keepdim=True) + config.norm_epsilon)

    def attended(name: str, x: Tensor, y: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
        q, k, v = (each @ weights[f"{name}.{part}.weight"].T for each, part in ((x, "query"), (y, "key"), (y, "value")))
        gathered = []
        for i in range(len(x)):
            seen = i + 1 if causal else len(y)
            heads = []
            for h in range(config.heads):
                one = slice(h * config.head_width, (h + 1) * config.head_width)
                scores = k[:seen, one] @ q[i, one]  # divided by nothing
                if bias is not None:
                    distance = torch.arange(seen) - i
                    index = buckets_of(
                        distance,
                        buckets=config.buckets,
                        maximum_distance=config.maximum_distance,
                        both_ways=not causal,
                    )
                    scores = scores + bias[index, h]
                heads.append(scores.softmax(0) @ v[:seen, one])
            gathered.append(torch.cat(heads))
        return torch.stack(gathered) @ weights[f"{name}.output.weight"].T

    def fed(name: str, x: Tensor) -> Tensor:
        inner = x @ weights[f"{name}.inner.weight"].T
        if config.gated:
            gate = x @ weights[f"{name}.gate.weight"].T
            gate = gate / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
            return (gate * inner) @ weights[f"{name}.outer.weight"].T
        return inner.clamp_min(0) @ weights[f"{name}.outer.weight"].T

    def stack(name: str, ids: list[int], memory: Tensor | None) -> Tensor:
        x, bias = table[ids], weights[f"{name}.relative.weight"]
        for i in range(2):
            layer = f"{name}.layers.{i}"
            y = norm(x, f"{layer}.attention_residual.before")
            x = x + attended(f"{layer}.attention", y, y, bias, causal=memory is not None)
            if memory is not None:
                y = norm(x, f"{layer}.cross_residual.before")
                x = x + attended(f"{layer}.cross_attention", y, memory, None, causal=False)
            x = x + fed(f"{layer}.feedforward", norm(x, f"{layer}.feedforward_residual.before"))
        return norm(x, f"{name}.norm")

    hidden = stack("decoder", target, stack("encoder", source, None))
    if config.sharing == "all":
        return config.width**-0.5 * hidden @ table.T
    return hidden @ weights["output.weight"].T


@pytest.mark.parametrize("changes", [{}, LATER], ids=["1.0", "1.1"])
def test_logits_are_those_of_the_equations(changes, build):
    model = build(**changes)
    found = model(Tokens.pad([SOURCE]), Tokens.pad([TARGET]))
    torch.testing.assert_close(found[0], plain(model, SOURCE, TARGET), **EXACT)


def test_order_comes_from_the_bias_alone(build):
    model = build()
    shuffled = [SOURCE[i] for i in (2, 0, 1, 5, 4, 7, 3, 6)]
    order = torch.tensor([2, 0, 1, 5, 4, 7, 3, 6])

    def apart() -> float:
        one, other = (model.encoder(Tokens.pad([ids])) for ids in (SOURCE, shuffled))
        return (one[:, order] - other).abs().max().item()

    assert apart() > 1e-3
    torch.nn.init.zeros_(model.encoder.relative.weight)
    assert apart() < 1e-12


def test_a_text_far_longer_than_the_largest_distance_is_read_and_written(build):
    model = build()
    source = Tokens.pad([[3 + i % 9 for i in range(60)]])
    target = Tokens.pad([[0, *(3 + i % 7 for i in range(50))]])
    state = model.start(source)
    forced = model(source, target)
    for t, tokens in enumerate(target.ids.unbind(dim=1)):
        logits, state = model.step(tokens, state)
        torch.testing.assert_close(logits, forced[:, t], **EXACT)


def test_the_start_token_that_is_also_padding_is_never_written(build):
    model = build()
    with torch.no_grad():
        model.encoder.embedding.weight[0] *= 40  # the table is the output's too: padding is the likeliest of all
    found = search(model, Tokens.pad([SOURCE, SOURCE[:3]]), GenerationSettings(beam=3, maximum_length=9))
    assert all(0 not in each.tokens for rows in found for each in rows)


def test_the_first_queries_and_keys_make_scores_of_variance_one(seeded):
    """Queries are drawn E^-1/2 times as large, which stands in for the division of scores; logits begin at variance one."""
    config = T5Config(source_vocabulary=600, target_vocabulary=600, width=256, heads=4, head_width=64)
    model = T5(config).eval()
    x = torch.randn(50, 256)
    layer = model.encoder.layers[0].attention
    scores = layer.query(x)[:, :64] @ layer.key(x)[:, :64].T  # type: ignore[operator]
    assert scores.std().item() == pytest.approx(1.0, abs=0.1)
    assert model.encoder.embedding.weight.std().item() == pytest.approx(1.0, abs=0.02)
    logits = model(Tokens.pad([SOURCE]), Tokens.pad([TARGET]))
    assert logits.std().item() == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_was_looked_at_can_be_read_later(side, build):
    model = build()
    source, target = Tokens.pad([SOURCE, SOURCE[:4]], side=side), Tokens.pad([TARGET, TARGET[:2]], side=side)
    with regard.look(model) as seen:
        looked = model(source, target)
    assert torch.equal(looked, model(source, target))
    addresses = seen.addresses
    assert len(addresses) == 6
    for address in addresses:
        weights = seen.weights(address)
        rows = (source if address.startswith("encoder") else target).valid
        assert torch.allclose(weights.sum(-1).transpose(1, 2)[rows], torch.ones(1, dtype=torch.float64))
    causal = seen.weights("decoder.layers.0.attention")
    assert (causal.triu(1) == 0).all()
    with torch.no_grad():
        model.decoder.layers[0].attention.query.weight.mul_(2)  # not what the weights are a function of
    assert torch.equal(seen.weights("decoder.layers.0.attention"), causal)


def test_a_search_is_recorded(build):
    model = build().float()
    source = Tokens.pad([SOURCE])
    with regard.look(model) as seen:
        (best, *_), *_ = search(
            model, source, GenerationSettings(beam=3, maximum_length=7, minimum_length=7), observer=seen.recorder
        )
    weights = seen.weights("decoder.layers.1.cross_attention")
    assert weights.shape[-2:] == (best.length, len(SOURCE))
    forced = Tokens.pad([[0, *best.tokens][: best.length]])
    with regard.look(model) as again:
        model(source, forced)
    for name in ("attention", "cross_attention"):
        address = f"decoder.layers.1.{name}"
        torch.testing.assert_close(seen.weights(address), again.weights(address), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"target_vocabulary": 14}, "target_vocabulary is 14 but must be source_vocabulary, 13"),
        ({"buckets": 7}, "buckets is 7 but must be an even number from 4"),
        ({"maximum_distance": 4}, "maximum_distance is 4 but must be above 4"),
        ({"head_width": 0}, "head_width is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"sharing": "none"}, "sharing is 'none'"),
        ({"alignment_layer": 2}, "alignment_layer is 2"),
        ({"end_id": 13}, "end_id is 13"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, says):
    with pytest.raises(InputError, match=says):
        T5Config(**(SIZES | changes))
