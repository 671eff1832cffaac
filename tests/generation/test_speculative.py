"""Speculative decoding: the same answers, or the same distribution of answers, as without the draft."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import Continuation, FixedLength, NGramDraft, Speculation, Temperature, TopK, generate
from regard.kernels import kernels
from regard.layers import DecoderState, Tokens
from regard.models import (
    GPT2,
    GPT3,
    GPT2Config,
    GPT3Config,
    Llama,
    LlamaConfig,
    LSTMLanguageModel,
    LSTMLanguageModelConfig,
)
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


def gpt(layers, seed, **sizes):
    model = GPT2(GPT2Config(**SIZES | sizes, layers=layers)).eval()
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
    chain = Chain(torch.randn(23, 23, generator=torch.Generator().manual_seed(seed)))
    for draft in (gpt(1, seed + 1), model, chain, NGramDraft(), NGramDraft(longest=2, shortest=1)):
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
    ("transforms", "ngrams"),
    [pytest.param((), False, marks=pytest.mark.slow), ((Temperature(0.6), TopK(3)), False), ((), True)],
    ids=["plain", "temperature and top-k", "n-grams"],
)
def test_draws_are_distributed_as_the_models_own(transforms, ngrams):
    """Against the exact probabilities of all texts of three tokens, by a chi-squared test."""
    generator = torch.Generator().manual_seed(3)
    table = 1.2 * torch.randn(5, 5, generator=generator)
    model = Chain(table)
    draft = NGramDraft(shortest=1) if ngrams else Chain(table + torch.randn(5, 5, generator=generator))
    speculation = Speculation(model=model, draft=draft, ahead=2, transforms=transforms)
    counts = dict.fromkeys(itertools.product(range(5), repeat=3), 0)
    texts = 1_500
    accepted = guessed = 0
    for _ in range(texts):
        found = speculation.write([1, 2, 3, 1, 4, 4] if ngrams else [4], most=3, least=3, generator=generator)
        counts[found.hypothesis.tokens] += 1
        accepted, guessed = accepted + found.accepted, guessed + found.guessed
    assert 0.1 < accepted / guessed < 0.9  # both ways are taken

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


def test_ngrams_propose_what_came_after_the_last_tokens_before():
    seen = NGramDraft(longest=3, shortest=2).begin([1, 2, 3, 4, 9, 2, 3, 5])
    assert seen.proposed(4) == []
    seen.add(2)
    assert seen.proposed(4) == []  # a single token is not looked up
    seen.add(3)
    assert seen.proposed(3) == [5, 2, 3]  # the last occurrence of 2, 3
    seen = NGramDraft(longest=3, shortest=2).begin([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3])
    assert seen.proposed(2) == [4, 9]  # that of 1, 2, 3 before it, which is longer
    assert NGramDraft(shortest=1).begin([7, 7]).proposed(5) == [7] * 5  # a repetition goes on
    assert NGramDraft().begin([]).proposed(5) == []


@pytest.mark.skipif(kernels().library is None, reason="no compiled kernels")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
def test_ngrams_save_readings_and_change_no_bit_of_a_model_for_inference(precision):
    model = InferenceDecoder(gpt(2, 7, feedforward_width=64), precision)
    prompt = [0, 9, 4, 9, 4, 9]
    alone = generate(Continuation(model), Tokens.pad([prompt]), limit=FixedLength(30), minimum_length=30)[0]
    found = Speculation(model=model, draft=NGramDraft(shortest=1)).write(prompt, most=30, least=30)
    assert found.hypothesis.tokens == alone.tokens
    assert found.hypothesis.token_log_probabilities == alone.token_log_probabilities
    assert 0 < found.accepted <= found.guessed
    assert found.readings == 30 - found.accepted


@pytest.mark.skipif(kernels().library is None, reason="no compiled kernels")
def test_tokens_that_are_read_together_are_those_read_one_by_one_to_the_bit(generator):
    sizes = SIZES | {"feedforward_width": 64, "layers": 3}
    llama = Llama(LlamaConfig(**sizes | {"heads": 4, "key_heads": 2, "head_width": 32}))
    for model in (gpt(2, 3, feedforward_width=64), llama.eval(), GPT3(GPT3Config(**sizes, band=5)).eval()):
        model = InferenceDecoder(model, "int8")
        tokens = torch.randint(1, 23, (2, 6), generator=generator)
        before = model.read(Tokens.pad([[0, 5, 6], [0, 7, 8]]), model.start(2))[1]
        together, after = model.step_through(tokens, before)
        one, state = [], before
        for place in range(6):
            logits, state = model.step(tokens[:, place], state)
            one.append(logits)
        assert after.length == state.length == 9
        windows = any(model.sliding_windows)
        if not windows:
            assert torch.equal(together, torch.stack(one, dim=1))
            assert torch.equal(after.cache.layers[0].key, state.cache.layers[0].key)
        else:  # block by block, since a window would be wrong for some
            torch.testing.assert_close(together, torch.stack(one, dim=1), rtol=0.1, atol=0.1)
        # Going back and reading something else writes over the tokens after the place.
        again, _ = model.step_through(tokens[:, :3], after.rewound(3))
        torch.testing.assert_close(again, together[:, :3], rtol=0, atol=0.1 if windows else 0)
    with pytest.raises(InputError, match="40"):
        model.step_through(torch.ones(2, 40, dtype=torch.long), before)


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="longest"):
        NGramDraft(longest=1, shortest=2)
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
