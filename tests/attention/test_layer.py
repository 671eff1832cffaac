from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.attention import (
    Additive,
    AttentionLayer,
    Causal,
    Hard,
    KeysValues,
    LSHAttention,
    MultiHeadAttention,
    Padding,
    ScaledDot,
    ScoredAttention,
)
from regard.attention.alignments import LOT
from regard.attention.layer import merge_heads, split_heads
from regard.layers import EncoderBlock, Residual

B, L, S, H, E = 2, 5, 7, 3, 4


def test_heads_are_neighbouring_channels_of_one_token(generator):
    x = torch.randn(B, L, H * E, generator=generator)
    split = split_heads(x, H)
    assert split.shape == (B, H, L, E)
    for head in range(H):
        assert torch.equal(split[:, head], x[:, :, head * E : (head + 1) * E])


def test_merging_undoes_splitting(generator):
    x = torch.randn(B, L, H * E, generator=generator)
    assert torch.equal(merge_heads(split_heads(x, H)), x)


def test_merging_by_a_bare_reshape_would_mix_tokens(generator):
    """The lectures' "simply reshaping": without the transpose, rows are made of pieces of other rows."""
    split = split_heads(torch.randn(B, L, H * E, generator=generator), H)
    assert not torch.equal(split.reshape(B, L, H * E), merge_heads(split))
    changed = split.clone()
    changed[:, :, 1] += 1  # one token
    touched = (merge_heads(changed) != merge_heads(split)).any(dim=-1)
    assert touched.tolist() == [[False, True, False, False, False]] * B
    reshaped = (changed.reshape(B, L, -1) != split.reshape(B, L, -1)).any(dim=-1)
    assert reshaped.sum() > touched.sum()


@pytest.fixture
def aligner(seeded, randomize):
    """Bahdanau's layer: one additive head, values and output as they are."""
    return randomize(
        AttentionLayer(
            query=nn.Linear(6, 9, bias=False),
            key=nn.Linear(8, 9, bias=False),
            value=nn.Identity(),
            output=nn.Identity(),
            attention=ScoredAttention(Additive(9)),
        )
    )


def test_a_layer_is_projections_around_its_mechanism(aligner, generator):
    """e_ij = va^T tanh(Wa s_i + Ua h_j), and what is gathered is the annotations themselves."""
    states, annotations = (torch.randn(B, n, w, generator=generator) for n, w in ((L, 6), (S, 8)))
    queries, keys = states @ aligner.query.weight.T, annotations @ aligner.key.weight.T
    energies = torch.tanh(queries[:, :, None] + keys[:, None]) @ aligner.attention.score.weight
    expected = energies.softmax(dim=-1) @ annotations
    torch.testing.assert_close(aligner(states, aligner.keys_values(annotations)), expected)


def test_deck_form_of_the_additive_score(aligner, generator):
    """W [s; h] with W = [Wa, Ua] is Wa s + Ua h: one matrix over the pair is two over the parts."""
    state, annotation = torch.randn(6, generator=generator), torch.randn(8, generator=generator)
    both = torch.cat((aligner.query.weight, aligner.key.weight), dim=1)
    expected = torch.tanh(both @ torch.cat((state, annotation))) @ aligner.attention.score.weight
    query, key = aligner.query(state).view(1, 1, 1, -1), aligner.key(annotation).view(1, 1, 1, -1)
    torch.testing.assert_close(aligner.attention.score(query, key).squeeze(), expected)


def test_keys_and_values_grow_select_and_crop(generator):
    key, value = torch.randn(B, H, S, E, generator=generator), torch.randn(B, H, S, 6, generator=generator)
    whole = KeysValues(key, value)
    grown = KeysValues(key[:, :, :3], value[:, :, :3]).extended(KeysValues(key[:, :, 3:], value[:, :, 3:]))
    assert torch.equal(grown.key, key)
    assert torch.equal(grown.value, value)
    cropped = whole.crop(2)
    assert torch.equal(cropped.key, key[:, :, :2])
    assert torch.equal(cropped.value, value[:, :, :2])
    chosen = whole.select(torch.tensor([1, 1, 0]))
    assert torch.equal(chosen.key, key[[1, 1, 0]])
    assert torch.equal(chosen.value, value[[1, 1, 0]])


@pytest.mark.parametrize("chunks", [[1] * 7, [3, 4], [6, 1], [2, 3, 2]])
def test_attention_over_a_growing_cache_equals_one_call(chunks, seeded, generator):
    """Lower-right causality: query i of a call sees the whole cache and the call's first i keys."""
    layer = MultiHeadAttention(12, heads=3, key_heads=1).double()
    x = torch.randn(B, S, 12, generator=generator, dtype=torch.float64)
    valid = torch.tensor([[True] * S, [False, False] + [True] * 5])
    whole = layer(x, layer.keys_values(x), mask=Causal() & Padding(valid))
    cache, pieces, done = None, [], 0
    for size in chunks:
        piece = x[:, done : done + size]
        new = layer.keys_values(piece)
        cache = new if cache is None else cache.extended(new)
        mask = Causal(offset=done) & Padding(valid[:, : done + size])
        pieces.append(layer(piece, cache, mask=mask))
        done += size
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-10, atol=1e-12)


def test_a_query_that_sees_nothing_gathers_only_the_outputs_bias(seeded, generator):
    layer = MultiHeadAttention(12, heads=3)
    nn.init.normal_(layer.output.bias, generator=generator)
    x = torch.randn(B, S, 12, generator=generator)
    valid = torch.tensor([[True] * S, [False] * S])
    output = layer(x, layer.keys_values(x), mask=Padding(valid))
    assert torch.equal(output[1], layer.output.bias.expand(S, -1))


class Noted(Hard):
    """Hard attention that says what it was given to sample for."""

    def __init__(self):
        super().__init__(0.5)
        self.sampled_for = []

    def sample(self, inputs, generator=None):
        sampled = super().sample(inputs, generator)
        self.sampled_for.append(sampled)
        return sampled


def test_the_layer_draws_in_training_and_only_there(seeded, generator):
    layer = MultiHeadAttention(12, heads=3, attention=ScoredAttention(ScaledDot(), Noted()))
    x = torch.randn(B, S, 12, generator=generator)
    noted = layer.attention.alignment
    layer(x, layer.keys_values(x))
    layer.attend(layer.inputs(x, layer.keys_values(x).key), layer.keys_values(x).value)
    lots = [sampled[LOT] for sampled in noted.sampled_for]
    assert len(lots) == 2
    assert not torch.equal(*lots)
    given = layer.inputs(x, layer.keys_values(x).key, record={LOT: lots[0]})
    assert torch.equal(given.record[LOT], lots[0]), "what is in the record already stays"
    layer.eval()
    layer(x, layer.keys_values(x))
    assert len(noted.sampled_for) == 3


def test_a_mechanism_that_does_not_draw_takes_no_random_number(seeded, generator):
    layer = MultiHeadAttention(12, heads=3)
    x = torch.randn(B, S, 12, generator=generator)
    before = torch.get_rng_state()
    layer(x, layer.keys_values(x))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("alignment", [Hard(0.5), None], ids=["hard", "hashed"])
def test_a_block_computed_again_sees_the_same_draw(alignment, seeded, generator):
    """Activation checkpointing: the same outputs and gradients, bit for bit; and the next pass draws anew."""
    attention = ScoredAttention(ScaledDot(), alignment) if alignment else LSHAttention(chunk=3, rounds=1, buckets=(4,))
    block = EncoderBlock(
        attention=MultiHeadAttention(12, heads=3, attention=attention),
        feedforward=nn.Linear(12, 12),
        residual=lambda: Residual.with_norm("pre", 12),
    )
    x = torch.randn(B, S, 12, generator=generator)

    def gradients(seed, run):
        torch.manual_seed(seed)
        output = run(x, None)
        torch.rand(5)  # what others draw before the backward pass
        return [output, *torch.autograd.grad(output.square().sum(), list(block.parameters()))]

    plain = gradients(1, block)
    again = gradients(1, lambda *given: checkpoint(block, *given, use_reentrant=False))
    assert all(map(torch.equal, plain, again))
    assert not torch.equal(plain[0], gradients(2, block)[0])
