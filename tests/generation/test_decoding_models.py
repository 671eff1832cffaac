"""The searches over the real models: what they report is what teacher forcing says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation import (
    Continuation,
    CoveragePenalty,
    FixedLength,
    GnmtLength,
    Sample,
    SampleRows,
    beam_search,
    generate,
)
from regard.layers import Tokens
from regard.models import GPT2, Bahdanau, BahdanauConfig, GPT2Config, Transformer, TransformerConfig


def bahdanau() -> Bahdanau:
    return Bahdanau(
        BahdanauConfig(
            source_vocabulary=50,
            target_vocabulary=11,
            embedding_width=6,
            hidden_width=7,
            attention_width=5,
            maxout_width=4,
        )
    )


def transformer() -> Transformer:
    return Transformer(
        TransformerConfig(
            source_vocabulary=50,
            target_vocabulary=11,
            width=8,
            heads=2,
            feedforward_width=12,
            encoder_layers=1,
            decoder_layers=2,
            sharing="none",
            maximum_positions=12,
        )
    )


@pytest.fixture(params=[bahdanau, transformer])
def model(request: pytest.FixtureRequest) -> Bahdanau | Transformer:
    torch.manual_seed(3)
    model = request.param().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return model


def check(model, source: Tokens, hypotheses) -> None:
    """Log-probabilities by teacher forcing, the sentence alone."""
    config = model.config
    for row, ranked in enumerate(hypotheses):
        alone = Tokens.pad([source.ids[row][source.valid[row]].tolist()])
        for hypothesis in ranked:
            emitted = [*hypothesis.tokens, config.end_id] if hypothesis.finished else [*hypothesis.tokens]
            with torch.no_grad():
                logits = model(alone, Tokens.pad([[config.start_id, *emitted[:-1]]]))
            expected = logits[0].log_softmax(-1)[torch.arange(len(emitted)), torch.tensor(emitted)]
            found = torch.tensor(hypothesis.token_log_probabilities)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            assert hypothesis.log_probability == pytest.approx(expected.sum().item(), abs=1e-3)


def test_beam_search_says_what_teacher_forcing_says(model, sentences):
    found = beam_search(model, sentences, beam=3, n_best=3)
    check(model, sentences, found)
    assert [len(row) for row in found] == [3] * len(sentences)
    assert max(hypothesis.length for row in found for hypothesis in row) <= (model.maximum_target_length or 10**9)


def test_greedy_and_samples_say_what_teacher_forcing_says(model, sentences):
    chooser = Sample(torch.Generator().manual_seed(1))
    for found in (generate(model, sentences), generate(model, sentences, choose=chooser)):
        check(model, sentences, [[hypothesis] for hypothesis in found])


def test_coverage_is_that_of_the_hypothesis(model, sentences, toys):
    """Coverage carried through beams equals the weights along one hypothesis, decoded again alone."""
    found = beam_search(
        model,
        sentences,
        beam=4,
        n_best=4,
        length_penalty=GnmtLength(0.6),
        coverage_penalty=CoveragePenalty(0.3),
        limit=FixedLength(7),
    )
    with torch.no_grad():
        for row, ranked in enumerate(found):
            alone = Tokens.pad([sentences.ids[row][sentences.valid[row]].tolist()])
            for hypothesis in ranked:
                end = (model.config.end_id,) if hypothesis.finished else ()
                emitted = (*hypothesis.tokens, *end)
                expected = toys.score(model, alone, emitted, hypothesis.log_probability, alpha=0.6, beta=0.3)
                assert hypothesis.score == pytest.approx(expected, abs=1e-4)


def gpt2() -> GPT2:
    return GPT2(
        GPT2Config(vocabulary=11, width=8, heads=2, feedforward_width=12, layers=2, maximum_positions=12)
    ).eval()


@pytest.mark.parametrize("back", ["crop", "rewound"])
def test_a_continuation_goes_back(back, seeded, randomize):
    """Its language model goes back with it: what follows is what followed."""
    model: Any = Continuation(randomize(gpt2().double()))
    with torch.no_grad():
        state: Any = model.start(Tokens.pad([[0, 5, 6], [0, 9]], side="left"))
        states, said = [state], []
        for token in (0, 4, 7, 3):  # the first is the prompt's last
            logits, state = model.step(torch.tensor([token, token + 1]), state)
            states.append(state)
            said.append(logits)
        memory = state.reader.cache.layers[0].buffer
        shorter = getattr(state, back)(2)
        assert (shorter.length, shorter.reader.length) == (2, states[2].reader.length)
        logits, again = model.step(torch.tensor([7, 8]), shorter)
    torch.testing.assert_close(logits, said[2])
    assert (again.reader.cache.layers[0].buffer is memory) == (back == "rewound"), "what is given up is written over"
    with pytest.raises(ValueError, match="holds 4 tokens and cannot be cropped to 0"):
        getattr(state, back)(0)


@pytest.mark.parametrize("padded", ["right", "somewhere"])
def test_a_continuation_takes_prompts_padded_on_either_side(padded, seeded, randomize):
    model = Continuation(randomize(gpt2().double()))
    prompts = [[0, 5, 6, 8], [0, 9]]
    left, right = (Tokens.pad(prompts, side=side) for side in ("left", "right"))
    if padded == "somewhere":
        right = Tokens(right.ids, right.valid)
    wanted, found = (generate(model, each, limit=FixedLength(6)) for each in (left, right))
    assert [each.tokens for each in found] == [each.tokens for each in wanted]
    assert [each.score for each in found] == [each.score for each in wanted]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_prompt_without_a_token_is_refused(side):
    with pytest.raises(InputError, match="prompt 2 has no token, and there is nothing to continue"):
        Continuation(gpt2()).start(Tokens.pad([[0, 5], []], side=side))


def test_a_transformer_that_goes_back_writes_over_what_it_gave_up(seeded):
    model = transformer().eval()
    with torch.no_grad():
        state = model.start(Tokens.pad([[3, 4, 5], [6, 7]]))
        for token in (1, 3, 4):
            _, state = model.step(torch.tensor([token, token]), state)
        memory = state.cache.layers[0].buffer
        _, after = model.step(torch.tensor([5, 5]), state.rewound(2))
        assert after.cache.layers[0].buffer is memory
        assert after.cache.layers[0].key.shape[2] == 3


@pytest.mark.parametrize("before", [None, [0, 7, 7]])
def test_samples_of_a_prompt_branch_after_one_reading(before, seeded, randomize, monkeypatch):
    """The prompt is read by one row; the samples are those of so many prompts alike."""
    reader = randomize(gpt2().double())
    rows: list[int] = []
    read_texts = reader.read_texts

    def counted(texts: Sequence[Tensor], before: Any = None) -> Any:
        rows.append(len(texts))
        return read_texts(texts, before)

    monkeypatch.setattr(reader, "read_texts", counted)
    with torch.no_grad():
        state = None if before is None else reader.prefill(Tokens.pad([before]), reader.start(1))
    model, seeds = Continuation(reader, state), [5, 6, 7, 8]
    prompts = Tokens.pad([[0, 5, 6], [0, 9]])
    found = generate(model, prompts, draws=2, choose=SampleRows(seeds), limit=FixedLength(6))
    assert rows == [2]
    alike = prompts.select(torch.tensor([0, 0, 1, 1]))
    assert [each.tokens for each in found] == [
        each.tokens for each in generate(model, alike, choose=SampleRows(seeds), limit=FixedLength(6))
    ]
