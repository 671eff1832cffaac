"""A claim asked a second time: its changes, its verdict beside the first, and the commit of its prediction."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import yaml

import regard
from regard.claims.claim import claim, claims
from regard.claims.provenance import before_the_runs, prediction_digest, provenance, spoken
from regard.claims.verdict import last_verdict, record, run_claim

CLAIM = {
    "name": "depth",
    "row": "9.9",
    "source": "Nobody 2099",
    "statement": "Skips keep rank.",
    "predicted": "With skips more than without.",
    "minutes": 1,
    "own_data": "nothing to read; use regard compare",
    "experiment": {"name": "random_stacks", "layers": 2},
    "arms": {"with": {"skips": True}, "without": {"skips": False}},
    "seeds": [1, 2],
    "judge": 'median("with", "residual") > median("without", "residual")',
    "second_round": {
        "predicted": "Ahead by at least 0.1, three layers deep.",
        "minutes": 1,
        "changes": {"experiment.layers": 3},
        "parts": [
            {
                "says": "Skips are ahead.",
                "kind": "direction",
                "contrast": 'value("with", "residual") - value("without", "residual")',
                "above": 0,
            },
            {"says": "It is measured.", "kind": "condition", "contrast": 'value("with", "residual")', "above": 0},
        ],
    },
}


@pytest.fixture
def written(tmp_path):
    """Writes the claim with changes, and reads it."""

    def write(**changes):
        path = tmp_path / "claims" / "depth.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(CLAIM | changes, sort_keys=False))
        return claim(str(path))

    return write


def test_both_rounds_are_run_and_kept(written, tmp_path):
    found = written()
    second = run_claim(found, output=tmp_path / "runs")
    assert (second.round, second.outcome, second.seeds) == (2, "supported", (1, 2, 3, 4, 5))
    assert second.compared.comparison.experiment["layers"] == 3
    assert [part["verdict"] for part in second.parts] == ["supported", "met"]
    first = run_claim(found, output=tmp_path / "runs", round_=1)
    assert (first.round, first.outcome, first.seeds) == (1, "confirmed", (1, 2))
    assert first.compared.comparison.experiment["layers"] == 2
    assert first.command == "regard claims run depth --round 1"
    assert last_verdict(found, tmp_path / "runs").to_json() == second.to_json()
    pytest.importorskip("matplotlib")
    names = {path.name for verdict in (first, second) for path in record(verdict, tmp_path / "results")}
    assert names == {"claims-depth.json", "depth.png", "claims-depth-round-2.json", "depth-round-2.png"}
    assert json.loads((tmp_path / "results" / "claims-depth.json").read_text())["claim"]["verdict"] == "confirmed"
    with pytest.raises(regard.InputError, match="has no round 3; the last is 2"):
        run_claim(found, output=tmp_path, round_=3)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"changes": {"experimnt.layers": 3}}, "is not in a section of the comparison; did you mean 'experiment'"),
        ({"changes": {"experiment.layres": 3}}, "unknown key 'layres'"),
        ({"seeds": 3}, "3 seeds are too few to judge part 'Skips are ahead.'; give at least 5"),
        ({"changes": {"arms": {"with": {}}}}, "there is no arm 'without'"),
        ({"partes": []}, "did you mean 'parts'"),
    ],
)
def test_a_second_round_that_cannot_be_is_refused(second, says, written):
    with pytest.raises(regard.InputError, match=says):
        written(second_round=CLAIM["second_round"] | second)


def test_a_round_may_be_about_other_data(written, tmp_path):
    found = written(
        second_round=CLAIM["second_round"]
        | {"own_data": {"says": "Meant for rated pairs.", "needed": True, "files": "a folder of them"}}
    )
    assert (found.needs_data, found.in_round(2).needs_data) == (False, True)
    assert found.in_round(2).command == "regard claims run depth data.path=FOLDER"
    with pytest.raises(regard.InputError, match=r"Meant for rated pairs\. Give data.path=, a folder of them"):
        run_claim(found, output=tmp_path)


def git(folder, *words):
    names = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_of_the_prediction_is_recorded_before_the_runs(written, tmp_path):
    found = written()
    folder = tmp_path / "claims"
    outside = provenance(found, 2)
    assert (outside["commit"], outside["clean"]) == (None, None)
    assert f"regard {regard.__version__}" in spoken(outside)
    git(folder, "init", "-q")
    assert provenance(found, 2)["commit"] is None  # not committed yet
    git(folder, "add", "depth.yaml")
    git(folder, "commit", "-qm", "Predict")
    commit = git(folder, "rev-parse", "HEAD")
    (folder / "other").write_text("x")
    git(folder, "add", "other")
    git(folder, "commit", "-qm", "Something else")
    verdict = run_claim(found, output=tmp_path / "runs")
    known = verdict.to_json()["provenance"]
    assert (known["commit"], known["clean"], known["before_the_runs"]) == (commit, True, True)
    assert known["prediction"] == prediction_digest(found, 2) != prediction_digest(found, 1)
    assert spoken(known).startswith(f"committed before the runs: {commit[:12]}, ")
    # A later commit does not change what was recorded; a change of the file that is not committed is said.
    changed = written(minutes=2)
    assert run_claim(changed, output=tmp_path / "runs").provenance == known
    late = before_the_runs(changed, 1, tmp_path / "late")
    assert late["clean"] is False
    assert spoken(late).endswith("the claim's file has changes that are not committed")


def test_a_prediction_is_not_changed_after_the_runs_began(written, tmp_path):
    run_claim(written(), output=tmp_path / "runs")
    moved = written(second_round=CLAIM["second_round"] | {"predicted": "Ahead by any amount."})
    with pytest.raises(regard.InputError, match="were started with another prediction; choose another --output"):
        run_claim(moved, output=tmp_path / "runs")
    (tmp_path / "runs" / "depth-round-2" / "prediction.json").unlink()
    assert run_claim(moved, output=tmp_path / "runs").provenance["before_the_runs"] is False


def test_every_seed_the_interval_and_the_threshold_are_drawn(written, tmp_path):
    pytest.importorskip("matplotlib")
    from regard.claims.parts_plot import parts_figure

    parts = run_claim(written(), output=tmp_path / "runs").parts
    with_paper = [dict(parts[0]) | {"paper": {"value": 0.9, "place": "table 1"}}, parts[1]]
    panel = parts_figure(with_paper, "A title").axes[0]
    marks = {line.get_gid(): [float(x) for x in line.get_xdata()] for line in panel.get_lines()}
    assert marks["seeds"] == list(parts[0]["seeds"].values())
    assert marks["interval"] == parts[0]["interval"]
    assert marks["threshold"] == [0.0, 0.0]
    assert marks["paper"] == [0.9]
    assert marks["median"] == [parts[0]["estimate"]]


def test_second_rounds_that_ship_can_be_read():
    for each in claims():
        if each.second_round is not None:
            claim(each.name)
            assert each.second_round.predicted.endswith(".")
            assert len(each.second_round.numbers) >= 5
