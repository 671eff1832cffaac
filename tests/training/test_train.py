"""`regard.train` as a user calls it: from Python, into a folder, learning what there is to learn."""

from __future__ import annotations

import json

import pytest
import torch
import yaml

import regard
from regard.files import locked
from regard.training import read_recipe
from regard.training.recipe import differences


class Heard:
    """A callback that keeps what it was told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.events: list[dict] = []

    def started(self, model, progress, total_steps):
        self.said.append(f"started {progress.step} of {total_steps}")

    def stepped(self, progress, tokens_per_second):
        assert tokens_per_second > 0
        self.said.append(f"stepped {progress.step}")

    def logged(self, event):
        self.events.append(dict(event))

    def ended(self, progress):
        self.said.append(f"ended {progress.step}")


def test_a_run_leaves_a_model_its_recipe_and_its_log(recipe, pairs, tmp_path):
    heard, said = Heard(), []
    trained = regard.train(
        recipe(steps=3),
        ["training.log_every=2"],
        output=tmp_path / "run",
        data=pairs,
        callbacks=[heard],
        say=said.append,
    )
    assert heard.said == ["started 0 of 3", "stepped 1", "stepped 2", "stepped 3", "ended 3"]
    log = [json.loads(line) for line in (trained.folder / "log.jsonl").read_text().splitlines()]
    assert log == heard.events
    saved = read_recipe(trained.folder / "recipe.yaml")
    assert saved == read_recipe(recipe(steps=3, log_every=2))
    card = json.loads((trained.folder / "regard.json").read_text())
    assert differences(read_recipe(card["recipe"]), saved) == []
    assert card["metrics"] == trained.metrics
    assert "118 pairs to learn from, 12 to validate on" in said[0]
    translator = regard.load(trained.folder)
    assert translator.translate("abc").source == "abc"
    assert trained.load().translate("abc") == translator.translate("abc")


def test_the_precision_is_said_and_auto_follows_the_machine(recipe, pairs, tmp_path, monkeypatch):
    from regard.training import precision

    monkeypatch.setattr(precision, "native_bfloat16", lambda device: True)
    said: list[str] = []
    regard.train(recipe(steps=1, precision="auto"), output=tmp_path / "run", data=pairs, say=said.append)
    line = next(text for text in said if text.startswith("precision"))
    assert "bfloat16, native on this processor" in line
    assert f"{torch.get_num_threads()} threads" in line


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_half_precision_computes_differently_and_keeps_parameters_whole(model, recipe, pairs, tmp_path):
    from safetensors.torch import load_file

    losses = {}
    for precision in ("float32", "bfloat16"):
        values = recipe(model, steps=4, precision=precision)
        trained = regard.train(values, output=tmp_path / precision, data=pairs)
        losses[precision] = trained.metrics["loss"]
        for file in ("model.safetensors", "optimizer.safetensors"):
            tensors = load_file(trained.folder / "checkpoints" / "step-00000004" / file)
            assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert losses["float32"] != losses["bfloat16"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.05)


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_a_few_pairs_are_learnt_by_heart(model, recipe, pairs, tmp_path):
    few = pairs[:8]
    values = recipe(
        model,
        steps=120,
        batch_tokens=1000,
        warmup=10,
        learning_rate=3e-2 if model == "bahdanau" else 1e-2,
        schedule="cosine",
        evaluate_every=120,
        evaluate_generated=8,
        log_every=120,
    )
    values["model"] |= (
        {"hidden_width": 24, "attention_width": 24, "embedding_width": 16, "maxout_width": 24, "dropout": 0.0}
        if model == "bahdanau"
        else {"width": 32, "heads": 4, "feedforward_width": 64, "dropout": 0.0, "attention_dropout": 0.0, "norm": "pre"}
    )
    trained = regard.train(values, output=tmp_path / "run", data=few, validation=few)
    assert trained.metrics["loss"] < 0.05
    assert trained.metrics["token_accuracy"] == 1.0
    assert trained.metrics["exact_match"] == 1.0
    translator = trained.load()
    assert [answer.text for answer in translator.translate_batch([word for word, _ in few])] == [
        back for _, back in few
    ]


def test_separate_vocabularies(recipe, pairs, tmp_path):
    values = recipe("transformer", steps=1)
    values["tokenizer"]["shared"] = False
    values["model"]["sharing"] = "target"
    upper = [(word, back.upper()) for word, back in pairs]
    trained = regard.train(values, output=tmp_path / "run", data=upper)
    task = trained.load().task
    assert not task.shared
    assert set(task.target_tokenizer.tokens(task.target_tokenizer.encode("AB"))) == {"A", "B"}


def test_a_folder_with_a_run_is_not_trained_over(recipe, pairs, tmp_path):
    regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs)
    with pytest.raises(regard.InputError, match="holds a run already"):
        regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [({}, [("", "")], "empty"), ({"frozen": ["none.such"]}, None, "none.such")],
)
def test_a_start_that_fails_leaves_nothing_behind(changes, data, message, there, recipe, pairs, tmp_path):
    folder = tmp_path / "runs" / "one"
    if there:
        folder.mkdir(parents=True)
    with pytest.raises(regard.InputError, match=message):
        regard.train(recipe(steps=1, **changes), output=folder, data=data or pairs)
    assert folder.exists() == there
    assert not there or list(folder.iterdir()) == []
    assert regard.train(recipe(steps=1), output=folder, data=pairs).steps == 1


def test_a_start_that_fails_leaves_a_run_that_was_there(recipe, pairs, tmp_path):
    folder = tmp_path / "run"
    regard.train(recipe(steps=1), output=folder, data=pairs)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for resume in (False, True):
        with pytest.raises(regard.InputError):
            regard.train(recipe(steps=1, learning_rate=0.5), output=folder, data=pairs, resume=resume)
    with locked(folder), pytest.raises(regard.InputError, match="another process is training"):
        regard.train(recipe(steps=1), output=folder, data=pairs)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    with locked(tmp_path / "new"), pytest.raises(regard.InputError, match="another process is training"):
        regard.train(recipe(steps=1), output=tmp_path / "new", data=pairs)
    assert (tmp_path / "new").is_dir()


def test_a_folder_with_something_else_is_left_alone(recipe, pairs, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(regard.InputError, match="is not empty"):
        regard.train(recipe(steps=1), output=tmp_path, data=pairs)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_a_run_is_resumed_only_by_its_own_recipe(recipe, pairs, tmp_path):
    regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs)
    with pytest.raises(regard.InputError, match=r"training\.learning_rate, training\.warmup"):
        regard.train(recipe(steps=2, learning_rate=1.0, warmup=1), output=tmp_path / "run", data=pairs, resume=True)
    saved = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert saved["training"]["learning_rate"] == 1e-2


def test_a_run_that_failed_before_it_began_can_be_started_again(recipe, pairs, tmp_path):
    """A misspelt path must not cost the folder its name."""
    values = recipe(steps=1)
    values["data"]["train"] = str(tmp_path / "pears.tsv")
    with pytest.raises(regard.InputError, match="pears"):
        regard.train(values, output=tmp_path / "run")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{back}\n" for word, back in pairs))
    values["data"]["train"] = str(path)
    assert regard.train(values, output=tmp_path / "run").steps == 1


def test_resuming_where_there_is_no_run_starts_one(recipe, pairs, tmp_path):
    assert regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs, resume=True).steps == 1


@pytest.mark.parametrize("side", ["training", "validation"])
def test_data_longer_than_the_positions_is_told_before_training(side, recipe, pairs, tmp_path):
    long = [("ab" * 30, "ba")]
    data = pairs + long if side == "training" else pairs
    validation = pairs[:5] + (long if side == "validation" else [])
    heard = Heard()
    with pytest.raises(regard.InputError, match=rf"longest {side} source has 61 tokens .* 40 positions"):
        regard.train(
            recipe("transformer", steps=1), output=tmp_path / "run", data=data, validation=validation, callbacks=[heard]
        )
    assert heard.said == []


def test_too_few_pairs_to_hold_some_out(recipe, tmp_path):
    with pytest.raises(regard.InputError, match="too few"):
        regard.train(recipe(steps=1), output=tmp_path / "run", data=[("a", "b")] * 3)


def test_an_empty_list_of_pairs(recipe, tmp_path):
    with pytest.raises(regard.InputError, match=r"pairs are \[\]"):
        regard.train(recipe(steps=1), output=tmp_path / "run", data=[])


def test_no_data_at_all(recipe, tmp_path):
    with pytest.raises(regard.InputError, match=r"data\.train is missing"):
        regard.train(recipe(steps=1), output=tmp_path / "run")


def test_a_gpu_that_is_not_there(recipe, pairs, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(regard.InputError, match="no GPU"):
        regard.train(recipe(steps=1, device="cuda"), output=tmp_path / "run", data=pairs)


def test_an_interrupted_run_can_be_loaded_already(recipe, pairs, tmp_path):
    class Stop(Heard):
        def stepped(self, progress, tokens_per_second):
            if progress.step == 5:
                raise KeyboardInterrupt

    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        regard.train(recipe(steps=9, evaluate_every=2), output=tmp_path / "run", data=pairs, callbacks=[stop])
    assert stop.said[-1] == "ended 5"
    assert regard.load(tmp_path / "run").metrics["loss"] > 0
