"""MLflow and Weights & Biases, by stand-ins that record what they are told: every number of the log, once, with its step."""

from __future__ import annotations

import json
import sys
import types

import pytest

import regard


@pytest.fixture
def mlflow(monkeypatch):
    """What a client of MLflow is asked."""
    asked: dict = {"metrics": [], "ended": 0}

    class Client:
        def __init__(self, tracking_uri):
            asked["place"] = tracking_uri

        def get_experiment_by_name(self, name):
            asked["experiment"] = name

        def create_experiment(self, name):
            return "7"

        def create_run(self, experiment, run_name):
            assert experiment == "7"
            asked["name"] = run_name
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="of 7"))

        def log_metric(self, run, name, value, step):
            assert run == "of 7"
            asked["metrics"].append((name, value, step))

        def set_terminated(self, run):
            asked["ended"] += 1

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=Client))
    return asked


@pytest.fixture
def wandb(monkeypatch):
    """What Weights & Biases is told."""
    asked: dict = {"metrics": [], "ended": 0}

    class Run:
        def log(self, numbers, step):
            asked["metrics"] += [(name, value, step) for name, value in numbers.items()]

        def finish(self):
            asked["ended"] += 1

    def init(**settings):
        asked.update(settings)
        return Run()

    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    return asked


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_every_number_of_the_log_is_told_once(recipe, pairs, tmp_path, mlflow, wandb, name):
    trained = regard.train(recipe(steps=4, evaluate_every=2, tracker=name), output=tmp_path / "run", data=pairs)
    asked = mlflow if name == "mlflow" else wandb
    log = [json.loads(line) for line in (trained.folder / "log.jsonl").read_text().splitlines()]
    for event, number in (("train", "loss"), ("train", "learning_rate"), ("validation", "perplexity")):
        expected = [(line["step"], pytest.approx(line[number])) for line in log if line["event"] == event]
        assert expected
        assert [(step, value) for key, value, step in asked["metrics"] if key == f"{event}/{number}"] == expected
    assert asked["name"] == "run"
    assert asked["ended"] == 1


def test_nothing_leaves_the_folder_unless_asked(recipe, pairs, tmp_path, mlflow, wandb, monkeypatch):
    regard.train(recipe(steps=1, tracker="mlflow"), output=tmp_path / "a", data=pairs)
    assert mlflow["place"] == f"sqlite:///{(tmp_path / 'a' / 'mlflow.db').resolve()}"
    regard.train(recipe(steps=1, tracker="wandb"), output=tmp_path / "b", data=pairs)
    assert (wandb["mode"], wandb["dir"], wandb["project"]) == ("offline", str(tmp_path / "b"), "regard")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    monkeypatch.setenv("WANDB_MODE", "online")
    regard.train(recipe(steps=1, tracker="mlflow"), output=tmp_path / "c", data=pairs)
    regard.train(recipe(steps=1, tracker="wandb"), output=tmp_path / "d", data=pairs)
    assert (mlflow["place"], wandb["mode"]) == ("http://localhost:5000", "online")


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_without_the_package_the_remedy_is_named(recipe, pairs, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(regard.InputError, match=rf"pip install 'regard\[{name}\]'"):
        regard.train(recipe(steps=1, tracker=name), output=tmp_path / "run", data=pairs)


@pytest.mark.slow
def test_mlflows_own_client_finds_the_run(recipe, pairs, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    trained = regard.train(recipe(steps=4, evaluate_every=2, tracker="mlflow"), output=tmp_path / "run", data=pairs)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{trained.folder / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("regard").experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    told = [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, "validation/perplexity")]
    log = [json.loads(line) for line in (trained.folder / "log.jsonl").read_text().splitlines()]
    assert told == [(line["step"], pytest.approx(line["perplexity"])) for line in log if line["event"] == "validation"]


@pytest.mark.slow
def test_the_own_client_of_weights_and_biases_writes_to_the_folder_without_a_network(
    recipe, pairs, tmp_path, monkeypatch
):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    trained = regard.train(recipe(steps=2, tracker="wandb"), output=tmp_path / "run", data=pairs)
    (file,) = trained.folder.glob("wandb/offline-run-*/*.wandb")
    content = file.read_bytes()
    assert b"train/loss" in content
    assert b"validation/perplexity" in content
