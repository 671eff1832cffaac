"""Predicted answers in the official files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.questions import (
    Candidate,
    read_no_answer,
    read_predictions,
    write_candidates,
    write_no_answer,
    write_predictions,
)
from regard.errors import InputError


def test_predictions_come_back(tmp_path: Path) -> None:
    said = {"a": "Österreich “x”", "b": "", "c": "two\nlines"}
    write_predictions(tmp_path / "p.json", said)
    assert read_predictions(tmp_path / "p.json") == said
    assert (tmp_path / "p.json").read_bytes().isascii()
    assert json.loads((tmp_path / "p.json").read_text()) == said


def test_no_answer_probabilities_come_back(tmp_path: Path) -> None:
    write_no_answer(tmp_path / "n.json", {"a": 0.25, "b": 1})
    assert read_no_answer(tmp_path / "n.json") == {"a": 0.25, "b": 1.0}


def test_candidates(tmp_path: Path) -> None:
    best = Candidate(text="Paris", probability=0.75, start_logit=3.5, end_logit=2.0)
    none = Candidate(text="", probability=0.25, start_logit=1.0, end_logit=1.0)
    write_candidates(tmp_path / "nbest.json", {"a": [best, none]})
    written = json.loads((tmp_path / "nbest.json").read_text())
    assert list(written["a"][0]) == ["text", "probability", "start_logit", "end_logit"]
    assert written["a"][1] == {"text": "", "probability": 0.25, "start_logit": 1.0, "end_logit": 1.0}


@pytest.mark.parametrize("read", [read_predictions, read_no_answer])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is not a JSON object"),
        ("{", "is not JSON"),
        ("", "is empty"),
        ('{"a": null}', "'a' is None"),
        ('{"a": ["Paris"]}', "must be"),
        ('{"a": true}', "must be"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, read, content: str, message: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read(file)


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_predictions(tmp_path / "none" / "p.json", {"a": "b"})
    with pytest.raises(InputError, match="no such file"):
        read_predictions(tmp_path / "none.json")
