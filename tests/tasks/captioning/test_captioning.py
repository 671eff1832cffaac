"""Captioning from recipe to folder and back: builtin scenes, files, memory; and what is said of data that cannot be used."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.scenes import Named, Scenes
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.layers import Images, Tokens
from regard.models import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.captioning import Captioned
from regard.tasks.caption_data import CaptionExample, CaptionStore
from regard.tasks.captioning import Captioner, compared, middles_of, pointed, prepare_captions
from regard.tasks.images import ImageSize, frames_of
from regard.training.recipe import read_recipe

TINY: dict[str, Any] = {
    "convolutions": [4, 8],
    "feature_width": 10,
    "embedding_width": 6,
    "hidden_width": 12,
    "dropout": 0.0,
}


def recipe(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": "captioning",
        "model": {"name": "show_attend_and_tell", "attention_width": 8, **TINY},
        "data": {"scenes": {"objects": "shapes", "rows": 2, "columns": 2, "most": 2, "fewest": 1, "size": 60}},
        "tokenizer": {"kind": "word", "size": 60},
        "training": {"steps": 3, "batch_tokens": 60, "precision": "float32", "evaluate_generated": 4},
        "generation": {"maximum_length": 5},
    }
    values["data"]["scenes"]["validation_size"] = 6
    return values | changes


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("captions") / "run"
    regard.train(recipe(), output=folder)
    return folder


@pytest.fixture
def captioner(run) -> Captioner:
    return regard.load(run, task="captioning")


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    """Twelve coloured squares, two captions of each, in a zip; one caption is of an image that is not there."""
    lines = []
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for number in range(12):
            pixels = np.full((20 + number, 30, 3), 20 * number, np.uint8)
            archive.writestr(f"inner/{number}.png", png(pixels))
            lines += [f"{number}.png#0\tA grey square .", f"{number}.png#1\tnothing but grey"]
    lines.insert(3, "gone.png#0\tA dog .")
    (tmp_path / "captions.tsv").write_text("\n".join(lines) + "\n")
    return {"train": str(tmp_path / "captions.tsv"), "images": str(tmp_path / "images.zip")}


def prepared(folder: Path, **changes: Any):
    resolved = read_recipe(recipe(**changes))
    return prepare_captions(folder=folder, seed=1, **resolved.sections)


def test_a_folder_gives_the_same_captions_again(captioner, tmp_path):
    scenes = list(Scenes("test", objects="shapes", rows=2, columns=2, fewest=1, most=2, size=5))
    before = captioner.caption_batch([scene.frames for scene in scenes])
    captioner.save(tmp_path / "again")
    after = regard.load(tmp_path / "again", task="captioning").caption_batch([scene.frames for scene in scenes])
    assert [each.text for each in before] == [each.text for each in after]


def test_a_batch_is_its_images_one_by_one(captioner):
    scenes = list(Scenes("test", objects="shapes", rows=2, columns=2, fewest=1, most=2, size=5))
    settings = GenerationSettings(beam=3, n_best=2, maximum_length=4)
    together = captioner.caption_batch([scene.frames for scene in scenes], settings, batch_size=2)
    alone = [captioner.caption(scene.frames, settings) for scene in scenes]
    assert [each.text for each in together] == [each.text for each in alone]
    assert all(len(each.alternatives) == 1 for each in alone)


def test_what_is_validated_is_logged_and_what_is_not_known_is_not(run, tmp_path):
    told = regard.load(run, task="captioning").metrics
    assert {"loss", "exact_match", "pointing", "uncovered"} <= set(told)
    plain = recipe(model={"name": "show_and_tell", **TINY})
    metrics = regard.train(plain, output=tmp_path / "run").metrics
    assert not {"pointing", "uncovered"} & set(metrics)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path):
    """With hard attention: its draws, and the baseline that is kept with the weights."""
    hard = recipe(model={"name": "show_attend_and_tell", "attention_width": 8, "attention": "hard", **TINY})
    whole = regard.train(hard, ["training.steps=4"], output=tmp_path / "whole").load()
    regard.train(hard, ["training.steps=2"], output=tmp_path / "parts")
    parts = regard.train(hard, ["training.steps=4"], output=tmp_path / "parts", resume=True).load()
    tensors = whole.model.state_dict()
    assert tensors["baseline"] != 0
    assert all(torch.equal(tensors[name], value) for name, value in parts.model.state_dict().items())


@pytest.mark.parametrize("kind", ["line", "moving"])
def test_the_other_scenes_train(kind, tmp_path):
    scenes = {"kind": kind, "size": 30, "validation_size": 4, "columns": 3, "most": 3, "frames": 3}
    done = regard.train(recipe(data={"scenes": scenes}), output=tmp_path / "run")
    found = Scenes("test", kind=kind, columns=3, most=3, frames=3, size=2)
    assert done.load().caption_batch([scene.frames for scene in found])


def test_files_become_stores(files, tmp_path):
    data = prepared(tmp_path / "data", data={**files, "height": 16, "width": 16, "validation_size": 2})
    assert (len(data.train), len(data.validation)) == (22, 2)  # a tenth of twelve images is one, with both captions
    assert isinstance(data.train, CaptionStore)
    assert data.train.image(0).shape == (1, 16, 16, 3)
    assert data.train.span(0) == data.train.span(1)
    assert any("1 captions were left out, because 1 images are not" in note for note in data.notes)
    shades = {int(data.train.image(row)[0, 0, 0, 0]) for row in range(22)}
    held_out = {int(data.validation.image(row)[0, 0, 0, 0]) for row in range(2)}
    assert len(shades) == 11
    assert len(held_out) == 1
    assert not shades & held_out
    again = prepared(tmp_path / "data", data={**files, "height": 16, "width": 16, "validation_size": 2})
    assert np.array_equal(again.train.image(5), data.train.image(5))


def test_a_damaged_image_is_left_out_or_stops(files, tmp_path):
    with zipfile.ZipFile(files["images"], "a") as archive:
        archive.writestr("broken.png", b"no image")
    with Path(files["train"]).open("a") as file:
        file.write("broken.png#0\tA dog .\n")
    section = {**files, "height": 16, "width": 16, "validation_size": 1}
    data = prepared(tmp_path / "data", data=section)
    assert any("1 images could not be read" in note for note in data.notes)
    with pytest.raises(InputError, match=r"broken\.png: is not a readable image"):
        prepared(tmp_path / "other", data={**section, "on_error": "stop"})


def test_captions_of_other_images_are_refused(files, tmp_path):
    (tmp_path / "other.tsv").write_text("dog.jpg\tA dog .\n")
    with pytest.raises(InputError, match="none of its images"):
        prepared(tmp_path / "data", data={**files, "train": str(tmp_path / "other.tsv")})


def test_long_captions_are_left_out(files, tmp_path):
    section = {**files, "height": 16, "width": 16, "validation_size": 1, "maximum_tokens": 3}
    data = prepared(tmp_path / "data", data=section)
    assert len(data.train) == 11
    assert any("11 captions are longer" in note for note in data.notes)


def test_images_in_memory(tmp_path):
    examples = [
        CaptionExample(image=np.full((16, 16, 3), 9 * number, np.uint8), captions=("a square",)) for number in range(12)
    ]
    plain = recipe(data={"height": 16, "width": 16})
    done = regard.train(plain, output=tmp_path / "run", data=examples, validation=examples[:2])
    assert done.load().task.size == ImageSize(height=16, width=16)


def test_what_an_image_may_be(tmp_path):
    size = ImageSize(height=4, width=4, channels=3, frames=2)
    grey = np.full((4, 4), 7, np.uint8)
    (tmp_path / "a.png").write_bytes(png(grey))
    for image in (grey, grey[..., None], np.repeat(grey[..., None], 3, 2), tmp_path / "a.png", lambda: grey):
        assert np.array_equal(frames_of(image, size), np.full((1, 4, 4, 3), 7, np.uint8))
    assert frames_of([grey, tmp_path / "a.png"], size).shape == (2, 4, 4, 3)
    for wrong in (grey.astype(float), [grey] * 3, np.zeros((4, 4, 2), np.uint8), 7, []):
        with pytest.raises(InputError):
            frames_of(wrong, size)


def test_colours_become_grey_as_pillow_does_it():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    found = frames_of(pixels, ImageSize(height=6, width=6, channels=1))[0, ..., 0].astype(int)
    assert abs(found - np.asarray(Image.fromarray(pixels).convert("L")).astype(int)).max() <= 1


def test_one_of_several_references_is_enough():
    metrics, _, _ = compared(["a dog", "a cat"], [["one dog", "a dog"], ["a bird"]])
    assert metrics["exact_match"] == 0.5
    assert metrics["bleu"] >= 0


def test_captions_with_a_space_before_their_full_stop_are_nothing_to_warn_of(caplog):
    pytest.importorskip("sacrebleu")
    assert compared(["a dog runs ."] * 120, [["a dog runs ."]] * 120)[0]["bleu"] == pytest.approx(100)
    assert not caplog.records


class Pointer(ShowAttendAndTell):
    """Looks at place t for word t, whatever it sees."""

    def forward(self, images: Images, target: Tokens, *, attended: bool = False) -> Captioned:
        told = super().forward(images, target, attended=True)
        assert told.weights is not None
        steps = torch.arange(told.weights.shape[1])
        weights = torch.nn.functional.one_hot(steps, told.weights.shape[2]).float()
        return Captioned(told.logits, weights.expand_as(told.weights), told.places)


def test_pointing_counts_the_tokens_whose_place_is_in_the_thing(captioner):
    """Two frames of 2 x 2 places of 8 pixels, side by side: places 0 and 1 are of frame 0, places 2 and 3 of frame 1."""
    config = ShowAttendAndTellConfig(
        target_vocabulary=captioner.task.tokenizer.size,
        image_height=16,
        image_width=16,
        frames=2,
        **(TINY | {"convolutions": (4, 4, 4)}),
    )
    model = Pointer(config).eval()
    middles = middles_of(model, 2)
    assert middles[:3].tolist() == [[0, 4, 4], [0, 4, 12], [1, 4, 4]]
    batch = captioner.task.batch([np.zeros((2, 16, 16, 3), np.uint8)], [[4, 5, 6]])
    right = [Named((0, 1), 0, (0, 0, 5, 5)), Named((1, 2), 0, (0, 8, 8, 16)), Named((2, 3), 1, (4, 4, 5, 5))]
    assert pointed(model, batch, [right]).metrics()["pointing"] == 1.0
    wrong = [Named((0, 2), 0, (0, 0, 8, 8)), Named((2, 3), 0, (0, 0, 16, 16))]
    assert pointed(model, batch, [wrong]).metrics()["pointing"] == pytest.approx(1 / 3)


def test_scenes_are_evaluated(captioner):
    scenes = Scenes("validation", objects="shapes", rows=2, columns=2, fewest=1, most=2, size=6)
    found = regard.evaluate(captioner, list(scenes))
    assert found.count == 6
    assert {"exact_match", "bleu", "chrf", "pointing", "uncovered"} <= set(found.metrics)
    with pytest.raises(InputError, match="nothing to evaluate"):
        regard.evaluate(captioner, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {}}, r"data\.train is missing"),
        ({"data": {"train": "a.tsv"}}, "belong together"),
        ({"data": {"scenes": {}, "train": "a.tsv", "images": "b"}}, r"data\.train"),
        ({"data": {"scenes": {"kind": "grids"}}}, "grids"),
        ({"model": {"name": "transformer"}}, "no model for task captioning"),
        ({"data": {"scenes": {"cell": 9, "size": 20, "validation_size": 4}}}, "multiple of"),
        (
            {
                "model": {"name": "show_and_tell", **TINY},
                "data": {"scenes": {"size": 20}, "objective": {"coverage": 1}},
            },
            "no attention over images",
        ),
        ({"training": {"steps": 1, "best": "pointing"}}, "evaluate_generated"),
    ],
)
def test_a_wrong_recipe_is_told_in_a_sentence(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        regard.train(recipe(**changes), output=tmp_path / "run")
