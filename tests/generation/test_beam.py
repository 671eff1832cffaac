from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import (
    AverageLength,
    CoveragePenalty,
    FixedLength,
    Forbid,
    GnmtLength,
    Paths,
    RelativeLength,
    beam_search,
    generate,
)
from regard.layers import Tokens

PLAIN = GnmtLength(0.0)


def one(source: Tokens, row: int) -> Tokens:
    """A sentence alone, without its padding."""
    return Tokens.pad([source.ids[row][source.valid[row]].tolist()])


def same(found, expected, end_id: int) -> None:
    """What a search found against the naive twin's candidates."""
    assert [hypothesis.tokens for hypothesis in found] == [
        tuple(token for token in candidate.emitted if token != end_id) for candidate in expected
    ]
    assert [hypothesis.finished for hypothesis in found] == [candidate.finished for candidate in expected]
    for hypothesis, candidate in zip(found, expected, strict=True):
        assert hypothesis.length == len(candidate.emitted) == len(hypothesis.rows)
        assert hypothesis.log_probability == pytest.approx(candidate.total, abs=1e-5)
        assert hypothesis.score == pytest.approx(candidate.score, abs=1e-5)
        assert sum(hypothesis.token_log_probabilities) == pytest.approx(candidate.total, abs=1e-5)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    bias=st.sampled_from([-1.0, 1.5]),
    beam=st.integers(1, 4),
    data=st.data(),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    beta=st.sampled_from([0.0, 0.2]),
    minimum=st.integers(0, 2),
)
def test_a_batched_beam_equals_the_naive_one_per_sentence(
    toys, sentences, seed, bias, beam, data, alpha, beta, minimum
):
    n_best = data.draw(st.integers(1, beam))
    toy = toys.Toy(seed=seed, end_bias=bias, sharpness=0.7)
    found = beam_search(
        toy,
        sentences,
        beam=beam,
        n_best=n_best,
        length_penalty=GnmtLength(alpha),
        coverage_penalty=CoveragePenalty(beta) if beta else None,
        limit=RelativeLength(factor=1, extra=2),
        minimum_length=minimum,
    )
    for row in range(len(sentences)):
        source = one(sentences, row)
        expected = toys.naive_beam(
            toy,
            source,
            beam=beam,
            n_best=n_best,
            alpha=alpha,
            beta=beta,
            maximum=source.ids.shape[1] + 2,
            minimum=minimum,
        )
        same(found[row], expected, toy.config.end_id)


def test_the_naive_twin_is_reached_by_both_finished_and_unfinished_searches(toys, sentences):
    """The property above would say little if no search ever finished, or all did."""
    kinds = [
        hypothesis.finished
        for bias in (-3.0, 1.5)
        for row in beam_search(toys.Toy(seed=3, end_bias=bias), sentences, limit=RelativeLength(extra=2))
        for hypothesis in row
    ]
    assert True in kinds
    assert False in kinds


@pytest.mark.parametrize("alpha", [0.0, 0.8])
def test_a_beam_as_wide_as_the_space_finds_what_brute_force_finds(toys, alpha):
    toy, maximum = toys.Toy(5, seed=5), 4  # pad, start, end, and two words
    source = Tokens.pad([[3, 9, 27]])
    every = []
    for length in range(maximum + 1):
        for words in itertools.product((3, 4), repeat=length):
            emitted = words if length == maximum else (*words, toy.config.end_id)
            total = sum(
                toys.rerun(toy, source, emitted[:place])[0][token].item() for place, token in enumerate(emitted)
            )
            value = toys.score(toy, source, emitted, total, alpha=alpha, beta=0)
            complete = length < maximum
            every.append(toys.Candidate(emitted, total, value, complete))
    expected = sorted(every, key=lambda c: -c.score)
    found = beam_search(
        toy,
        source,
        beam=5**maximum,
        n_best=5**maximum,
        length_penalty=GnmtLength(alpha),
        limit=FixedLength(maximum),
    )[0]
    assert len(found) == 15 + 16
    same(found, expected, toy.config.end_id)
    same(
        beam_search(toy, source, beam=32, length_penalty=GnmtLength(alpha), limit=FixedLength(maximum))[0],
        expected[:1],
        toy.config.end_id,
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_beam_of_one_is_greedy_search(toys, sentences, seed):
    toy = toys.Toy(seed=seed, end_bias=1.0)
    greedy = generate(toy, sentences)
    assert [row[0] for row in beam_search(toy, sentences, beam=1, length_penalty=PLAIN)] == greedy
    normalised = beam_search(toy, sentences, beam=1, length_penalty=GnmtLength(1.0), early_stopping=1)
    assert [row[0].tokens for row in normalised] == [hypothesis.tokens for hypothesis in greedy]


def test_hypotheses_are_sorted_and_distinct(toys, sentences):
    for row in beam_search(toys.Toy(seed=2, end_bias=1.0), sentences, beam=6, n_best=6):
        assert len({(hypothesis.tokens, hypothesis.finished) for hypothesis in row}) == len(row) == 6
        scores = [hypothesis.score for hypothesis in row]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("coverage", [None, CoveragePenalty(0.3)])
def test_who_else_is_in_the_batch_changes_nothing(toys, sentences, coverage):
    toy = toys.Toy(seed=11, end_bias=1.5)
    settings = {"beam": 3, "n_best": 3, "coverage_penalty": coverage}
    together = beam_search(toy, sentences, **settings)
    lengths = {row[0].length for row in together}
    assert len(lengths) > 1, "sentences should leave at different steps for this test to say something"
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = beam_search(toy, sentences.select(order), **settings)
    for row in range(len(sentences)):
        alone = beam_search(toy, one(sentences, row), **settings)[0]
        for other in (alone, shuffled[order.tolist().index(row)]):
            for left, right in zip(together[row], other, strict=True):
                assert (left.tokens, left.finished) == (right.tokens, right.finished)
                assert left.score == pytest.approx(right.score, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 4])
def test_rows_spell_the_hypothesis_when_replayed(toys, sentences, beam, watcher):
    toy = toys.Toy(seed=7, end_bias=1.0)
    found = beam_search(toy, sentences, beam=beam, n_best=beam, observer=watcher)
    assert watcher.pauses == len(toy.calls)
    moved = False
    for sentence, row in enumerate(found):
        for hypothesis in row:
            consumed = [toy.calls[call][place] for call, place in enumerate(hypothesis.rows)]
            emitted = (*hypothesis.tokens, toy.config.end_id) if hypothesis.finished else hypothesis.tokens
            assert consumed == [toy.config.start_id, *emitted[:-1]]
            assert hypothesis.rows[0] == sentence
            moved |= len({place - sentence * beam for place in hypothesis.rows[1:]}) > 1
    assert moved or beam == 1
    assert watcher.source is sentences
    assert watcher.hypotheses == found


def test_gnmt_scores_by_hand(toys):
    """One word, then the end: log P = ln 0.5 + ln 0.8, |Y| = 2 with the end token, coverage (0.6, 1.3)."""
    weights = torch.zeros(4, 2)
    weights[1] = torch.tensor([0.4, 0.6])
    weights[3] = torch.tensor([0.2, 0.7])
    table = {1: {3: 0.5, 2: 0.5}, 3: {2: 0.8, 3: 0.2}}
    found = beam_search(
        toys.Markov(table, 4, weights),
        Tokens.pad([[5, 6]]),
        beam=4,
        n_best=4,
        length_penalty=GnmtLength(0.6),
        coverage_penalty=CoveragePenalty(0.2),
        limit=FixedLength(4),
    )[0]
    by_tokens = {hypothesis.tokens: hypothesis for hypothesis in found if hypothesis.finished}
    expected = (math.log(0.5) + math.log(0.8)) / (7**0.6 / 6**0.6) + 0.2 * (math.log(0.6) + math.log(1.0))
    assert by_tokens[(3,)].score == pytest.approx(expected, abs=1e-6)
    assert by_tokens[(3,)].length == 2
    empty = math.log(0.5) + 0.2 * (math.log(0.4) + math.log(0.6))
    assert by_tokens[()].score == pytest.approx(empty, abs=1e-6)


def test_length_penalty_lets_the_longer_one_win(toys):
    """Ending at once has 0.5; the long way has 0.45, and no search by plain probability would take it."""
    table = {1: {2: 0.5, 3: 0.45, 6: 0.05}, 3: {4: 1.0}, 4: {5: 1.0}, 5: {2: 1.0}}
    source, decoder = Tokens.pad([[7]]), toys.Markov(table, 7)
    assert beam_search(decoder, source, length_penalty=PLAIN)[0][0].tokens == ()
    assert beam_search(decoder, source, length_penalty=GnmtLength(0.6))[0][0].tokens == (3, 4, 5)
    best = beam_search(decoder, source, length_penalty=AverageLength())[0][0]
    assert best.tokens == (3, 4, 5)
    assert best.score == pytest.approx(math.log(0.45) / 4)
    # Content with the first that finishes, it does not wait for the better one.
    hasty = beam_search(decoder, source, length_penalty=GnmtLength(0.6), early_stopping=1)
    assert hasty[0][0].tokens == ()


def test_coverage_prefers_the_one_that_looked_everywhere(toys):
    weights = torch.zeros(5, 2)
    weights[1], weights[3], weights[4] = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    table = {1: {3: 0.55, 4: 0.45}, 3: {2: 1.0}, 4: {2: 1.0}}
    source, decoder = Tokens.pad([[7, 8]]), toys.Markov(table, 5, weights)
    assert beam_search(decoder, source)[0][0].tokens == (3,)
    covered = beam_search(decoder, source, coverage_penalty=CoveragePenalty(0.2))[0][0]
    assert covered.tokens == (4,)
    assert math.isfinite(beam_search(decoder, source, n_best=2, coverage_penalty=CoveragePenalty(0.2))[0][1].score)


def test_alignment_is_asked_for_only_with_coverage(toys, sentences):
    toy = toys.Toy()
    beam_search(toy, sentences)
    assert toy.alignments_asked == 0
    beam_search(toy, sentences, coverage_penalty=CoveragePenalty(0.1))
    assert toy.alignments_asked > 0


def test_lengths_are_kept(toys, sentences):
    eager, reluctant = toys.Toy(seed=1, end_bias=4.0), toys.Toy(seed=1, end_bias=-20.0)
    for row in beam_search(eager, sentences, n_best=4, minimum_length=3):
        assert all(len(hypothesis.tokens) >= 3 for hypothesis in row)
    assert any(len(row[0].tokens) < 3 for row in beam_search(eager, sentences))
    limits = (sentences.lengths * 2 + 1).tolist()
    for row, limit in zip(
        beam_search(reluctant, sentences, limit=RelativeLength(factor=2, extra=1)), limits, strict=True
    ):
        assert not row[0].finished
        assert row[0].length == len(row[0].tokens) == limit
    short = toys.Toy(seed=1, end_bias=-20.0, maximum_target_length=3)
    assert {row[0].length for row in beam_search(short, sentences)} == {3}
    assert len(short.calls) == 3


def test_sentences_that_are_done_leave_the_batch(toys, sentences):
    table = {1: {3: 1.0}, 3: {2: 0.5, 3: 0.5}}
    toy = toys.Toy(seed=0, end_bias=1.0)
    beam_search(toy, sentences, beam=3, length_penalty=PLAIN)
    sizes = [len(call) for call in toy.calls]
    assert sizes[:2] == [5, 15]
    assert sizes[1:] == sorted(sizes[1:], reverse=True)
    assert len({*sizes[1:]}) > 2
    # A bound that holds ends the search: nothing live can beat 0.5 by plain probability.
    decoder = toys.Markov(table, 4)
    calls = []
    step = decoder.step
    decoder.step = lambda tokens, state: calls.append(len(tokens)) or step(tokens, state)
    assert beam_search(decoder, Tokens.pad([[7]]), beam=2, length_penalty=PLAIN)[0][0].tokens == (3,)
    assert len(calls) == 2


def test_equal_candidates_come_by_hypothesis_and_token(toys):
    """Five equal words, then the end: their ids give the order, wherever the selection is cut."""
    words = dict.fromkeys(range(3, 8), 0.2)
    decoder = toys.Markov({1: words}, 9)
    for beam in (2, 3, 5):
        found = beam_search(decoder, Tokens.pad([[7]]), beam=beam, n_best=beam, length_penalty=PLAIN)[0]
        assert [hypothesis.tokens for hypothesis in found] == [(3 + place,) for place in range(beam)]


def test_fewer_hypotheses_than_the_beam_holds(toys):
    """Empty places must not come to life."""
    decoder = toys.Markov({1: {3: 1.0}, 3: {2: 1.0}}, 4)
    found = beam_search(decoder, Tokens.pad([[7], [8, 9]]), beam=5, n_best=5, limit=FixedLength(6))
    assert [[hypothesis.tokens for hypothesis in row] for row in found] == [[(3,)], [(3,)]]


@pytest.mark.parametrize("ids", [(0, 2, 2), (2, 1, 2), (0, 0, 2)])
def test_families_that_share_ids_can_still_end(toys, sentences, ids):
    toy = toys.Toy(seed=3, ids=ids, end_bias=2.0)
    found = beam_search(toy, sentences, n_best=2)
    assert any(hypothesis.finished for row in found for hypothesis in row)
    assert not {*ids} & {token for row in found for hypothesis in row for token in hypothesis.tokens}


def test_forbidden_tokens_are_no_candidates(toys, sentences):
    toy = toys.Toy(seed=6)
    plain = beam_search(toy, sentences)
    word = next(token for row in plain for token in row[0].tokens)
    without = beam_search(toy, sentences, transforms=[Forbid((word,))])
    assert all(word not in row[0].tokens for row in without)


def test_transforms_see_the_paths(toys, sentences):
    """No token twice in a row: a transform that reads the past, moved with it."""

    def never_twice(logits: torch.Tensor, paths: Paths) -> torch.Tensor:
        return logits if not paths.length else logits.scatter(1, paths.tokens[:, -1:], -torch.inf)

    toy, limit = toys.Toy(seed=8, end_bias=-6.0, sharpness=0.7), FixedLength(8)
    plain = beam_search(toy, sentences, limit=limit)
    assert any(a == b for row in plain for a, b in itertools.pairwise(row[0].tokens))
    for row in beam_search(toy, sentences, limit=limit, transforms=[never_twice]):
        assert len(row[0].tokens) > 1
        assert not any(a == b for a, b in itertools.pairwise(row[0].tokens))


def test_bfloat16_logits_give_float32_log_probabilities(toys, sentences):
    toy = toys.Toy(seed=9, end_bias=1.0, dtype=torch.bfloat16)
    found = beam_search(toy, sentences, beam=3, n_best=3, limit=RelativeLength(extra=2))
    for row in range(len(sentences)):
        source = one(sentences, row)
        maximum = source.ids.shape[1] + 2
        expected = toys.naive_beam(toy, source, beam=3, n_best=3, alpha=0.6, beta=0, maximum=maximum)
        same(found[row], expected, toy.config.end_id)


def test_no_gradients_and_nothing_to_do(toys, watcher):
    toy = toys.Toy()
    assert beam_search(toy, Tokens.pad([]), observer=watcher) == []
    assert watcher.hypotheses == []
    assert toy.calls == []
    beam_search(toy, Tokens.pad([[3]]))
    assert not any(toy.grad_modes)


def test_settings_out_of_range(toys, sentences):
    toy = toys.Toy()
    with pytest.raises(InputError, match=r"beam: 0 .* at least 1"):
        beam_search(toy, sentences, beam=0)
    with pytest.raises(InputError, match="n_best: 5 is more than the beam of 2"):
        beam_search(toy, sentences, beam=2, n_best=5)
    with pytest.raises(InputError, match=r"early_stopping: 1 .* at least 2"):
        beam_search(toy, sentences, n_best=2, early_stopping=1)
    with pytest.raises(InputError, match="every token is forbidden at step 0"):
        beam_search(toy, sentences, transforms=[Forbid(tuple(range(7)))])
    toy.bias[4] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        beam_search(toy, sentences)
