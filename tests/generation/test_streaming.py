from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import (
    FixedLength,
    Forbid,
    GnmtLength,
    Greedy,
    NextToken,
    Paths,
    RelativeLength,
    Sample,
    StopSequence,
    Temperature,
    generate,
    stream,
)
from regard.layers import Tokens


def naive_greedy(toys, toy, source: Tokens, maximum: int) -> tuple[tuple[int, ...], float]:
    """One sentence, each prefix from scratch."""
    emitted: tuple[int, ...] = ()
    total = 0.0
    while len(emitted) < maximum and (not emitted or emitted[-1] != toy.config.end_id):
        values = toys.rerun(toy, source, emitted)[0]
        values[[toy.config.padding_id, toy.config.start_id]] = -torch.inf
        best = max(range(len(values)), key=lambda token: values[token].item())
        emitted, total = (*emitted, best), total + values[best].item()
    return emitted, total


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), dtype=st.sampled_from([torch.float64, torch.bfloat16]))
def test_greedy_equals_the_naive_one_per_sentence(toys, sentences, seed, dtype):
    toy = toys.Toy(seed=seed, end_bias=1.0, dtype=dtype)
    found = generate(toy, sentences, limit=RelativeLength(extra=4))
    for row, hypothesis in enumerate(found):
        source = Tokens.pad([sentences.ids[row][sentences.valid[row]].tolist()])
        emitted, total = naive_greedy(toys, toy, source, source.ids.shape[1] + 4)
        assert hypothesis.finished == (emitted[-1] == toy.config.end_id)
        assert hypothesis.tokens == (emitted[:-1] if hypothesis.finished else emitted)
        assert hypothesis.length == len(emitted)
        assert hypothesis.log_probability == hypothesis.score == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("choose", [None, 5])
def test_rows_spell_the_hypothesis_and_leave_the_batch(toys, sentences, choose, watcher):
    toy = toys.Toy(seed=3, end_bias=1.0)
    chooser = None if choose is None else Sample(torch.Generator().manual_seed(choose))
    found = generate(toy, sentences, choose=chooser, observer=watcher)
    assert watcher.pauses == len(toy.calls)
    for hypothesis in found:
        consumed = [toy.calls[call][place] for call, place in enumerate(hypothesis.rows)]
        emitted = (*hypothesis.tokens, toy.config.end_id) if hypothesis.finished else hypothesis.tokens
        assert consumed == [toy.config.start_id, *emitted[:-1]]
    assert [len(call) for call in toy.calls] == [
        sum(hypothesis.length > call for hypothesis in found) for call in range(len(toy.calls))
    ]
    assert len(toy.calls[-1]) < len(sentences)
    assert watcher.source is sentences
    assert watcher.hypotheses == [[hypothesis] for hypothesis in found]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_samples_do_not_depend_on_the_rest_of_the_batch(toys, sentences, seed):
    toy = toys.Toy(seed=1, end_bias=0.5, sharpness=0.7)

    def draw(source: Tokens) -> list[tuple[int, ...]]:
        chooser = Sample(torch.Generator().manual_seed(seed))
        return [hypothesis.tokens for hypothesis in generate(toy, source, choose=chooser)]

    together = draw(sentences)
    assert together == draw(sentences)
    assert draw(sentences.select(torch.tensor([0, 1]))) == together[:2]
    assert draw(sentences.select(torch.tensor([4, 1, 0])))[1] == together[1]


def test_one_generator_gives_new_samples_each_time_and_leaves_the_global_one_alone(toys, sentences):
    toy, chooser = toys.Toy(sharpness=0.3), Sample(torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    first = generate(toy, sentences, choose=chooser)
    assert first != generate(toy, sentences, choose=chooser)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_stream_is_what_generate_returns(toys, sentences):
    toy = toys.Toy(seed=3, end_bias=1.0)
    expected = generate(toy, sentences)
    emitted: dict[int, list[int]] = {row: [] for row in range(len(sentences))}
    left = {}
    for step in stream(toy, sentences):
        for source, token in zip(step.sources, step.tokens, strict=True):
            assert source not in left
            emitted[source].append(token)
        left.update(step.left)
    assert [left[row] for row in range(len(sentences))] == expected
    for row, hypothesis in enumerate(expected):
        end = [toy.config.end_id] if hypothesis.finished else []
        assert emitted[row] == [*hypothesis.tokens, *end]


def test_a_stream_can_be_left_and_does_not_leak_its_gradient_mode(toys, sentences):
    toy = toys.Toy(seed=3, end_bias=-20.0)
    steps = stream(toy, sentences)
    next(steps)
    assert torch.is_grad_enabled()
    next(steps)
    steps.close()
    assert torch.is_grad_enabled()
    assert toy.grad_modes == [False, False]


def test_stop_sequences_end_a_row_and_stay_in_it(toys, sentences):
    toy = toys.Toy(seed=3, end_bias=-20.0)
    plain = generate(toy, sentences, limit=FixedLength(12))
    target = plain[2].tokens[3:5]
    found = generate(toy, sentences, limit=FixedLength(12), stop=[StopSequence(target)])
    for before, after in zip(plain, found, strict=True):
        ends = [place for place in range(2, 13) if before.tokens[place - 2 : place] == target]
        assert after.finished == bool(ends)
        assert after.tokens == before.tokens[: ends[0] if ends else 12]
        assert after.length == len(after.tokens)
    assert found[2].finished


def test_any_of_several_end_tokens_ends_a_sample(toys, sentences):
    toy = toys.Toy(seed=3, end_bias=-20.0)

    def drawn(**settings):
        choose = Sample(torch.Generator().manual_seed(4))
        return generate(toy, sentences, limit=FixedLength(12), choose=choose, **settings)

    plain = drawn()
    ends = (plain[0].tokens[4], plain[1].tokens[2])
    found = drawn(end_tokens=ends)
    for before, after in zip(plain, found, strict=True):
        places = [place for place, token in enumerate(before.tokens) if token in ends]
        assert after.finished == bool(places)
        assert after.tokens == before.tokens[: places[0] + 1 if places else 12]
    assert found[0].finished
    assert found[1].finished
    later = drawn(end_tokens=ends, minimum_length=5)
    assert not any(set(ends) & set(hypothesis.tokens[:5]) for hypothesis in later)


def test_lengths_are_kept(toys, sentences):
    eager, reluctant = toys.Toy(seed=1, end_bias=4.0), toys.Toy(seed=1, end_bias=-20.0)
    assert any(len(hypothesis.tokens) < 3 for hypothesis in generate(eager, sentences))
    assert all(len(hypothesis.tokens) >= 3 for hypothesis in generate(eager, sentences, minimum_length=3))
    found = generate(reluctant, sentences, limit=RelativeLength(factor=1.5, extra=0))
    assert [hypothesis.length for hypothesis in found] == [4, 1, 9, 3, 6]
    assert not any(hypothesis.finished for hypothesis in found)
    short = toys.Toy(seed=1, end_bias=-20.0, maximum_target_length=3)
    assert {hypothesis.length for hypothesis in generate(short, sentences)} == {3}
    assert {hypothesis.length for hypothesis in generate(short, sentences, limit=FixedLength(2))} == {2}


def test_log_probabilities_are_the_models_own_whatever_the_transforms(toys, sentences):
    toy = toys.Toy(seed=2, end_bias=1.0)
    plain = generate(toy, sentences)
    assert generate(toy, sentences, transforms=[Temperature(0.1)]) == plain
    normalised = generate(toy, sentences, length_penalty=GnmtLength(1.0))
    assert [h.score for h in normalised] == [h.log_probability / ((5 + h.length) / 6) for h in plain]


def test_nothing_to_do_and_nothing_to_choose(toys, sentences, watcher):
    toy = toys.Toy()
    assert generate(toy, Tokens.pad([]), observer=watcher) == []
    assert watcher.hypotheses == []
    with pytest.raises(InputError, match="every token is forbidden at step 0"):
        generate(toy, sentences, transforms=[Forbid(tuple(range(7)))])
    toy.bias[4] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        generate(toy, sentences)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), length=st.integers(0, 3))
def test_one_pass_over_the_logits_finds_what_the_chain_of_changes_does(toys, data, length):
    """Ties, forbidden tokens that are the most probable, numbers that are not finite, ids that no token has."""
    values = st.sampled_from([0.0, 1.0, 2.0, 2.0, -math.inf, math.inf, math.nan])
    rows = data.draw(st.lists(st.lists(values, min_size=5, max_size=5), min_size=1, max_size=3))
    never = tuple(data.draw(st.lists(st.integers(-1, 5), max_size=2)))
    config = toys.Toy(vocabulary=5).config
    paths = Paths.begin(len(rows), "cpu")
    for _ in range(length):
        paths = paths.lengthened(torch.full((len(rows),), 3), torch.zeros(len(rows)))

    def chosen(*more):
        choice = Greedy().begin(len(rows))
        rules = NextToken(config=config, choice=choice, transforms=(Forbid(never), *more), minimum_length=2)
        assert rules.is_plain is not bool(more)
        try:
            found, finished = rules(torch.tensor(rows), paths, torch.full((len(rows),), 9))
        except InputError as error:
            return str(error)
        return found.tokens.tolist(), repr(found.log_probabilities.tolist()), finished.tolist()

    assert chosen() == chosen(lambda logits, paths: logits)


def test_paths_that_continue_themselves_are_those_that_are_advanced():
    lengthened = advanced = Paths.begin(2, "cpu")
    for step in range(3):
        tokens, log_probabilities = torch.tensor([step, step + 5]), torch.tensor([-0.5, -step - 0.1])
        lengthened = lengthened.lengthened(tokens, log_probabilities)
        advanced = advanced.advanced(torch.arange(2), tokens, log_probabilities)
        assert lengthened.length == advanced.length == step + 1
        assert [part.tolist() for part in lengthened.newest] == [part.tolist() for part in advanced.newest]
        if step == 1:  # read in between
            assert lengthened.tokens.tolist() == advanced.tokens.tolist()
    for part in ("sources", "tokens", "log_probabilities", "totals", "rows"):
        assert torch.equal(getattr(lengthened, part), getattr(advanced, part))
    chosen = torch.tensor([1])
    assert torch.equal(lengthened.select(chosen).rows, advanced.select(chosen).rows)
