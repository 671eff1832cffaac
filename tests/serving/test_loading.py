"""What is said while models are loaded: a bar on a terminal, else a line for each; and what the web process loads."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.serving.conftest import Served

from regard.cli.serving import LoadingShown
from regard.serving.engine import weight_bytes
from regard.serving.messages import Loading

SECOND = Loading(name="vectors", number=2, count=2, size=90_000_000, before=10_000_000, total=100_000_000)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def served(start_server: Callable[..., Served], writer_folder: Path) -> Served:
    return start_server(f"one={writer_folder}", f"two={writer_folder}")


def test_a_line_for_each_model_where_there_is_no_terminal(served: Served, writer_folder: Path):
    lines = served.log.read_text().splitlines()
    size = weight_bytes(writer_folder) / 1e6
    assert size > 0.01
    assert lines[:2] == [f"loading one (1 of 2, {size:,.1f} MB)", "loading two (2 of 2)"]  # one folder is read once


@pytest.mark.skipif(sys.platform != "linux", reason="where a process tells which files it holds")
def test_the_engine_alone_holds_pytorch(served: Served):
    attention = {"layers": [0], "heads": [0]}
    asked = {"model": "one", "prompt": "line", "max_tokens": 3, "attention": attention}
    assert httpx.post(f"{served.url}/v1/completions", json=asked, timeout=60).status_code == 200
    assert httpx.get(f"{served.url}/openapi.json").status_code == 200
    held = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in (served.process.pid, served.engine)}
    assert "libtorch" in held[served.engine]
    assert "libtorch" not in held[served.process.pid]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with LoadingShown() as shown:
        shown.loading(SECOND)
        shown.end()
    drawn = terminal.getvalue()
    assert "loading vectors (2 of 2, 90.0 MB)" in drawn
    assert "10.0/100.0 MB" in drawn
    assert "loading" not in drawn.rsplit("\x1b[2K", 1)[-1]  # it is gone at the end


def test_what_is_no_folder_has_no_size(tmp_path: Path):
    assert weight_bytes(tmp_path / "none") == 0
