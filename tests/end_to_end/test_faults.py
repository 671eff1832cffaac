"""The harness of `benchmarks/faults` itself, with a few cases of each kind."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

import regard.cli.main
from regard.bench.driver import Driver
from regard.errors import InputError
from regard.training.loop import Loop

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"


@pytest.fixture
def harness(monkeypatch):
    """Imports a module of the harness, which is no package; nothing of it stays."""
    monkeypatch.syspath_prepend(FAULTS)
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = set(sys.modules)
    yield importlib.import_module
    gc.unfreeze()
    for name in set(sys.modules) - before:
        if str(FAULTS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="cases are watched by what Linux tells of processes")
def test_a_few_cases_of_each_kind(harness, monkeypatch, tmp_path):
    cases = harness("cases")
    for owner, name in (
        (Loop, "_update"),
        (Driver, "__init__"),
        (regard.cli.main, "get_command"),
    ):  # put back what `run` replaces
        monkeypatch.setattr(owner, name, getattr(owner, name))
    names = {"model": ["bahdanau", "classifier"], "run": ["bahdanau"], "vectors": ["folder", "words.bin"]}
    cases.import_all()
    faults = cases.Faults(tmp_path, 1, names)
    counts = {"model": 7, "run": 3, "vectors": 6, "index": 3, "command": 8, "recipe": 3}
    figures, wrong = cases.run(faults, counts, print)
    assert {kind: each["cases"] for kind, each in figures.items()} == counts
    assert wrong == []
    refused = sum(each["refused"] for each in figures.values())
    answered = sum(each["answer"] + each["started"] for each in figures.values())
    assert refused + answered == 30
    assert refused > 9
    assert answered > 3
    (did, first), (again, second) = (faults.case("vectors", 3) for _ in range(2))  # a case is repeated by its number
    assert (did, first.kind, first.detail) == (again, second.kind, second.detail)


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="cases are watched by what Linux tells of processes")
@pytest.mark.slow
def test_faults_are_told_from_errors(harness, tmp_path):
    judging = harness("judging")
    judging.emptied(tmp_path)
    monkey = {"SECONDS": 0.2, "STILL": 0.5, "KILLED_AFTER": 1}
    for name, value in monkey.items():
        setattr(judging, name, value)

    def ended(do):
        return judging.judged(tmp_path, do).kind

    def refuse():
        raise InputError("a file: is missing; give another")

    def turn():
        while True:
            pass

    def dawdle():
        while time.process_time() < 0.4:
            pass

    assert ended(lambda: 1) == "answer"
    assert ended(refuse) == "refused"
    assert ended(lambda: {}["x"]) == "other exception"
    assert ended(lambda: os.kill(os.getpid(), 9)) == "died"
    assert ended(turn) == "slow"
    assert ended(dawdle) == "slow"
    assert ended(lambda: bytearray(1 << 31)) == "other exception"
    assert ended(lambda: os.read(os.pipe()[0], 1)) == "waits"
    assert ended(lambda: (tmp_path / "outside" / "x").write_text("x")) == "wrote outside"
    assert ended(lambda: Path("x").write_text("x")) == "answer"
    assert ended(lambda: os.system("echo x > ../outside/y")) == "wrote outside"
    assert ended(judging.command("nothing")) == "refused"
    assert ended(judging.command("--version")) == "answer"


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="cases are watched by what Linux tells of processes")
def test_many_cases_in_one_process_and_one_that_ends_it(harness, monkeypatch, tmp_path):
    batches, texts, judging = harness("batches"), harness("loading_texts"), harness("judging")
    for name, value in {"SECONDS": 0.3, "STILL": 0.5, "KILLED_AFTER": 1}.items():
        monkeypatch.setattr(judging, name, value)

    def read(folder: Path) -> None:
        content = (folder / "a.txt").read_bytes() if (folder / "a.txt").is_file() else b""
        if len(content) < 7:
            raise InputError("a file: is short; give a longer one")
        if b"\0" in content:
            os.kill(os.getpid(), 11)
        if len(content) > 1000:
            raise KeyError("long")

    (tmp_path / "valid" / "kind").mkdir(parents=True)
    (tmp_path / "valid" / "kind" / "a.txt").write_text("a text that is read\n")
    sample = texts.Sample(tmp_path / "valid" / "kind", ("*",), read)
    batches.checked({"kind": [sample]}, print)
    cases = batches.Cases(tmp_path, 1, {"kind": [sample]})
    figures, again = batches.Figures(), batches.Figures()
    cases.batch("kind", 0, 80, figures)
    assert figures.done == 80
    assert figures.ends["answer"] > 10
    assert figures.ends["refused"] > 1
    ended = {each["ended"] for each in figures.wrong}
    assert ended == {"died of SIGSEGV", "other exception"}
    assert figures.ends["otherwise"] == len(figures.wrong)
    number = int(figures.wrong[0]["case"].partition(":")[2])
    cases.batch("kind", number, 1, again)  # a case is repeated by its number
    assert again.wrong[0]["ended"] == figures.wrong[0]["ended"]
