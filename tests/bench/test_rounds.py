"""Turns, medians, and what becomes of those who cannot or do not work."""

from __future__ import annotations

import pytest

from regard.bench.rounds import OURS, Contest, Contestant, compete, details_of, rows_of


def contestant(name, library=OURS):
    return Contestant(name=name, library=library, job={"kind": "work"})


def contest(ours=("fast",), peers=(("other slow", "other"),), **changes):
    settings = {"name": "case", "about": "tiny", "unit": "tokens/s"} | changes
    return Contest(
        ours=tuple(map(contestant, ours)), peers=tuple(contestant(name, library) for name, library in peers), **settings
    )


def run(of, processes, rounds=3, say=lambda sentence: None):
    return compete(of, lambda one: processes[one.label], rounds=rounds, say=say, rest=0.0)


def test_the_first_turn_does_not_count_and_the_median_of_the_others_does(scripted):
    mine, theirs = scripted(1.0, 30.0, 20.0, 40.0), scripted(1000.0, 5.0, 10.0, 100.0)
    tally = run(contest(), {"regard fast": mine, "other slow": theirs})
    (row,) = rows_of(contest(), tally)
    assert row.case == "case, fast: tiny"
    assert row.ours == pytest.approx(30.0)
    assert row.peers == {"other slow": pytest.approx(10.0)}
    assert row.ratio["other slow"] == pytest.approx(3.0)
    assert row.spread["other slow"] == pytest.approx((0.4, 6.0))  # 30/5, 20/10, 40/100
    assert mine.asked == ["hello", "prepare", "run", "run", "run", "run"]
    assert mine.closed >= 1
    assert theirs.closed >= 1
    assert tally.versions == {"other": {"scripted": "1.0"}}


def test_they_take_turns_and_none_always_comes_first(scripted):
    order = []

    class Noting(scripted):
        def ask(self, request):
            if request["do"] == "run":
                order.append(self)
            return super().ask(request)

    mine, theirs = Noting(*[1.0] * 5), Noting(*[1.0] * 5)
    run(contest(), {"regard fast": mine, "other slow": theirs}, rounds=4)
    pairs = [order[start : start + 2] for start in range(0, len(order), 2)]
    assert all(set(pair) == {mine, theirs} for pair in pairs)
    assert {pair[0] for pair in pairs} == {mine, theirs}


def test_spread_and_every_round_are_kept(scripted):
    tally = run(contest(peers=()), {"regard fast": scripted(1.0, 30.0, 20.0, 40.0)})
    found = details_of(contest(peers=()), tally)
    assert found["rounds"] == {"regard fast": [30.0, 20.0, 40.0]}
    assert found["spread"] == {"regard fast": [20.0, 40.0]}
    assert found["amount of the last round"] == {"regard fast": 10}


def test_the_share_of_equal_answers_is_told(scripted):
    tally = run(contest(), {"regard fast": scripted(2.0, 2.0), "other slow": scripted(3.0, 3.0)}, rounds=1)
    assert details_of(contest(), tally)["same answers as ours"] == {"regard fast": 1.0, "other slow": 0.5}


def test_an_absent_library_is_named_and_stands_in_no_row(scripted):
    absent = scripted(hello={"available": False, "versions": {}})
    tally = run(contest(), {"regard fast": scripted(1.0, 1.0, 1.0, 1.0), "other slow": absent})
    assert tally.absent == {"other"}
    assert rows_of(contest(), tally)[0].peers == {}
    assert absent.asked == ["hello"]


@pytest.mark.parametrize("speeds", [("it broke",), (1.0, 1.0, "it broke")])
def test_a_peer_that_fails_is_reported_and_the_others_go_on(scripted, speeds):
    said = []
    processes = {"regard fast": scripted(1.0, 2.0, 2.0, 2.0), "other slow": scripted(*speeds)}
    tally = run(contest(), processes, say=said.append)
    (row,) = rows_of(contest(), tally)
    assert row.ours == pytest.approx(2.0)
    assert row.peers == {"other slow": None}
    assert row.ratio == {"other slow": None}
    assert tally.failed == {"other slow": "it broke"}
    assert "other slow failed: it broke" in said


def test_work_that_took_no_time_is_a_failure(scripted):
    tally = run(contest(peers=()), {"regard fast": scripted(0.0)})
    assert "no figure" in tally.failed["regard fast"]
    assert rows_of(contest(peers=()), tally)[0].ours is None


def test_a_setting_that_is_not_offered_is_left_out_with_its_reason(scripted):
    of = contest(ours=("fast", "int8"))
    other = scripted(*[1.0] * 4)
    processes = {"regard fast": scripted(*[1.0] * 4), "other slow": other}
    processes["regard int8"] = scripted(note={"left_out": "no int8 here"})
    tally = run(of, processes)
    assert [row.case for row in rows_of(of, tally)] == ["case, fast: tiny"]
    assert tally.left_out == {"regard int8": "no int8 here"}


@pytest.mark.parametrize(("higher_is_better", "chosen"), [(True, (8.0, "other b")), (False, (2.0, "other a"))])
def test_the_last_row_has_the_best_of_each(scripted, higher_is_better, chosen):
    of = contest(
        ours=("x", "y"),
        peers=(("other a", "other"), ("other b", "other"), ("third", "third")),
        best=True,
        higher_is_better=higher_is_better,
    )
    speeds = {"regard x": 2.0, "regard y": 8.0, "other a": 1.0, "other b": 4.0, "third": 3.0}
    tally = run(of, {label: scripted(speed, speed) for label, speed in speeds.items()}, rounds=1)
    rows = rows_of(of, tally)
    assert [row.case for row in rows] == ["case, x: tiny", "case, y: tiny", "case, best precision of each: tiny"]
    assert set(rows[0].peers) == {"other a", "other b", "third"}
    assert rows[-1].ours == pytest.approx(chosen[0])
    assert set(rows[-1].peers) == {chosen[1], "third"}
