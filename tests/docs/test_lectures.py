"""The proofs behind docs/lectures.md: one small test for each mistake, named after its row there."""

from __future__ import annotations

import dataclasses
import math
import runpy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    AttentionInputs,
    Causal,
    Dot,
    MultiHeadAttention,
    ScaledDot,
    ScoredAttention,
    sinusoids,
)
from regard.attention.layer import merge_heads, split_heads
from regard.layers import FeedForward, PositionedEmbedding, Residual, Tokens
from regard.models import NTM, Bahdanau, BahdanauConfig, NTMConfig, Transformer, TransformerConfig


def normal(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def aligner(randomize) -> Bahdanau:
    sizes = {"embedding_width": 4, "hidden_width": 5, "attention_width": 6, "maxout_width": 3}
    config = BahdanauConfig(source_vocabulary=11, target_vocabulary=9, **sizes)
    return randomize(Bahdanau(config)).eval()


@pytest.fixture
def transformer(tiny_transformer, randomize) -> Transformer:
    return randomize(Transformer(tiny_transformer())).eval()


def test_b02_layer_norm_has_gain_and_bias_and_follows_the_residual_sum():
    residual = Residual.with_norm("post", 6)
    norm = residual.after
    with torch.no_grad():
        norm.weight.fill_(2.0)
        norm.bias.fill_(1.0)
    x, y = normal(2, 5, 6), normal(2, 5, 6, seed=8)
    total = x + y
    plain = (total - total.mean(-1, keepdim=True)) / (total.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(residual(x, lambda _: y), 2 * plain + 1)
    assert not torch.allclose(residual(x, lambda _: y), norm(y)), "the input must be added before the norm"


def test_b03_the_frequency_index_starts_at_zero():
    first = sinusoids(torch.tensor([1]), 512)[0]
    assert first[0].item() == pytest.approx(math.sin(1.0), abs=1e-6)
    assert first[1].item() == pytest.approx(math.cos(1.0), abs=1e-6)
    from_one = 10000 ** (-2 / 512)
    assert from_one == pytest.approx(0.965, abs=5e-4)
    assert abs(first[0].item() - math.sin(from_one)) > 0.01
    last_wavelength_over_two_pi = 10000 ** (510 / 512)
    assert last_wavelength_over_two_pi == pytest.approx(9646.6, abs=0.1)
    far = sinusoids(torch.tensor([1000.0]), 512)[0]
    assert far[510].item() == pytest.approx(math.sin(1000 / last_wavelength_over_two_pi), abs=1e-6)


def test_b04_embeddings_are_scaled_by_the_square_root_of_the_width():
    class Nowhere(nn.Module):
        def forward(self, positions: Tensor) -> Tensor:
            return torch.zeros(*positions.shape, 16)

    table = nn.Embedding(5, 16)
    ids = torch.tensor([[3, 1]])
    torch.testing.assert_close(PositionedEmbedding(table, Nowhere())(ids, ids), 4.0 * table(ids))


def test_b10_the_weighted_values_are_summed():
    inputs = AttentionInputs(query=normal(1, 1, 1, 4), key=normal(1, 1, 3, 4))
    value = normal(1, 1, 3, 2, seed=9)
    mechanism = ScoredAttention(ScaledDot())
    weights = mechanism.weights(inputs)[0, 0, 0]
    context = sum(weights[j] * value[0, 0, j] for j in range(3))
    torch.testing.assert_close(mechanism(inputs, value)[0, 0, 0], context)


def test_b12_bahdanau_scores_with_the_previous_state_and_a_vector(aligner):
    start = aligner.start(Tokens.pad([[3, 4, 5, 2]]))
    _, after = aligner.step(torch.tensor([1]), start)
    layer = aligner.decoder.attention

    def weights(state: Tensor) -> Tensor:
        hidden = layer.query(state) + layer.key(aligner.encoder(Tokens.pad([[3, 4, 5, 2]]))[0][0])
        return (torch.tanh(hidden) @ layer.attention.score.weight).softmax(dim=-1)

    torch.testing.assert_close(aligner.alignment(after)[0], weights(start.hidden))
    assert not torch.allclose(aligner.alignment(after)[0], weights(after.hidden), atol=1e-3)
    assert layer.attention.score.weight.dim() == 1


def test_b17_the_first_two_position_vectors():
    zero, one = sinusoids(torch.tensor([0, 1]), 512)
    assert zero[:4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert one[:4].tolist() == pytest.approx([0.8415, 0.5403, 0.8219, 0.5697], abs=5e-5)
    assert one[-2].item() == pytest.approx(0.000104, abs=5e-7)
    assert round(one[-1].item(), 4) == 1.0  # the slide has 0.9999


def test_b18_heads_are_merged_by_a_transpose_and_then_a_reshape():
    x = normal(2, 5, 6)
    heads = split_heads(x, 3)
    torch.testing.assert_close(merge_heads(heads), x)
    assert not torch.allclose(heads.reshape(2, 5, 6), x), "reshaping alone mixes words"


def test_b19_attention_over_the_source_masks_padded_source_words(transformer):
    from regard import look

    source = Tokens.pad([[3, 4, 5, 6], [7, 8]])
    target = Tokens.pad([[1, 3], [1, 4, 5]])
    with look(transformer) as seen, torch.no_grad():
        transformer(source, target)
    weights = seen.weights("decoder.layers.0.cross_attention")
    assert (weights[1, :, :, 2:] == 0).all(), "padded source words get nothing"
    assert (weights[1, :, :, :2] > 0).all()
    # Target padding is not what is masked: row 2 of the first example is padding, and looks at the source all the same.
    torch.testing.assert_close(weights[0, :, 2].sum(-1), torch.ones(3))


def test_b22_the_width_of_a_model_is_not_that_of_its_feed_forward_net():
    base, big = TransformerConfig.base(), TransformerConfig.big()
    assert (base.width, base.feedforward_width) == (512, 2048)
    assert (big.width, big.feedforward_width) == (1024, 4096)


def entropy(weights: Tensor) -> float:
    return -(weights * weights.log()).sum(-1).mean().item()


def test_b14_a_memory_is_one_matrix_whose_rows_are_compared_and_read():
    """What is read of a neural Turing machine's memory is the rows that the key was compared with, and it has no other."""
    model = NTM(NTMConfig(inputs=3, outputs=2, slots=4, slot_width=5, controller_width=6))
    caught: list[tuple[AttentionInputs, Tensor]] = []
    model.memory.register_forward_pre_hook(lambda module, given: caught.append(given))
    model(normal(2, 3, 3))
    assert len(caught) == 3
    for inputs, value in caught:
        assert torch.equal(value[..., :5], inputs.key)
        assert inputs.key.shape == (2, 1, 4, 5)


@pytest.mark.parametrize(("width", "raw", "too_small"), [(64, 8.0, 0.125), (512, 22.6, 0.044)])
def test_b29_scores_are_divided_by_the_square_root_of_the_key_width(width, raw, too_small):
    query, key = normal(1, 1, 400, width), normal(1, 1, 400, width, seed=8)
    dot, scaled = Dot()(query, key), ScaledDot()(query, key)
    assert dot.std().item() == pytest.approx(raw, rel=0.02)
    assert scaled.std().item() == pytest.approx(1.0, rel=0.02)
    assert (dot / width).std().item() == pytest.approx(too_small, rel=0.02)
    uniform = math.log(400)
    assert uniform - entropy((dot / width).softmax(-1)) < 0.01, "divided by the width, nothing is told apart"
    assert uniform - entropy(scaled.softmax(-1)) > 0.4
    torch.testing.assert_close(ScaledDot()(2 * query, key), 2 * scaled)  # a cosine would not change


def test_b40_the_lectures_self_attention_class_and_what_is_right():
    def slide(query_out: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1)  # noqa: F821  # the slide's slip: the projection is called query_out

    with pytest.raises(NameError, match="query"):
        slide(normal(2, 3), normal(2, 3))

    layer = MultiHeadAttention(12, heads=3, dropout=0.5).eval()
    x = normal(1, 5, 12)
    inputs = layer.inputs(x, layer.keys_values(x).key)
    per_head = split_heads(layer.query(x), 3) @ split_heads(layer.key(x), 3).transpose(-2, -1)
    torch.testing.assert_close(layer.attention.weights(inputs), (per_head / 12**0.5 * 3**0.5).softmax(-1))
    with torch.no_grad():
        layer.key.weight.mul_(3.0)
    projected = layer.inputs(x, layer.keys_values(x).key)
    assert not torch.allclose(layer.attention.weights(projected), layer.attention.weights(inputs))
    layer.train()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert not torch.allclose(layer(x, layer.keys_values(x)), layer(x, layer.keys_values(x))), "dropout acts"


def test_b42_with_values_as_columns_the_weights_are_transposed():
    query, key = normal(1, 1, 6, 4), normal(1, 1, 6, 4, seed=8)
    weights = ScoredAttention(ScaledDot()).weights(AttentionInputs(query=query, key=key))[0, 0]
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6))  # over the keys
    columns = weights.sum(dim=0)
    assert columns.min() < 0.8 < 1.2 < columns.max()
    value = normal(1, 1, 6, 3, seed=9)
    right = ScoredAttention(ScaledDot())(AttentionInputs(query=query, key=key), value)[0, 0]
    as_columns = value[0, 0].t()
    torch.testing.assert_close(as_columns @ weights.t(), right.t())
    assert not torch.allclose(as_columns @ weights, right.t(), atol=1e-2)


def test_b43_attention_over_one_position_is_a_linear_map_of_it():
    layer = MultiHeadAttention(8, heads=2)
    x = normal(4, 1, 8)
    output = layer(x, layer.keys_values(x))
    torch.testing.assert_close(output, layer.output(layer.value(x)))
    output.square().sum().backward()
    for dead in (layer.query, layer.key):
        assert dead.weight.grad.abs().max().item() < 1e-6
    assert layer.value.weight.grad.abs().max().item() > 1e-3


def test_b45_a_transformer_has_no_recurrent_part_and_order_comes_from_positions(transformer):
    assert not [m for m in transformer.modules() if isinstance(m, nn.RNNBase) or "Recurrent" in type(m).__name__]
    tokens = Tokens.pad([[3, 4, 5, 6]])
    order = torch.tensor([2, 0, 3, 1])
    shuffled = Tokens(tokens.ids[:, order], tokens.valid)
    assert not torch.allclose(transformer.encoder(shuffled), transformer.encoder(tokens)[:, order], atol=1e-3)
    transformer.encoder.embedding.positions.table.zero_()
    torch.testing.assert_close(transformer.encoder(shuffled), transformer.encoder(tokens)[:, order])


def test_b48_the_first_alignment_is_known_before_the_first_word(aligner):
    """Bahdanau's first weights do not depend on the word that is consumed; Luong's, with the state after it, would."""
    start = aligner.start(Tokens.pad([[3, 4, 5, 2]]))
    (_, one), (_, other) = (aligner.step(torch.tensor([word]), start) for word in (1, 4))
    assert torch.equal(aligner.alignment(one), aligner.alignment(other))
    assert not torch.allclose(one.hidden, other.hidden)


def test_b50_with_words_as_rows_the_scores_are_query_times_key_transposed():
    query, key = normal(5, 4), normal(7, 4, seed=8)  # 5 and 7 words, 4 wide
    assert ScaledDot()(query[None, None], key[None, None]).shape[-2:] == (5, 7)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        query @ key
    same = normal(7, 4, seed=9)
    assert (same.t() @ key).shape == (4, 4), "Q^T K compares channels, not words"


def test_b51_an_upper_triangle_kept_shows_the_future_and_ends_in_nan():
    scores = normal(4, 4)
    slide = torch.triu(torch.ones(4, 4), diagonal=1)
    wrong = scores.masked_fill(slide == 0, -torch.inf).softmax(dim=-1)
    assert wrong[3].isnan().all()
    assert (wrong[:3].tril() == 0).all(), "only the future has weight"
    right = scores.masked_fill(slide == 1, -torch.inf).softmax(dim=-1)
    inputs = AttentionInputs(query=2 * torch.eye(4)[None, None], key=scores.t()[None, None], mask=Causal())
    torch.testing.assert_close(ScoredAttention(ScaledDot()).weights(inputs)[0, 0], right)


def test_b52_head_widths_are_whole_numbers_and_layers_stand_in_a_module_list():
    with pytest.raises(TypeError):
        torch.zeros(1, 5, 12).view(1, 5, 3, 12 / 3)
    with pytest.raises(TypeError):
        nn.Module([nn.Linear(2, 2)])
    assert len(list(nn.ModuleList([nn.Linear(2, 2)]).parameters())) == 2


def test_b53_the_loop_variable_has_to_be_the_one_that_is_called():
    def encoder(encoder_layers: list[nn.Module], out: Tensor) -> Tensor:
        for layers in encoder_layers:  # noqa: B007  # the slide's loop
            out = layer(out)  # noqa: F821
        return out

    with pytest.raises(NameError, match="layer"):
        encoder([nn.Linear(2, 2)], torch.zeros(1, 2))


def test_b54_a_layer_norm_looks_at_one_position_and_never_at_the_batch():
    x = normal(8, 6)
    norm, batch_norm = nn.LayerNorm(6), nn.BatchNorm1d(6)
    torch.testing.assert_close(norm(x)[:1], norm(x[:1]))
    torch.testing.assert_close(norm.train()(x), norm.eval()(x))
    trained = batch_norm.train()(x)
    assert not torch.allclose(trained[:4], batch_norm(x[:4]), atol=1e-2)
    assert not torch.allclose(trained, batch_norm.eval()(x), atol=1e-2)
    torch.testing.assert_close(norm(x).mean(dim=1), torch.zeros(8), atol=1e-6, rtol=0)


def test_b55_the_first_index_of_a_weight_is_the_query():
    mechanism = ScoredAttention(ScaledDot())
    inputs = AttentionInputs(query=normal(1, 1, 4, 3), key=normal(1, 1, 4, 3, seed=8))
    value = normal(1, 1, 4, 2, seed=9)
    weights = mechanism.weights(inputs)[0, 0]
    right = torch.einsum("ij,je->ie", weights, value[0, 0])
    torch.testing.assert_close(mechanism(inputs, value)[0, 0], right)
    assert not torch.allclose(torch.einsum("ji,je->ie", weights, value[0, 0]), right, atol=1e-2)


def test_b56_the_feed_forward_net_keeps_the_shape_and_is_not_linear():
    net = FeedForward(6, 10, activation=torch.relu)
    x, y = normal(2, 5, 6), normal(2, 5, 6, seed=8)
    assert net(x).shape == x.shape
    torch.testing.assert_close(net(x)[:, 2], net(x[:, 2]))  # every position alike
    bias = net(torch.zeros_like(x))
    assert not torch.allclose(net(x + y) - bias, net(x) - bias + net(y) - bias, atol=1e-2)


def test_b57_what_a_whole_transformer_has_besides_its_blocks(transformer):
    names = {name.split(".")[0] for name, _ in transformer.named_children()}
    assert names == {"encoder", "decoder", "output"}
    assert transformer.encoder.embedding.tokens.weight is transformer.output.weight
    defaults = {part.name: part.default for part in dataclasses.fields(TransformerConfig)}
    assert defaults["dropout"] == 0.1


def test_b58_an_output_sees_its_own_input_and_none_after_it(transformer):
    target = Tokens.pad([[1, 3, 4, 5]])
    embedded = transformer.decoder.embedding(target.ids, torch.arange(4)[None]).detach().requires_grad_()
    transformer.decoder.embedding.forward = lambda ids, positions: embedded
    transformer(Tokens.pad([[3, 4]]), target)[0, 2].square().sum().backward()
    reach = embedded.grad[0].abs().sum(-1)
    assert (reach[:3] > 0).all(), "positions 0, 1 and its own, 2"
    assert (reach[3:] == 0).all()


def test_b60_self_attention_includes_the_own_position():
    assert Causal().dense(batch=1, queries=3, keys=3)[0, 0].diagonal().all()
    alone = AttentionInputs(query=normal(1, 1, 1, 4), key=normal(1, 1, 1, 4), mask=Causal())
    assert ScoredAttention(ScaledDot()).weights(alone).item() == 1.0


def test_b61_with_words_as_columns_the_softmax_runs_down_the_columns():
    query, key, value = normal(4, 5), normal(4, 7, seed=8), normal(3, 7, seed=9)  # columns are words
    rows = AttentionInputs(query=query.t()[None, None], key=key.t()[None, None])
    right = ScoredAttention(ScaledDot())(rows, value.t()[None, None])[0, 0]
    scores = key.t() @ query / 4**0.5
    torch.testing.assert_close((value @ scores.softmax(dim=0)).t(), right)
    assert not torch.allclose((value @ scores.softmax(dim=1)).t(), right, atol=1e-2)


def test_the_first_attention_of_an_untrained_paper_model_is_uniform():
    inputs = AttentionInputs(query=normal(1, 1, 2, 3), key=normal(1, 1, 5, 3))
    weights = ScoredAttention(Additive(3)).weights(inputs)
    torch.testing.assert_close(weights, torch.full((1, 1, 2, 5), 0.2))


def test_the_figures_of_the_page_show_the_three_mistakes():
    place = Path(__file__).parents[2] / "docs" / "images" / "make_lecture_figures.py"
    figures = runpy.run_path(str(place))
    right, wrong = figures["scores_divided_by_d"]().values()
    assert (wrong - 1 / 12).abs().max() < 0.02 < 0.3 < right.max()
    alone = figures["gradients"](1)
    assert max(alone["query"], alone["key"]) < 1e-15  # zero, up to float64's rounding in the softmax's gradient
    assert min(figures["gradients"](16).values()) > 1e-3
    assert figures["residuals"](skips=False)[4] < 1e-15
    assert figures["residuals"](skips=True)[-1] > 0.1
