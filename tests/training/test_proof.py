"""`prove_resume`: a small run killed at random moments and resumed, beside one never stopped."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import regard
from regard.cli.main import main
from regard.training import proof
from regard.training.proof import SMALL, Proof, _kill_time, differing, prove_resume, remains

DRIFTING = """
import regard.parts
from regard.attention import Score

UPDATES = []


@regard.parts.score("drifting")
class Drifting(Score):
    def forward(self, query, key, inputs=None):
        UPDATES.append(1)  # which no checkpoint knows of
        return query @ key.transpose(-2, -1) * (1 + 0.01 * len(UPDATES))
"""


@pytest.fixture
def recipe_file(recipe, pairs, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    values = recipe(steps=8, tracker="tensorboard")
    values["data"]["train"] = str(tmp_path / "pairs.tsv")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    return tmp_path / "recipe.yaml"


@pytest.mark.slow
def test_resuming_is_exact_and_nothing_of_the_proof_stays(recipe_file, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    said: list[str] = []
    proof = prove_resume(recipe_file, near=tmp_path / "run", kills=2, seed=3, say=said.append)
    assert proof.same, str(proof)
    kills = len(proof.resumed_from)
    assert proof.steps == 8
    assert kills >= 2
    assert any(proof.resumed_from)
    assert str(proof).startswith(f"resuming is exact here: 8 updates of this recipe, killed {kills} times")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert len([line for line in said if line.startswith("killed")]) == kills


def test_the_last_kill_follows_a_checkpoint_where_none_has_yet():
    early = [_kill_time(random.Random(seed), 0, 8, 0.1, late=False) for seed in range(50)]
    assert {kill.step for kill in early} >= {None, 1, 6}
    assert all(
        (_kill_time(random.Random(seed), 0, 8, 0.1, late=True).step or 0) > SMALL["save_every"] for seed in range(50)
    )


def test_kills_that_all_come_before_the_first_checkpoint_prove_nothing(recipe_file, monkeypatch):
    started: list[bool] = []

    def killed(place: Path, name: str, kill: object) -> bool:
        started.append(kill is not None)
        if kill is None:
            (place / name / "checkpoints" / "step-8").mkdir(parents=True, exist_ok=True)
        return kill is not None

    monkeypatch.setattr(proof, "_killed", killed)
    monkeypatch.setattr(proof, "remains", lambda _: {})
    monkeypatch.setattr(proof, "_counters", lambda _: {"seconds": 1.0, "step": 8, "epoch": 0})
    with pytest.raises(
        regard.InputError, match="no kill interrupted a run of 8 updates between its first checkpoint and its end"
    ):
        prove_resume(recipe_file, steps=8, kills=2)
    assert sum(started) == 8  # four times as often as asked, then it is given up


@pytest.mark.slow
def test_a_part_that_remembers_is_found_out_by_the_command(recipe_file, tmp_path):
    (tmp_path / "mine.py").write_text(DRIFTING)
    words = ["train", str(recipe_file), "model.score=drifting", "--code", str(tmp_path / "mine.py")]
    done = subprocess.run(
        [sys.executable, "-m", "regard", *words, "--prove-resume", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["prove_resume"]
    assert found["same"] is False
    assert "model.safetensors" in found["differing"]
    assert 0 < max(found["resumed_from"]) < found["steps"]


def test_what_differs_is_named(tmp_path):
    for name, loss in (("one", 1.5), ("other", 2.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(json.dumps({"step": 1, "loss": loss, "seconds": 3 * loss}) + "\n")
        (tmp_path / name / "model.safetensors").write_bytes(b"same")
    assert differing(remains(tmp_path / "one"), remains(tmp_path / "other")) == ("log.jsonl",)
    proof = Proof(steps=12, epochs=2, resumed_from=(0, 4), differing=("log.jsonl",), seconds=9.0)
    assert not proof.same
    assert "NOT exact here" in str(proof)
    assert "from the start, step 4" in str(proof)
    assert proof.to_json()["differing"] == ["log.jsonl"]


def test_it_is_refused_under_torchrun_and_for_a_recipe_that_cannot_be_used(recipe_file, monkeypatch, capsys):
    assert main(["train", str(recipe_file)]) == 2
    assert "--output runs/mine" in capsys.readouterr().err
    assert main(["train", str(recipe_file), "trainning.steps=3", "--prove-resume"]) == 2
    assert "did you mean 'training'" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(regard.InputError, match="without torchrun"):
        prove_resume(recipe_file)
