"""A claim that is judged by parts alone: a second round without a first, of which nothing speaks."""

from __future__ import annotations

import json

import pytest
import yaml

import regard
from regard.claims.claim import claim, claims
from regard.claims.page import claim_page
from regard.claims.verdict import last_verdict, recorded, run_claim

CLAIM = {
    "name": "depth",
    "row": "9.9",
    "source": "Nobody 2099",
    "statement": "Skips keep rank.",
    "own_data": "nothing to read; use regard compare",
    "experiment": {"name": "random_stacks", "layers": 2},
    "arms": {"with": {"skips": True}, "without": {"skips": False}},
    "second_round": {
        "predicted": "With skips more than without.",
        "minutes": 3,
        "seeds": [11, 12, 13, 14, 15],
        "parts": [
            {
                "says": "Skips are ahead.",
                "kind": "direction",
                "contrast": 'value("with", "residual") - value("without", "residual")',
                "above": 0,
            }
        ],
    },
}


@pytest.fixture
def written(tmp_path):
    """Writes the claim with changes; returns its file."""

    def write(**changes):
        path = tmp_path / "depth.yaml"
        path.write_text(yaml.safe_dump(CLAIM | changes, sort_keys=False))
        return str(path)

    return write


def test_what_is_said_of_the_parts_is_said_of_the_claim(written):
    found = claim(written())
    assert (found.rounds, found.latest, found.judge) == ((2,), 2, None)
    assert (found.predicted, found.minutes) == ("With skips more than without.", 3)
    assert found.seeds == (11, 12, 13, 14, 15) == found.resolved.seeds
    with pytest.raises(regard.InputError, match="has no round 1; it is only judged by parts"):
        found.in_round(1)
    with pytest.raises(regard.InputError, match="has no judge; give one, or only parts"):
        claim(written(second_round=None, predicted="p", minutes=1))
    with pytest.raises(regard.InputError, match="and no refutes"):
        claim(written(refutes='median("with", "residual") < 0'))


def test_it_is_run_under_its_own_name_and_no_page_speaks_of_rounds(written, tmp_path):
    found = claim(written())
    verdict = run_claim(found, output=tmp_path / "runs")
    assert (verdict.outcome, verdict.command) == ("supported", "regard claims run depth")
    assert (tmp_path / "runs" / "depth" / "claim.json").is_file()
    assert last_verdict(found, tmp_path / "runs").to_json() == verdict.to_json()
    values = recorded(verdict, "claims/depth.png")
    assert values["claim"]["rounds"] == [2]
    text = claim_page([json.loads(json.dumps(values))])
    assert "## Verdict: supported" in text
    assert "round" not in text
    with pytest.raises(regard.InputError, match="has no round 1"):
        run_claim(found, output=tmp_path / "runs", round_=1)


def test_those_that_ship_say_what_was_piloted():
    found = [each for each in claims() if each.judge is None]
    assert {each.row.partition(".")[0] for each in found} == {"5"}
    for each in found:
        assert "iloted with" in each.predicted
        assert "901" in each.predicted
        assert min(each.seeds) >= 11
        assert claim(each.name).resolved.arms
