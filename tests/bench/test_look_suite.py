"""The suite `look` at tiny sizes: what is asked of whom, and our own side from end to end."""

from __future__ import annotations

import pytest

from regard.bench import Options, bench
from regard.bench.look import contests
from regard.bench.rounds import OURS


@pytest.fixture(autouse=True)
def transformers():
    """Its BERT is what is looked at."""
    return pytest.importorskip("transformers", reason="looks at a BERT of transformers, which is not installed")


def test_ours_from_end_to_end(in_process):
    options = Options(cases=("recording", "page"), quick=True, rounds=1, peers=())
    report = bench("look", options, start=in_process, rest=0.0)
    assert report.failed == {}
    units = {row.case.partition(":")[0]: row.unit for row in report.rows}
    assert units["recording 2x16, one layer"] == "tokens/s"
    assert units["page of 8 tokens, page"] == "s"
    assert units["page of 8 tokens, page, file"] == "MB"
    files = [row for row in report.rows if row.case.startswith("page of 8 tokens, page, file")]
    assert 0 < files[0].ours < 1


def test_peers_look_at_the_same_model_and_text(tmp_path):
    options = Options(cases=("recording", "page"), quick=True, rounds=1, peers=("huggingface", "bertviz"))
    found = {contest.name: contest for contest in contests(options, tmp_path)}
    recording = found["recording 2x16"]
    assert [peer.name for peer in recording.peers] == ["huggingface not looking", "huggingface eager, all weights"]
    for contest in found.values():
        for contestant in (*contest.ours, *contest.peers):
            for name in ("model", "batch", "tokens", "seed"):
                assert contestant.job[name] == contest.ours[0].job[name]
    assert [peer.library for peer in found["page of 8 tokens"].peers] == ["bertviz"]
    assert found["page of 8 tokens"].ours[0].library == OURS


def test_less_is_better_where_it_is(in_process):
    """A smaller file of ours is a ratio above 1."""
    options = Options(cases=("page",), quick=True, rounds=1, peers=())
    report = bench("look", options, start=in_process, rest=0.0)
    assert all(not row.higher_is_better for row in report.rows)
