"""`regard.compare`: each run once, on an equal budget, whatever stops in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import regard
from regard.claims import comparing
from regard.training import read_recipe

MADE_BY_TRAINING = ("model.safetensors", "log.jsonl", "finished.json")


def stamps(folder: Path) -> dict[str, int]:
    files = [path for name in MADE_BY_TRAINING for path in folder.glob(f"*/*/{name}")]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


def numbers(found: regard.claims.compared.Compared) -> dict:  # type: ignore[name-defined]
    """All that does not depend on the clock."""
    values = found.to_json()
    return {
        arm["name"]: {name: spread for name, spread in arm["measures"].items() if "second" not in name}
        for arm in values["arms"]
    }


def test_the_folder_holds_every_run_and_the_numbers(compared):
    folder = compared.folder
    for arm in ("pre", "post"):
        for seed in (1, 2):
            recipe = read_recipe(folder / arm / str(seed) / "recipe.yaml")
            assert (recipe.seed, recipe.model["norm"], recipe.training.steps) == (seed, arm, 6)
            assert regard.load(folder / arm / str(seed)).translate("s1 s2").source == "s1 s2"
    saved = json.loads((folder / "comparison.json").read_text())
    assert saved == json.loads(json.dumps(compared.to_json()))
    assert [arm["name"] for arm in saved["arms"]] == ["pre", "post", "beam"]
    losses = saved["arms"][0]["measures"]["loss"]
    assert losses["seeds"]["1"] == regard.load(folder / "pre" / "1").metrics["loss"]
    assert losses["median"] == pytest.approx(sum(losses["seeds"].values()) / 2)
    assert (losses["smallest"], losses["largest"]) == (min(losses["seeds"].values()), max(losses["seeds"].values()))


def test_an_arm_that_takes_anothers_runs_trains_nothing(compared):
    assert sorted(path.name for path in (compared.folder / "beam" / "1").iterdir()) == ["measures.json"]
    assert compared.of("beam")[0].folder == compared.folder / "pre" / "1"
    assert compared.values("beam", "loss") == compared.values("pre", "loss")
    entries = json.loads((compared.folder / "beam" / "1" / "measures.json").read_text())["entries"]
    assert {entry["asked"]["generation"]["beam"] for entry in entries if entry["asked"]["kind"] == "decoded"} == {3}


def test_what_is_finished_is_not_done_again(compared, small, monkeypatch):
    before = stamps(compared.folder)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("trained or judged again")

    monkeypatch.setattr(comparing, "train", never)
    monkeypatch.setattr("regard.claims.measuring.judged", never)
    again = regard.compare(compared.comparison, output=compared.folder)
    assert numbers(again) == numbers(compared)
    assert again.seconds == compared.seconds
    assert stamps(compared.folder) == before


def test_further_seeds_arms_and_measures_join(small, tmp_path):
    said: list[str] = []
    first = {"measures": ["loss"], "seeds": 1, "output": tmp_path / "runs"}
    regard.compare(small(), grid={"model.norm": ["pre"]}, **first)
    before = stamps(tmp_path / "runs")
    wider = regard.compare(
        small(), grid={"model.norm": ["pre", "post"]}, seeds=2, measures=["training_loss"], output=tmp_path / "runs",
        say=said.append,
    )  # fmt: skip
    assert len(wider.runs) == 4
    assert {name: stamp for name, stamp in stamps(tmp_path / "runs").items() if name in before} == before
    assert [line for line in said if line.endswith("...")] == [
        "norm=post, seed 1 (2 of 4) ...",
        "norm=pre, seed 2 (3 of 4) ...",
        "norm=post, seed 2 (4 of 4) ...",
    ]
    assert sum("precision" in line for line in said) == 1


def test_another_comparison_in_the_folder_is_refused_naming_what_differs(compared, small):
    arms = {arm.name: arm.to_mapping() for arm in compared.comparison.arms}
    with pytest.raises(regard.InputError, match=r"differs in training\.learning_rate;"):
        regard.compare(small(learning_rate=1.0), arms=arms, seeds=2, output=compared.folder)
    with pytest.raises(regard.InputError, match=r"differs in model\.width of arm 'post';"):
        regard.compare(small(), arms=arms | {"post": ["model.norm=post", "model.width=4"]}, output=compared.folder)
    with pytest.raises(regard.InputError, match=r"differs in arms\.beam\.trains"):
        regard.compare(small(), arms=arms | {"beam": {"trains": "post"}}, output=compared.folder)
    # An arm that went and came back as another is found out by its runs.
    only = {name: arms[name] for name in ("pre",)}
    again = compared.folder.with_name("again")
    regard.compare(small(), arms=only, seeds=1, measures=["loss"], output=again)
    regard.compare(small(), arms={"other": ["model.norm=post"]}, seeds=1, measures=["loss"], output=again)
    with pytest.raises(regard.InputError, match=r"has a finished run that differs in model\.norm"):
        regard.compare(small(), arms={"pre": ["model.norm=post"]}, seeds=1, measures=["loss"], output=again)


def test_a_folder_with_something_else_is_left_alone(small, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(regard.InputError, match="is not empty and has no comparison"):
        regard.compare(small(), grid={"model.norm": ["pre"]}, output=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_equal_tokens_for_unequal_batches(small, tmp_path):
    found = regard.compare(
        small(), grid={"training.batch_tokens": [100, 300]}, seeds=1, budget="tokens=700", measures=["steps", "loss"],
        output=tmp_path / "runs",
    )  # fmt: skip
    few, many = (found.of(arm.name)[0] for arm in reversed(found.comparison.arms))
    assert many.steps > 1.5 * few.steps
    assert {run.reason for run in found.runs} == {"700 tokens done"}


def test_data_that_is_the_same_is_prepared_once(small, tmp_path, monkeypatch):
    from regard.tasks import translation as preparation

    made: list[int] = []  # the seed of each preparation that reads its data
    real = preparation._parts
    monkeypatch.setattr(preparation, "_parts", lambda data, seed, *given: made.append(seed) or real(data, seed, *given))
    arms = {"a": ["model.norm=pre"], "b": ["model.norm=post"], "c": ["data.sequences.longest=4"]}
    shared = regard.compare(small(), arms=arms, seeds=2, measures=["loss"], output=tmp_path / "runs")
    assert len(made) == 4  # a and c with each seed
    alone = regard.train(small(), ["seed=2", "model.norm=post"], output=tmp_path / "alone")
    assert shared.values("b", "loss")[2] == alone.metrics["loss"]


def test_finished_runs_of_another_comparison_are_taken(compared, small, tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "train", lambda *_, **__: pytest.fail("trained again"))
    taken = regard.compare(
        small(), arms={"the same": ["model.norm=pre"]}, seeds=2, measures=["loss"], output=tmp_path / "runs",
        reuse=[compared.folder],
    )  # fmt: skip
    assert taken.values("the same", "loss") == compared.values("pre", "loss")


def test_under_torchrun_it_says_no(small, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(regard.InputError, match="start it without torchrun"):
        regard.compare(small(), grid={"model.norm": ["pre"]}, output=tmp_path / "runs")


class Stop:
    """Raises after some updates of all runs together."""

    def __init__(self, updates: int) -> None:
        self.left = updates

    def started(self, *_):
        """Nothing."""

    def stepped(self, *_):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    logged = ended = started


def test_stopped_in_the_second_run_it_goes_on_there(compared, small, tmp_path):
    arms = {arm.name: arm.to_mapping() for arm in compared.comparison.arms}
    again = {"arms": arms, "seeds": 2, "measures": compared.comparison.measures, "output": tmp_path / "runs"}
    with pytest.raises(KeyboardInterrupt):
        regard.compare(small(), callbacks=[Stop(6 + 5)], **again)
    assert not (tmp_path / "runs" / "comparison.json").exists()
    said: list[str] = []
    resumed = regard.compare(small(), say=said.append, **again)
    assert [line for line in said if "going on" in line or line.endswith("...")][:2] == [
        "post, seed 1 (2 of 4) ...",
        "going on from step 4.",
    ]
    assert numbers(resumed) == numbers(compared)


@pytest.mark.slow
def test_killed_and_called_again_it_comes_to_the_same_numbers(small, tmp_path, environment):
    """A SIGKILL in the second of four runs."""
    values = {"recipe": small(steps=40, save_every=5), "arms": {"pre": ["model.norm=pre"], "post": ["model.norm=post"]}}
    values |= {
        "seeds": 2,
        "measures": ["loss", "training_loss", {"kind": "decoded", "metric": "exact_match", "size": 5}],
    }
    path = tmp_path / "whole.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    folder = tmp_path / "runs"
    # The child slows each update down, so that the kill finds it inside a run.
    script = (
        "import sys, time, regard\n"
        "class Slow:\n"
        "    started = logged = ended = lambda self, *rest: None\n"
        "    def stepped(self, *rest): time.sleep(0.02)\n"
        "regard.compare(sys.argv[1], output=sys.argv[2], callbacks=[Slow()])\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        second = folder / "post" / "1" / "checkpoints.json"
        until = time.monotonic() + 120
        while not second.is_file() and child.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
        error = child.communicate()[1].decode()
    finally:
        child.kill()
    assert second.is_file(), error
    assert (folder / "pre" / "1" / "finished.json").is_file()
    assert not (folder / "post" / "1" / "finished.json").exists()
    first = (folder / "pre" / "1" / "model.safetensors").stat().st_mtime_ns
    said: list[str] = []
    resumed = regard.compare(path, output=folder, say=said.append)
    assert any("going on from step" in line for line in said)
    assert (folder / "pre" / "1" / "model.safetensors").stat().st_mtime_ns == first
    whole = regard.compare(path, output=tmp_path / "whole")
    assert numbers(resumed) == numbers(whole)
    for run in ("pre/1", "post/1", "pre/2", "post/2"):
        weights = [(place / run / "model.safetensors").read_bytes() for place in (folder, tmp_path / "whole")]
        assert weights[0] == weights[1]
