"""TAB in bash, zsh and fish: subcommands, recipes, folders; each shell is asked itself where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = {
    "bash": (
        "source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _regard_completion regard; "
        'printf "%s\\n" "${{COMPREPLY[@]}}"'
    ),
    # What zsh's own completion would be given is printed; `_files` is its completion of paths.
    "zsh": (
        'compdef() {{ : }}; _arguments() {{ print -r -- "$@" }}; _files() {{ print -r -- files }}; source {script}; '
        "words=({words}); CURRENT={current}; _regard_completion"
    ),
    "fish": "source {script}; complete -C '{line}'",
}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home, in whose PATH `regard` is."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "regard"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    program.chmod(0o700)
    (tmp_path / "runs" / "dates").mkdir(parents=True)
    (tmp_path / "date-words.yaml").touch()
    return {**os.environ, "HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}


def run(shell: str, script: str, home: dict[str, str]) -> str:
    bare = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    command = [shell, *bare, "-c", script]
    done = subprocess.run(command, env=home, cwd=home["HOME"], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(shell, marks=pytest.mark.slow) for shell in ("zsh", "fish"))])
def test_each_shell_offers_commands_recipes_and_paths(shell, home):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = Path(home["HOME"]) / "completion"
    # Not the last command: the shell would become it, and `regard` asks for the name of the shell above it.
    script.write_text(run(shell, "regard --show-completion; true", home))

    def offered(line: str) -> str:
        words = line.split(" ")
        given = " ".join(word or "''" for word in words)
        return run(
            shell,
            ASK[shell].format(script=script, words=given, last=len(words) - 1, current=len(words), line=line),
            home,
        )

    commands = offered("regard tra")
    assert "train" in commands
    assert "translate" in commands
    assert "embed" not in commands
    assert "neighbours" in offered("regard vectors nei")
    recipes = offered("regard train date")
    assert "dates" in recipes
    assert "date-words.yaml" in recipes
    assert "--output" in offered("regard train dates --out")
    paths = offered("regard info runs/")
    assert {"bash": "", "zsh": "files", "fish": "runs/dates/"}[
        shell
    ] == paths.strip()  # bash: -o default then takes over
    assert offered("regard no-such-command x").strip() in ("", "files", "x")


def test_it_is_installed_once_for_the_shell_that_asks(home):
    for _ in range(2):
        assert "bash" in run("bash", "regard --install-completion; true", home)
    (file,) = Path(home["HOME"]).glob(".bash_completions/*")
    assert "complete -o default" in file.read_text()
    assert (Path(home["HOME"]) / ".bashrc").read_text().count(str(file)) == 1
