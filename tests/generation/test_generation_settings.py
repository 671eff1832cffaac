from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.generation import (
    CoveragePenalty,
    FixedLength,
    GenerationSettings,
    GnmtLength,
    MinP,
    Sample,
    Temperature,
    TopK,
    TopP,
    beam_search,
    generate,
    search,
)


def test_greedy_is_the_default(toys, sentences):
    toy = toys.Toy(seed=2, end_bias=1.0)
    expected = generate(toy, sentences, length_penalty=GnmtLength(0.6))
    assert search(toy, sentences, GenerationSettings()) == [[hypothesis] for hypothesis in expected]


def test_greedy_with_coverage_is_the_same_answer_with_coverage_in_its_score(toys, sentences):
    toy = toys.Toy(seed=2, end_bias=1.0)
    plain = search(toy, sentences, GenerationSettings())
    covered = search(toy, sentences, GenerationSettings(coverage_penalty=0.2))
    assert [row[0].tokens for row in covered] == [row[0].tokens for row in plain]
    lowered = [before[0].score - after[0].score for before, after in zip(plain, covered, strict=True)]
    assert min(lowered) >= 0
    assert max(lowered) > 0.01


def test_every_beam_setting_reaches_the_search(toys, sentences, watcher):
    toy = toys.Toy(seed=2, end_bias=0.5)
    settings = GenerationSettings(
        beam=3,
        n_best=2,
        length_penalty=1.0,
        coverage_penalty=0.3,
        early_stopping=2,
        minimum_length=2,
        maximum_length=6,
    )
    found = search(toy, sentences, settings, watcher)
    assert watcher.hypotheses == found
    assert found == beam_search(
        toy,
        sentences,
        beam=3,
        n_best=2,
        length_penalty=GnmtLength(1.0),
        coverage_penalty=CoveragePenalty(0.3),
        early_stopping=2,
        minimum_length=2,
        limit=FixedLength(6),
    )
    reluctant = toys.Toy(end_bias=-20.0)
    relative = GenerationSettings(beam=2, maximum_ratio=2, maximum_extra=1)
    assert [row[0].length for row in search(reluctant, sentences, relative)] == [7, 3, 13, 5, 9]


def test_sampling_settings(toys, sentences):
    toy = toys.Toy(seed=2, end_bias=0.5, sharpness=0.5)
    settings = GenerationSettings(sample=True, temperature=1.3, top_k=4, top_p=0.95, min_p=0.01, seed=9, n_best=3)
    assert settings.transforms == (Temperature(1.3), TopK(4), TopP(0.95), MinP(0.01))
    found = search(toy, sentences, settings)
    assert [len(row) for row in found] == [3] * len(sentences)
    assert found == search(toy, sentences, settings)
    repeated = sentences.select(torch.arange(5).repeat_interleave(3))
    flat = generate(
        toy,
        repeated,
        choose=Sample(torch.Generator().manual_seed(9)),
        transforms=settings.transforms,
        length_penalty=GnmtLength(0.6),
    )
    assert [hypothesis for row in found for hypothesis in row] == flat
    assert len({hypothesis.tokens for hypothesis in found[2]}) > 1
    other = GenerationSettings(sample=True, seed=10)
    assert search(toy, sentences, other) != search(toy, sentences, GenerationSettings(sample=True, seed=9))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beam": 0}, r"generation.beam: 0 will not do; give a whole number of at least 1"),
        ({"beam": True}, r"generation.beam: True"),
        ({"beam": 2.0}, r"generation.beam: 2.0"),
        ({"n_best": 3}, r"generation.n_best: 3 is more than the beam of 1"),
        ({"length_penalty": -0.1}, r"generation.length_penalty: -0.1 .* at least 0"),
        ({"length_penalty": "high"}, r"generation.length_penalty: 'high'"),
        ({"coverage_penalty": float("inf")}, r"generation.coverage_penalty: inf"),
        ({"early_stopping": 1, "beam": 4, "n_best": 2}, r"generation.early_stopping: 1 .* at least 2"),
        ({"minimum_length": -1}, r"generation.minimum_length: -1"),
        ({"maximum_length": 0}, r"generation.maximum_length: 0"),
        ({"minimum_length": 9, "maximum_length": 5}, r"generation.minimum_length: 9 is more than"),
        ({"maximum_ratio": -1}, r"generation.maximum_ratio: -1"),
        ({"maximum_extra": 0.5}, r"generation.maximum_extra: 0.5"),
        ({"sample": 1}, r"generation.sample: 1 will not do; give true or false"),
        ({"sample": True, "beam": 4}, r"generation.sample: .* beam is 4"),
        ({"sample": True, "coverage_penalty": 0.2}, r"generation.coverage_penalty: .* set it to 0"),
        ({"sample": True, "temperature": 0}, r"generation.temperature: 0 .* above 0"),
        ({"temperature": 0.7}, r"generation.temperature: it only matters when sampling"),
        ({"top_k": 5}, r"generation.top_k: it only matters when sampling"),
        ({"sample": True, "top_k": 0}, r"generation.top_k: 0"),
        ({"sample": True, "top_p": 1.5}, r"generation.top_p: 1.5 .* above 0 and at most 1"),
        ({"sample": True, "min_p": -1}, r"generation.min_p: -1 .* at least 0 and at most 1"),
        ({"seed": -1}, r"generation.seed: -1"),
    ],
)
def test_invalid_settings_name_field_value_and_remedy(fields, message):
    with pytest.raises(InputError, match=message):
        GenerationSettings(**fields)


def test_greedy_with_coverage_does_not_wait_for_a_better_one(toys, sentences):
    """A longer answer would score higher here; greedy search takes the first token all the same."""
    table = {1: {2: 0.5, 3: 0.45, 6: 0.05}, 3: {4: 1.0}, 4: {5: 1.0}, 5: {2: 1.0}}
    settings = GenerationSettings(coverage_penalty=0.1, length_penalty=1.0)
    found = search(toys.Markov(table, 7), sentences, settings)
    assert [row[0].tokens for row in found] == [()] * len(sentences)


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(maximum_length=6),
        GenerationSettings(beam=3, maximum_length=6),
        GenerationSettings(sample=True, n_best=8, maximum_length=6),
    ],
    ids=["greedy", "beam", "sample"],
)
def test_what_is_forbidden_is_never_emitted(settings, toys, sentences):
    table = {1: {3: 0.9, 4: 0.1}, 3: {3: 0.9, 4: 0.1}, 4: {3: 0.6, 4: 0.3, 2: 0.1}}
    decoder = toys.Markov(table, 5)
    assert any(3 in one.tokens for found in search(decoder, sentences, settings) for one in found)
    found = search(decoder, sentences, settings, forbid=(3,))
    assert {token for row in found for one in row for token in one.tokens} == {4}
