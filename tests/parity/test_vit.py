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
from regard.tasks.image_classification import ImageClassificationTask, ImageClassifierPredictor, batch_of
from regard.tasks.images import ImageSize

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
    torch.testing.assert_close(model.model.pixels(model.read([large])), read, rtol=1e-6, atol=1e-6)


def test_our_folder_opens_there_with_the_same_logits(randomize, tmp_path):
    config = ViTConfig(
        image_height=12,
        image_width=12,
        image_channels=3,
        outputs=3,
        patch=4,
        width=24,
        heads=3,
        feedforward_width=40,
        layers=2,
        pixel_mean=tuple(MEAN),
        pixel_std=tuple(DEVIATION),
    )
    task = ImageClassificationTask(size=ImageSize(height=12, width=12), classes=("cat", "dog", "owl"))
    ours = ImageClassifierPredictor(randomize(ViT(config)), task)
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
            **{**{name: getattr(config, name) for name in config.__slots__}, "image_height": 20, "image_width": 16}
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


PREPARED: list[dict[str, object]] = [
    {},
    {"do_normalize": False},
    {"do_rescale": False},
    {"do_rescale": False, "do_normalize": False},
    {"rescale_factor": 1 / 127.5, "image_mean": [1.0, 1.0, 1.0], "image_std": 1.0},
    *({"resample": number} for number in range(6)),
    {"size": 12},
    {"size": [12, 12]},
    {"do_convert_rgb": True},
    {"size": {"shortest_edge": 15}, "do_center_crop": True, "crop_size": 12, "resample": 3},
    {"size": {"shortest_edge": 9}, "do_center_crop": True, "crop_size": {"height": 12, "width": 12}},
    {"do_resize": False, "do_center_crop": True, "crop_size": [12, 12]},
    {"size": {"height": 16, "width": 14}, "do_center_crop": True, "crop_size": 12, "image_mean": MEAN},
]


@pytest.mark.parametrize("said", PREPARED, ids=str)
def test_pixels_are_prepared_as_their_folder_says(said, randomize, tmp_path):
    other = theirs(randomize)
    other.save_pretrained(tmp_path / "theirs")
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    ViTImageProcessorPil(**{"size": {"height": 12, "width": 12}, **said}).save_pretrained(tmp_path / "theirs")
    written = json.loads((tmp_path / "theirs" / "preprocessor_config.json").read_text())
    model = regard.load(tmp_path / "theirs")
    model.save(tmp_path / "ours")
    again = json.loads((tmp_path / "ours" / "preprocessor_config.json").read_text())
    for folder in ("theirs", "ours"):
        model = regard.load(tmp_path / folder)
        for height, width in ((30, 21), (17, 41), (12, 12)):
            given = pixels(1, height, width)[0]
            for settings in (written, again):
                expected = ViTImageProcessorPil(**settings)(Image.fromarray(given), return_tensors="pt")["pixel_values"]
                found = model.model.pixels(model.read([given]))
                torch.testing.assert_close(found, expected.float(), rtol=1e-6, atol=1e-6)
    with torch.no_grad():
        shares = other(expected.float()).logits.softmax(dim=-1)[0].tolist()
    assert list(model.classify(given).probabilities.values()) == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"resample": 7}, "resample is 7"),
        ({"size": {"height": 20, "width": 20}}, "size"),
        ({"do_pad": True}, "do_pad"),
        ({"size": {"longest_edge": 20}}, "size"),
        ({"rescale_factor": "a lot"}, "rescale_factor"),
        ({"rescale_factor": 0}, "rescale_factor"),
        ({"image_std": [0.5, 0.5]}, "image_std"),
        ({"image_processor_type": "ConvNextImageProcessor"}, "image_processor_type is 'ConvNextImageProcessor'"),
        ({"do_center_crop": True}, "crop_size"),
        ({"do_rescale": "no"}, "do_rescale"),
    ],
)
def test_preparation_that_is_not_followed_is_refused_by_name(said, message, randomize, tmp_path):
    theirs(randomize).save_pretrained(tmp_path)
    kept = {"size": {"height": 12, "width": 12}, **said}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(kept))
    with pytest.raises(InputError, match=rf"preprocessor_config\.json.*{message}"):
        regard.load(tmp_path)


def test_a_folder_that_resizes_nothing_refuses_an_image_of_another_size(randomize, tmp_path):
    theirs(randomize).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"do_resize": False}))
    model = regard.load(tmp_path)
    model.classify(pixels()[0])
    with pytest.raises(InputError, match=r"13 x 12 pixels.*12 x 12"):
        model.classify(pixels(1, 13, 12)[0])


def test_deit_is_prepared_as_its_own_processor_prepares_it(randomize, tmp_path):
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil

    theirs(randomize, image_size=224, patch_size=112, num_hidden_layers=1).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"feature_extractor_type": "DeiTFeatureExtractor"}))
    model, given = regard.load(tmp_path), pixels(1, 300, 260)[0]
    expected = DeiTImageProcessorPil()(Image.fromarray(given), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(model.model.pixels(model.read([given])), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("said", [{"problem_type": "multi_label_classification"}, {"problem_type": "regression"}])
def test_another_problem_than_one_class_is_refused_by_name(said, randomize, tmp_path):
    theirs(randomize).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))
    with pytest.raises(InputError, match="problem_type"):
        regard.load(tmp_path)
