"""The proofs behind the rows of docs/lectures.md that speak of BERT: one small test for each mistake, named after its row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import LearnedPositions, sinusoids
from regard.data.pretraining import Masking
from regard.layers import DecoderBlock, Tokens
from regard.models import Bert, BertConfig
from regard.tasks.encoders import Joined
from regard.tasks.masked_language_modelling import MaskedLanguageModellingTask
from regard.text import Tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(95))]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocabulary(PIECES)


@pytest.fixture
def bert(randomize) -> Bert:
    config = BertConfig(
        vocabulary=len(PIECES), width=12, heads=3, feedforward_width=20, layers=2, head="pretraining", outputs=2
    )
    return randomize(Bert(config)).eval()


def texts(count: int) -> list[np.ndarray]:
    draw = np.random.default_rng(1)
    return [np.array([2, *draw.integers(5, 100, 125), 3, 3]) for _ in range(count)]


def test_b05_fifteen_percent_are_chosen_and_not_all_of_them_are_masked(tokenizer):
    before = texts(300)
    hidden = Masking().hide(tokenizer, before, range(300), draw=0)
    chosen = sum(map(len, hidden.places))
    assert chosen / (300 * 125) == pytest.approx(0.15, abs=0.01)
    old = np.concatenate([text[places] for text, places in zip(before, hidden.places, strict=True)])
    new = np.concatenate([text[places] for text, places in zip(hidden.texts, hidden.places, strict=True)])
    assert (new == tokenizer.mask_id).mean() == pytest.approx(0.8, abs=0.03)
    assert ((new != old) & (new != tokenizer.mask_id)).mean() == pytest.approx(0.1, abs=0.02)
    assert (new == old).mean() == pytest.approx(0.1, abs=0.02)


def test_b06_a_dense_layer_and_a_tanh_stand_before_the_classification(bert):
    tokens = Tokens.pad([[2, 7, 8, 3]])
    encoded = bert(tokens)
    first = encoded.hidden[:, 0]
    pooled = torch.tanh(first @ bert.pooler.map.weight.T + bert.pooler.map.bias)
    torch.testing.assert_close(encoded.pooled, pooled)
    head = bert.head.next_sentence.output
    torch.testing.assert_close(encoded.next_sentence, pooled @ head.weight.T + head.bias)
    assert not torch.allclose(encoded.next_sentence, first @ head.weight.T + head.bias, atol=1e-2)


def test_b07_berts_positions_are_a_learnt_table_and_no_sinusoids():
    with torch.device("meta"):
        positions = Bert(BertConfig.base()).embedding.positions
    assert isinstance(positions, LearnedPositions)
    assert tuple(positions.weight.shape) == (512, 768)
    assert positions.weight.requires_grad
    torch.manual_seed(0)
    drawn = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=8, layers=1)).embedding.positions.weight
    assert not torch.allclose(drawn, sinusoids(torch.arange(512), 8), atol=0.5)


def test_b20_the_loss_is_over_the_chosen_places_whatever_stands_there(tokenizer, bert):
    """Masks never stand in texts later on; that is what 80/10/10 is for. The loss is over chosen places alone in any case."""
    task = MaskedLanguageModellingTask(tokenizer=tokenizer, maximum_length=128)
    batch = task.batch([Joined(text.tolist()) for text in texts(8)], range(8), nexts=[0] * 8)
    ids = batch.tokens.ids.flatten()
    stands = ids[batch.at]
    assert {bool(kept) for kept in stands == batch.labels} == {True, False}
    assert (stands != tokenizer.mask_id).any(), "some chosen places bear a token, and are told too"
    encoded = bert(batch.tokens, batch.segments)
    encoded.logits.retain_grad()
    logits = encoded.logits.flatten(0, 1)
    torch.nn.functional.cross_entropy(logits[batch.at], batch.labels, reduction="sum").backward()
    learnt = encoded.logits.grad.flatten(0, 1).abs().sum(dim=1).nonzero().squeeze(1)
    assert learnt.tolist() == batch.at.tolist()
    torch.testing.assert_close(
        task.loss(bert, batch).total,
        torch.nn.functional.cross_entropy(logits[batch.at], batch.labels, reduction="sum"),
        rtol=1e-4,
        atol=1e-3,
    )


@pytest.mark.parametrize(("config", "widths"), [(BertConfig.base(), (768, 3072)), (BertConfig.large(), (1024, 4096))])
def test_b22_berts_feed_forward_nets_are_four_times_as_wide_as_the_model(config, widths):
    assert (config.width, config.feedforward_width) == widths
    with torch.device("meta"):
        block = Bert(config).layers[0]
    shapes = [tuple(parameter.shape) for parameter in block.feedforward.parameters() if parameter.dim() == 2]
    assert shapes == [(widths[1], widths[0]), (widths[0], widths[1])]


def test_b38_bert_is_trained_as_an_encoder_and_was_never_part_of_a_translator(bert):
    """It has heads of its own to be trained by, no decoder, no attention over a source; every token sees every other."""
    assert not any(isinstance(module, DecoderBlock) for module in bert.modules())
    assert bert.head.masked.output.weight is bert.embedding.tokens.weight
    one, other = Tokens.pad([[2, 7, 8, 9, 3]]), Tokens.pad([[2, 7, 8, 19, 3]])
    assert not torch.allclose(bert(one).hidden[0, 1], bert(other).hidden[0, 1]), "a later token is seen too"
