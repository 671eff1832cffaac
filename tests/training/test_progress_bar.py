from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from torch import nn

import regard
import regard.training.run as run_module
from regard.tasks import TASKS
from regard.tasks.classification import ClassificationTask
from regard.text import Tokenizer
from regard.training import Trained
from regard.training.callbacks import ProgressBar, validation_line
from regard.training.checkpoint import Progress


def console(*, terminal: bool = True) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=100, color_system=None, _environ={"TERM": "xterm"}
    )


def shown(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on.file.getvalue())


def walk(bar: ProgressBar, losses: list[float], speeds: list[float], *, start: int = 0, total: int | None = 8) -> None:
    progress = Progress(step=start)
    bar.started(nn.Linear(1, 1), progress, total)
    for loss, speed in zip(losses, speeds, strict=True):
        progress.step += 1
        progress.loss_sum += 10 * loss
        progress.loss_tokens += 10
        bar.stepped(progress, speed)
    bar.ended(progress)


def test_steps_loss_speed_and_time_left():
    on = console()
    walk(ProgressBar(on), [2.0] * 8, [1234.0] * 8)
    last = shown(on).splitlines()[-1]
    assert "8/8" in last
    assert "loss 2.0000" in last
    assert "1,234 tokens/s" in last
    assert "left" in last


def test_the_speed_is_of_what_the_task_counts_and_f1_has_the_name_of_its_class():
    tokenizer = Tokenizer.train(["a b"], kind="bert", size=30)
    bar = ProgressBar(on := console(terminal=False))
    bar.prepared(ClassificationTask(tokenizer=tokenizer, classes=("ham", "spam")))
    bar.logged({"event": "validation", "step": 8, "epoch": 1, "loss": 0.5, "f1": 0.25, "recall.spam": 0.5})
    assert shown(on).splitlines() == ["step 8: validation loss 0.5, F1 of spam 0.25, recall spam 0.5"]
    units = {name: kind.task.unit for name, kind in TASKS.items()}
    assert units["classification"] == units["regression"] == units["question_answering"] == "examples"
    assert (units["tagging"], units["translation"], units["image_classification"]) == ("words", "tokens", "images")


def test_a_speed_of_examples_is_not_called_one_of_tokens(tmp_path):
    on = console()
    recipe = {
        "task": "classification",
        "model": {"name": "bert", "width": 8, "heads": 2, "layers": 1, "feedforward_width": 8},
        "data": {},
        "tokenizer": {"size": 60},
        "training": {"steps": 3, "batch_tokens": 400, "precision": "float32"},
    }
    rows = [(f"text {number}", "ham" if number % 2 else "spam") for number in range(40)]
    regard.train(recipe, output=tmp_path / "run", data=rows, callbacks=[ProgressBar(on)])
    assert re.search(r"[\d,]+ examples/s", shown(on))
    assert "tokens/s" not in shown(on)


def test_the_numbers_are_averages_that_forget():
    on = console()
    walk(ProgressBar(on), [9.0] + [1.0] * 60, [6000.0] + [1000.0] * 60, total=61)
    last = shown(on).splitlines()[-1]
    loss = float(re.search(r"loss ([\d.]+)", last)[1])  # type: ignore[index]
    speed = float(re.search(r"([\d,]+) tokens/s", last)[1].replace(",", ""))  # type: ignore[index]
    assert 1.0 < loss < 1.01
    assert 1000 < speed < 1010


def test_a_resumed_run_begins_where_it_was():
    on = console()
    walk(ProgressBar(on), [1.0], [10.0], start=500, total=1000)
    assert "500/1000" in shown(on)
    assert shown(on).splitlines()[-1].find("501/1000") > 0


def test_sums_that_begin_anew_with_a_line_of_the_log_do_not_stop_the_loss():
    on = console()
    bar, progress = ProgressBar(on), Progress()
    bar.started(nn.Linear(1, 1), progress, 60)
    for step in range(1, 61):  # a line of the log for each
        loss = 9.0 if step == 1 else 1.0
        progress.step, progress.loss_sum, progress.loss_tokens = step, 10 * loss, 10
        bar.stepped(progress, 5.0)
        bar.logged({"event": "train", "step": step, "loss": loss})
        progress.loss_sum, progress.loss_tokens = 0.0, 0
    bar.ended(progress)
    assert "loss 1.0" in shown(on).splitlines()[-1]


def test_validation_goes_above_the_bar():
    on = console()
    bar = ProgressBar(on)
    bar.started(nn.Linear(1, 1), Progress(), 4)
    bar.logged(
        {
            "event": "validation",
            "step": 3000,
            "epoch": 2,
            "loss": 0.25,
            "perplexity": 1.284,
            "exact_match": 0.5,
            "bleu": 36.4,
        }
    )
    bar.ended(Progress(step=4))
    lines = shown(on).splitlines()
    line = next(number for number, text in enumerate(lines) if "validation" in text)
    assert "step 3,000: validation loss 0.25, perplexity 1.284, exact match 50.0 %, BLEU 36.4" in lines[line]
    assert "4/4" in lines[-1]
    assert line < len(lines) - 1


def test_epochs_and_steps_are_not_results():
    assert validation_line({"event": "validation", "step": 7, "epoch": 1, "token_accuracy": 1.0}) == (
        "step 7: validation token accuracy 100.0 %"
    )


def test_a_run_without_a_known_end():
    on = console()
    walk(ProgressBar(on), [1.0, 1.0], [10.0, 10.0], total=None)
    assert "2/?" in shown(on)


def test_lines_where_no_terminal_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    piped = console(terminal=False)
    bar, progress, clock = ProgressBar(piped), Progress(), [100.0]
    monkeypatch.setattr("regard.training.callbacks.time.monotonic", lambda: clock[0])
    bar.started(nn.Linear(1, 1), progress, 40)
    for step in range(1, 21):  # ten seconds each
        clock[0] += 10.0
        progress.step, progress.loss_sum, progress.loss_tokens = step, 20.0 * step, 10 * step
        bar.stepped(progress, 1234.0)
        if step == 7:
            bar.logged({"event": "validation", "step": 7, "epoch": 1, "loss": 0.5})
    bar.ended(progress)
    assert shown(piped).splitlines() == [
        "step 6 of 40: loss 2.0000, 1,234 tokens/s, about 6 min left",
        "step 7: validation loss 0.5",
        "step 12 of 40: loss 2.0000, 1,234 tokens/s, about 5 min left",
        "step 18 of 40: loss 2.0000, 1,234 tokens/s, about 4 min left",
    ]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.undo()
    walk(ProgressBar(), [1.0], [10.0])
    assert capsys.readouterr() == ("", "")  # a short run without an evaluation has nothing to say


def test_a_finished_run_and_a_plan_are_tables():
    run = Trained(
        folder=Path("runs/a<b"),
        metrics={"loss": 0.5, "f1": 0.25},
        steps=1200,
        best_step=800,
        seconds=3.21,
        reason="done",
    )
    assert str(run).splitlines() == [
        "model    runs/a<b",
        "steps    1,200 (done); the best is from step 800",
        "seconds  3.2",
        "loss     0.5",
        "F1       25.00 %",
    ]
    assert "runs/a&lt;b</td>" in run._repr_html_()
    plan = regard.plan("bert-base", device="t4")
    assert "parameters" in str(plan)
    assert plan._repr_html_().count("<tr>") == len(str(plan).splitlines())


def test_a_notebook_gets_a_bar(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(run_module, "in_notebook", lambda: True)
    monkeypatch.setattr(run_module, "ProgressBar", lambda: made.append(ProgressBar(console())) or made[-1])
    pairs = [(f"{word} {word}", word) for word in ("ab", "ba", "aab", "bba", "abab")] * 4
    recipe = {
        "model": {"name": "bahdanau", "embedding_width": 3, "hidden_width": 4, "attention_width": 3, "maxout_width": 2},
        "data": {},
        "tokenizer": {"kind": "character", "size": 20},
        "training": {"steps": 2, "batch_tokens": 60, "precision": "float32"},
    }
    regard.train(recipe, output=tmp_path / "one", data=pairs)
    assert len(made) == 1
    regard.train(recipe, output=tmp_path / "two", data=pairs, callbacks=[])
    assert len(made) == 1


def test_the_end_of_a_run_that_never_started():
    on = console()
    ProgressBar(on).ended(Progress())
    assert shown(on) == ""


def test_watching_a_run_changes_nothing(tmp_path):
    pairs = [(f"{word} {word}", word) for word in ("ab", "ba", "aab", "bba", "abab")] * 4
    recipe = {
        "model": {"name": "bahdanau", "embedding_width": 3, "hidden_width": 4, "attention_width": 3, "maxout_width": 2},
        "data": {},
        "tokenizer": {"kind": "character", "size": 20},
        "training": {"steps": 4, "batch_tokens": 60, "evaluate_every": 2, "log_every": 1, "precision": "float32"},
    }
    on = console()
    watched = regard.train(recipe, output=tmp_path / "watched", data=pairs, callbacks=[ProgressBar(on)])
    alone = regard.train(recipe, output=tmp_path / "alone", data=pairs)
    assert watched.metrics == alone.metrics
    assert shown(on).count("validation loss") == 2
    assert "4/4" in shown(on)
