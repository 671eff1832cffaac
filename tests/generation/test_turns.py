"""Clients take turns, whatever they call themselves below their own name."""

from __future__ import annotations

import random

import pytest

from regard.generation.turns import Turns


def test_shares_do_not_depend_on_how_many_names_are_below() -> None:
    turns: Turns[str] = Turns()
    for number in range(40):
        turns.add("many", ("many", f"user {number}"))
    for _ in range(40):
        turns.add("one", ("one", ""))
    taken = [turns.take() for _ in range(20)]
    assert taken == ["many", "one"] * 10


def test_what_is_put_back_lets_others_go_first() -> None:
    turns: Turns[int] = Turns()
    for number in range(3):
        turns.add(number, ("same",))
    taken = []
    for _ in range(7):
        taken.append(turns.take())
        turns.add(taken[-1], ("same",))
    assert taken == [0, 1, 2, 0, 1, 2, 0]


def test_nothing_is_lost_and_what_is_removed_is_gone() -> None:
    draw, turns = random.Random(1), Turns()
    things = list(range(200))
    for thing in things:
        turns.add(thing, [str(draw.randrange(3)) for _ in range(draw.randrange(4))])
    turns.remove(lambda thing: thing % 3 == 0)
    assert len(turns) == sum(thing % 3 > 0 for thing in things)
    taken = []
    while turns:
        taken.append(turns.first())
        assert turns.take() == taken[-1]
    assert sorted(taken) == [thing for thing in things if thing % 3]
    for empty in (turns.first, turns.take):
        with pytest.raises(IndexError):
            empty()
