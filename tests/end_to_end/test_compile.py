"""`training.compile`: the same training through torch.compile, and none without a compiler."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil

import pytest
import torch

import regard


class Model:
    """A callback that keeps the model of a run."""

    def started(self, model, progress, total_steps):
        self.model = model

    def stepped(self, progress, tokens_per_second):
        """Nothing."""

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


def values_of(small_recipe, model: str, **training) -> dict:
    values = small_recipe(model, steps=6, log_every=1, epsilon=1e-4, **training)
    values["model"]["dropout"] = 0.0
    if model == "transformer":
        values["model"] |= {"attention_dropout": 0.0, "decoder_layers": 1}
    if model == "bert":
        values["model"] |= {"attention_dropout": 0.0, "layers": 1}
    return values


def answer_of(loaded) -> str:
    return loaded.fill("abc [MASK]").best if hasattr(loaded, "fill") else loaded.translate("abc").text


@pytest.mark.slow
@pytest.mark.parametrize("model", ["transformer", "bahdanau", "bert"])
def test_compiled_training_is_eager_training(model, small_recipe, pairs, tmp_path):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")
    if model == "bahdanau":  # its loops over time are unrolled when compiled, so keep them short
        pairs = [(source[:4], target[:4]) for source, target in pairs]
    keeper, said = Model(), []
    eager = regard.train(values_of(small_recipe, model), output=tmp_path / "eager", data=pairs)
    torch._dynamo.reset()
    try:
        compiled = regard.train(
            values_of(small_recipe, model, compile=True),
            output=tmp_path / "compiled",
            data=pairs,
            callbacks=[keeper],
            say=said.append,
        )
    finally:
        torch._dynamo.reset()
    assert keeper.model._compiled_call_impl is not None
    assert sum("compiled by torch.compile" in sentence for sentence in said) == 1
    logs = [
        [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()] for run in (eager, compiled)
    ]
    totals = [0] + [line["tokens"] for line in logs[0] if line["event"] == "train"]
    assert len({after - before for before, after in itertools.pairwise(totals)}) > 3, (
        "batches of several shapes are needed"
    )
    for ours, theirs in zip(*logs, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    # The folder knows nothing of it.
    assert answer_of(compiled.load()) == answer_of(eager.load())
    with regard.look(compiled.load()) as seen:
        pass
    assert seen.addresses


def test_without_a_compiler_it_says_so_once_and_trains_on(small_recipe, pairs, tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    keeper, said = Model(), []
    trained = regard.train(
        values_of(small_recipe, "bahdanau", compile=True),
        output=tmp_path / "run",
        data=pairs,
        callbacks=[keeper],
        say=said.append,
    )
    assert trained.steps == 6
    assert keeper.model._compiled_call_impl is None
    (sentence,) = [sentence for sentence in said if "needs a C++ compiler" in sentence]
    assert "continuing without" in sentence
    eager = regard.train(values_of(small_recipe, "bahdanau"), output=tmp_path / "eager", data=pairs)
    assert (trained.folder / "model.safetensors").read_bytes() == (eager.folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_that_is_compiled_is_looked_into_while_it_trains(small_recipe, pairs, tmp_path):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("there is no C++ compiler")

    class Looking(Model):
        def started(self, model, progress, total_steps):
            self.blocks = contextlib.ExitStack()
            self.seen = self.blocks.enter_context(regard.look(model, keep=1))

        def ended(self, progress):
            self.blocks.close()

    eager = regard.train(values_of(small_recipe, "transformer"), output=tmp_path / "eager", data=pairs)
    looking = Looking()
    torch._dynamo.reset()
    try:
        compiled = regard.train(
            values_of(small_recipe, "transformer", compile=True),
            output=tmp_path / "run",
            data=pairs,
            callbacks=[looking],
        )
    finally:
        torch._dynamo.reset()
    for address in looking.seen.addresses:
        weights = looking.seen.weights(address)
        total = weights.sum(dim=-1)
        assert ((total - 1).abs().lt(1e-4) | total.eq(0)).all()
    losses = [
        [json.loads(line)["loss"] for line in (run.folder / "log.jsonl").read_text().splitlines()]
        for run in (eager, compiled)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
