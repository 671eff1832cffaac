"""Classifiers of images on the command line: classify, look, evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regard

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("sklearn")

MODEL = {"name": "vit", "patch": 4, "width": 8, "heads": 2, "feedforward_width": 8, "layers": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "run"
    training = {"steps": 2, "batch_tokens": 16, "warmup": 0, "precision": "float32"}
    recipe = {"task": "image_classification", "model": MODEL, "data": {"builtin": "digits"}, "training": training}
    regard.train(recipe, output=folder)
    return folder


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "seven.png"
    Image.fromarray(np.zeros((20, 10), np.uint8)).save(file)
    return file


def test_an_image_gives_label_and_probabilities(command, run, image):
    line = command("classify", str(run), str(image), "digits:3")
    assert line.code == 0
    name, label, probability = line.out.splitlines()[0].split("\t")
    assert (name, label in set("0123456789"), 0.1 <= float(probability) <= 1) == (str(image), True, True)
    found = json.loads(command("classify", str(run), str(image), "digits:3", "--json").out)["classifications"]
    assert found[0]["image"] == str(image)
    assert set(found[0]["probabilities"]) == set("0123456789")
    assert found[1]["reference"] in set("0123456789")
    assert "reference" not in found[0]


def test_folders_are_classified_into_a_file(command, run, image, tmp_path):
    output = tmp_path / "classes.tsv"
    assert command("classify", str(run), str(image.parent), "--output", str(output)).code == 0
    assert output.read_text().startswith("seven.png\t")


def test_look_shows_patches_and_the_rollout(command, run, tmp_path):
    answer = command("look", str(run), "digits:3", "--json")
    assert answer.code == 0
    maps = {each["address"]: each for each in json.loads(answer.out)["maps"]}
    assert list(maps) == ["layers.0.attention", "layers.1.attention", "rollout"]
    page = tmp_path / "patches.html"
    assert command("look", str(run), "digits:3", "-o", str(page), "--layer", "layers.1.*").code == 0
    assert "data:image/png" in page.read_text() or "images" in page.read_text()


def test_evaluate_reads_the_digits_that_no_training_sees(command, run, tmp_path):
    answer = command("evaluate", str(run), "builtin=digits", "--json", "-o", str(tmp_path / "told.jsonl"))
    found = json.loads(answer.out)
    assert (found["count"], 0 <= found["metrics"]["accuracy"] <= 1) == (360, True)
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    assert sum(one["label"] == one["predicted"] for one in told) == pytest.approx(360 * found["metrics"]["accuracy"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["classify"], "this model reads images, and there is none"),
        (["classify", "digits:0", "--pair", "x"], "--pair"),
        (["classify", "none.png"], "none.png: no such file"),
        (["classify", "digits:360"], "digits are numbered from 0 to 359"),
        (["classify", "scenes:1"], "scenes are for a model of another task"),
        (["look", "digits"], "there are 10 images; give one of them, such as digits:0"),
        (["look", "digits:0", "--target", "7"], "this one reads an image"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(command, run, arguments, said):
    name, *rest = arguments
    answer = command(name, str(run), *rest)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
