"""Training without padding: when it is done, and rows of tokens."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import regard
from regard.attention import AttentionInputs, Rows, ScaledDot, ScoredAttention, Unpadded
from regard.layers import Tokens
from regard.layers.padding import has_hooks, trains_without_padding
from regard.models import Bert, BertConfig, Transformer, TransformerConfig
from regard.training.precision import recompute_blocks

SIZES = {"width": 8, "heads": 2, "feedforward_width": 12}
TEXTS = Tokens.pad([[3, 4, 5, 6, 7, 8], [4, 5], [3]])


@pytest.fixture
def bert(seeded):
    return Bert(BertConfig(vocabulary=9, layers=2, head="sequence", outputs=2, **SIZES)).train()


def rows_read(model: nn.Module, *given: Tokens) -> set[int]:
    """The numbers of rows of what the feed-forward networks read."""
    found = set()
    inside = [module for name, module in model.named_modules() if name.endswith("feedforward.inner")]
    original = nn.functional.linear

    def looked(x, weight, bias=None):
        if any(weight is module.weight for module in inside):
            found.add(x.shape[:-1].numel())
        return original(x, weight, bias)

    nn.functional.linear, kept = looked, original
    try:
        model(*given)
    finally:
        nn.functional.linear = kept
    return found


def test_padding_is_left_out_in_training_alone(bert):
    assert rows_read(bert, TEXTS) == {9}
    with torch.no_grad():
        assert rows_read(bert, TEXTS) == {18}
    assert rows_read(bert.eval(), TEXTS) == {18}


def test_what_is_nearly_full_stays_as_it_is(bert):
    assert rows_read(bert, Tokens.pad([[3] * 8, [3] * 7])) == {16}
    assert not trains_without_padding(bert, Tokens.pad([[3, 4], [5, 6]]))


def test_a_hook_inside_sees_the_batch_and_one_around_the_model_changes_nothing(bert):
    bert.register_forward_hook(lambda *told: None)
    assert rows_read(bert, TEXTS) == {9}
    seen = []
    hook = bert.layers[1].register_forward_hook(lambda module, given, found: seen.append(found.shape))
    assert has_hooks(bert.layers[1])
    bert(TEXTS)
    assert seen == [(3, 6, 8)]
    hook.remove()
    assert not has_hooks(bert.layers[1])
    assert rows_read(bert, TEXTS) == {9}


def test_a_recorder_sees_the_batch(bert):
    with regard.look(bert) as seen:
        bert(TEXTS)
    weights = seen.weights("layers.1.attention")
    assert weights.shape == (3, 2, 6, 6)
    assert (weights[2, :, :, 1:] == 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_recorder_of_training_changes_nothing_and_records_what_evaluation_does(side, seeded):
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "encoder_layers": 1, "decoder_layers": 2}
    model = Transformer(TransformerConfig(**sizes, **SIZES, dropout=0.0)).train()
    source = Tokens.pad([[3, 4, 5, 6, 7, 8], [4, 5], [3]], side=side)
    target = Tokens.pad([[1, 2], [3, 4, 5, 6], [7]], side=side)
    with regard.look(model, values=True) as seen:
        looked = model(source, target)
        assert rows_read(model, source, target) == {9, 7}
    assert torch.equal(model(source, target), looked)
    model.eval()
    with regard.look(model, values=True) as evaluated:
        model(source, target)
    assert seen.addresses == evaluated.addresses
    for address in evaluated.addresses:
        queries = (source if address.startswith("encoder") else target).valid
        both = seen.weights(address, run=0), evaluated.weights(address)
        found, wanted = (weights.transpose(1, 2)[queries] for weights in both)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_hidden_states_are_recorded_of_the_batch(bert):
    with regard.look(bert, hidden=["layers.*"]) as seen:
        assert rows_read(bert, TEXTS) == {18}
    assert seen.hidden("layers.0").shape == (3, 6, 8)
    assert rows_read(bert, TEXTS) == {9}


def test_blocks_that_are_computed_twice_are_computed_without_padding(bert):
    recompute_blocks(bert)
    assert rows_read(bert, TEXTS) == {9}


def test_vectors_at_padding_are_zeros(bert):
    hidden = bert(TEXTS).hidden
    assert hidden.shape == (3, 6, 8)
    assert (hidden[~TEXTS.valid] == 0).all()


def test_both_sides_of_a_translator_are_read_without_padding(seeded):
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(TransformerConfig(**sizes, **SIZES)).train()
    assert rows_read(model, TEXTS, Tokens.pad([[1, 2], [3, 4, 5, 6], [7]])) == {9, 7}
    relative = Transformer(TransformerConfig(**sizes, **SIZES, positions="relative", relative_distance=2)).train()
    assert rows_read(relative, TEXTS, Tokens.pad([[1, 2], [3, 4, 5, 6], [7]])) == {18, 12}


def test_a_row_and_its_batch_are_inverse():
    valid = torch.tensor([[False, True, True], [True, False, False], [True, True, True]])
    rows = Rows.of(valid)
    x = torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    row = rows.in_row(x)
    assert torch.equal(row, x[valid])
    assert torch.equal(rows.laid_out(row), x * valid.unsqueeze(-1))
    assert torch.autograd.gradcheck(lambda y: rows.laid_out(y), row.detach().requires_grad_())
    assert torch.autograd.gradcheck(lambda y: rows.in_row(y), x)
    assert torch.autograd.gradgradcheck(lambda y: rows.laid_out(y) ** 2, row.detach().requires_grad_())


def test_long_texts_are_laid_out_in_whole_vectors():
    for longest, columns in ((40, 64), (64, 64), (20, 20)):
        given = Rows.of(Tokens.pad([[3] * longest, [3] * 7], side="left").valid)
        found = given.flush_left()
        assert found.valid.shape == (2, columns)
        assert found.valid.sum(1).tolist() == [longest, 7]
        assert found.valid[:, 0].all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_over_a_row_is_attention_over_the_batch(causal, training, seeded):
    lengths, others = [4, 1, 3], [2, 5, 4]
    asking = Tokens.pad([[1] * n for n in lengths]).valid
    asked = asking if causal else Tokens.pad([[1] * n for n in others], side="left").valid
    queries, keys = Rows.of(asking), Rows.of(asked)
    query = torch.randn(1, 2, len(queries.kept), 3, dtype=torch.float64)
    key, value = (torch.randn(1, 2, len(keys.kept), 3, dtype=torch.float64) for _ in range(2))
    attention = ScoredAttention(ScaledDot()).train(training)
    inputs = AttentionInputs(query=query, key=key, mask=Unpadded.over(queries, keys, causal=causal))
    weights = attention.weights(inputs)
    found = attention(inputs, value)
    torch.testing.assert_close(found, weights @ value, rtol=1e-10, atol=1e-12)
    text = lambda rows: rows.kept // rows.valid.shape[1]  # noqa: E731
    apart = text(queries)[:, None] != text(keys)[None]
    assert (weights[:, :, apart] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
