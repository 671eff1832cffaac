"""TensorBoard: what the log says, readable, no step twice."""

from __future__ import annotations

import json
import sys

import pytest
import torch

import regard
from regard.training import Callback


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


class Stop:
    """Interrupts a run after some step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def started(self, model, progress, total_steps):
        """Nothing."""

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.step:
            raise KeyboardInterrupt

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


def test_tensorboard_shows_every_number_of_the_log(recipe, pairs, tmp_path):
    pytest.importorskip("tensorboard")
    values = recipe(steps=4, evaluate_every=2, tracker="tensorboard")
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    shown = scalars(trained.folder / "tensorboard")
    log = [json.loads(line) for line in (trained.folder / "log.jsonl").read_text().splitlines()]
    for event, number in (("train", "loss"), ("train", "learning_rate"), ("validation", "perplexity")):
        expected = [(line["step"], pytest.approx(line[number])) for line in log if line["event"] == event]
        assert shown[f"{event}/{number}"] == expected


def test_tensorboard_shows_no_step_twice_after_an_interruption(recipe, pairs, tmp_path):
    pytest.importorskip("tensorboard")
    values = recipe(steps=7, save_every=3, tracker="tensorboard")
    with pytest.raises(KeyboardInterrupt):
        regard.train(values, output=tmp_path / "run", data=pairs, callbacks=[Stop(6)])
    # Steps 4 and 5 were logged after the checkpoint of step 3 and are done again.
    trained = regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    shown = scalars(trained.folder / "tensorboard")
    assert [step for step, _ in shown["train/loss"]] == [1, 2, 3, 4, 5, 6, 7]


def test_without_tensorboard_the_remedy_is_named(recipe, pairs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(regard.InputError, match=r"pip install 'regard\[track\]'"):
        regard.train(recipe(steps=1, tracker="tensorboard"), output=tmp_path / "run", data=pairs)


def test_a_callback_has_the_methods_it_needs_and_gets_the_predictor(recipe, pairs, tmp_path):
    said = []

    class Answers(Callback):
        def evaluated(self, predictor, metrics, progress):
            torch.rand(3)  # does not change what training draws
            said.append((progress.step, predictor.translate("abc").text, metrics["loss"]))

    values = recipe(steps=4, evaluate_every=2)
    watched = regard.train(values, output=tmp_path / "watched", data=pairs, callbacks=[Answers()])
    alone = regard.train(values, output=tmp_path / "alone", data=pairs)
    assert [step for step, _, _ in said] == [2, 4]
    assert watched.metrics == alone.metrics
    assert watched.metrics["loss"] in [loss for _, _, loss in said]


def test_evaluate_names_its_arguments_and_refuses_those_of_other_tasks(recipe, pairs, tmp_path):
    model = regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs).load()
    assert len(regard.evaluate(model, pairs[:4], bins=[4], batch_size=2).bins) == 2
    with pytest.raises(regard.InputError, match="stride is not for task translation"):
        regard.evaluate(model, pairs[:4], stride=3)
