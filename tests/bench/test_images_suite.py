"""The suite `images` at tiny sizes: our own side from end to end, and peers that have as many parameters."""

from __future__ import annotations

import pytest

from regard.bench import Options, bench
from regard.bench.images import contests
from regard.bench.peers import pytorch, timm


def options(**changes):
    return Options(**({"cases": ("vit", "captions"), "quick": True, "rounds": 1, "peers": ()} | changes))


def test_ours_from_end_to_end(in_process):
    report = bench("images", options(), start=in_process, rest=0.0)
    assert report.failed == {}
    cases = {row.case.partition(":")[0] for row in report.rows}
    assert {"vit, float32", "vit, bfloat16", "captions, float32", "captions, bfloat16"} <= cases


@pytest.mark.parametrize(("peer", "case", "more"), [(timm, "vit", 0), (pytorch, "captions", 4 * 16)])
def test_a_peer_trains_as_many_parameters_on_as_much(tmp_path, in_process, peer, case, more):
    """PyTorch's `LSTMCell` has one bias more than ours."""
    driver = peer.KINDS["vit_training" if case == "vit" else "caption_training"]()
    if not driver.available():
        pytest.skip("not installed")
    (contest,) = contests(options(cases=(case,), peers=("timm", "pytorch")), tmp_path)
    note = driver.prepare(dict(contest.peers[0].job))["note"]
    ours = in_process(contest.ours[0])
    ours.ask({"do": "hello", "kind": contest.ours[0].job["kind"]})
    own = ours.ask({"do": "prepare", "job": dict(contest.ours[0].job)})["note"]
    count, count_of_ours = (int(text.split()[0].replace(",", "")) for text in (note, own))
    assert count - count_of_ours == more
    assert driver.run()["amount"] == ours.ask({"do": "run"})["amount"]
