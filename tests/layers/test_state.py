from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from regard.attention import KeysValues
from regard.layers import LAST_STEP, SOURCE, TARGET, DecoderState

N = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class CachedState(DecoderState):
    memory: tuple[KeysValues, ...] = field(metadata=SOURCE)
    past: tuple[KeysValues, ...] | None = field(default=None, metadata=TARGET)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)


@dataclass(frozen=True, kw_only=True, eq=False)
class RecurrentState(DecoderState):
    hidden: Tensor = field(metadata=TARGET)


def numbered(length: int) -> KeysValues:
    """Every entry is its row's number, tenths its slot's."""
    rows = torch.arange(N).view(N, 1, 1, 1) + torch.arange(length).view(1, 1, -1, 1) / 10
    return KeysValues(rows, rows + 100)


@pytest.fixture
def state():
    valid = torch.tensor([[True, False], [True, True], [False, True]])
    return CachedState(
        length=4,
        source_valid=valid,
        memory=(numbered(2), numbered(2)),
        past=(numbered(4),),
        query=torch.arange(N).view(N, 1, 1, 1),
    )


def test_selecting_moves_source_and_target(state):
    chosen = state.select(torch.tensor([2, 2, 0, 1]))
    assert chosen.rows == 4
    assert chosen.length == 4
    assert chosen.source_valid.tolist() == [[False, True], [False, True], [True, False], [True, True]]
    for cache in (*chosen.memory, *chosen.past):
        assert cache.key[:, 0, 0, 0].tolist() == [2, 2, 0, 1]
        assert cache.value[:, 0, 0, 0].tolist() == [102, 102, 100, 101]
    assert chosen.query.flatten().tolist() == [2, 2, 0, 1]


def test_reordering_leaves_the_source_where_it_is(state):
    moved = state.reorder(torch.tensor([1, 1, 0]))
    assert moved.memory[0] is state.memory[0] or torch.equal(moved.memory[0].key, state.memory[0].key)
    assert torch.equal(moved.source_valid, state.source_valid)
    assert moved.past[0].key[:, 0, 0, 0].tolist() == [1, 1, 0]
    assert moved.query.flatten().tolist() == [1, 1, 0]


def test_rows_that_stay_in_place_are_not_copied(state):
    for same in (state.reorder(torch.arange(3)), state.select(torch.arange(3))):
        assert same.past[0] is state.past[0]
        assert same.query is state.query
    assert state.reorder(torch.tensor([0, 2, 1])).past[0] is not state.past[0]


def test_branching_keeps_the_source_once(state):
    wide = state.reorder(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert (wide.rows, wide.width) == (6, 2)
    assert wide.source_valid is state.source_valid
    assert wide.past[0].key[:, 0, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]
    fewer = wide.reorder(torch.tensor([5, 4, 1, 1]), torch.tensor([2, 0]))
    assert (fewer.rows, fewer.width) == (4, 2)
    assert fewer.memory[0].key[:, 0, 0, 0].tolist() == [2, 0]
    assert fewer.past[0].key[:, 0, 0, 0].tolist() == [2, 2, 0, 0]
    assert fewer.by_source(torch.arange(4)).tolist() == [[0, 1], [2, 3]]
    assert fewer.for_each_row(torch.tensor([7, 8])).tolist() == [7, 7, 8, 8]
    alone = fewer.select(torch.tensor([3, 0]))
    assert (alone.rows, alone.width) == (2, 1)
    assert alone.memory[0].key[:, 0, 0, 0].tolist() == [0, 2]


def test_rows_that_cannot_be_dealt_out_are_refused(state):
    with pytest.raises(ValueError, match="4 rows cannot be divided equally among 3 sources"):
        state.reorder(torch.tensor([0, 0, 1, 2]))


def test_cropping_shortens_the_past_and_forgets_the_last_step(state):
    cropped = state.crop(2)
    assert cropped.length == 2
    assert torch.equal(cropped.past[0].key, state.past[0].key[:, :, :2])
    assert torch.equal(cropped.memory[0].key, state.memory[0].key)
    assert cropped.query is None
    assert state.length == 4, "a state is never changed in place"
    assert state.crop(4) is state


@pytest.mark.parametrize("length", [-1, 5])
def test_cropping_to_a_length_never_reached_is_refused(state, length):
    with pytest.raises(ValueError, match=f"holds 4 tokens and cannot be cropped to {length}"):
        state.crop(length)


def test_a_recurrent_state_cannot_be_cropped():
    state = RecurrentState(length=3, source_valid=torch.ones(N, 2, dtype=torch.bool), hidden=torch.zeros(N, 4))
    with pytest.raises(ValueError, match="does not store"):
        state.crop(1)


def test_advancing_counts_one_token(state):
    later = state.advanced(query=None)
    assert later.length == 5
    assert later.query is None
    assert later.past is state.past


def test_a_state_before_its_first_step_moves_too(state):
    fresh = CachedState(source_valid=state.source_valid, memory=state.memory)
    assert fresh.length == 0
    assert fresh.select(torch.tensor([0])).past is None
    assert fresh.reorder(torch.tensor([0, 0, 0])).query is None
