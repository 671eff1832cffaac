"""What is said while models are loaded: a bar on a terminal, else a line for each."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serving.conftest import Served

from regard.cli.serving import LoadingShown
from regard.serving.engine import weight_bytes
from regard.serving.messages import Loading

SECOND = Loading(name="vectors", number=2, count=2, size=90_000_000, before=10_000_000, total=100_000_000)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_for_each_model_where_there_is_no_terminal(start_server: Callable[..., Served], writer_folder: Path):
    served = start_server(f"one={writer_folder}", f"two={writer_folder}")
    lines = served.log.read_text().splitlines()
    size = weight_bytes(writer_folder) / 1e6
    assert size > 0.01
    assert lines[:2] == [f"loading one (1 of 2, {size:,.1f} MB)", "loading two (2 of 2)"]  # one folder is read once


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
