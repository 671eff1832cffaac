from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import regard
from regard.cli import folders
from regard.cli.main import main, run
from regard.kernels import Kernels

COMMANDS = (
    "train",
    "evaluate",
    "predict",
    "translate",
    "generate",
    "prompt",
    "summarize",
    "classify",
    "fill",
    "tag",
    "answer",
    "embed",
    "search",
    "map",
    "look",
    "walk",
    "rank",
    "lens",
    "compare",
    "info",
    "export",
    "push",
    "check",
    "doctor",
    "plan",
    "bench",
    "caption",
    "compose",
    "serve",
    "studio",
    "claims",
    "vectors",
)


def test_help_names_every_command_and_nothing_else(command):
    answer = command("--help")
    assert answer.code == 0
    assert answer.err == ""
    listed = answer.out.split("Commands:")[1].split("\n")
    assert tuple(line.split()[0] for line in listed if line[:2] == "  " and line[2:3].strip()) == COMMANDS


def test_without_a_command_there_is_the_help(command):
    assert command().out.strip() == command("--help").out.strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_speaks_json(command, name):
    answer = command(name, "--help")
    assert answer.code == 0
    lines = answer.out.split("\n")
    first = lines[lines.index("  Example:") + 1]
    assert first.startswith(f"    regard {name}")
    assert "--json" in answer.out


def test_version(command):
    assert command("--version").out == f"regard {regard.__version__}\n"


def test_help_waits_for_nothing_heavy():
    code = (
        "import sys; from regard.cli.main import main; main(['translate', '--help']);"
        "sys.exit(bool({'torch', 'numpy', 'yaml', 'tokenizers', 'matplotlib'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_help_answers_in_less_than_half_a_second():
    def seconds() -> float:  # of the processor, so that what else it does now does not count
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "regard", "--help"], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "there is no command 'trian'; did you mean 'train'?"),
        (["zzzzzz"], "there is no command 'zzzzzz'; choose from train, evaluate, predict, translate,"),
        (["--versoin"], "there is no option --versoin; did you mean '--version'?"),
        (["look", "folder", "text", "--lyer", "x"], "there is no option --lyer; did you mean '--layer'?"),
        (["train", "recipe.yaml"], "missing option '--output'"),
        (["train"], "missing argument 'RECIPE'"),
        (["evaluate", "folder"], "missing argument 'DATA'"),
        (["translate"], "missing argument 'MODEL'"),
        (["look", "folder"], "missing argument 'TEXT'"),
        (["info", "folder", "another"], "another"),
        (["translate", "folder", "--beam", "wide"], "'--beam'"),
        (["translate", "folder", "--batch-size", "0"], "'--batch-size'"),
        (["evaluate", "folder", "data.tsv", "--limit", "0"], "'--limit'"),
        (["evaluate", "folder", "data.tsv", "--limit", str(1 << 64)], "--limit: the number is too large"),
        (
            ["generate", "folder", "--seed", str(1 << 64)],
            "--seed: the number is too large; whole numbers go up to 9,223,",
        ),
        (["vectors", "bias", "v.txt", "--seed", str(1 << 63)], "--seed: the number is too large"),
        (["compare", "dates", "seed=1", "--seeds", "1000000000", "-o", "x"], "'--seeds'"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(command, words, sentence):
    assert sentence in command(*words).refusal()


def test_where_help_is(command):
    assert command("look", "folder").refusal().endswith("(see regard look --help)")


def test_a_user_who_has_enough(command, monkeypatch):
    def press(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "folder", press)
    answer = command("info", "runs/dates")
    assert (answer.code, answer.out, answer.err) == (130, "", "interrupted\n")


def test_a_reader_who_has_enough(command, monkeypatch):
    def go(_: Path) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(folders, "folder", go)
    answer = command("info", "runs/dates")
    assert (answer.code, answer.out, answer.err) == (1, "", "")


def test_a_fault_of_the_program_is_not_hidden(monkeypatch):
    monkeypatch.setattr(folders, "folder", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["info", "runs/dates"])


def test_a_warning_is_shown_once_however_often_it_is_given(command, monkeypatch):
    def warn_twice(*_, **__):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn("the part was changed", stacklevel=1)
        warnings.warn("another", stacklevel=1)
        return 0

    monkeypatch.setattr(sys.modules["regard.cli.main"], "_commands", lambda: SimpleNamespace(main=warn_twice))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        answer = command("--version")
    assert answer.err.count("UserWarning: the part was changed") == answer.err.count("UserWarning: another") == 1


@pytest.mark.parametrize("moment", ["_prepare_process", "main"])
def test_ctrl_c_beside_a_command_shows_no_traceback(monkeypatch, moment):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["regard.cli.main"], "_prepare_process", lambda: None)
    monkeypatch.setattr(sys.modules["regard.cli.main"], moment, interrupted)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 130


def test_a_warning_of_this_package_is_a_sentence(command, monkeypatch, tmp_path):
    text, none = tmp_path / "text.txt", Kernels(None, "there is no C++ compiler")
    text.write_text("one two three four\n" * 20)
    monkeypatch.setattr("regard.word_embeddings.training.word2vec.kernels", lambda: none)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        answer = command("vectors", "train", str(text), "-o", str(tmp_path / "words"), "--dim", "4", "--epochs", "1")
    said = [line for line in answer.err.splitlines() if "compiler" in line]
    assert said == ["warning: there is no C++ compiler: training word embeddings takes many times as long"]


def test_a_message_cannot_act_on_the_terminal(command):
    sentence = command("info", "run\x1b[2J\nfolder").refusal()
    assert "\x1b" not in sentence
    assert "run\\x1b[2J folder: no such folder" in sentence


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_a_full_disk_under_the_output():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "regard", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr == "error: No space left on device\n"


def test_the_installed_command_refuses_without_a_traceback_and_waits_for_no_compiler(tmp_path):
    script = Path(sys.executable).with_name("regard")
    arguments = [str(script)] if script.exists() else [sys.executable, "-m", "regard"]
    ended = subprocess.run(
        [*arguments, "evaluate", tmp_path, "none.tsv", "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    lines = ended.stderr.splitlines()
    expected = f"error: {tmp_path}: holds no model (no config.json); give the folder of a trained model"
    assert [line for line in lines if not line.startswith("import time:")] == [expected]
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "torch" in imported
    assert "torch._dynamo" not in imported, "the compiler takes a second to import, and this needs none"


SPINNING = """
import os, sys
from regard.cli import main
assert "torch" not in sys.modules, "too late: OpenMP reads its settings when PyTorch is imported"
sys.argv = ["regard", "--version"]
try:
    main.run()
except SystemExit:
    print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("own", "expected"),
    [({}, "1000 False"), ({"GOMP_SPINCOUNT": "77"}, "77 False"), ({"OMP_WAIT_POLICY": "active"}, "None False")],
)
def test_waiting_threads_spin_for_a_bounded_time_unless_the_user_says_otherwise(own, expected):
    clean = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", SPINNING], capture_output=True, text=True, env=clean | own, check=True)
    assert done.stdout.splitlines()[-1] == expected


STOPPED = """
import sys, time
from regard.cli import main
from regard.files import scratch_folder

def works(_):
    with scratch_folder(sys.argv[1], "work-"):
        print("there", flush=True)
        for _ in range(600):  # Python 3.14 looks at signals between calls, not always before one
            time.sleep(0.1)

main.main = works
main.run()
"""


def test_a_command_that_is_stopped_removes_its_scratch_files(tmp_path):
    clean = {key: value for key, value in os.environ.items() if key != "RANK"}
    command = [sys.executable, "-c", STOPPED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=clean) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(list(tmp_path.iterdir())) == 1
        process.terminate()
        assert process.wait(20) == 143
    assert list(tmp_path.iterdir()) == []
