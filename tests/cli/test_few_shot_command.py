"""`regard classify` for models that learn classes from a few images shown with the question."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data.labelled_images import digit_characters

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("sklearn")

SIDE = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learner") / "run"
    recipe = {
        "task": "few_shot",
        "model": {
            "name": "snail",
            "embedding_channels": [4],
            "embedding_width": 6,
            "filters": [4, 4],
            "key_widths": [4, 4, 4],
            "value_widths": [4, 4, 4],
        },
        "data": {"builtin": "digits", "ways": 3, "shots": 2, "side": SIDE, "turned": False, "asked": 3},
        "training": {"steps": 2, "batch_tokens": 16, "warmup": 0, "precision": "float32"},
    }
    regard.train(recipe, output=folder)
    return folder


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Two digits of each of three classes, as ink on paper, in folders called after them."""
    digits = digit_characters([5, 6, 7], side=SIDE)
    for number, name in enumerate(("five", "six", "seven")):
        (tmp_path / "shown" / name).mkdir(parents=True)
        for copy, row in enumerate(np.flatnonzero(digits.classes == number)[:2].tolist()):
            Image.fromarray(255 - digits.pixels[row]).save(tmp_path / "shown" / name / f"{copy}.png")
    return tmp_path / "shown"


def test_images_are_told_by_those_shown(command, run, shown):
    place = shown / "six" / "0.png"
    answer = command("classify", run, place, "digits:3", "--support", shown)
    assert answer.code == 0
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == [str(place), "digits:3"]
    assert {line[1] for line in lines} <= {"five", "six", "seven"}
    found = json.loads(command("classify", run, place, "--support", shown, "--json").out)["classifications"]
    assert sorted(found[0]["probabilities"]) == ["five", "seven", "six"]
    model = regard.load(run)
    images = [(file, file.parent.name) for file in sorted(shown.rglob("*.png"))]
    assert found[0]["probabilities"] == pytest.approx(model.classify(images, place).probabilities, abs=1e-6)


def test_what_cannot_be_told_is_said_in_a_sentence(command, run, shown, tmp_path):
    question = shown / "six" / "0.png"
    assert (
        "needs labelled images; give 3 classes with 2 image(s) of each" in command("classify", run, question).refusal()
    )
    (shown / "seven" / "1.png").unlink()
    said = command("classify", run, question, "--support", shown).refusal()
    assert "of 3 classes: five (2), seven (1), six (2); this model needs 3 classes with 2 image(s)" in said
    (shown / "bare.png").write_bytes(question.read_bytes())
    assert "bare.png is not in a folder" in command("classify", run, question, "--support", shown).refusal()
    assert "no such folder or archive" in command("classify", run, question, "--support", tmp_path / "none").refusal()
