from __future__ import annotations

import math

import pytest
import torch

from regard.attention import AttentionInputs, Location, Padding, ScoredAttention, positions_of
from regard.errors import InputError

E = 4
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def score(generator):
    score = Location(E, maximum=6).double()
    torch.nn.init.normal_(score.weight, generator=generator)
    return score


def drawn(generator, valid, queries=2):
    def random(length):
        return torch.randn(*valid.shape[:1], 1, length, E, generator=generator, dtype=torch.float64)

    return AttentionInputs(
        query=random(queries), key=random(valid.shape[1]), mask=Padding(valid), key_positions=positions_of(valid)
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_weights_are_a_softmax_over_the_tables_places(score, side, generator):
    """a_t = softmax(Wa h_t), cut to the real tokens of each row, whichever side is padded."""
    lengths, slots = [5, 2], 5
    valid = torch.arange(slots) < torch.tensor(lengths)[:, None]
    inputs = drawn(generator, valid.flip(1) if side == "left" else valid)
    weights = ScoredAttention(score).weights(inputs)
    table = score.weight.tolist()
    for row, length in enumerate(lengths):
        first = slots - length if side == "left" else 0
        for t, query in enumerate(inputs.query[row, 0].tolist()):
            shares = [math.exp(sum(a * b for a, b in zip(table[s], query, strict=True))) for s in range(length)]
            expected = [0.0] * slots
            expected[first : first + length] = [share / sum(shares) for share in shares]
            torch.testing.assert_close(weights[row, 0, t].tolist(), expected, **EXACT)


def test_without_positions_every_slot_is_a_place(score, generator):
    query, key = (torch.randn(1, 2, n, E, generator=generator, dtype=torch.float64) for n in (3, 4))
    torch.testing.assert_close(score(query, key), query @ score.weight[:4].t(), **EXACT)
    torch.testing.assert_close(score(query, key, AttentionInputs(query=query, key=key)), score(query, key), **EXACT)


def test_padding_needs_no_places(score, generator):
    """Eight slots and six places: five real tokens fit."""
    narrow = drawn(generator, torch.ones(1, 5, dtype=torch.bool))
    valid = torch.tensor([[False] * 3 + [True] * 5])
    key = torch.nn.functional.pad(narrow.key, (0, 0, 3, 0), value=9.0)
    wide = AttentionInputs(query=narrow.query, key=key, mask=Padding(valid), key_positions=positions_of(valid))
    attention = ScoredAttention(score)
    torch.testing.assert_close(attention.weights(wide)[..., 3:], attention.weights(narrow), **EXACT)


@pytest.mark.parametrize("known", [True, False])
def test_a_source_longer_than_the_table_is_refused(score, known, generator):
    inputs = drawn(generator, torch.ones(2, 7, dtype=torch.bool))
    with pytest.raises(InputError, match=r"source has 7 tokens .* positions for 6; shorten it, or train with a larger"):
        score(inputs.query, inputs.key, inputs if known else None)


def test_a_place_that_no_source_has_is_refused(score, generator):
    inputs = drawn(generator, torch.ones(1, 3, dtype=torch.bool))
    beyond = AttentionInputs(query=inputs.query, key=inputs.key, key_positions=torch.tensor([[0, 1, 5]]))
    with pytest.raises((RuntimeError, IndexError)):
        score(inputs.query, inputs.key, beyond)


def test_it_is_no_product_of_query_and_key(score):
    assert score.product_scale(E) is None


def test_a_table_without_places_is_refused():
    with pytest.raises(ValueError, match="maximum is 0"):
        Location(E, maximum=0)
