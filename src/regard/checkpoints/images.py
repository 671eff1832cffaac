"""Hugging Face's layout of the Vision Transformer, and its preprocessing of images.

All tensors are equal, also the projection of a patch, which is a convolution in both. The preprocessing of images is in another
file, preprocessor_config.json, which is read and written here too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.checkpoints.hf_format import HFFormat, Reading
from regard.data.images import FILTERS, ImageSteps
from regard.errors import InputError
from regard.layers.images import SCALE
from regard.models.vit import ViTConfig
from regard.structure import renamed

# --- ViT --------------------------------------------------------------------------------------------------------

PREPROCESSOR = "preprocessor_config.json"
BESIDE = "preprocessor"
"""The key under which the content of `PREPROCESSOR` is added to that of config.json."""


@renamed(pixel_deviation="pixel_std")
@dataclass(frozen=True, kw_only=True, slots=True)
class ViTExtra:
    """The settings that Hugging Face's config.json does not have."""

    pixel_mean: tuple[float, ...] = (0.5,)
    pixel_std: tuple[float, ...] = (0.5,)
    pixel_scale: float = SCALE


def _vit_extra(config: ViTConfig) -> dict[str, Any]:
    kept = {"pixel_mean": list(config.pixel_mean), "pixel_std": list(config.pixel_std)}
    return kept if config.pixel_scale == SCALE else {**kept, "pixel_scale": config.pixel_scale}


def _needs_a_head(config: ViTConfig) -> str:
    return "" if config.outputs else "it has no head, and the model of this layout without a head has a pooling layer"


def _size_to_hf(config: ViTConfig) -> dict[str, Any]:
    height, width = config.image_height, config.image_width
    return {"image_size": height if height == width else [height, width], "encoder_stride": config.patch}


def _size_from_hf(reading: Reading) -> dict[str, Any]:
    """Height and width of images, and the side of a patch, each from one number or two."""
    height, width = _pair(reading.values.get("image_size", 224), f"{reading.where}.image_size")
    across, down = _pair(reading.settings.get("patch", 16), f"{reading.where}.patch_size")
    if across != down:
        raise InputError(f"{reading.where}.patch_size is {[across, down]}; Regard's ViT has square patches")
    return {"patch": across, "image_height": height, "image_width": width}


def _pair(value: Any, where: str) -> tuple[int, int]:
    """Height and width, which can be given as one number."""
    pair = value if isinstance(value, list | tuple) else [value, value]
    if len(pair) != 2 or not all(isinstance(each, int) and each > 0 for each in pair):
        raise InputError(f"{where} is {value!r}; it must be a whole number above 0, or two of them")
    return pair[0], pair[1]


def _classes_to_hf(config: ViTConfig) -> dict[str, Any]:
    names = [f"LABEL_{index}" for index in range(config.outputs)]
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _classes_from_hf(reading: Reading) -> dict[str, Any]:
    """The number of classes, from the tensors; 0 without a head."""
    head = reading.tensors.get("classifier.weight")
    return {"outputs": 0 if head is None else int(head.shape[0])}


def _pixels_from_hf(reading: Reading) -> dict[str, Any]:
    """The normalisation of pixels, from the preprocessor_config.json of a folder that another program wrote."""
    if not reading.foreign:
        return {}
    settings = reading.settings
    size = settings["image_height"], settings["image_width"], settings["image_channels"]
    if type(size[2]) is not int or size[2] < 1:  # the config raises the error
        return {}
    prepared = _prepared(reading.values.get(BESIDE) or {}, reading.where, *size)
    return {"pixel_mean": prepared.mean, "pixel_std": prepared.std, "pixel_scale": prepared.scale}


VIT = HFFormat(
    model_type="vit",
    title="ViT",
    configs=(ViTConfig,),
    architecture="ViTForImageClassification",
    fields={
        "image_channels": "num_channels",
        "patch": "patch_size",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "feedforward_width": "intermediate_size",
        "layers": "num_hidden_layers",
        "activation": "hidden_act",
        "query_key_value_bias": "qkv_bias",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "norm_epsilon": "layer_norm_eps",
    },
    special_fields={
        "image_height": "image_size",
        "image_width": "image_size",
        "outputs": "id2label",
        **dict.fromkeys(("pixel_mean", "pixel_std", "pixel_scale"), PREPROCESSOR),
    },
    defaults={"num_channels": 3, "layer_norm_eps": 1e-12, "hidden_act": "gelu"},
    implied={"convolutions": (), "pooling": "token"},
    ignored={
        BESIDE: "image preprocessing, which is followed",
        "encoder_stride": "a decoder for masked images, of a class that Regard does not read",
        "pooler_output_size": "a pooling layer that a classifier does not have",
        "pooler_act": "a pooling layer that a classifier does not have",
    },
    unwritten={"position_init_std": "parameters before training"},
    extra=ViTExtra,
    unsupported=_needs_a_head,
    to_hf=(_size_to_hf, _classes_to_hf),
    from_hf=(_size_from_hf, _classes_from_hf, _pixels_from_hf),
    extra_metadata=_vit_extra,
    tensors={
        "embedding.token": "vit.embeddings.cls_token",
        "embedding.positions": "vit.embeddings.position_embeddings",
        "embedding.projection.{*}": "vit.embeddings.patch_embeddings.projection.{*}",
        "layers.{i}.attention.query.{*}": "vit.encoder.layer.{i}.attention.attention.query.{*}",
        "layers.{i}.attention.key.{*}": "vit.encoder.layer.{i}.attention.attention.key.{*}",
        "layers.{i}.attention.value.{*}": "vit.encoder.layer.{i}.attention.attention.value.{*}",
        "layers.{i}.attention.output.{*}": "vit.encoder.layer.{i}.attention.output.dense.{*}",
        "layers.{i}.attention_residual.before.{*}": "vit.encoder.layer.{i}.layernorm_before.{*}",
        "layers.{i}.feedforward.inner.{*}": "vit.encoder.layer.{i}.intermediate.dense.{*}",
        "layers.{i}.feedforward.outer.{*}": "vit.encoder.layer.{i}.output.dense.{*}",
        "layers.{i}.feedforward_residual.before.{*}": "vit.encoder.layer.{i}.layernorm_after.{*}",
        "norm.{*}": "vit.layernorm.{*}",
        "head.{*}": "classifier.{*}",
    },
    prefix="vit.",
    outside=("classifier.",),
    ignored_tensors=("vit.pooler.{*}",),  # the pooling layer of their model without a head
)

# --- preprocessor_config.json -----------------------------------------------------------------------------------

DEFAULTS: Mapping[str, Any] = {
    "do_resize": True,
    "size": {"height": 224, "width": 224},
    "resample": FILTERS.index("bilinear"),
    "do_center_crop": False,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_pad": False,
}
"""The values of keys that are missing or null, for ViT."""

OF_DEIT: Mapping[str, Any] = {
    "size": {"height": 256, "width": 256},
    "resample": FILTERS.index("bicubic"),
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
}
"""The values that differ for DeiT, which has the same architecture as ViT."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """The content of a preprocessor_config.json.

    Arguments:
        steps: the steps that convert an image to the model's size.
        scale, mean, std: the normalisation of pixels, as `ViTConfig.pixel_scale`, `pixel_mean` and `pixel_std`.
    """

    steps: ImageSteps
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]


def preprocessing(values: Mapping[str, Any], where: str, *, height: int, width: int, channels: int) -> Preprocessing:
    """The complete preprocessing of images in a preprocessor_config.json.

    Arguments:
        values: its content.
        where: its name in messages.
        height, width, channels: the size of the images that the model reads.

    Raises:
        InputError: naming a value of another type or one that is not supported, or if images would not get the model's size.
    """
    key = "image_processor_type" if values.get("image_processor_type") is not None else "feature_extractor_type"
    name = str(values.get(key) or "ViTImageProcessor")
    family = (
        name.removesuffix("Pil").removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    )
    if family not in ("ViT", "DeiT"):
        raise InputError(
            f"{where}: {key} is {name!r}; Regard only supports ViTImageProcessor and DeiTImageProcessor; give the folder one of "
            "these"
        )
    said = {**DEFAULTS, **(OF_DEIT if family == "DeiT" else {})}
    said |= {key: value for key, value in values.items() if key in said and value is not None}
    asked = {}
    for key in ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_pad"):
        if not isinstance(said[key], bool):
            raise InputError(f"{where}: {key} is {said[key]!r}; it must be true or false")
        asked[key] = said[key]
    if asked["do_pad"]:
        raise InputError(f"{where}: do_pad is true; Regard's ViT has no padding around images, set it to false")
    resample = said["resample"]
    if type(resample) is not int or not 0 <= resample < len(FILTERS):
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(FILTERS))
        raise InputError(f"{where}: resample is {resample!r}; it must be one of {known}")
    size = _size(said["size"], f"{where}: size", shortest=True) if asked["do_resize"] else ()
    crop = _size(said["crop_size"], f"{where}: crop_size") if asked["do_center_crop"] else ()
    for key, made in (("crop_size", crop), ("size", () if crop else size)):
        if len(made) == 2 and made != (height, width):
            raise InputError(
                f"{where}: {key} makes images of {made[0]} x {made[1]} pixels, but the model reads {height} x {width} "
                "(image_size in config.json); correct one of the two"
            )
    scale = said["rescale_factor"] if asked["do_rescale"] else 1.0
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
        raise InputError(f"{where}: rescale_factor is {scale!r}; it must be a number above 0, such as 1 / 255")
    mean, std = (0.0,), (1.0,)
    if asked["do_normalize"]:
        mean = _channels(said["image_mean"], channels, f"{where}: image_mean")
        std = _channels(said["image_std"], channels, f"{where}: image_std", least=sys.float_info.min)
    steps = ImageSteps(size=size, resample=FILTERS[resample], crop=crop)
    return Preprocessing(steps=steps, scale=float(scale), mean=mean, std=std)


def prepared_as(config: ViTConfig, values: Mapping[str, Any], where: str) -> Preprocessing:
    """The preprocessing of images for a model that another program wrote.

    Arguments:
        values: the content of preprocessor_config.json; if it is empty, images are resized to the model's size and pixels are
            normalised as for the published models.
        where: the name of config.json in messages.

    Raises:
        InputError: as `preprocessing`.
    """
    return _prepared(values, where, config.image_height, config.image_width, config.image_channels)


def _prepared(values: Mapping[str, Any], where: str, height: int, width: int, channels: int) -> Preprocessing:
    half = [0.5] * channels
    values = values or {"size": {"height": height, "width": width}, "image_mean": half, "image_std": half}
    place = where.removesuffix("config.json") + PREPROCESSOR
    return preprocessing(values, place, height=height, width=width, channels=channels)


def preprocessor_to_hf(config: ViTConfig, steps: ImageSteps | None) -> dict[str, Any]:
    """The content of preprocessor_config.json.

    Arguments:
        steps: the steps of the preprocessing; None if images are converted by `fit`, which is written as plain resizing.
    """
    steps = steps or ImageSteps(size=(config.image_height, config.image_width))
    mean, std = (
        list(each) * (config.image_channels if len(each) == 1 else 1) for each in (config.pixel_mean, config.pixel_std)
    )
    values: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": bool(steps.size),
        "resample": FILTERS.index(steps.resample),
        "do_rescale": config.pixel_scale != 1,
        "rescale_factor": config.pixel_scale,
        "do_normalize": any(mean) or any(each != 1 for each in std),
        "image_mean": mean,
        "image_std": std,
        "do_center_crop": bool(steps.crop),
    }
    if steps.size:
        edges = ("height", "width") if len(steps.size) == 2 else ("shortest_edge",)
        values["size"] = dict(zip(edges, steps.size, strict=True))
    if steps.crop:
        values["crop_size"] = dict(zip(("height", "width"), steps.crop, strict=True))
    return values


def _size(value: Any, where: str, *, shortest: bool = False) -> tuple[int, ...]:
    """Height and width; or the shorter side, if `shortest` allows it."""
    made: Any = value
    if isinstance(value, Mapping):
        known = [("height", "width"), ("shortest_edge",)] if shortest else [("height", "width")]
        given = {key for key, number in value.items() if number is not None}
        made = next(([value[key] for key in keys] for keys in known if given == set(keys)), None)
    elif type(value) is int:
        made = [value, value]
    elif isinstance(value, list | tuple) and len(value) != 2:
        made = None
    if not isinstance(made, list | tuple) or not all(type(each) is int and each > 0 for each in made):
        forms = "a whole number above 0, or height and width" + (", or shortest_edge" if shortest else "")
        raise InputError(f"{where} is {value!r}; it must be {forms}")
    return tuple(made)


def _channels(value: Any, channels: int, where: str, *, least: float = -math.inf) -> tuple[float, ...]:
    """One number for all channels, or one for each."""
    numbers = value if isinstance(value, list | tuple) else [value]
    wanted = channels if numbers is value else 1
    if len(numbers) != wanted or not all(type(each) in (int, float) and each >= least for each in numbers):
        raise InputError(
            f"{where} is {value!r}; it must be one number, or a list with one for each of the model's {channels} channels"
            + (", each above 0" if least > 0 else "")
        )
    return tuple(map(float, numbers))
