"""`regard serve --demo`: its models are made once, kept, and answer the lines that it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serving.conftest import Served

import regard
from regard.cli.main import main
from regard.serving import demo


def test_nothing_to_serve_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 2
    assert "give the folder of a model, or --demo" in capsys.readouterr().err


def test_models_in_the_cache_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("babel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    short = ("training.steps=2", "training.evaluate_every=2", "training.save_every=2")
    monkeypatch.setattr(demo, "DATES", (*demo.DATES, "data.dates.size=60", *short))
    training = {**demo.CHAT["training"], "steps": 2, "evaluate_every": 2, "save_every": 2}
    monkeypatch.setattr(demo, "CHAT", {**demo.CHAT, "training": training})
    said: list[str] = []
    first = demo.models(said.append)
    assert [line.split()[1] for line in said if line.startswith("training")] == ["chat", "dates"]
    assert regard.load(first["chat"]).task.chat is not None
    said.clear()
    assert demo.models(said.append) == first
    assert not any(line.startswith("training") for line in said)
    assert {path.name for path in (tmp_path / "regard" / "demo").iterdir()} == {
        Path(first[name]).name for name in ("chat", "dates")
    }
    (tmp_path / "regard" / "demo").chmod(0o755)
    with pytest.raises(regard.InputError, match="belongs to this user alone"):
        demo.models(said.append)


def test_a_model_of_the_users_own_takes_no_name_of_the_demonstrations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "models", lambda say, callbacks: {"chat": "there"})
    assert main(["serve", "--demo", "chat=runs/gpt"]) == 2
    assert "another name" in capsys.readouterr().err


@pytest.mark.slow
def test_the_lines_it_prints_are_answered(start_server: Callable[..., Served], tmp_path: Path) -> None:
    pytest.importorskip("babel")
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    served = start_server("--demo", XDG_CACHE_HOME=str(tmp_path), REGARD_API_KEY="secret")
    lines: list[str] = []
    end = time.monotonic() + 10
    while len(lines) < 2 and time.monotonic() < end:  # they follow the line with the address
        lines = re.findall(r"^  (curl .+)$", served.log.read_text(), flags=re.MULTILINE)
    answers = []
    for line in lines:
        line = line.replace("curl ", "curl --silent --show-error --fail-with-body ")
        done = subprocess.run(
            line,
            shell=True,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=os.environ | {"REGARD_API_KEY": "secret"},
        )
        answers.append(json.loads(done.stdout))
    assert answers[0]["choices"][0]["message"]["content"] == "Eva lives in Kyoto."
    assert answers[1] == [{"translation_text": "2017-05-09"}]
    assert all(first > 0.5 > other for first, other in answers[2:])


@pytest.mark.slow
def test_the_chat_model_knows_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("babel")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = regard.load(demo.models(print)["chat"])
    found = [model.chat([{"role": "user", "content": question}]).text for question, _ in demo.EXCHANGES]
    right = sum(text == answer for text, (_, answer) in zip(found, demo.EXCHANGES, strict=True))
    assert right >= len(demo.EXCHANGES) - 1


def test_names_and_port_are_looked_at_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        for words, said in (
            (["chat=somewhere"], "the demo has a model 'chat' too"),
            (["--dtype", "chta=int8"], "no model is called 'chta'; did you mean 'chat'"),
            (["--allow-origin", "foo"], "is no origin"),
            (["--port", str(other.getsockname()[1])], "cannot be listened on"),
        ):
            assert main(["serve", "--demo", *words]) == 2
            assert said in capsys.readouterr().err
    assert not [*tmp_path.rglob("*.safetensors")]
