"""What a run does to its folder: it removes only its own files, holds it alone, and leaves a checkpoint when stopped."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard.files import locked
from regard.training.checkpoint import Progress
from regard.training.loop import Loop, Stopped
from regard.training.settings import TrainingSettings
from regard.training.workers import Workers


class At:
    """Does something after one update."""

    def __init__(self, step: int, act) -> None:
        self.step, self.act = step, act

    def started(self, model, progress, total_steps): ...

    def stepped(self, progress, tokens_per_second):
        if progress.step == self.step:
            self.act()

    def logged(self, event): ...

    def ended(self, progress): ...


def steps_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").iterdir()}


def test_a_copy_of_a_checkpoint_is_never_removed(recipe, pairs, tmp_path):
    run = tmp_path / "run"
    regard.train(recipe(steps=4, save_every=2, evaluate_every=2), output=run, data=pairs)
    kept = run / "checkpoints" / "my-copy"
    shutil.copytree(run / "checkpoints" / "step-00000004", kept)
    (run / "checkpoints" / "step-00000004.notes").write_text("mine")
    regard.train(recipe(steps=8, save_every=2, evaluate_every=2), output=run, data=pairs, resume=True)
    assert (kept / "model.safetensors").is_file()
    assert (run / "checkpoints" / "step-00000004.notes").read_text() == "mine"
    assert {"my-copy", "step-00000008"} <= steps_of(run)
    assert len([name for name in steps_of(run) if len(name) == 13]) <= 2


@pytest.mark.parametrize("linked", ["checkpoints", "checkpoints/step-00000001", "data"])
def test_folders_behind_a_link_are_refused_and_stay(linked, recipe, pairs, tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    regard.train(recipe(steps=2, save_every=1), output=run, data=pairs)
    (elsewhere / "step-00000009").mkdir(parents=True)
    (elsewhere / "step-00000009" / "precious").write_text("years of work")
    (elsewhere / ".partial-theirs").mkdir()
    if linked in ("checkpoints", "data"):
        shutil.copytree(run / linked, elsewhere, dirs_exist_ok=True)
        shutil.rmtree(run / linked)
    (run / linked).symlink_to(elsewhere)
    with pytest.raises(regard.InputError, match="is a symbolic link"):
        regard.train(recipe(steps=5, save_every=1), output=run, data=pairs, resume=True)
    assert (elsewhere / "step-00000009" / "precious").read_text() == "years of work"
    assert (elsewhere / ".partial-theirs").is_dir()


def test_a_file_where_prepared_data_are_kept(recipe, pairs, tmp_path):
    regard.train(recipe(steps=2, save_every=1), output=tmp_path, data=pairs)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").write_text("")
    with pytest.raises(regard.InputError, match="data: is no folder"):
        regard.train(recipe(steps=2, save_every=1), output=tmp_path, data=pairs, resume=True)


def test_one_process_trains_into_a_folder_and_death_lets_it_go(recipe, pairs, tmp_path):
    run = tmp_path / "run"
    code = "import sys, time\nfrom regard.files import locked\nwith locked(sys.argv[1]):\n print(1, flush=True)\n time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(regard.InputError, match="another process is training into this folder"):
            regard.train(recipe(steps=1), output=run, data=pairs)
        assert list(run.iterdir()) == []
        other.kill()
    assert regard.train(recipe(steps=1), output=run, data=pairs).steps == 1
    with locked(run), pytest.raises(regard.InputError, match="another process"):
        regard.train(recipe(steps=2), output=run, data=pairs, resume=True)
    assert regard.train(recipe(steps=2), output=run, data=pairs, resume=True).steps == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_writes_a_checkpoint_and_resuming_equals_never_having_stopped(number, code, recipe, pairs, tmp_path):
    settings = recipe(steps=9, evaluate_every=3, log_every=2)
    whole = regard.train(settings, output=tmp_path / "whole", data=pairs)
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match="the checkpoint of step 5 is written") as stop:
        regard.train(
            settings, output=tmp_path / "cut", data=pairs, callbacks=[At(5, lambda: os.kill(os.getpid(), number))]
        )
    assert signal.getsignal(number) is before
    assert 128 + stop.value.number == code
    assert json.loads((tmp_path / "cut" / "checkpoints.json").read_text())["last"] == "step-00000005"
    again = regard.train(settings, output=tmp_path / "cut", data=pairs, resume=True)
    assert (again.metrics, again.best_step) == (whole.metrics, whole.best_step)
    for name in ("model.safetensors", "checkpoints/step-00000009/optimizer.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    logs = [
        [{**json.loads(line), "seconds": 0} for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in ("cut", "whole")
    ]
    assert logs[0] == logs[1]


def test_a_kill_in_the_very_first_write_leaves_a_folder_that_can_be_used(recipe, pairs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".partial-0123456789ab").write_text("half of recipe.yaml")
    assert regard.train(recipe(steps=1), output=tmp_path / "run", data=pairs).steps == 1
    assert not list((tmp_path / "run").glob(".partial-*"))


def test_extending_a_finished_run_leaves_a_model_at_every_moment(recipe, pairs, tmp_path, monkeypatch):
    """Ended before each of the moves that publish it, the folder opens as the longer run's model."""
    run = tmp_path / "run"
    regard.train(recipe(steps=2), output=run, data=pairs)
    wanted = regard.train(recipe(steps=5), output=tmp_path / "whole", data=pairs).load()
    real, ended = Path.replace, []

    class Ended(BaseException):
        pass

    for number in range(9):
        moved = []

        def replace(path: Path, target: Path, *, moved=moved, number=number) -> Path:
            if ".model" in path.parts:
                moved.append(path.name)
                if len(moved) > number:
                    raise Ended
            return real(path, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", replace)
            try:
                regard.train(recipe(steps=5), output=run, data=pairs, resume=True)
            except Ended:
                ended.append(number)
        found = regard.load(run).model.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in wanted.model.state_dict().items())
    assert 4 <= len(ended) < 9


def test_minutes_between_checkpoints(recipe, pairs, tmp_path):
    seen = []
    run = tmp_path / "run"
    regard.train(
        recipe(steps=3, save_minutes=1e-9),
        output=run,
        data=pairs,
        callbacks=[At(3, lambda: seen.append(json.loads((run / "checkpoints.json").read_text())))],
    )
    assert seen == [{"last": "step-00000002", "before": {"last": "step-00000001"}}]


def test_a_diverged_run_stops_and_keeps_its_last_good_checkpoint(recipe, pairs, tmp_path):
    run = tmp_path / "run"
    regard.train(recipe(steps=4, save_every=2), output=run, data=pairs)
    good = (run / "model.safetensors").read_bytes()
    model = []

    class Poison(At):
        def started(self, given, progress, total_steps):
            model.append(given)

    def poison() -> None:
        next(model[-1].parameters()).data.fill_(math.nan)

    with pytest.raises(
        regard.InputError,
        match=r"diverged at step 8: the loss is nan, as \S+ holds NaN or infinity; .* step 6 is kept. .*training.learning_rate",
    ):
        regard.train(recipe(steps=20, save_every=2), output=run, data=pairs, resume=True, callbacks=[Poison(7, poison)])
    with pytest.raises(
        regard.InputError, match=r"training diverged at step 5: a parameter is not finite; .* step 4 is kept"
    ):
        regard.train(
            recipe(steps=20, save_every=1), output=tmp_path / "other", data=pairs, callbacks=[Poison(5, poison)]
        )
    assert json.loads((run / "checkpoints.json").read_text())["last"] == "step-00000006"
    assert (run / "model.safetensors").read_bytes() == good
    assert json.loads((tmp_path / "other" / "checkpoints.json").read_text())["last"] == "step-00000004"
    assert "NaN" not in (run / "log.jsonl").read_text()


@pytest.mark.parametrize(
    ("best", "evaluations", "step"),
    [
        ("accuracy", [(0.98, 0.5), (0.98, 0.3), (0.98, 0.4), (0.97, 0.1)], 2),
        ("accuracy", [(0.98, 0.5), (0.98, 0.5)], 1),
        ("accuracy", [(0.5, 0.1), (0.6, 0.9)], 2),
        ("loss", [(0.5, 0.2), (0.9, 0.2), (0.1, 0.1)], 3),
    ],
)
def test_of_equal_values_the_one_with_the_lower_loss_is_the_best(best, evaluations, step):
    given = iter([{"accuracy": accuracy, "loss": loss} for accuracy, loss in evaluations])
    model = torch.nn.Linear(1, 1)
    loop = Loop(
        task=None,  # type: ignore[arg-type]
        model=model,
        wrapped=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        settings=TrainingSettings(steps=9, best=best),
        seed=0,
        data=None,  # type: ignore[arg-type]
        workers=Workers(0, 1, torch.device("cpu")),
        dtype=torch.float32,
        progress=Progress(),
        log=None,
        callbacks=(),
        evaluate=lambda: next(given),
        save=lambda: None,
    )
    for number in range(1, len(evaluations) + 1):
        loop.progress.step = number
        loop._judge()
    assert loop.progress.best_step == step


def test_the_readme_of_a_run_says_where_its_texts_are_and_how_to_give_the_model_away(recipe, pairs, tmp_path):
    run, early = tmp_path / "run", []
    regard.train(
        recipe(), output=run, data=pairs, callbacks=[At(1, lambda: early.append((run / "README.md").read_text()))]
    )
    for text in (early[0], (run / "README.md").read_text()):
        assert text.count("## This run's folder") == 1
        assert "`data/`: the examples for training and validation" in text
        assert "`regard export RUN FOLDER`" in text
    assert early[0].startswith("# A run that has not ended yet")
    assert "# bahdanau for translation" in (run / "README.md").read_text()
    regard.load(run).save(tmp_path / "model")
    assert "This run's folder" not in (tmp_path / "model" / "README.md").read_text()


def optimizers_of(folder: Path) -> list[str]:
    return [path.parent.name for path in sorted(folder.glob("checkpoints/*/optimizer.safetensors"))]


def test_a_finished_run_keeps_one_state_of_the_optimizer_and_goes_on_from_it_exactly(recipe, pairs, tmp_path):
    changing = {
        "learning_rate": 3.0,
        "evaluate_every": 2,
        "save_every": 2,
    }  # so steep that the first evaluation is the best
    run = tmp_path / "run"
    first = regard.train(recipe(steps=6, **changing), output=run, data=pairs)
    assert first.best_step < 6
    assert steps_of(run) == {f"step-{first.best_step:08d}", "step-00000006"}
    assert optimizers_of(run) == ["step-00000006"]
    further = regard.train(recipe(steps=8, **changing), output=run, data=pairs, resume=True)
    whole = regard.train(recipe(steps=8, **changing), output=tmp_path / "whole", data=pairs)
    assert further.steps == whole.steps == 8
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints") / "step-00000008" / name
        assert (run / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


def test_without_the_optimizer_a_finished_run_stays_as_it_is_and_says_why(recipe, pairs, tmp_path):
    run = tmp_path / "run"
    first = regard.train(recipe(steps=4, keep_optimizer=False), output=run, data=pairs)
    assert optimizers_of(run) == []
    again = regard.train(recipe(steps=4, keep_optimizer=False), output=run, data=pairs, resume=True)
    assert (again.steps, again.metrics) == (4, first.metrics)
    log = (run / "log.jsonl").read_bytes()
    with pytest.raises(regard.InputError, match=r"training\.keep_optimizer=false"):
        regard.train(recipe(steps=6), output=run, data=pairs, resume=True)
    assert (run / "log.jsonl").read_bytes() == log
    assert regard.load(run).translate("abc").text == first.load().translate("abc").text


def test_a_state_that_is_lost_is_damage_where_the_run_has_not_ended(recipe, pairs, tmp_path):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.train(recipe(save_every=2), output=tmp_path / "run", data=pairs, callbacks=[At(3, stop)])
    (tmp_path / "run" / "checkpoints" / "step-00000002" / "optimizer.safetensors").unlink()
    with pytest.raises(regard.InputError, match="no such file"):
        regard.train(recipe(save_every=2), output=tmp_path / "run", data=pairs, resume=True)
