from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import regard


def test_a_run_leaves_its_result_on_standard_output_alone(command, recipe_file, tmp_path):
    folder = tmp_path / "run"
    answer = command("train", recipe_file, "training.steps=4", "seed=3", "--output", folder, "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert (found["folder"], found["steps"], found["reason"]) == (str(folder), 4, "4 steps done")
    assert found["metrics"] == regard.load(folder).metrics
    assert {"loss", "exact_match"} <= found["metrics"].keys()
    assert "parameters" in answer.err
    assert "precision: float32" in answer.err
    assert "\x1b" not in answer.err  # no bar in a pipe
    resolved = yaml.safe_load((folder / "recipe.yaml").read_text())
    assert (resolved["training"]["steps"], resolved["seed"]) == (4, 3)


def test_the_same_for_people_and_going_on(command, recipe_file, tmp_path):
    words = ("train", recipe_file, "--output", tmp_path / "run")
    assert "5 (5 steps done)" in command(*words, "training.steps=5").out
    again = command(*words, "training.steps=9", "--resume")
    assert "9 (9 steps done)" in again.out
    assert "going on from step 5" in again.err
    assert "holds a run already; add --resume" in command(*words, "training.steps=9").refusal()
    other = command(*words, "training.steps=9", "seed=7", "--resume").refusal()
    assert "differs from the run's own in seed" in other


def test_rows_that_were_left_out_are_told(command, recipe_file, pairs_file, tmp_path):
    (tmp_path / "mixed.tsv").write_text(pairs_file.read_text() + "alone\n")
    words = ("train", recipe_file, f"data.train={tmp_path}/mixed.tsv", "training.steps=1", "--output")
    answer = command(*words, tmp_path / "run")
    assert answer.code == 0
    assert "1 malformed row was left out" in answer.err
    sentence = command(*words, tmp_path / "strict", "data.on_error=stop").refusal()
    assert f"{tmp_path}/mixed.tsv, line 221: wrong number of columns" in sentence


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(command, process, recipe_file, tmp_path):
    folder = tmp_path / "a run"
    words = ("train", recipe_file, "training.steps=1000000", "training.save_every=3", "--output", folder)
    with process(*words) as running:
        until = time.monotonic() + 120
        while not (folder / "checkpoints.json").exists() and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, b"")
    last = err.decode().splitlines()[-1]
    assert last.startswith("stopped by SIGINT; the checkpoint of step ")
    assert " is written; to continue from the last checkpoint: regard train " in last
    assert last.endswith(f"training.steps=1000000 training.save_every=3 --output '{folder}' --resume")
    step = json.loads((folder / "checkpoints.json").read_text())["last"]
    answer = command(*words, f"training.steps={int(step[-8:]) + 2}", "--resume", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["steps"] == int(step[-8:]) + 2


def test_a_bar_on_the_terminal(terminal, recipe_file, tmp_path):
    answer = terminal("train", recipe_file, "training.steps=40", "--output", tmp_path / "run", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["steps"] == 40
    assert "40/40" in answer.err
    assert "tokens/s" in answer.err
    assert "step 20: validation loss" in answer.err


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("trainning.steps=3", "recipe.yaml: unknown key 'trainning'; did you mean 'training'?"),
        ("training.stepz=3", "unknown key 'stepz'; did you mean 'steps'?"),
        ("model.widht=3", "unknown key 'widht'; did you mean 'width'?"),
        ("model.name=transfomer", "did you mean 'transformer'?"),
        ("model.heads=3", "heads is 3 but must be a divisor of width 16"),
        ("training.steps", "'training.steps' is no override; write key=value"),
        ("training.steps=many", "training.steps is 'many'; it must be a whole number"),
        ("training.steps=[3", "is not YAML"),
        ("training.steps=-3", "training.steps is -3 but must be above 0"),
        ("data.train=none.tsv", "none.tsv: no such file"),
        ("tokenizer.path=none", "none: no such file"),
    ],
)
def test_recipes_that_cannot_be_used(command, recipe_file, tmp_path, monkeypatch, override, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in command("train", recipe_file, override, "--output", "run").refusal()
    assert not Path("run/model.safetensors").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"abc\nabd\n", "each line needs two tab-separated columns"),
        ("déjà\tvu\n".encode("latin-1") * 30, "not UTF-8"),
        ("abc\tcba\n".encode("utf-16"), "UTF-16"),
        (bytes(range(256)) * 9, "is a binary file"),
        (b"abc\tcba\n" * 3, "too few to hold some out"),
        (b"abc\tcba\n" * 30 + b"abcdabcdabcdabcd\tx\n" * 30, "17 tokens where the model has 12 positions"),
    ],
)
def test_data_that_cannot_be_trained_on(command, recipe_file, tmp_path, content, sentence):
    (tmp_path / "data.tsv").write_bytes(content)
    answer = command("train", recipe_file, f"data.train={tmp_path}/data.tsv", "--output", tmp_path / "run")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].startswith("error: ")
    assert sentence in answer.err.splitlines()[-1]
    assert "Traceback" not in answer.err


def test_after_a_mistake_the_same_folder_can_be_used(command, recipe_file, tmp_path):
    (tmp_path / "long.tsv").write_text("abcdabcdabcdabcd\tx\n" * 40)
    words = ("train", recipe_file, "training.steps=1", "--output", tmp_path / "run")
    assert "no such file" in command(*words, "data.train=none.tsv").refusal()
    assert "raise model.maximum_positions" in command(*words, f"data.train={tmp_path}/long.tsv").refusal()
    assert command(*words, f"data.train={tmp_path}/long.tsv", "model.maximum_positions=20").code == 0
    assert "holds a run already" in command(*words).refusal()


def test_what_a_model_cannot_do_is_told_before_it_is_trained(command, recipe_file, tmp_path):
    """Sources longer than a location score has places for, and coverage without attention."""
    (tmp_path / "long.tsv").write_text("abc\tx\n" * 40 + "abcdabcdabcdabcd\tx\n" * 40)
    location = (
        "model={name: luong, embedding_width: 4, hidden_width: 6, layers: 1, score: location, maximum_source: 12}"
    )
    words = ("train", recipe_file, "training.steps=1", "--output", tmp_path / "run")
    sentence = command(*words, location, f"data.train={tmp_path}/long.tsv").refusal()
    assert "source has 17 tokens where the model has 12 positions; raise model.maximum_source, or" in sentence
    unattended = "model={name: cho, embedding_width: 4, hidden_width: 6, maxout_width: 4}"
    sentence = command(*words, unattended, "generation.coverage_penalty=0.2").refusal()
    assert "generation.coverage_penalty: this model has no attention" in sentence
    assert not (tmp_path / "run" / "log.jsonl").exists()
    assert command(*words, location, f"data.train={tmp_path}/long.tsv", "model.maximum_source=17").code == 0


def test_a_tokenizer_without_a_vocabulary(command, model, recipe_file, tmp_path):
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    answer = command("train", recipe_file, f"tokenizer.path={tmp_path}", "--output", tmp_path / "run")
    assert "tokenizer.json: the tokenizer has no vocabulary" in answer.refusal()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no such recipe"),
        (b"", "holds no mapping of settings"),
        (b"just text", "holds no mapping of settings"),
        (b"training: [1", "is not YAML"),
        (bytes(range(256)), "is not UTF-8 text"),
        (b"seed: 1", "missing model, data, training"),
    ],
)
def test_files_that_are_no_recipe(command, tmp_path, content, sentence):
    recipe = tmp_path / "recipe.yaml"
    if content is not None:
        recipe.write_bytes(content)
    assert sentence in command("train", recipe, "--output", tmp_path / "run").refusal()


def test_places_that_cannot_be_trained_in(command, recipe_file, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    for place in ("file", "file/run"):
        answer = command("train", recipe_file, "--output", tmp_path / place)
        assert f"{tmp_path / place}: cannot be written" in answer.refusal()
    assert "is not empty and holds no run" in command("train", recipe_file, "--output", tmp_path / "full").refusal()
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"


@pytest.mark.slow
def test_of_several_workers_one_speaks(recipe_file, tmp_path):
    def start(*words: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            "regard",
        ]
        arguments = [*command, "train", str(recipe_file), "--output", str(tmp_path / "run"), "--json", *words]
        return subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    done = start("training.steps=4")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 4
    assert done.stderr.count("2 worker(s)") == 1
    again = start("training.steps=4")
    assert again.returncode != 0
    assert again.stdout == ""
    assert again.stderr.count("error: ") == 1
    assert "holds a run already" in again.stderr
    assert "[rank" not in again.stderr  # no worker's traceback beside it


@pytest.mark.slow
def test_the_page_beside_it_shows_the_run_and_ends_with_it(command, process, recipe_file, tmp_path):
    httpx = pytest.importorskip("httpx")
    words = ("train", recipe_file, "training.steps=1000000", "training.log_every=1", "training.save_every=5")
    folder = tmp_path / "run"
    with process(*words, "--output", folder, "--studio", "--no-browser") as running:
        line = next(line for line in iter(running.stderr.readline, b"") if b"is shown at" in line).decode()
        address, _, key = line.split()[-1].partition("#token=")
        headers = {"authorization": f"Bearer {key}"}
        assert httpx.get(address).status_code == 200
        assert httpx.post(f"{address}/log", json={}).status_code == 401
        until = time.monotonic() + 120
        while time.monotonic() < until:
            told = httpx.post(f"{address}/log", json={}, headers=headers)
            if told.status_code == 200 and len(told.json()["events"]) > 2:
                break
            assert told.status_code == 200 or "holds a run" in told.text
            time.sleep(0.1)
        assert told.json()["events"][0]["event"] == "train"
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130
        with pytest.raises(httpx.TransportError):
            httpx.get(address)


def test_a_page_changes_nothing_of_a_training(command, recipe_file, tmp_path):
    pytest.importorskip("uvicorn")
    words = ("train", recipe_file, "training.steps=3", "--json", "--output")
    plain = command(*words, tmp_path / "plain")
    shown = command(*words, tmp_path / "shown", "--studio", "--no-browser")
    assert (plain.code, shown.code) == (0, 0)
    apart = {"folder", "seconds"}
    found, wanted = ({k: v for k, v in json.loads(one.out).items() if k not in apart} for one in (shown, plain))
    assert found == wanted
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "shown")]
    assert weights[0] == weights[1]


def test_a_page_that_cannot_be_is_one_sentence(command, recipe_file, tmp_path):
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ("train", recipe_file, "--output", tmp_path / "run", "--studio", "--no-browser", "--port", port)
        assert f"127.0.0.1:{port} cannot be listened on" in command(*words).refusal()
    assert not (tmp_path / "run").exists()
