"""Resuming equals never having stopped, bit for bit: weights, optimiser, counters, log, best and last."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import regard
from regard.training import checkpoint

CASES = [
    ("bahdanau", "float32"),
    ("bahdanau", "bfloat16"),
    ("transformer", "float32"),
    ("transformer", "bfloat16"),
    ("bert", "float32"),
    ("bert", "bfloat16"),
]
QUICK = [("bahdanau", "float32"), ("transformer", "bfloat16")]
"""Of these all that is not killed from outside is tried each time; of the others among the slow tests."""


class Interrupted(BaseException):
    """Raised where a process is to end, as a signal would."""


class StopAt:
    """Raises at one moment of a run: ("stepped", 5) after update 5, ("train", 5) or ("validation", 8) after that log line."""

    def __init__(self, what: str, step: int) -> None:
        self.what, self.step = what, step

    def started(self, model, progress, total_steps):
        """Nothing."""

    def stepped(self, progress, tokens_per_second):
        if (self.what, self.step) == ("stepped", progress.step):
            raise Interrupted

    def logged(self, event):
        if (self.what, self.step) == (event["event"], event["step"]):
            raise Interrupted

    def ended(self, progress):
        """Nothing."""


@pytest.fixture(scope="module")
def recipe_of(small_recipe):
    """Two windows of batches each, the last of an epoch shorter; evaluations, saves and log lines all out of step."""

    def make(model: str, precision: str, **training):
        settings = {
            "steps": 17,
            "accumulate": 2,
            "evaluate_every": 4,
            "save_every": 3,
            "log_every": 5,
            "label_smoothing": 0.1,
            "clip_norm": 0.7,
            "weight_decay": 0.01,
            "patience": 3,
        }
        return small_recipe(model, precision=precision, **(settings | training))

    return make


@pytest.fixture(scope="module")
def uninterrupted(recipe_of, pairs, remains, tmp_path_factory):
    """What the runs leave that nobody stopped, made once each."""
    made: dict[tuple[str, str], dict] = {}

    def of(model: str, precision: str) -> dict:
        if (model, precision) not in made:
            folder = tmp_path_factory.mktemp("whole") / "run"
            regard.train(recipe_of(model, precision), output=folder, data=pairs)
            made[model, precision] = remains(folder)
        return made[model, precision]

    return of


def assert_same(found: dict, wanted: dict) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == value, f"{name} differs"


def test_the_run_is_one_that_can_tell(uninterrupted):
    """It reaches later epochs, meets shorter windows, keeps a best apart from the last."""
    log = uninterrupted("bahdanau", "float32")["log"]
    assert [line["step"] for line in log if line["event"] == "train"] == [5, 10, 15, 17]
    assert [line["step"] for line in log if line["event"] == "validation"] == [4, 8, 12, 16, 17]
    assert log[-1]["epoch"] >= 2


MOMENTS = [
    ("stepped", 2),  # before there is any checkpoint
    ("stepped", 4),  # first epoch, inside the last saved window's successor
    ("train", 5),  # after a log line, before the next checkpoint
    ("validation", 8),  # evaluated, not yet saved
    ("stepped", 9),  # second epoch, before the save of step 9
    ("stepped", 10),  # right after a save, right before a log line
    ("stepped", 14),
    ("validation", 17),  # at the very end, before the last checkpoint
]


@pytest.mark.parametrize(
    ("what", "step"),
    [
        pytest.param(*moment, marks=[] if number in (0, 3, 5) else [pytest.mark.slow])
        for number, moment in enumerate(MOMENTS)
    ],
)
def test_stopped_once_and_resumed(what, step, recipe_of, uninterrupted, pairs, remains, tmp_path):
    values = recipe_of("bahdanau", "float32")
    with pytest.raises(Interrupted):
        regard.train(values, output=tmp_path / "run", data=pairs, callbacks=[StopAt(what, step)])
    regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert_same(remains(tmp_path / "run"), uninterrupted("bahdanau", "float32"))


@pytest.mark.parametrize(
    ("model", "precision"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_stopped_again_and_again(model, precision, recipe_of, uninterrupted, pairs, remains, tmp_path):
    values = recipe_of(model, precision)
    for what, step in [("stepped", 1), ("train", 5), ("stepped", 5), ("validation", 8), ("stepped", 13), ("train", 17)]:
        with pytest.raises(Interrupted):
            regard.train(values, output=tmp_path / "run", data=pairs, resume=True, callbacks=[StopAt(what, step)])
    regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert_same(remains(tmp_path / "run"), uninterrupted(model, precision))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param("new_folder", marks=pytest.mark.slow),
        "replace_file",
        pytest.param("write_tensors", marks=pytest.mark.slow),
        "_keep",
    ],
)
def test_stopped_while_saving(function, recipe_of, uninterrupted, pairs, remains, tmp_path, monkeypatch):
    """Within the second save: before the folder, before the pointer, before the optimiser, before the old ones go."""
    values = recipe_of("transformer", "float32")
    calls = []

    def interrupting(real):
        def call(*arguments, **settings):
            calls.append(1)
            if len(calls) == 2:
                raise Interrupted
            return real(*arguments, **settings)

        return call

    if function == "_keep":
        monkeypatch.setattr(checkpoint.Checkpoints, "_keep", interrupting(checkpoint.Checkpoints._keep))
    else:
        monkeypatch.setattr(checkpoint, function, interrupting(getattr(checkpoint, function)))
    with pytest.raises(Interrupted):
        regard.train(values, output=tmp_path / "run", data=pairs)
    monkeypatch.undo()
    assert regard.load(tmp_path / "run").translate("abc").source == "abc"
    regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert_same(remains(tmp_path / "run"), uninterrupted("transformer", "float32"))


def test_best_and_patience_survive(recipe_of, pairs, remains, tmp_path, monkeypatch):
    from regard.training import run

    losses = {2: 3.0, 4: 2.0, 6: 2.5, 8: 2.1, 10: 2.2, 12: 1.0}
    monkeypatch.setattr(run, "evaluation_loss", lambda loop, data: {"loss": losses[loop.progress.step]})
    values = recipe_of("bahdanau", "float32", evaluate_every=2, save_every=1, patience=3)
    whole = regard.train(values, output=tmp_path / "whole", data=pairs)
    assert (whole.steps, whole.best_step) == (10, 4)
    for step in (7, 9):  # one, then two evaluations worse than the best
        with pytest.raises(Interrupted):
            regard.train(values, output=tmp_path / "run", data=pairs, resume=True, callbacks=[StopAt("stepped", step)])
    resumed = regard.train(values, output=tmp_path / "run", data=pairs, resume=True)
    assert (resumed.steps, resumed.best_step, resumed.reason) == (10, 4, whole.reason)
    assert_same(remains(tmp_path / "run"), remains(tmp_path / "whole"))


def harness(python: list[str], tmp_path: Path, script: str, *settings: str) -> dict:
    """The figures of a script of `benchmarks/faults`, which lets processes and disks fail and judges what is left."""
    if not any(map(shutil.which, ("gcc", "cc", "clang"))):
        pytest.skip("the operations are counted by a library in C, and there is no compiler")
    place = Path(__file__).parents[2] / "benchmarks" / "faults" / script
    output = tmp_path / "found.json"
    command = [*python, str(place), "--output", str(output), "--journal", str(tmp_path / "journal"), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(output.read_text())["figures"]


WELL = "the last good state or the new one, and then as if never ended"


@pytest.mark.slow
def test_ended_at_a_dozen_crash_points_of_training_saving_and_extending(python, tmp_path):
    """`benchmarks/faults/kills.py` by itself takes all of them."""
    figures = harness(python, tmp_path, "kills.py", "--points", "4", "--kills", "0", "--signals", "0", "--seed", "5")
    assert figures["crash points"] == figures[WELL] == 12
    operations = [found["operations"] for name, found in figures.items() if name.startswith("crash points:")]
    assert len(operations) == 3
    assert min(operations) > 20


KINDS = [
    "translation", "classification", "tagging", "masked language modelling", "causal language modelling", "captioning",
    "text to text (T5)", "word vectors", "two workers under torchrun", "accumulated gradients, bfloat16",
    "second pass over the data and later",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [KINDS[:4], KINDS[4:8], KINDS[8:]], ids=["texts", "writing", "ways"])
def test_every_kind_of_run_is_killed_and_stopped_and_resumed_bit_for_bit(kinds, python, tmp_path):
    """Two kills of each kind, and SIGTERM and SIGINT; by itself `benchmarks/faults/kills.py` takes two hundred."""
    kills = 2 * len(kinds)
    words = ["--points", "0", "--kills", str(kills), "--signals", "2", "--seed", "6", "--kinds", *kinds]
    figures = harness(python, tmp_path, "kills.py", *words)
    assert figures["random kills"] >= kills
    equal, all_runs = figures["runs equal bit for bit to one never killed"].split(" of ")
    assert equal == all_runs
    assert int(all_runs) >= len(kinds)
    for kind in kinds:
        if kind not in ("word vectors", "two workers under torchrun"):
            found = figures[f"signals: {kind}"]
            assert found["wrong"] == []
            assert found["left with 143 or 130 and a checkpoint"] >= 1 or found["signals"] < 2


DISKS = ["full", "read-only", "broken", "removed", "moved", "slow", "torn", "power"]


@pytest.mark.slow
@pytest.mark.parametrize("faults", [DISKS[:3], DISKS[3:6], DISKS[6:]], ids=["failing", "gone or slow", "torn"])
def test_disks_that_fail_leave_the_last_good_checkpoint_and_a_sentence(faults, python, tmp_path):
    """A few of each kind of fault; by itself `benchmarks/faults/disks.py` takes all."""
    figures = harness(python, tmp_path, "disks.py", "--points", "3", "--cuts", "10", "--seed", "2", "--only", *faults)
    well = "one sentence, the last good checkpoint, and on a mended disk as without the fault"
    assert figures["faults"] == figures[well] > 2 * len(faults)
