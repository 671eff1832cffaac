"""Speculative decoding: the same answers, or the same distribution of answers, as without the draft."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import Continuation, FixedLength, Speculation, Temperature, TopK, generate
from regard.layers import DecoderState, Tokens
from regard.models import GPT2, GPT2Config, LSTMLanguageModel, LSTMLanguageModelConfig
from regard.quantization import InferenceDecoder

SIZES = {"vocabulary": 23, "width": 32, "heads": 1, "feedforward_width": 48, "maximum_positions": 40}


class Chain:
    """A language model that only knows the token before: logits (V, V), row by row."""

    maximum_length = None
    length_setting = ""

    def __init__(self, logits):
        self.table = torch.nn.Parameter(logits, requires_grad=False)
        self.config = SimpleNamespace(vocabulary=len(logits), padding_id=0, end_id=0)

    def parameters(self):
        yield self.table

    def start(self, rows):
        return DecoderState(source_valid=torch.empty(rows, 0, dtype=torch.bool))

    def read(self, tokens, state):
        after = DecoderState(length=state.length + tokens.ids.shape[1], source_valid=state.source_valid)
        return self.table[tokens.ids], after

    def step(self, tokens, state):
        return self.table[tokens], state.advanced()


def gpt(layers, seed):
    model = GPT2(GPT2Config(**SIZES, layers=layers)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.dim() > 1 else 0.1, generator=generator)
        for part in model.modules():
            if isinstance(part, torch.nn.LayerNorm):
                part.weight.add_(1)
    return model


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 30), st.lists(st.integers(1, 22), max_size=6))
@settings(deadline=None, max_examples=25)
def test_greedy_answers_are_greedy_searchs_whatever_the_draft(seed, ahead, most, prompt):
    model = gpt(2, seed)
    wanted = generate(Continuation(model), Tokens.pad([[0, *prompt]]), limit=FixedLength(most))[0]
    for draft in (gpt(1, seed + 1), model, Chain(torch.randn(23, 23, generator=torch.Generator().manual_seed(seed)))):
        found = Speculation(model=model, draft=draft, ahead=ahead).write([0, *prompt], most=most)
        assert found.hypothesis.tokens == wanted.tokens
        assert found.hypothesis.finished == wanted.finished
        assert found.hypothesis.token_log_probabilities == pytest.approx(wanted.token_log_probabilities, abs=1e-4)
        assert found.accepted <= found.guessed


def test_a_perfect_draft_is_always_right_and_saves_readings():
    model = gpt(2, 5)
    found = Speculation(model=model, draft=model, ahead=4).write([0, 3], most=20, least=20)
    assert found.accepted == found.guessed
    assert found.hypothesis.length == 20
    assert found.readings == 4  # five tokens from each


@pytest.mark.parametrize(
    "transforms",
    [pytest.param((), marks=pytest.mark.slow), (Temperature(0.6), TopK(3))],
    ids=["plain", "temperature and top-k"],
)
def test_draws_are_distributed_as_the_models_own(transforms):
    """Against the exact probabilities of all texts of three tokens, by a chi-squared test."""
    generator = torch.Generator().manual_seed(3)
    table = 1.2 * torch.randn(5, 5, generator=generator)
    model, draft = Chain(table), Chain(table + torch.randn(5, 5, generator=generator))
    speculation = Speculation(model=model, draft=draft, ahead=2, transforms=transforms)
    counts = dict.fromkeys(itertools.product(range(5), repeat=3), 0)
    texts = 1_500
    accepted = guessed = 0
    for _ in range(texts):
        found = speculation.write([4], most=3, least=3, generator=generator)
        counts[found.hypothesis.tokens] += 1
        accepted, guessed = accepted + found.accepted, guessed + found.guessed
    assert 0.2 < accepted / guessed < 0.9  # both ways are taken

    table = model.table.clone()
    table[:, 0] = -torch.inf  # the end may not come before three tokens
    for transform in transforms:
        table = transform(table, None)
    table = table.double().softmax(dim=-1)
    statistic, cells = 0.0, 0
    for text, count in counts.items():
        expected = texts * float(torch.stack([table[a, b] for a, b in itertools.pairwise((4, *text))]).prod())
        if expected == 0:
            assert count == 0, text
        else:
            statistic += (count - expected) ** 2 / expected
            cells += 1
    # The 99.99 % point of chi-squared, by Wilson and Hilferty.
    degrees = cells - 1
    assert statistic < degrees * (1 - 2 / (9 * degrees) + 3.72 * (2 / (9 * degrees)) ** 0.5) ** 3


def test_a_seed_gives_the_same_draws():
    model, draft = gpt(2, 1), gpt(1, 2)
    speculation = Speculation(model=model, draft=draft)
    one, two, other = (
        speculation.write([0, 5], most=12, generator=torch.Generator().manual_seed(seed)).hypothesis
        for seed in (1, 1, 2)
    )
    assert one == two
    assert one.tokens != other.tokens


def test_stop_rules_and_the_end_are_kept():
    generator = torch.Generator().manual_seed(0)
    table = torch.full((4, 4), -9.0)
    table[[1, 2, 3], [2, 3, 0]] = 9.0  # 1, 2, 3, end
    model, draft = Chain(table), Chain(torch.randn(4, 4, generator=generator))
    found = Speculation(model=model, draft=draft).write([1], most=9).hypothesis
    assert (found.tokens, found.finished, found.length) == ((2, 3), True, 3)
    stopped = Speculation(model=model, draft=draft, stop=[lambda paths: paths.tokens[:, -1] == 2]).write([1], most=9)
    assert (stopped.hypothesis.tokens, stopped.hypothesis.finished) == ((2,), True)
    other = Speculation(model=model, draft=draft, end_tokens=(3, 1))
    assert other.write([1], most=9).hypothesis.tokens == (2, 3)
    assert other.write([1], most=9, least=3).hypothesis.tokens[1] not in (1, 3)


def test_a_quantised_draft_and_a_quantised_model():
    model = gpt(2, 7)
    prepared = InferenceDecoder(model, "int8")
    wanted = generate(Continuation(model), Tokens.pad([[0, 9]]), limit=FixedLength(12))[0].tokens
    assert (
        Speculation(model=model, draft=InferenceDecoder(gpt(1, 8), "int4")).write([0, 9], most=12).hypothesis.tokens
        == wanted
    )
    alone = generate(Continuation(prepared), Tokens.pad([[0, 9]]), limit=FixedLength(12))[0]
    found = Speculation(model=prepared, draft=model).write([0, 9], most=12).hypothesis
    assert found.token_log_probabilities[0] == pytest.approx(alone.token_log_probabilities[0], abs=0.05)


def test_what_cannot_be_is_refused():
    model = gpt(1, 1)
    with pytest.raises(InputError, match="vocabulary of 5 and the model one of 23"):
        Speculation(model=model, draft=Chain(torch.zeros(5, 5)))
    with pytest.raises(InputError, match="ahead"):
        Speculation(model=model, draft=model, ahead=0)
    lstm = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=23, embedding_width=4, hidden_width=5)).eval()
    with pytest.raises(InputError, match="keeps no earlier states"):
        Speculation(model=model, draft=lstm).write([0, 3], most=20, least=20)
    with pytest.raises(InputError, match="not finite"):
        Speculation(model=Chain(torch.full((23, 23), torch.nan)), draft=model).write([0], most=3)
