"""Classes of images: how images are read and held out, what training does to them, and a run from a recipe."""

from __future__ import annotations

import gzip
import io
import json
import struct
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.claims.measure import Measure
from regard.claims.measuring import evaluated
from regard.data.labelled_images import read_labelled_images
from regard.errors import InputError
from regard.tasks.image_classification import (
    ImageClassifierPredictor,
    ImageData,
    ImageStore,
    moved,
    prepare_images,
)
from regard.training.recipe import read_recipe

Image = pytest.importorskip("PIL.Image")

VIT = {"name": "vit", "patch": 4, "width": 16, "heads": 2, "feedforward_width": 24, "layers": 1}
SIDE = 8


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG")
    return file.getvalue()


def halves(label: str, seed: int) -> np.ndarray:
    """A grey image that is bright on the side that it is called after."""
    image = np.random.default_rng(seed).integers(0, 60, (SIDE, SIDE), dtype=np.uint8)
    image[:, : SIDE // 2] += 150 if label == "left" else 0
    image[:, SIDE // 2 :] += 150 if label == "right" else 0
    return image


EXAMPLES = [(halves(label, number), label) for number in range(30) for label in ("left", "right")]


def recipe(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": "image_classification",
        "seed": 3,
        "model": VIT,
        "data": {"validation_size": 6},
        "training": {
            "steps": 40,
            "batch_tokens": 16,
            "learning_rate": 5e-3,
            "warmup": 5,
            "precision": "float32",
            "evaluate_every": 20,
            "save_every": 20,
            "best": "accuracy",
        },
    }
    for key, value in changes.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    return values


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "run"
    regard.train(recipe(), output=folder, data=EXAMPLES)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for image, label in EXAMPLES:
        place = tmp_path / "halves" / label
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{len(list(place.iterdir())):02d}.png").write_bytes(png(image))
    return tmp_path / "halves"


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, count in (("train", 40), ("t10k", 10)):
        labels = np.arange(count, dtype=np.uint8) % 10
        pixels = np.repeat(labels * 20, 28 * 28).astype(np.uint8)
        for name, head, content in (
            ("images-idx3", bytes([0, 0, 8, 3]) + struct.pack(">3I", count, 28, 28), pixels.tobytes()),
            ("labels-idx1", bytes([0, 0, 8, 1]) + struct.pack(">I", count), labels.tobytes()),
        ):
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(head + content))
    return folder


def test_a_run_learns_and_its_folder_gives_typed_answers(run):
    model = regard.load(run)
    assert isinstance(model, ImageClassifierPredictor)
    told = model.classify(halves("right", 99))
    assert told.label == "right"
    assert told.probability == told.probabilities["right"] == max(told.probabilities.values())
    assert sum(told.probabilities.values()) == pytest.approx(1)
    assert model.metrics["accuracy"] == 1.0
    found = regard.evaluate(model, [(halves(label, 200 + i), label) for i in range(5) for label in ("left", "right")])
    assert (found.metrics["accuracy"], found.count) == (1.0, 10)
    assert found.classes["left"].f1 == 1.0
    assert [each.label for each in found.predictions] == ["left", "right"] * 5


def test_a_saved_folder_answers_the_same_and_tells_of_itself(run, tmp_path):
    model = regard.load(run)
    model.save(tmp_path / "saved")
    again = regard.load(tmp_path / "saved", task="image_classification")
    assert again.task == model.task
    assert again.classify(halves("left", 5)) == model.classify(halves("left", 5))
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "AutoModelForImageClassification" in card
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["label2id"] == {"left": 0, "right": 1}


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(run, tmp_path):
    shifted = recipe(data={"shift": 2, "flip": True}, training={"steps": 8, "evaluate_every": 4, "save_every": 4})
    whole = regard.train(shifted, output=tmp_path / "whole", data=EXAMPLES)
    regard.train(
        recipe(data={"shift": 2, "flip": True}, training={"steps": 4, "evaluate_every": 4, "save_every": 4}),
        output=tmp_path / "parts",
        data=EXAMPLES,
    )
    parts = regard.train(shifted, output=tmp_path / "parts", data=EXAMPLES, resume=True)
    one, two = (each.load().model.state_dict() for each in (whole, parts))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_images_of_folders_and_archives_are_called_as_their_folder(folders, tmp_path):
    found = read_labelled_images(folders, colour=False)
    assert [each.label for each in found] == ["left"] * 30 + ["right"] * 30
    packed = tmp_path / "halves.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folders.rglob("*.png")):
            archive.write(file, f"data/{file.parent.name}/{file.name}")
    other = read_labelled_images(packed, colour=False)
    assert [(each.label, each.image().tolist()) for each in other] == [  # type: ignore[operator]
        (each.label, each.image().tolist())
        for each in found  # type: ignore[operator]
    ]
    (folders / "loose.png").write_bytes(png(EXAMPLES[0][0]))
    with pytest.raises(InputError, match=r"loose\.png is not in a folder of a class"):
        read_labelled_images(folders)


def test_mnists_files_are_read_by_part(mnist, tmp_path):
    train, test = (read_labelled_images(mnist, part) for part in ("train", "test"))
    assert (len(train), len(test), train[13].label) == (40, 10, "3")
    prepared = prepare_images(ImageData(train=str(mnist), size=20, validation_size=4), tmp_path / "data", seed=1)
    assert (len(prepared.train), len(prepared.validation)) == (20, 4)
    assert prepared.task.classes == tuple("0123456789")
    assert (prepared.task.size.height, prepared.task.size.channels) == (28, 1)
    batch = prepared.task.read_batch(prepared.train, range(20))
    assert torch.equal(batch.images.pixels[:, 0, 0, 5, 5].long(), 20 * batch.labels)


def test_builtin_digits_keep_their_last_fifth_for_the_test():
    pytest.importorskip("sklearn")
    train, test = (read_labelled_images(None, part) for part in ("train", "test"))
    assert (len(train), len(test)) == (1_437, 360)


def test_a_dataset_of_the_hub_is_read(monkeypatch):
    rows = [
        {"image": Image.fromarray(EXAMPLES[0][0]), "label": 1},
        {"img": {"bytes": png(EXAMPLES[1][0]), "path": None}, "label": 0},
    ]
    asked = []

    def load_dataset(name, configuration, *, split, streaming):
        asked.append((name, configuration, split, streaming))
        return rows

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    found = read_labelled_images("hub:somebody/halves", "test", colour=False)
    assert asked == [("somebody/halves", None, "test", True)]
    assert [each.label for each in found] == ["1", "0"]
    assert found[1].image.tolist() == EXAMPLES[1][0][..., None].tolist()  # type: ignore[union-attr]
    rows.append({"text": "none"})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="row 3: missing key; give a dataset with an image and a label"):
        read_labelled_images("hub:somebody/halves", "test")


def test_no_image_is_both_learnt_from_and_held_out_and_a_seed_repeats(tmp_path):
    data = ImageData(validation_size=6, size=30)
    one, two, other = (
        prepare_images(data, tmp_path / str(i), seed=seed, given=EXAMPLES) for i, seed in enumerate((1, 1, 2))
    )
    assert np.array_equal(one.train.images, two.train.images)  # type: ignore[attr-defined]
    assert not np.array_equal(one.train.images, other.train.images)  # type: ignore[attr-defined]
    learnt = {each.tobytes() for each in one.train.images}  # type: ignore[attr-defined]
    assert not learnt & {each.tobytes() for each in one.validation.images}  # type: ignore[attr-defined]
    assert len(learnt) == 30


def test_a_changed_pixel_is_refused_when_its_image_is_read(tmp_path):
    data = prepare_images(ImageData(validation_size=6, size=30), tmp_path, seed=1, given=EXAMPLES).train
    wanted = np.array(data.images)  # type: ignore[attr-defined]
    file = tmp_path / "train.frames.npy"
    content = bytearray(file.read_bytes())
    content[128 + wanted[0].size * 7 + 5] ^= 1
    file.write_bytes(content)
    again = ImageStore.open(tmp_path / "train")
    assert np.array_equal(again.images[np.array([3, 29, 6])], wanted[[3, 29, 6]])
    for rows in (7, slice(5, 9), np.array([2, 7])):
        with pytest.raises(
            InputError, match=r"train.frames.npy: is not what was written \(the checksum of frame 7 differs\)"
        ):
            again.images[rows]
    (tmp_path / "train.frames.sums.bin").write_bytes(bytes(8))
    with pytest.raises(InputError, match=r"train.frames.npy: is not what was written"):
        ImageStore.open(tmp_path / "train")
    (tmp_path / "train.frames.sums.bin").unlink()  # as a run of before there were checksums
    assert ImageStore.open(tmp_path / "train").images[7].shape == wanted[7].shape


def test_what_training_does_to_an_image_hangs_on_its_row_and_the_epoch_alone():
    images = np.stack([image[..., None] for image, _ in EXAMPLES[:6]])
    rows = [4, 9, 11, 12, 20, 33]
    once = moved(images, rows, 7, shift=2, flip=True)
    assert np.array_equal(once[2:3], moved(images[2:3], rows[2:3], 7, shift=2, flip=True))
    assert not np.array_equal(once, moved(images, rows, 8, shift=2, flip=True))
    assert np.array_equal(moved(images, rows, 7, shift=0, flip=False), images)
    framed = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    for place in range(6):
        whole = (framed[place], framed[place, :, ::-1])
        assert any(
            np.array_equal(once[place], source[top : top + SIDE, left : left + SIDE])
            for source in whole
            for top in range(5)
            for left in range(5)
        )


def test_damaged_images_are_left_out_and_said_so(folders, tmp_path):
    (folders / "left" / "00.png").write_bytes(b"no image")
    data = {"train": str(folders), "colour": False}
    prepared = prepare_images(ImageData(**data), tmp_path / "data", seed=0)
    assert "1 images could not be read and were skipped" in prepared.notes[0]
    assert len(prepared.train) + len(prepared.validation) == 59
    with pytest.raises(InputError, match="is not a readable image"):
        prepare_images(ImageData(**data, on_error="stop"), tmp_path / "other", seed=0)


def test_images_of_other_sizes_and_colours_are_made_to_fit(run):
    model = regard.load(run)
    large = np.repeat(np.repeat(halves("left", 5), 3, axis=0), 3, axis=1)
    assert model.classify(np.stack([large] * 3, axis=-1)).label == "left"
    with pytest.raises(InputError, match="give a list with one for each, or use classify"):
        model.classify_batch(large)


def test_a_measure_evaluates_other_data_of_the_same_kind(run, mnist):
    measure = Measure(name="accuracy", kind="evaluated", metric="accuracy", size=8, data={"part": "test"})
    asked = read_recipe(recipe(data={"train": str(mnist), "validation_size": 4}))
    with pytest.raises(InputError, match="the class '0' is none of the model's"):
        evaluated(measure, asked, regard.load(run))


def test_a_model_of_another_size_starts_from_a_trained_one(run, tmp_path):
    started = recipe(model={}, data={"height": 16, "width": 16}, training={"steps": 1, "warmup": 0})
    started["model"] = {"pretrained": str(run)}
    model = regard.train(started, output=tmp_path / "run", data=EXAMPLES).load()
    assert (model.model.grid, model.classify(halves("right", 8)).label) == ((4, 4), "right")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "the images are"),
        ([(EXAMPLES[0][0], 3)] * 20, "give an image and its class"),
        (EXAMPLES[:8], "8 images are too few to hold some out"),
        ([(image, "left") for image, _ in EXAMPLES], "all images are of one class, left"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(given, said, tmp_path):
    with pytest.raises(InputError, match=said):
        prepare_images(ImageData(), tmp_path / "data", seed=0, given=given)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"builtin": "digits", "train": "mnist"}, "data.train and data.builtin=digits are both given"),
        ({"shift": -1}, "data.shift is -1"),
        ({"size": 0}, "data.size is 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        ImageData(**settings)


def test_more_images_than_there_are_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"data\.size is 1,000, and there are 54 images"):
        prepare_images(ImageData(size=1_000, validation_size=6), tmp_path / "data", seed=0, given=EXAMPLES)
