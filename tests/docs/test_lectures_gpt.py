"""The proofs behind the rows of docs/lectures.md that speak of GPT: one small test for each mistake, named after its row."""

from __future__ import annotations

import pytest
import torch

from regard.layers import Tokens
from regard.models import GPT2, GPT3, Bert, BertConfig, GPT2Config, GPT3Config

SIZES = {"vocabulary": 11, "width": 12, "heads": 3, "feedforward_width": 16, "layers": 2, "maximum_positions": 8}
TOKENS = Tokens.pad([[0, 4, 5, 6, 7]])


@pytest.fixture
def gpt2(randomize) -> GPT2:
    return randomize(GPT2(GPT2Config(**SIZES))).eval()


def changed(model, told) -> torch.Tensor:
    """Which places of the output feel a change of the token in the middle."""
    other = TOKENS.ids.clone()
    other[0, 2] = 9
    before, after = told(model(TOKENS)), told(model(Tokens(other, TOKENS.valid)))
    return (before != after).any(dim=-1)[0]


def test_b09_gpt_reads_from_the_left_and_bert_both_ways(gpt2, randomize):
    """Both compute all positions at once; what each position may see is another matter."""
    assert changed(gpt2, lambda logits: logits).tolist() == [False, False, True, True, True]
    bert = randomize(Bert(BertConfig(**SIZES))).eval()
    assert changed(bert, lambda encoded: encoded.hidden).all()


def test_b21_training_tells_every_token_in_one_pass_and_there_is_no_source(gpt2):
    logits = gpt2(TOKENS)
    assert logits.shape == (1, 5, 11)  # one pass, five predictions
    state, one_by_one = gpt2.start(1), []
    for token in TOKENS.ids[0]:
        step, state = gpt2.step(token[None], state)
        one_by_one.append(step)
    torch.testing.assert_close(torch.stack(one_by_one, dim=1), logits)
    assert not any("cross" in name for name, _ in gpt2.named_modules())


def test_b37_gpt3_is_a_decoder_alone(randomize):
    """No encoder makes a vector for it: its parts are those of GPT-2, and it gives logits of the next token."""
    model = randomize(GPT3(GPT3Config(band=None, **SIZES))).eval()
    assert not any("encoder" in name for name, _ in model.named_modules())
    twin = GPT2(GPT2Config(**SIZES)).eval()
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(TOKENS), model(TOKENS))
