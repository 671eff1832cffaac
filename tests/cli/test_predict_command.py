from __future__ import annotations

import json

import pytest
import typer

from regard.cli.main import app
from regard.tasks import TASKS


def test_the_folder_says_which_command_predicts(command, model):
    asked = ("abcd", "dcb", "--beam", 2, "--n-best", 2)
    assert command("predict", model, *asked) == command("translate", model, *asked)
    assert command("predict", model, *asked, "--json") == command("translate", model, *asked, "--json")
    assert json.loads(command("predict", model, *asked, "--json").out)["translations"][1]["source"] == "dcb"


def test_what_follows_the_model_is_for_the_command_that_is_found(command, model):
    assert command("predict", model, "--help") == command("translate", model, "--help")
    assert command("predict", model, "a", "--bean", "2").refusal().endswith("(see regard translate --help)")
    assert "'--beam'" in command("predict", model, "a", "--beam", "wide").refusal()


def test_texts_from_standard_input(command, model):
    assert command("predict", model, stdin=b"abcd\n\ndcb\n") == command("translate", model, stdin=b"abcd\n\ndcb\n")


def test_every_task_is_predicted_by_a_command_that_is_there():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    tasks = {task for each in commands.values() for task in getattr(each.callback, "tasks", ())}
    assert tasks < set(TASKS)
    assert set(TASKS) - tasks == {"copying", "multiple_choice", "bidirectional_language_modelling"}


def test_a_place_without_a_model_is_refused(command, tmp_path):
    assert "holds no model" in command("predict", tmp_path, "a").refusal()


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        (["fill", "folder", "--top", "2"], "--top", "--n-best"),
        (["search", "folder", "texts", "query", "--top=2"], "--top", "--n-best"),
        (
            ["answer", "folder", "who?", "--context", "a", "--no-answer-threshold", "1"],
            "--no-answer-threshold",
            "--threshold",
        ),
        (["embed", "folder", "a", "--layer", "1"], "--layer", "--layers"),
        (["translate", "folder", "a", "--precision", "int8"], "--precision", "--dtype"),
        (["generate", "folder", "a", "--precision=int8"], "--precision", "--dtype"),
        (["embed", "folder", "a", "--precision", "int8"], "--precision", "--dtype"),
        (["search", "folder", "texts", "a", "--precision", "int8"], "--precision", "--dtype"),
        (["plan", "folder", "--precision", "float32"], "--precision", "--dtype"),
        (["classify", "folder", "a", "--shown", "b"], "--shown", "--support"),
        (["vectors", "neighbours", "file", "a", "--count", "2"], "--count", "--n-best"),
        (["vectors", "analogy", "file", "a", "b", "c", "--count", "2"], "--count", "--n-best"),
        (["vectors", "convert", "file", "other", "--first", "2"], "--first", "--limit"),
        (["vectors", "train", "file", "-o", "other", "--min-count", "2"], "--min-count", "--minimum-count"),
    ],
)
def test_an_old_spelling_of_an_option_is_taken_and_said(command, words, old, new):
    answer = command(*words)
    warning, error = answer.err.splitlines()
    assert warning == f"warning: {old} is called {new} now; the old name will be removed in the next release"
    assert "no such" in error
    assert old not in command(*words[: 2 if words[0] == "vectors" else 1], "--help").out.split()


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        (["depth", "folder", "a"], "depth", "rank"),
        (["vectors", "odd", "file", "a", "b", "c"], "odd", "doesnt-match"),
        (["vectors", "judge", "score", "file", "answers"], "judge", "survey"),
        (["vectors", "survey", "make", "file", "other", "-o", "a.html"], "make", "create"),
    ],
)
def test_an_old_name_of_a_command_is_taken_and_said(command, words, old, new):
    answer = command(*words)
    warning, error = answer.err.splitlines()
    assert warning == f"warning: {old} is called {new} now; the old name will be removed in the next release"
    assert error.startswith("error: ")
    assert "no such" in error
    assert f"  {old} " not in command(*words[: words.index(old)], "--help").out


@pytest.mark.parametrize("group", [(), ("vectors",), ("vectors", "survey"), ("claims",)], ids=" ".join)
def test_a_summary_in_help_is_a_whole_sentence_at_80_columns(command, group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = typer.main.get_command(app)
    for name in group:
        found = found.commands[name]  # type: ignore[attr-defined]
    out = command(*group, "--help").out
    lines = out.split("Commands:")[1].splitlines()
    assert max(map(len, lines)) <= 80
    listed = " ".join(" ".join(lines).split())
    assert "..." not in listed
    for name, each in found.commands.items():  # type: ignore[attr-defined]
        help = " ".join((each.help or "").split("\n\n")[0].split())
        summary = help.removesuffix(".") if help.count(". ") == 0 else help.partition(". ")[0]
        assert f"{name} {summary}" in listed or f"{name} {help.removesuffix('.')}" in listed
