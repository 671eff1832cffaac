"""`regard caption`, and `regard evaluate` and `regard look` for captioners."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard

RECIPE = {
    "task": "captioning",
    "model": {
        "name": "show_attend_and_tell",
        "convolutions": [4, 8],
        "feature_width": 8,
        "embedding_width": 6,
        "hidden_width": 10,
        "attention_width": 8,
        "dropout": 0.0,
    },
    "data": {
        "scenes": {
            "objects": "shapes",
            "rows": 2,
            "columns": 2,
            "fewest": 1,
            "most": 2,
            "size": 60,
            "validation_size": 6,
        }
    },
    "tokenizer": {"kind": "word", "size": 60},
    "training": {"steps": 4, "batch_tokens": 60, "precision": "float32"},
    "generation": {"maximum_length": 4},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captioner") / "run"
    regard.train(RECIPE, output=folder)
    return folder


@pytest.fixture
def photos(tmp_path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, shade in (("a.png", 20), ("b.jpg", 200)):
        Image.fromarray(np.full((30, 40, 3), shade, np.uint8)).save(folder / name)
    return folder


def test_a_line_for_each_image(command, model, photos, tmp_path):
    answer = command("caption", model, photos / "a.png", photos)
    assert answer.code == 0
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == [str(photos / "a.png"), "a.png", "b.jpg"]
    assert command("caption", model, photos, "--output", tmp_path / "out.tsv").out == ""
    assert (tmp_path / "out.tsv").read_text().splitlines() == answer.out.splitlines()[1:]


def test_builtin_scenes_with_their_right_captions(command, model):
    answer = json.loads(command("caption", model, "scenes", "--beam", 2, "--n-best", 2, "--json").out)
    assert [found["image"] for found in answer["captions"]] == [f"scenes:{i}" for i in range(10)]
    assert all(found["reference"] and len(found["alternatives"]) == 1 for found in answer["captions"])
    alone = json.loads(command("caption", model, "scenes:3", "--beam", 2, "--n-best", 2, "--json").out)
    assert alone["captions"][0]["text"] == answer["captions"][3]["text"]


def test_a_page_shows_where_the_model_looked(command, model, tmp_path):
    assert command("caption", model, "scenes:1", "--page", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "image 1, caption: " in page
    assert "data:image/png" in page or "iVBOR" in page
    assert "name that ends in .html" in command("caption", model, "scenes:1", "--page", tmp_path / "page.txt").refusal()


def test_looking_at_an_image(command, model, photos):
    answer = command("look", model, photos / "a.png", "--target", "red circle", "--json")
    (seen,) = json.loads(answer.out)["maps"]
    assert seen["query_tokens"][-1] == "</s>"
    assert seen["key_tokens"][:2] == ["patch 1,1", "patch 1,2"]
    assert seen["key_patches"] == {"rows": 8, "columns": 8, "first": 0}


def test_measuring_on_scenes_and_on_files(command, model, photos, tmp_path):
    on_scenes = json.loads(command("evaluate", model, "scenes", "--limit", 5, "--json").out)
    assert on_scenes["count"] == 5
    assert "pointing" in on_scenes["metrics"]
    (tmp_path / "captions.tsv").write_text(
        "a.png#0\tred circle\na.png#1\tblue circle\nb.jpg#0\twhite cross\nc.jpg\tgone\n"
    )
    answer = command("evaluate", model, tmp_path / "captions.tsv", photos, "beam=2", "--json")
    assert json.loads(answer.out)["count"] == 2
    assert "1 captions were left out, because 1 images" in answer.err
    assert "pointing" not in json.loads(answer.out)["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.png"], "no such file"),
        (["scenes:1", "--frames", "scenes:2"], "2 frames"),
        (["scenes:1", "--device", "tpu"], "tpu"),
        (["none.zip"], "no such folder or archive"),
    ],
)
def test_what_cannot_be_captioned(command, model, arguments, message):
    assert message in command("caption", model, *arguments).refusal()


def test_a_file_that_is_no_image(command, model, tmp_path):
    (tmp_path / "a.jpg").write_text("text")
    assert "is not a readable image" in command("caption", model, tmp_path / "a.jpg").refusal()
    assert "give both, or scenes" in command("evaluate", model, tmp_path / "a.jpg").refusal()
