"""Learning from a few images: how images are read, how episodes are drawn, and a run from a recipe."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.claims.measure import Measure
from regard.claims.measuring import evaluated
from regard.data.labelled_images import Characters, Episodes, alphabets_of, digit_characters, read_characters
from regard.errors import InputError
from regard.tasks.few_shot import (
    FewShotClassifier,
    FewShotData,
    FewShotTask,
    evaluate_episodes,
    prepare_episodes,
    read_episodes,
    write_images,
)
from regard.training import read_recipe

Image = pytest.importorskip("PIL.Image")

SIDE = 8
MODEL: dict[str, Any] = {
    "name": "snail",
    "embedding_channels": [4],
    "embedding_width": 6,
    "filters": [4, 4],
    "key_widths": [4, 4, 4],
    "value_widths": [4, 4, 4],
}
RECIPE: dict[str, Any] = {
    "task": "few_shot",
    "seed": 2,
    "model": MODEL,
    "data": {"ways": 3, "shots": 1, "side": SIDE, "turned": True, "asked": 3},
    "training": {
        "steps": 4,
        "batch_tokens": 16,
        "warmup": 0,
        "precision": "float32",
        "evaluate_every": 2,
        "save_every": 2,
    },
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four alphabets of three characters of four images, black on white as Omniglot's: column c of row a is the ink."""
    place = tmp_path_factory.mktemp("images") / "omniglot.zip"
    with zipfile.ZipFile(place, "w") as zipped:
        for a, alphabet in enumerate(["Greek", "Hebrew", "Latin", "Tagalog"]):
            for character in range(3):
                for drawer in range(4):
                    pixels = np.full((16, 16), 255, np.uint8)
                    pixels[3 + 3 * a, 2 + 4 * character : 6 + 4 * character] = 10 * drawer
                    file = io.BytesIO()
                    Image.fromarray(pixels).save(file, format="PNG")
                    zipped.writestr(f"images/{alphabet}/character{character + 1:02d}/{drawer:02d}.png", file.getvalue())
    return place


def test_characters_are_read_by_alphabet_with_bright_ink(archive):
    assert alphabets_of(archive) == ("Greek", "Hebrew", "Latin", "Tagalog")
    found = read_characters(archive, ["Latin"], side=16)
    assert found.names == ("Latin/character01", "Latin/character02", "Latin/character03")
    assert found.classes.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert found.pixels.shape == (12, 16, 16)
    assert (found.pixels[4, 9, 6:10] == 255).all()  # the first drawer's ink is black
    assert found.pixels[4].sum() == 4 * 255
    assert read_characters(archive, side=SIDE).pixels.shape == (48, SIDE, SIDE)
    with pytest.raises(InputError, match="no alphabet 'Latn' in it; did you mean 'Latin'"):
        read_characters(archive, ["Latn"])


def test_images_that_do_not_lie_in_folders_are_refused(tmp_path):
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="ALPHABET/CHARACTER/IMAGE"):
        read_characters(tmp_path)


def test_digits_come_with_scikit_learn():
    pytest.importorskip("sklearn")
    found = digit_characters([3, 8])
    assert found.names == ("digits/3", "digits/8")
    assert len(found) == 183 + 174
    assert (np.diff(found.classes) >= 0).all()


@given(
    size=st.integers(1, 6),
    ways=st.integers(1, 3),
    shots=st.integers(1, 2),
    turned=st.booleans(),
    about=st.integers(1, 6),
)
@settings(max_examples=150, deadline=None)
def test_classes_too_small_for_episodes_are_told_and_only_those(size, ways, shots, turned, about):
    episodes = Episodes(np.repeat(np.arange(3), size), ways=ways, shots=shots, turned=turned, asked=about)

    def draw_many():
        for image in range(3 * size):
            for draw in range(12):
                episodes.about(image, draw)

    if not episodes.too_few:
        draw_many()
    else:
        assert f"a class has {size} images" in episodes.too_few
        with pytest.raises(ValueError, match="sample"):
            draw_many()


@given(
    counts=st.lists(st.integers(5, 6), min_size=3, max_size=6),
    ways=st.integers(2, 3),
    shots=st.integers(1, 2),
    turned=st.booleans(),
    about=st.integers(1, 4),
    draw=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_an_episode_shows_every_class_alike_and_never_an_image_it_asks_about(counts, ways, shots, turned, about, draw):
    classes = np.repeat(np.arange(len(counts)), counts)
    episodes = Episodes(classes, ways=ways, shots=shots, turned=turned, asked=about)
    assert not episodes.too_few
    size = ways * shots
    for image in range(0, len(classes), 3):
        episode = episodes.about(image, draw)
        shown, asked = episode.images[:size], episode.images[size:]
        assert asked[0] == image
        assert len(asked) == about
        assert image not in shown
        turned_so = list(zip(episode.images.tolist(), episode.turns.tolist(), strict=True))
        assert not set(turned_so[:size]) & set(turned_so[size:])
        told = np.bincount(episode.labels[size:], minlength=ways)
        assert told.max() - told.min() <= 1  # each class as often, give or take one
        for label in range(ways):
            assert len(set(asked[episode.labels[size:] == label].tolist())) == told[label]
        kinds: dict[int, set[tuple[int, int]]] = {}
        for place, label in enumerate(episode.labels.tolist()):
            kinds.setdefault(label, set()).add((int(classes[episode.images[place]]), int(episode.turns[place])))
        assert sorted(kinds) == list(range(ways))
        assert all(len(each) == 1 for each in kinds.values())  # a label is one class, turned one way
        assert len(set.union(*kinds.values())) == ways
        assert np.bincount(episode.labels[:size]).tolist() == [shots] * ways
        for label in range(ways):
            assert len(set(shown[episode.labels[:size] == label].tolist())) == shots
        assert turned or not episode.turns.any()
        again = episodes.about(image, draw)
        assert all((getattr(episode, name) == getattr(again, name)).all() for name in ("images", "turns", "labels"))


def test_labels_and_neighbours_are_drawn_anew_each_time():
    """What a class is called in one episode says nothing of the next."""
    episodes = Episodes(np.repeat(np.arange(8), 4), ways=4, shots=1, turned=False)
    drawn = [episodes.about(9, draw) for draw in range(200)]
    asked = np.bincount([int(each.labels[-1]) for each in drawn], minlength=4)
    assert asked.min() > 25
    places = np.bincount([int(np.flatnonzero(each.labels[:-1] == each.labels[-1])[0]) for each in drawn], minlength=4)
    assert places.min() > 25
    met = {int(image) // 4 for each in drawn for image in each.images}
    assert met == set(range(8))


def test_images_of_a_batch_are_those_of_the_store_turned_as_the_episode_says(archive, tmp_path):
    characters = read_characters(archive, side=SIDE)
    store = write_images(tmp_path / "store", characters)
    task = FewShotTask(ways=3, shots=1, side=SIDE, turned=True, asked=2)
    batch = task.training_batch(store, [7, 30], draw=4)
    assert batch.images.dtype == torch.uint8
    for row, image in enumerate((7, 30)):
        episode = task.episodes(store, training=True).about(image, 5)
        for place, turns in enumerate(episode.turns.tolist()):
            expected = np.rot90(characters.pixels[episode.images[place]], turns)
            assert (batch.images[row, place].numpy() == expected).all()
        assert batch.labels[row].tolist() == episode.labels[:3].tolist()
        assert batch.asked[row].tolist() == episode.labels[3:].tolist()
    assert task.lengths(store)[0] == batch.images.shape[1] == 5
    assert task.labels(store)[0] == batch.asked.shape[1] == 2
    plain = task.read_batch(store, [7])
    assert plain.asked.shape == (1, 1)
    assert (plain.images[0, -1].numpy() == characters.pixels[7]).all()
    assert torch.equal(plain.images, task.read_batch(store, [7]).images)


def test_alphabets_are_held_out_whole(archive, tmp_path):
    def names(folder: str, **changes: Any) -> tuple[int, int]:
        prepared = prepare_episodes(
            FewShotData(train=str(archive), side=SIDE, ways=3, **changes), tmp_path / folder, seed=1
        )
        return len(prepared.train), len(prepared.validation)

    assert names("share", validation_share=0.5) == (24, 24)
    assert names("named", validation_alphabets=("Greek",)) == (36, 12)
    assert names("both", alphabets=("Latin",), validation_alphabets=("Greek",)) == (12, 12)
    assert names("other", alphabets=("Latin",), validation=str(archive)) == (12, 48)
    with pytest.raises(InputError, match="no alphabet to hold out"):
        names("none", alphabets=("Greek", "Hebrew", "Latin", "Tagalog"))


@pytest.fixture(scope="module")
def run(archive, tmp_path_factory) -> Any:
    recipe = RECIPE | {"data": RECIPE["data"] | {"train": str(archive), "validation_alphabets": ["Greek"]}}
    return regard.train(recipe, output=tmp_path_factory.mktemp("run") / "run")


def test_a_run_from_a_recipe_is_repeated_and_opened(run, archive, tmp_path):
    again = regard.train(Path(run.folder) / "recipe.yaml", output=tmp_path / "again")
    assert again.metrics == run.metrics
    assert set(run.metrics) == {"loss", "accuracy"}
    model = run.load()
    assert isinstance(model, FewShotClassifier)
    greek = read_characters(archive, ["Greek"], side=SIDE)
    shown = [(greek.pixels[4 * place], name) for place, name in enumerate("abc")]
    found = model.classify(shown, greek.pixels[5])
    assert found.label in "abc"
    assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-5)
    large = np.kron(greek.pixels[5], np.ones((2, 2), np.uint8))
    assert model.classify(shown, large).probabilities == pytest.approx(
        found.probabilities, abs=0.05
    )  # smoothed as it is shrunk
    with pytest.raises(InputError, match="this model needs 3 classes with 1 image"):
        model.classify(shown[:2], greek.pixels[5])
    with pytest.raises(InputError, match="an image is an array of float64"):
        model.classify(shown, greek.pixels[5] / 255)


def test_an_image_is_read_as_in_training_and_told_as_if_it_were_the_only_one(run, archive):
    """Ink on paper or bright on black, a colour or a grey, alone or with others: the same answer."""
    model = run.load()
    greek = read_characters(archive, ["Greek"], side=SIDE)
    shown = [(greek.pixels[4 * place], name) for place, name in enumerate("abc")]
    asked = [greek.pixels[row] for row in (5, 2, 10)]
    together = [each.probabilities for each in model.classify_batch(shown, asked)]
    for image, found in zip(asked, together, strict=True):
        assert model.classify(shown, image).probabilities == pytest.approx(found, abs=1e-5)
        on_paper = np.repeat((255 - image)[..., None], 3, axis=2)
        assert model.classify(shown, on_paper).probabilities == pytest.approx(found, abs=1e-5)
    assert together[0] != pytest.approx(together[1], abs=1e-5)


def test_evaluation_asks_about_every_image_and_agrees_with_validation(run, archive):
    """Its episodes are those of validation: the same images in the same order give the same numbers."""
    model = run.load()
    data = FewShotData(train=str(archive), alphabets=("Greek",), side=SIDE)
    questions = list(read_episodes(data, None))  # type: ignore[arg-type]
    found = evaluate_episodes(model, questions)
    assert found.count == 12
    assert found.metrics["accuracy"] == pytest.approx(run.metrics["accuracy"])
    assert found.metrics["loss"] == pytest.approx(run.metrics["loss"], rel=1e-5)
    assert {each.character for each in found.predictions} == {f"Greek/character{n:02d}" for n in (1, 2, 3)}
    greek = questions[0].characters
    rows = [(greek.pixels[number], greek.names[greek.classes[number]]) for number in range(len(greek))]
    mappings = [{"image": image, "label": name} for image, name in rows]
    for images in (rows, mappings):
        again = evaluate_episodes(model, images)
        assert (again.count, set(again.metrics)) == (12, {"loss", "accuracy"})
    for wrong, said in (([], "nothing to evaluate"), ([(greek.pixels[0], "")], "image 1 has the class")):
        with pytest.raises(InputError, match=said):
            evaluate_episodes(model, wrong)


def test_images_in_memory_are_rows_or_mappings_with_a_class(tmp_path, archive):
    greek = read_characters(archive, ["Greek"], side=SIDE)
    rows = [(greek.pixels[number], greek.names[greek.classes[number]]) for number in range(len(greek))]
    data = FewShotData(side=SIDE, ways=2, validation_size=1)
    whole = prepare_episodes(data, tmp_path / "whole", seed=0, given=greek, given_validation=greek).train
    for name, images in (
        ("rows", rows),
        ("mappings", [{"picture": image, "class": name} for image, name in rows]),
    ):
        parts = prepare_episodes(data, tmp_path / name, seed=0, given=images, given_validation=greek).train
        assert [parts.sequence("pixels", row).tolist() for row in range(12)] == [
            whole.sequence("pixels", row).tolist() for row in range(12)
        ]
    held_out = prepare_episodes(
        FewShotData(train=str(archive), side=SIDE, ways=2, validation_size=1), tmp_path / "size", seed=0
    )
    assert len(held_out.validation) == 12


def test_a_measure_of_other_alphabets_than_those_learnt_from(run):
    recipe = read_recipe(Path(run.folder) / "recipe.yaml")
    measure = Measure(name="a", kind="evaluated", metric="accuracy", size=5, data={"alphabets": ["Latin"]})
    found = evaluated(measure, recipe, run.load())
    assert 0 <= found["accuracy"] <= 1
    with pytest.raises(InputError, match="unknown key 'alphabet'"):
        evaluated(
            Measure(name="a", kind="evaluated", metric="accuracy", data={"alphabet": ["Latin"]}), recipe, run.load()
        )
    with pytest.raises(InputError, match="no metric 'bit_error'"):
        evaluated(Measure(name="a", kind="evaluated", metric="bit_error"), recipe, run.load())


def test_too_few_images_are_told_before_training(archive, tmp_path):
    for changes, said in (({"ways": 5}, "3 classes are too few"), ({"shots": 4}, "a class has 4 images")):
        data = RECIPE["data"] | {"train": str(archive), "validation_alphabets": ["Greek"], "turned": False} | changes
        with pytest.raises(InputError, match=said):
            regard.train(RECIPE | {"data": data}, output=tmp_path / said[:3])


def test_images_in_memory(archive, tmp_path):
    found = read_characters(archive, side=SIDE)
    held_out = Characters(found.pixels[:12], found.classes[:12], found.names[:3])
    result = regard.train(RECIPE, output=tmp_path / "run", data=found, validation=held_out)  # type: ignore[arg-type]
    assert json.loads((Path(result.folder) / "regard.json").read_text())["task"]["ways"] == 3
    with pytest.raises(InputError, match="no validation images"):
        regard.train(RECIPE, output=tmp_path / "half", data=found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "names no folders"),
        ({"builtin": "digits", "train": "a.zip"}, "data.train and data.builtin=digits are both given"),
        ({"alphabets": ("A", "B"), "validation_alphabets": ("B",)}, "both name 'B'"),
        ({"ways": 1}, "data.ways"),
        ({"side": 1}, "data.side"),
        ({"asked": 0}, "data.asked"),
    ],
)
def test_data_that_cannot_be_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        _ = FewShotData(**changes).place
