"""Where a run ends: updates, passes, target tokens, seconds; and what the learning rate makes of it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.training import loop


def lines(folder: Path) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in read if line["event"] == "train"]


class Stop:
    """Ends the process's work after an update, as a signal would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def started(self, model, progress, total_steps):
        self.total = total_steps

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.step:
            raise KeyboardInterrupt

    def logged(self, event):
        """Nothing."""

    def ended(self, progress):
        """Nothing."""


def test_a_run_ends_with_the_update_that_reaches_its_tokens(recipe, pairs, tmp_path):
    trained = regard.train(recipe(steps=None, tokens=700), output=tmp_path / "run", data=pairs)
    log = lines(trained.folder)
    assert log[-1]["tokens"] >= 700 > log[-2]["tokens"]
    assert trained.reason == "700 tokens done"


def test_whichever_limit_comes_first(recipe, pairs, tmp_path):
    few = regard.train(recipe(steps=3, tokens="1e6"), output=tmp_path / "few", data=pairs)
    assert (few.steps, few.reason) == (3, "3 steps done")
    one = regard.train(recipe(steps=300, tokens=1), output=tmp_path / "one", data=pairs)
    assert (one.steps, one.reason) == (1, "1 tokens done")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"steps": 3, "warmup": 12},
            "training.warmup is 12 updates and the whole training 3, so the learning rate ends at 25 %",
        ),
        ({"steps": None, "epochs": 1, "warmup": 5000}, "training.warmup is 5,000 updates and the whole training"),
        ({"steps": 3, "warmup": 3}, ""),
    ],
)
def test_a_warmup_longer_than_the_training_is_told(changes, wanted, recipe, pairs, tmp_path):
    said: list[str] = []
    run = regard.train(recipe(**changes), output=tmp_path / "run", data=pairs, say=said.append)
    told = [sentence for sentence in said if "training.warmup" in sentence]
    assert len(told) == bool(wanted)
    assert all(sentence.startswith(f"warning: {wanted}") for sentence in told)
    peak, warmup = 1e-2, changes["warmup"]
    assert lines(run.folder)[-1]["learning_rate"] == pytest.approx(peak * run.steps / warmup)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_planned_schedule_falls_to_zero_at_the_last_token(schedule, recipe, pairs, tmp_path):
    values = recipe(steps=None, tokens=1500, schedule=schedule, warmup=2)
    rates = [line["learning_rate"] for line in lines(regard.train(values, output=tmp_path / "run", data=pairs).folder)]
    assert rates[:2] == pytest.approx([5e-3, 1e-2])
    assert rates[-1] == pytest.approx(0, abs=1e-9)
    assert all(after < before + 1e-4 for before, after in itertools.pairwise(rates[1:]))
    # As the plan in updates of the same length, but for the unequal sizes of batches.
    plan = [
        loop.learning_rate(schedule, step, peak=1e-2, warmup=2, steps=len(rates)) for step in range(1, len(rates) + 1)
    ]
    assert rates == pytest.approx(plan, abs=1.5e-3)


def test_a_limit_in_tokens_is_resumed_bit_for_bit(recipe, pairs, tmp_path):
    values = recipe("transformer", steps=None, tokens=1500, schedule="cosine", save_every=2)
    whole = regard.train(values, output=tmp_path / "whole", data=pairs)
    stop = Stop(5)
    with pytest.raises(KeyboardInterrupt):
        regard.train(values, output=tmp_path / "run", data=pairs, callbacks=[stop])
    assert stop.total == pytest.approx(whole.steps, abs=2)
    resumed = regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert resumed.steps == whole.steps
    one, other = (run.load().model.state_dict() for run in (whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_more_tokens_go_further(recipe, pairs, tmp_path):
    regard.train(recipe(steps=None, tokens=300), output=tmp_path / "run", data=pairs)
    further = regard.train(recipe(steps=None, tokens=900), output=tmp_path / "run", data=pairs, resume=True)
    assert further.reason == "900 tokens done"


def test_seconds_end_a_run_and_turn_the_rate_down(recipe, pairs, tmp_path, monkeypatch):
    clock = itertools.count()  # every look at it takes a second
    monkeypatch.setattr(loop.time, "monotonic", lambda: float(next(clock)))
    values = recipe(steps=None, seconds=40, schedule="linear", warmup=2)
    trained = regard.train(values, output=tmp_path / "run", data=pairs)
    log = lines(trained.folder)
    assert trained.reason == "40 seconds done"
    assert 5 < trained.steps < 40
    assert log[-1]["seconds"] >= 40 > log[-2]["seconds"]
    rates = [line["learning_rate"] for line in log]
    assert max(rates) == rates[1] == pytest.approx(1e-2, rel=0.05)
    assert rates[-1] < 0.15 * max(rates)


def test_no_limit_is_refused_by_name(recipe, pairs, tmp_path):
    with pytest.raises(regard.InputError, match=r"training\.steps is None .* training\.tokens"):
        regard.train(recipe(steps=None), output=tmp_path / "run", data=pairs)
    with pytest.raises(regard.InputError, match=r"training\.seconds is -1"):
        regard.train(recipe(seconds=-1), output=tmp_path / "run", data=pairs)
