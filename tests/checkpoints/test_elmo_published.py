"""ELMo's published files: the graph of the authors' code computed from their arrays, both ways, and files that do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints import parameters_of
from regard.checkpoints.elmo import published_files, read_published, write_published
from regard.errors import InputError
from regard.models import ELMo, ELMoConfig
from regard.tasks.sentence_embedding import SentenceEncoder

h5py = pytest.importorskip("h5py")

OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 3,
        "cell_clip": 0.9,
        "proj_clip": 0.5,
        "dim": 5,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 2], [3, 4]],
        "max_characters_per_token": 7,
        "n_characters": 262,
        "n_highway": 2,
    },
}


def arrays() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, 4), "CNN_proj/W_proj": (6, 3), "CNN_proj/b_proj": (3,)}
    for number, (width, count) in enumerate(((1, 2), (3, 4))):
        shapes |= {f"CNN/W_cnn_{number}": (1, width, 4, count), f"CNN/b_cnn_{number}": (count,)}
    for number in range(2):
        for name in ("carry", "transform"):
            shapes |= {f"CNN_high_{number}/W_{name}": (6, 6), f"CNN_high_{number}/b_{name}": (6,)}
    for way in range(2):
        for layer in range(2):
            place = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{place}/W_0": (6, 20), f"{place}/B": (20,), f"{place}/W_P_0": (5, 3)}
    return {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "published"
    place.mkdir()
    (place / "elmo_small_options.json").write_text(json.dumps(OPTIONS))
    with h5py.File(place / "elmo_small_weights.hdf5", "w") as file:
        for name, array in arrays().items():
            file.create_dataset(name, data=array)
    return place


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def letters_of(word: str | int) -> list[int]:
    inner = [word] if isinstance(word, int) else list(word.encode()[:5])
    return [258, *inner, 259] + [260] * (5 - len(inner))


def token_vector(given: dict[str, np.ndarray], word: str | int) -> np.ndarray:
    """bilm-tf, model.py: the convolutions over (1, 7, 4), the largest over places, relu, two highway layers, projection."""
    embedded = given["char_embed"][letters_of(word)]
    parts = []
    for number, width in ((0, 1), (1, 3)):
        kernel, bias = given[f"CNN/W_cnn_{number}"][0], given[f"CNN/b_cnn_{number}"]
        at = [np.einsum("wd,wdn->n", embedded[t : t + width], kernel) + bias for t in range(7 - width + 1)]
        parts.append(np.maximum(np.max(at, axis=0), 0))
    x = np.concatenate(parts)
    for number in range(2):
        part = {
            name: given[f"CNN_high_{number}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        carry = sigmoid(x @ part["W_carry"] + part["b_carry"])
        x = carry * np.maximum(x @ part["W_transform"] + part["b_transform"], 0) + (1 - carry) * x
    return x @ given["CNN_proj/W_proj"] + given["CNN_proj/b_proj"]


def direction(given: dict[str, np.ndarray], way: int, xs: list[np.ndarray]) -> list[list[np.ndarray]]:
    """TensorFlow's LSTMCell: gates i, j, f, o; 1 is added to f; both clips; the second layer is residual."""
    layers = []
    for layer in range(2):
        cell = {
            name: given[f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}"] for name in ("W_0", "B", "W_P_0")
        }
        h, c, outputs = np.zeros(3), np.zeros(5), []
        for x in xs:
            i, j, f, o = np.split(np.concatenate([x, h]) @ cell["W_0"] + cell["B"], 4)
            c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -0.9, 0.9)
            h = np.clip((sigmoid(o) * np.tanh(c)) @ cell["W_P_0"], -0.5, 0.5)
            outputs.append(h + x if layer else h)
        layers.append(outputs)
        xs = outputs
    return layers


def test_the_graph_of_the_authors_code_from_their_arrays(folder):
    words = ["The", "élan", "of", "extraordinary", "elmo", "."]
    given = {name: array.astype(np.float64) for name, array in arrays().items()}
    xs = [token_vector(given, word) for word in (256, *words, 257)]
    ahead, behind = direction(given, 0, xs), direction(given, 1, xs[::-1])
    expected = [[np.concatenate([x, x]) for x in xs]]
    expected += [
        [np.concatenate(pair) for pair in zip(ahead[layer], behind[layer][::-1], strict=True)] for layer in range(2)
    ]
    encoder = regard.load(folder)
    assert isinstance(encoder, SentenceEncoder)
    found = encoder.features([words], layers="all")[0].merged("first").array
    np.testing.assert_allclose(found, np.stack(expected, axis=1)[1:-1], rtol=2e-5, atol=2e-6)


def test_what_was_read_is_written_as_it_was(folder, tmp_path):
    config, tensors = read_published(*(published_files(folder) or ()))
    out = tmp_path / "written"
    out.mkdir()
    write_published(out, config, tensors)
    assert json.loads((out / "options.json").read_text()) == OPTIONS
    with h5py.File(out / "weights.hdf5") as file:
        for name, array in arrays().items():
            np.testing.assert_allclose(file[name][...], array, rtol=0, atol=1e-6 if name.endswith("/B") else 0)
    again, same = read_published(out / "options.json", out / "weights.hdf5")
    assert again == config
    assert all(torch.allclose(same[name], tensor, atol=1e-7) for name, tensor in tensors.items())


def test_any_elmo_survives_the_way_there_and_back_its_head_left_out(seeded, randomize, tmp_path):
    config = ELMoConfig(
        projection=4, cells=3, layers=1, character_width=2, filters=((2, 4),), highways=0, maximum_characters=5,
        residual=False, cell_clip=None, projection_clip=None, activation="tanh", head="sequence", outputs=2,
    )  # fmt: skip
    model = randomize(ELMo(config))
    write_published(tmp_path, config, parameters_of(model))
    found, tensors = read_published(tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert (found.head, found.cell_clip, found.activation, found.highways) == ("none", None, "tanh", 0)
    assert tensors.keys() == {name for name in parameters_of(model) if not name.startswith("head.")}
    assert all(torch.allclose(tensor, parameters_of(model)[name], atol=1e-7) for name, tensor in tensors.items())


def test_as_many_filters_as_the_projection_is_wide_may_go_without_it(folder, tmp_path):
    given = {name: array for name, array in arrays().items() if not name.startswith("CNN_proj")}
    options: dict[str, Any] = json.loads(json.dumps(OPTIONS))
    options["lstm"]["projection_dim"] = 6
    for name in list(given):
        if name.startswith("RNN"):
            given[name] = np.zeros({"W_0": (12, 20), "B": (20,), "W_P_0": (5, 6)}[name.rsplit("/", 1)[1]], np.float32)
    (tmp_path / "options.json").write_text(json.dumps(options))
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for name, array in given.items():
            file.create_dataset(name, data=array)
    _, tensors = read_published(tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert torch.equal(tensors["embedding.projection.weight"], torch.eye(6))


def test_a_folder_of_both_files_opens_trains_and_saves(folder, tmp_path):
    encoder = regard.load(folder, task="sentence_embedding")
    vectors = encoder.embed(["an elmo ."])
    encoder.save(tmp_path / "ours")
    assert np.array_equal(regard.load(tmp_path / "ours").embed(["an elmo ."]), vectors)
    tagged = [(("an", "elmo"), ("A", "B")), (("elmo", "an"), ("B", "A"))] * 4
    recipe = {
        "task": "tagging",
        "model": {"pretrained": str(folder), "reader_width": 3},
        "data": {"maximum_length": 60},
        "training": {"steps": 2, "frozen": ["embedding", "layers.*"], "precision": "float32"},
    }
    regard.train(recipe, output=tmp_path / "run", data=tagged, validation=tagged[:2])
    tagger = regard.load(tmp_path / "run", task="tagging")
    assert tagger.tag(["an", "elmo"]).words == ("an", "elmo")
    frozen = read_published(*(published_files(folder) or ()))[1]
    assert all(torch.equal(parameters_of(tagger.model)[name], tensor) for name, tensor in frozen.items())


def _changed(folder: Path, change: Any) -> None:
    options = json.loads((folder / "elmo_small_options.json").read_text())
    change(options)
    (folder / "elmo_small_options.json").write_text(json.dumps(options))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda options: options.pop("char_cnn"), "has no char_cnn"),
        (lambda options: options["lstm"].pop("dim"), "lacks an option .*dim"),
        (lambda options: options.update(bidirectional=False), "in one direction"),
        (lambda options: options["char_cnn"].update(n_characters=100), "n_characters is 100"),
        (lambda options: options["char_cnn"].update(activation="gelu"), "options.json: activation"),
        (lambda options: options["lstm"].update(dim=6), r"W_0 has the shape \(6, 20\) and the options need \(6, 24\)"),
        (lambda options: options["lstm"].update(n_layers=3), "holds no RNN_0.*Cell2"),
        (
            lambda options: options["lstm"].update(n_layers=1),
            "holds RNN_0.*Cell1.*, which no ELMo of these options has",
        ),
    ],
)
def test_options_that_do_not_fit_are_told(folder, change, said):
    _changed(folder, change)
    with pytest.raises(InputError, match=said):
        regard.load(folder)


def test_damaged_files_are_told(folder):
    weights = folder / "elmo_small_weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:300])
    with pytest.raises(InputError, match="cannot be read as an HDF5 file"):
        regard.load(folder)
    (folder / "elmo_small_options.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        regard.load(folder)


def test_without_its_library_the_message_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(InputError, match=r"regard\[hdf5\]"):
        regard.load(folder)


def test_two_weights_are_none(folder):
    shutil.copy(folder / "elmo_small_weights.hdf5", folder / "b_weights.hdf5")
    assert published_files(folder) is None
    with pytest.raises(InputError, match=r"no config\.json"):
        regard.load(folder)
