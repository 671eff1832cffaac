"""Both Universal Sentence Encoders beside their equations, and what a sum over the root of its length keeps."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import sinusoids
from regard.layers import Tokens
from regard.models import USEAveraging, USEAveragingConfig, USETransformer, USETransformerConfig
from regard.models.universal_sentence_encoder import bigram_rows

TEXTS = [[1, 4, 5, 6, 2], [1, 7, 2], [1, 8, 9, 4, 4, 3, 2]]


@pytest.fixture
def transformer(seeded, randomize):
    config = USETransformerConfig(vocabulary=11, width=12, heads=3, feedforward_width=10, layers=2, maximum_positions=9)
    return randomize(USETransformer(config)).double().eval()


@pytest.fixture
def averaging(seeded, randomize):
    def make(**changes) -> USEAveraging:
        config = USEAveragingConfig(
            **({"vocabulary": 11, "width": 6, "bigrams": 40, "feedforward_layers": 3} | changes)
        )
        return randomize(USEAveraging(config), scale=1.5).double().eval()

    return make


def block(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """One post-norm block over (L, D), written with PyTorch's functions."""

    def linear(name: str, y: Tensor) -> Tensor:
        return F.linear(y, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, y: Tensor) -> Tensor:
        return F.layer_norm(y, y.shape[-1:], weights[f"{name}.after.weight"], weights[f"{name}.after.bias"])

    q, k, v = (
        linear(f"attention.{part}", x).unflatten(-1, (3, 4)).transpose(0, 1) for part in ("query", "key", "value")
    )
    heads = (q @ k.transpose(1, 2) / math.sqrt(4)).softmax(dim=-1) @ v
    x = norm("attention_residual", x + linear("attention.output", heads.transpose(0, 1).flatten(1)))
    return norm("feedforward_residual", x + linear("feedforward.outer", linear("feedforward.inner", x).relu()))


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_transformers_vector_is_the_sum_over_the_root_of_the_length(side, transformer):
    found = transformer(Tokens.pad(TEXTS, side=side)).pooled
    weights = transformer.state_dict()
    for row, ids in enumerate(TEXTS):
        x = math.sqrt(12) * weights["embedding.tokens.weight"][torch.tensor(ids)]
        x = x + sinusoids(torch.arange(len(ids)), 12).double()
        for number in range(2):
            prefix = f"blocks.{number}."
            x = block({name.removeprefix(prefix): part for name, part in weights.items() if name.startswith(prefix)}, x)
        torch.testing.assert_close(found[row], x.sum(dim=0) / math.sqrt(len(ids)), rtol=1e-5, atol=1e-6)


def test_the_variance_of_the_sum_over_the_root_does_not_hang_on_the_length(transformer, generator):
    """Of terms drawn apart it stays 1; that of their mean falls as 1 / n."""
    for length in (4, 64):
        hidden = torch.randn(2_000, length, 12, generator=generator, dtype=torch.float64)
        tokens = Tokens(torch.zeros(2_000, length, dtype=torch.int64), torch.ones(2_000, length, dtype=torch.bool))
        assert transformer.vector(hidden, tokens).var().item() == pytest.approx(1.0, abs=0.03)
        assert hidden.mean(dim=1).var().item() == pytest.approx(1 / length, rel=0.05)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_averaging_network_is_a_mean_of_words_and_bigrams_through_a_net(side, averaging):
    model = averaging()
    found = model(Tokens.pad(TEXTS, side=side)).pooled
    for row, ids in enumerate(TEXTS):
        words = torch.tensor(ids)
        pairs = bigram_rows(words[:-1], words[1:], 11, 40)
        x = torch.cat([model.embedding.weight[words], model.bigrams.weight[pairs]]).mean(dim=0)
        for number, linear in enumerate(model.maps):
            x = linear.weight @ (x.relu() if number else x) + linear.bias
        torch.testing.assert_close(found[row], x, rtol=1e-10, atol=1e-12)


def test_without_bigrams_order_is_nothing_and_with_them_neighbours_are(averaging):
    ids = [[1, 4, 5, 6, 2], [1, 6, 5, 4, 2], [1, 5, 4, 6, 2]]
    bag = averaging(bigrams=0)(Tokens.pad(ids)).pooled
    torch.testing.assert_close(bag[0], bag[1])
    torch.testing.assert_close(bag[0], bag[2])
    known = averaging(bigrams=1 << 20)(Tokens.pad(ids)).pooled
    assert not torch.allclose(known[0], known[1])
    # The same neighbours in another order of the whole: 4 5 | 5 4 | 4 5 ... nothing else is known.
    one, other = averaging(bigrams=1 << 20)(Tokens.pad([[4, 4, 5, 4], [4, 5, 4, 4]])).pooled
    torch.testing.assert_close(one, other)


def test_bigrams_are_spread_over_their_table(generator):
    first, second = (torch.randint(0, 30_000, (20_000,), generator=generator) for _ in range(2))
    rows = bigram_rows(first, second, 30_000, 1_000)
    assert int(rows.min()) >= 0
    assert int(rows.max()) < 1_000
    counts = torch.bincount(rows, minlength=1_000).double()
    chi_square = ((counts - 20) ** 2 / 20).sum().item()  # 999 degrees of freedom: mean 999, deviation 45
    assert 800 < chi_square < 1_200
    ordered = bigram_rows(torch.arange(1_000), torch.arange(1, 1_001), 30_000, 1 << 16)
    assert ordered.unique().numel() > 980


def test_the_vectors_are_512_wide():
    assert USETransformerConfig(vocabulary=9).width == USEAveragingConfig(vocabulary=9).width == 512
