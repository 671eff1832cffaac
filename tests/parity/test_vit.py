"""Vision Transformers in Hugging Face's folders, both ways: the same logits from re-randomised weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints import read_config, read_model
from regard.checkpoints.pretrained import adopt
from regard.errors import InputError
from regard.models import ViT, ViTConfig
from regard.tasks.picture_classification.classifier import PictureClassifierPredictor
from regard.tasks.picture_classification.task import PictureClassificationTask, batch_of
from regard.tasks.pictures import PictureSize

transformers = pytest.importorskip("transformers")
Image = pytest.importorskip("PIL.Image")

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
}
MEAN, DEVIATION = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]


def theirs(randomize, kind: str = "ViTForImageClassification", **changes):
    config = transformers.ViTConfig(**{**SIZES, "num_labels": 5, **changes})
    return randomize(getattr(transformers, kind)(config)).eval()


def pixels(count: int = 2, height: int = 12, width: int = 12) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def as_theirs(given: np.ndarray, mean=(0.5,) * 3, deviation=(0.5,) * 3) -> torch.Tensor:
    scaled = torch.from_numpy(given).permute(0, 3, 1, 2) / 255
    return (scaled - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(deviation).view(3, 1, 1)


@pytest.mark.parametrize("changes", [{}, {"qkv_bias": False}, {"hidden_act": "gelu_new"}, {"patch_size": 6}])
def test_their_folder_gives_their_logits(changes, randomize, tmp_path):
    other = theirs(randomize, **changes)
    other.save_pretrained(tmp_path)
    ours = read_model(tmp_path)
    with torch.no_grad():
        expected = other(as_theirs(pixels())).logits
        torch.testing.assert_close(ours(batch_of(pixels())), expected, rtol=1e-5, atol=1e-5)


def test_their_preprocessing_and_classes_come_along(randomize, tmp_path):
    other = theirs(randomize, id2label={0: "crane", 1: "crane", 2: "cat", 3: "dog", 4: "owl"})
    other.save_pretrained(tmp_path)
    transformers.ViTImageProcessor(
        size={"height": 12, "width": 12}, image_mean=MEAN, image_std=DEVIATION
    ).save_pretrained(tmp_path)
    model = regard.load(tmp_path)
    assert model.task.classes == ("crane (0)", "crane (1)", "cat", "dog", "owl")
    told = model.classify(pixels()[0])
    with torch.no_grad():
        shares = other(as_theirs(pixels()[:1], MEAN, DEVIATION)).logits.softmax(dim=-1)[0]
    assert list(told.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-5)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    large = pixels(1, 30, 20)[0]
    read = processor(Image.fromarray(large), return_tensors="pt")["pixel_values"]
    mine = as_theirs(model.read([large]).pixels[:, 0].permute(0, 2, 3, 1).numpy(), MEAN, DEVIATION)
    assert (read - mine).abs().max() < 0.03  # one or two of 255 shades, by how each rounds


def test_our_folder_opens_there_with_the_same_logits(randomize, tmp_path):
    config = ViTConfig(
        picture_height=12,
        picture_width=12,
        picture_channels=3,
        outputs=3,
        patch=4,
        width=24,
        heads=3,
        feedforward_width=40,
        layers=2,
        pixel_mean=tuple(MEAN),
        pixel_deviation=tuple(DEVIATION),
    )
    task = PictureClassificationTask(size=PictureSize(height=12, width=12), classes=("cat", "dog", "owl"))
    ours = PictureClassifierPredictor(randomize(ViT(config)), task)
    ours.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "regard.json").read_text())["layout"]["name"] == "vit"
    other = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "model")
    assert other.config.id2label == {0: "cat", 1: "dog", 2: "owl"}
    given = pixels()
    with torch.no_grad():
        read = processor([Image.fromarray(each) for each in given], return_tensors="pt")["pixel_values"]
        expected = other(read).logits
        torch.testing.assert_close(ours.model(batch_of(given)), expected, rtol=1e-4, atol=1e-4)
    again = regard.load(tmp_path / "model")
    assert again.model.config == config
    assert torch.equal(again.model(batch_of(given)), ours.model(batch_of(given)))


def test_a_model_without_a_head_is_read_and_its_pooler_left(randomize, tmp_path):
    other = theirs(randomize, "ViTModel")
    other.save_pretrained(tmp_path)
    ours = read_model(tmp_path)
    with torch.no_grad():
        expected = other(as_theirs(pixels())).last_hidden_state
        torch.testing.assert_close(ours.hidden(batch_of(pixels())), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="is for no task by itself"):
        regard.load(tmp_path)


def test_at_another_size_positions_are_interpolated_as_theirs(randomize, tmp_path):
    other = theirs(randomize)
    other.save_pretrained(tmp_path)
    config = read_config(tmp_path)
    ours = ViT(
        ViTConfig(
            **{**{name: getattr(config, name) for name in config.__slots__}, "picture_height": 20, "picture_width": 16}
        )
    )
    adopt(ours, tmp_path)
    given = pixels(2, 20, 16)
    with torch.no_grad():
        expected = other(as_theirs(given), interpolate_pos_encoding=True).logits
        torch.testing.assert_close(ours.eval()(batch_of(given)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_act": "tanh"}, "hidden_act is 'tanh'"),
        ({"patch_size": [4, 2]}, "square patches"),
        ({"image_size": 10}, "image_size is 10 but must be a multiple of 4"),
        ({"num_attention_heads": 5}, "num_attention_heads"),
        ({"num_hidden_layers": 3}, "vit.encoder.layer.2"),
    ],
)
def test_what_a_folder_cannot_be_is_said_in_its_own_words(change, said, randomize, tmp_path: Path):
    theirs(randomize).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=said):
        read_model(tmp_path)
