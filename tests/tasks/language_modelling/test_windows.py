"""Texts longer than a model's positions: every token told once, with as much before it as there is room for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import InputError
from regard.layers import Tokens
from regard.models import GPT2, GPT2Config
from regard.tasks import LanguageModel, LanguageModellingTask
from regard.tasks.language_modelling import windows
from regard.text import Tokenizer

LIMIT = 12
TEXT = "a text of more characters than there are positions for."


@pytest.fixture
def model(randomize) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train([TEXT], kind="character", size=60))
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 2, "maximum_positions": LIMIT}
    return LanguageModel(randomize(GPT2(GPT2Config(**sizes, **task.model_settings())), scale=0.8), task)


@given(st.integers(1, 200), st.integers(1, 40), st.data())
def test_every_token_is_told_once_with_the_context_promised(length, limit, data):
    stride = data.draw(st.one_of(st.none(), st.integers(1, limit)))
    found = windows(length, limit, stride)
    assert [place for window in found for place in range(window.first, window.stop)] == list(range(length))
    step = max(1, limit // 2) if stride is None else stride
    for number, window in enumerate(found):
        assert window.stop - window.start <= limit
        if number:
            assert window.stop - window.start == limit
            assert window.first - window.start >= limit - step


@pytest.mark.parametrize("stride", [0, 13])
def test_a_stride_that_leaves_tokens_out_is_refused(model, stride):
    with pytest.raises(InputError, match="give 1 to 12, the model's positions"):
        model.score_batch([TEXT], stride=stride)


@pytest.mark.parametrize("stride", [None, 1, 5, LIMIT])
def test_a_long_text_is_told_as_by_the_model_asked_anew_for_every_token(model, stride):
    tokenizer = model.task.tokenizer
    ids = [*tokenizer.encode(TEXT), tokenizer.end_id]
    read = [tokenizer.end_id, *ids]
    expected = []
    for window in windows(len(ids), LIMIT, stride):
        for place in range(window.first, window.stop):
            logits = model.model(Tokens.pad([read[window.start : place + 1]]))[0, -1]
            expected.append(logits.log_softmax(dim=-1)[ids[place]].item())
    for batch_size in (1, 3):
        score = model.score_batch([TEXT, "short", TEXT[:30]], stride=stride, batch_size=batch_size)[0]
        assert score.log_probabilities == pytest.approx(expected, abs=1e-5)
    assert len(score.tokens) == len(ids) == len(score.right)


def test_more_context_is_there_for_smaller_strides(model):
    """At a stride of 1 every token after the first window has all the positions before it."""
    ids = [*model.task.tokenizer.encode(TEXT), model.task.tokenizer.end_id]
    read = torch.tensor([[model.task.tokenizer.end_id, *ids]])
    found = model.score_batch([TEXT], stride=1)[0].log_probabilities
    for place in (20, 40):
        window = read[:, place + 1 - LIMIT : place + 1]
        logits = model.model(Tokens(window, torch.ones_like(window, dtype=torch.bool)))[0, -1]
        assert found[place] == pytest.approx(logits.log_softmax(dim=-1)[ids[place]].item(), abs=1e-5)


def test_an_evaluation_takes_the_stride(model):
    one = regard.evaluate(model, [TEXT], stride=1).metrics["loss"]
    other = regard.evaluate(model, [TEXT], stride=LIMIT).metrics["loss"]
    assert one != other
    assert one == pytest.approx(-sum(model.score_batch([TEXT], stride=1)[0].log_probabilities) / (len(TEXT) + 1))
