"""Penalties for repetition and biases: against transformers, and against the equations written plainly, whoever else is there."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import (
    FrequencyPenalty,
    GenerationSettings,
    Greedy,
    LogitBias,
    Paths,
    PresencePenalty,
    RepetitionPenalty,
    biases_by_id,
    generate,
    search,
)
from regard.layers import Tokens
from regard.text import Tokenizer

VOCABULARY = 7


def written(rows: list[list[int]]) -> Paths:
    """Paths that have emitted these tokens, as many in each row."""
    paths = Paths.begin(len(rows), "cpu")
    for column in zip(*rows, strict=True):
        paths = paths.advanced(torch.arange(len(rows)), torch.tensor(column), torch.zeros(len(rows)))
    return paths


ROWS = st.integers(0, 5).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, VOCABULARY - 1), min_size=length, max_size=length), min_size=1, max_size=3
    )
)


def drawn(rows: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, penalty=st.sampled_from([0.5, 1.0, 1.2, 3.0]))
def test_the_repetition_penalty_is_that_of_transformers(rows, penalty):
    process = pytest.importorskip("transformers").RepetitionPenaltyLogitsProcessor(penalty)
    logits = drawn(len(rows))
    logits[:, 2] = -torch.inf
    prompts = [[1, 3 + row] for row in range(len(rows))]
    expected = process(torch.tensor([a + b for a, b in zip(prompts, rows, strict=True)]), logits)
    found = RepetitionPenalty(penalty, Tokens.pad(prompts))(logits, written(rows))
    assert torch.equal(found, expected)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, presence=st.floats(-2, 2), frequency=st.floats(-2, 2))
def test_presence_and_frequency_are_what_openai_says(rows, presence, frequency):
    """mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence, c counted in what was written."""
    logits, paths = drawn(len(rows)), written(rows)
    found = FrequencyPenalty(frequency)(PresencePenalty(presence)(logits, paths), paths)
    for i, row in enumerate(rows):
        for j in range(VOCABULARY):
            count = row.count(j)
            expected = logits[i, j].item() - count * frequency - float(count > 0) * presence
            assert found[i, j].item() == pytest.approx(expected, abs=1e-5)


def test_padding_counts_for_nothing_and_rows_find_their_own_prompts():
    """Row 0 has left: what remains is about source 1, whose prompt stands behind padding of id 4."""
    before = Tokens.pad([[1, 2, 3], [5]], padding_id=4, side="left")
    paths = written([[0], [0]]).select(torch.tensor([1]))
    found = RepetitionPenalty(2.0, before)(torch.ones(1, VOCABULARY), paths)
    assert found.tolist() == [[0.5, 1, 1, 1, 1, 0.5, 1]]


def test_rows_do_not_change_one_another(toys, sentences):
    chosen = GenerationSettings(repetition_penalty=1.5, presence_penalty=0.4, frequency_penalty=0.3, maximum_length=12)
    toy = toys.Toy(seed=2, end_bias=-1.0)
    together = search(toy, sentences, chosen)
    for row in range(len(sentences)):
        alone = search(toy, sentences.select(torch.tensor([row])), chosen)
        assert alone[0][0].tokens == together[row][0].tokens
    assert together != search(toy, sentences, GenerationSettings(maximum_length=12))


def test_what_is_reported_is_the_models_own(toys, sentences):
    """With a bias that leaves one token to choose, its log-probability is still what the model gave it."""
    toy = toys.Toy(seed=2)
    found = search(toy, sentences, GenerationSettings(logit_bias=((4, 100.0),), maximum_length=3))
    state = toy.start(sentences)
    tokens = torch.full((len(sentences),), toy.config.start_id)
    for t in range(3):
        logits, state = toy.step(tokens, state)
        tokens = torch.full((len(sentences),), 4)
        own = logits.log_softmax(dim=-1)[:, 4]
        assert [row[0].token_log_probabilities[t] for row in found] == pytest.approx(own.tolist(), abs=1e-5)
    assert {row[0].tokens for row in found} == {(4, 4, 4)}


def test_the_order_is_biases_then_repetition_then_presence_and_frequency_then_sampling():
    chosen = GenerationSettings(
        sample=True,
        temperature=0.7,
        logit_bias=((2, 1.0),),
        repetition_penalty=1.2,
        presence_penalty=0.1,
        frequency_penalty=0.2,
    )
    kinds = [type(each).__name__ for each in chosen.changes()]
    assert kinds == ["LogitBias", "RepetitionPenalty", "PresencePenalty", "FrequencyPenalty", "Temperature"]
    assert GenerationSettings().changes() == ()


def test_greedy_search_under_a_penalty_is_the_argmax_of_changed_logits(toys):
    toy = toys.Toy(seed=4, end_bias=-3.0)
    source = Tokens.pad([[3, 4, 5]])
    before = Tokens.pad([[3, 6]])
    found = generate(toy, source, choose=Greedy(), transforms=[RepetitionPenalty(1.8, before)])[0]
    state, tokens, seen = toy.start(source), torch.tensor([toy.config.start_id]), {3, 6}
    expected: list[int] = []
    while len(expected) < 53:
        logits, state = toy.step(tokens, state)
        row = [x / 1.8 if x > 0 else x * 1.8 for x in logits[0].tolist()]
        row = [row[j] if j in seen else logits[0, j].item() for j in range(VOCABULARY)]
        best = max((j for j in range(VOCABULARY) if j not in (0, 1)), key=row.__getitem__)
        if best == toy.config.end_id:
            break
        expected.append(best)
        seen.add(best)
        tokens = torch.tensor([best])
    assert list(found.tokens) == expected


def test_texts_of_tokens_become_ids():
    tokenizer = Tokenizer.train(["the cat sat on the mat"] * 3, kind="word", size=20)
    the = tokenizer.encode("the")[0]
    assert biases_by_id([("the", 1.0), ("▁cat", 2.0), ("</s>", -3.0), (5, 4.0)], tokenizer) == (
        (the, 1.0),
        (tokenizer.find("▁cat"), 2.0),
        (tokenizer.end_id, -3.0),
        (5, 4.0),
    )
    with pytest.raises(InputError, match="'the cat' is '▁the', '▁cat' to this model; give a text that is one token"):
        biases_by_id([("the cat", 1.0)], tokenizer)
    with pytest.raises(InputError, match="'dog'"):
        biases_by_id([("dog", 1.0)], tokenizer)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"repetition_penalty": 0}, r"generation.repetition_penalty: 0 .* above 0"),
        ({"presence_penalty": float("nan")}, r"generation.presence_penalty: nan"),
        ({"frequency_penalty": "much"}, r"generation.frequency_penalty: 'much'"),
        ({"logit_bias": ((3, float("inf")),)}, r"generation.logit_bias of 3: inf"),
        ({"logit_bias": ((3, 1), (3, 2))}, r"generation.logit_bias: 3 is given twice"),
        ({"logit_bias": (("", 1),)}, r"generation.logit_bias: '' is no token"),
        ({"logit_bias": ((True, 1),)}, r"generation.logit_bias: True is no token"),
        ({"logit_bias": {"the": 1}}, r"generation.logit_bias: .* give pairs"),
        ({"beam": 2, "repetition_penalty": 1.2}, r"generation.repetition_penalty: a beam.* set beam to 1"),
        ({"coverage_penalty": 0.2, "logit_bias": ((3, 1),)}, r"generation.logit_bias: .* coverage_penalty to 0"),
    ],
)
def test_what_cannot_be_is_told_by_field_and_remedy(fields, message):
    with pytest.raises(InputError, match=message):
        GenerationSettings(**fields)


def test_ids_that_cannot_be_are_refused_when_they_are_met():
    with pytest.raises(InputError, match="there is no token 9; the model has 0 to 6"):
        LogitBias(((9, 1.0),))(drawn(1), written([[]]))
    with pytest.raises(InputError, match="'the' is a text, and there is no tokenizer here"):
        GenerationSettings(logit_bias=(("the", 1.0),)).changes()
    with pytest.raises(InputError, match="logit_bias: -1"):
        LogitBias(((-1, 1.0),))
