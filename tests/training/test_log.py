"""log.jsonl: appended to, cut back on resuming, whole lines only."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.training.checkpoint import JsonLines


def test_lines_come_back_in_order(tmp_path):
    log = JsonLines(tmp_path / "deep" / "log.jsonl", 0)
    log.write({"event": "train", "step": 1, "note": "žluť"})
    log.write({"event": "train", "step": 2})
    lines = log.path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert "žluť" in lines[0]


def test_what_lies_beyond_the_checkpoint_is_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, 0)
    log.write({"step": 1})
    size = log.settled()
    log.write({"step": 2})
    with path.open("ab") as file:
        file.write(b'{"step": 3, "lo')  # a killed process
    resumed = JsonLines(path, size)
    resumed.write({"step": 2})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"step": 1}, {"step": 2}]


def test_a_log_shorter_than_remembered_is_not_padded(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n')
    assert JsonLines(path, 999).settled() == 12


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"log\.jsonl"):
        JsonLines(Path(tmp_path / "file" / "log.jsonl"), 0)


def test_what_is_no_number_is_null(tmp_path):
    log = JsonLines(tmp_path / "log.jsonl", 0)
    log.write({"event": "train", "loss": float("nan"), "rate": float("inf"), "step": 3})
    line = (tmp_path / "log.jsonl").read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {"event": "train", "loss": None, "rate": None, "step": 3}


@pytest.mark.parametrize("kind", ["link", "nowhere", "pipe", "folder"])
def test_what_is_no_file_of_the_run_is_left_alone(kind, tmp_path):
    """A resumed run cuts its log back: behind a link that would be somebody else's file."""
    path, other = tmp_path / "log.jsonl", tmp_path / "diary.txt"
    other.write_text("years of work")
    make = {
        "link": lambda: path.symlink_to(other),
        "nowhere": lambda: path.symlink_to(tmp_path / "nothing"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }
    make[kind]()
    with pytest.raises(InputError, match=r"log\.jsonl: is not a regular file"):
        JsonLines(path, 3)
    assert other.read_text() == "years of work"
    assert not (tmp_path / "nothing").exists()
