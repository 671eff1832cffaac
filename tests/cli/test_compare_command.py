from __future__ import annotations

import json
import signal
import sys
import time

import pytest
import yaml

import regard

SMALL = ("training.steps=4", "training.evaluate_generated=0", "model.width=4")


def test_a_comparison_leaves_its_numbers_on_standard_output_alone(command, recipe_file, tmp_path):
    folder = tmp_path / "runs"
    answer = command(
        "compare", recipe_file, "model.norm=pre,post", *SMALL[1:], "--seeds", 2, "--budget", "steps=4",
        "--measure", "loss", "--measure", "{kind: decoded, metric: exact_match, size: 5}", "--output", folder, "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert [arm["name"] for arm in found["arms"]] == ["norm=pre", "norm=post"]
    assert found["comparison"]["recipe"]["model"]["width"] == 4
    assert set(found["arms"][0]["measures"]) == {"loss", "exact_match"}
    seeds = found["arms"][1]["measures"]["loss"]["seeds"]
    assert seeds["2"] == regard.load(folder / "norm=post" / "2").metrics["loss"]
    assert "norm=pre, seed 1 (1 of 4)" in answer.err
    assert "\x1b" not in answer.err
    assert (folder / "comparison.png").is_file()
    assert (folder / "comparison.svg").is_file()
    assert yaml.safe_load((folder / "comparison.yaml").read_text())["seeds"] == [1, 2]


def test_a_table_for_people_and_going_on(command, recipe_file, tmp_path):
    words = ("compare", recipe_file, "model.norm=pre,post", *SMALL, "--output", tmp_path / "runs")
    one = command(*words, "--seeds", 1)
    assert one.code == 0, one.err
    lines = [line for line in one.out.splitlines() if "norm=" in line]
    assert len(lines) == 2
    assert "token_accuracy" in one.out
    again = command(*words, "--seeds", 2, "--measure", "perplexity")
    assert "seed 1" not in again.err
    assert again.err.count("seed 2 (") == 2
    other = command(*words, "training.warmup=3").refusal()
    assert "has another comparison, which differs in training.warmup" in other
    assert (
        "did you mean 'model'" in command("compare", recipe_file, "modle.x=1,2", "--output", tmp_path / "o").refusal()
    )
    assert "nothing to compare" in command("compare", recipe_file, "--output", tmp_path / "o").refusal()
    assert not (tmp_path / "o").exists()


def test_without_matplotlib_there_are_numbers_all_the_same(command, recipe_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    answer = command(
        "compare", recipe_file, "model.norm=pre,post", *SMALL, "--seeds", 1, "--output", tmp_path / "runs", "--json"
    )
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["arms"]
    assert "pip install 'regard[plot]'" in answer.err


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(process, recipe_file, tmp_path):
    folder = tmp_path / "runs"
    words = ("compare", recipe_file, "model.norm=pre,post", "training.steps=100000", "training.save_every=3")
    with process(*words, "--output", folder) as running:
        until = time.monotonic() + 120
        while not list(folder.glob("*/1/checkpoints.json")) and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        error = running.communicate()[1].decode()
    assert running.returncode == 130
    assert f"to continue: regard compare {recipe_file} model.norm=pre,post" in error
    assert "Traceback" not in error
