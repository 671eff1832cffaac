"""The contract of classifiers of images: every such family in `MODELS` passes the same battery. A variant joins by one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.inspection import look
from regard.layers import Images
from regard.models import (
    MODELS,
    ConvolutionalNetworkConfig,
    LambdaNetworkConfig,
    LectureNetworkConfig,
    ViTConfig,
)
from regard.tasks.image_classification import batch_of
from regard.testing import check_model

SIZES: dict[str, Any] = {"image_height": 16, "image_width": 24, "image_channels": 3, "outputs": 5}
SMALL: dict[str, Any] = {"patch": 4, "width": 12, "heads": 2, "feedforward_width": 20, "layers": 2, "dropout": 0.1}
VARIANTS = {
    "convolutional_network": ConvolutionalNetworkConfig(**SIZES, convolutions=(8, 12)),
    "vit": ViTConfig(**SIZES, **SMALL),
    "vit, mean": ViTConfig(**SIZES, **SMALL, pooling="mean"),
    "vit, hybrid": ViTConfig(**SIZES, **{**SMALL, "patch": 2}, convolutions=(8,)),
    "lecture_network": LectureNetworkConfig(**SIZES, widths=(12, 8)),
    "lecture_network, patches": LectureNetworkConfig(**SIZES, widths=(12, 8), patch=4),
    "lecture_network, values": LectureNetworkConfig(**SIZES, widths=(12, 8), query_and_key=False),
    "lambda_network": LambdaNetworkConfig(**SIZES, convolutions=(8, 8), width=8, key_width=4, layers=2),
    "lambda_network, scope": LambdaNetworkConfig(**SIZES, convolutions=(8, 8), width=8, key_width=4, scope=3),
    "lambda_network, content": LambdaNetworkConfig(
        **SIZES, convolutions=(8, 8), width=8, key_width=4, lambdas="content"
    ),
}
# Address of an attention, (heads, queries, keys) of its weights, and what stands before the patches.
SEEN = {
    "vit": ("layers.1.attention", (2, 25, 25), 1),
    "vit, mean": ("layers.1.attention", (2, 24, 24), 0),
    "vit, hybrid": ("layers.0.attention", (2, 25, 25), 1),
    "lecture_network": ("attentions.1", (1, 1, 1), 0),
    "lecture_network, patches": ("attentions.1", (1, 24, 24), 0),
    "lambda_network": ("blocks.1.attention", (4, 24, 24), 0),
    "lambda_network, scope": ("blocks.0.attention", (4, 24, 24), 0),
    "lambda_network, content": ("blocks.0.attention", (4, 24, 24), 0),
}
# The first attention of one place, whose queries and keys nothing teaches; a key's bias moves all scores of a query alike.
UNTAUGHT = {"lecture_network": (".query.", ".key.")}
every_variant = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture
def model(name, randomize):
    config = VARIANTS[name]
    return randomize(MODELS[config.model_type].model(config)).eval()


def images(count: int = 3, seed: int = 0) -> Images:
    return batch_of(np.random.default_rng(seed).integers(0, 256, (count, 16, 24, 3), dtype=np.uint8))


def test_every_classifier_of_images_has_a_variant():
    families = {name for name, family in MODELS.items() if family.interface == "image_classifier"}
    assert families == {config.model_type for config in VARIANTS.values()}


@every_variant
def test_contract(name):
    assert check_model(VARIANTS[name], idle=UNTAUGHT.get(name, ("key.bias",)))


@every_variant
def test_looking_changes_nothing_and_sees_patches(name, model):
    plain = model(images())
    if name not in SEEN:
        with pytest.raises(InputError, match="no attention"), look(model):
            pass
        return
    with look(model) as seen:
        assert torch.equal(model(images()), plain)
    address, shape, leading = SEEN[name]
    assert tuple(seen.weights(address).shape) == (3, *shape)
    view = seen.view(1)
    item = view.map(address)
    assert item.key_patches is not None
    assert (item.key_patches.rows * item.key_patches.columns, item.key_patches.first) == (shape[2] - leading, leading)
    assert item.key_tokens[:leading] == ("[CLS]",) * leading
    assert len(view.images) == 1


@every_variant
def test_images_of_another_size_or_of_several_frames_are_refused(name, model):
    wrong = [batch_of(np.zeros((1, 8, 8, 3), np.uint8)), Images.of([np.zeros((2, 16, 24, 3), np.uint8)])]
    for read in wrong:
        with pytest.raises(ValueError, match="for a model of one frame"):
            model(read)
