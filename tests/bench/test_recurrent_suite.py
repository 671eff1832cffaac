"""The suite `recurrent` at tiny sizes: our own side from end to end, and what the peers are sent."""

from __future__ import annotations

import pytest

from regard.bench import Options, bench
from regard.bench.peers import pytorch
from regard.bench.recurrent import QUICK, contests
from regard.errors import InputError


def options(**changes):
    cases = ("training", "translation", "language")
    return Options(**({"cases": cases, "quick": True, "rounds": 1, "peers": ()} | changes))


def test_ours_from_end_to_end(in_process):
    report = bench("recurrent", options(), start=in_process, rest=0.0)
    assert report.failed == {}
    cases = {row.case.partition(":")[0] for row in report.rows}
    names = ("bahdanau training", "bahdanau translation", "luong training", "luong translation", "language")
    assert {f"{name}, {precision}" for name in names for precision in ("float32", "bfloat16")} <= cases
    assert all(row.ours > 0 for row in report.rows)


def test_both_sides_are_given_the_same_sentences(tmp_path, in_process):
    found = contests(options(peers=("joeynmt",), cases=("training", "translation")), tmp_path)
    assert [contest.name.split()[0] for contest in found] == ["bahdanau", "bahdanau", "luong", "luong"]
    training, translating = found[2:]
    process, own = in_process(training.ours[0]), training.ours[0].job
    process.ask({"do": "hello", "kind": "training"})
    process.ask({"do": "prepare", "job": dict(own)})
    batches = training.peers[0].job["batches"][: QUICK.translation.updates]
    assert process.ask({"do": "run"})["amount"] == sum(len(ids) + 1 for _, targets in batches for ids in targets)
    assert translating.peers[0].job["batches"] == translating.ours[0].job["batches"]
    assert {peer.job["shape"]["attention"] for peer in training.peers} == {"luong"}


def test_a_plain_loop_predicts_the_same_tokens(tmp_path, in_process):
    (contest,) = contests(options(peers=("pytorch",), cases=("language",)), tmp_path)
    theirs = pytorch.KINDS["lstm_training"]()
    theirs.prepare(dict(contest.peers[0].job))
    ours = in_process(contest.ours[0])
    ours.ask({"do": "hello", "kind": "lstm_training"})
    ours.ask({"do": "prepare", "job": dict(contest.ours[0].job)})
    assert theirs.run()["amount"] == ours.ask({"do": "run"})["amount"] == 2 * 5


def test_weights_of_ones_own_are_refused(tmp_path):
    with pytest.raises(InputError, match="leave out --model"):
        contests(options(model=tmp_path), tmp_path)
