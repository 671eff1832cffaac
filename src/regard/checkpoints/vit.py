"""Hugging Face's layout of the Vision Transformer, both ways.

Every tensor is the same there, the map of a patch included, which is a convolution in both. What pixels are moved and divided by
stands in a file of its own, `preprocessor_config.json` (`regard.checkpoints.preprocessor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.bert import ACTIVATIONS
from regard.checkpoints.names import NameTable, Rule, in_their_words
from regard.checkpoints.preprocessor import PREPROCESSOR, Preprocessing, preprocessing
from regard.checkpoints.tensors import check_same
from regard.errors import InputError
from regard.layers.pictures import SCALE
from regard.models import ViT, ViTConfig
from regard.models.config import shapes_only
from regard.structure import from_mapping

BESIDE = "preprocessor"
"""Under which key of a config.json's content that of `PREPROCESSOR` is handed over."""

SIZES: Mapping[str, str] = {
    "picture_channels": "num_channels",
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
}
"""Our names of a config's fields and theirs."""

PREFIX, HEAD = "vit.", "classifier."


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What their config.json cannot say; regard.json keeps it."""

    pixel_mean: tuple[float, ...] = (0.5,)
    pixel_deviation: tuple[float, ...] = (0.5,)
    pixel_scale: float = SCALE


def obstacle(config: ViTConfig) -> str:
    """Why a model cannot be told in this layout, as half a sentence; empty where it can."""
    if config.convolutions:
        return "there are convolutions in front of the patches (model.convolutions)"
    if config.pooling != "token":
        return "there is no class token (model.pooling)"
    if not config.outputs:
        return "it has no head, and theirs without one has a pooling layer"
    return ""


def family_of(config: ViTConfig) -> str:
    """What Hugging Face calls a model of this config."""
    return config.model_type


def config_to_theirs(config: ViTConfig, dtype: torch.dtype) -> dict[str, Any]:
    """The content of their config.json."""
    height, width = config.picture_height, config.picture_width
    values: dict[str, Any] = {
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "dtype": str(dtype).removeprefix("torch."),
        **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
        "image_size": height if height == width else [height, width],
        "encoder_stride": config.patch,
        "id2label": {str(index): f"LABEL_{index}" for index in range(config.outputs)},
        "label2id": {f"LABEL_{index}": index for index in range(config.outputs)},
    }
    return values | {"hidden_act": ACTIVATIONS[config.activation][0]}


def unsaid(config: ViTConfig) -> dict[str, Any]:
    """What `config_to_theirs` could not say."""
    told = {"pixel_mean": list(config.pixel_mean), "pixel_deviation": list(config.pixel_deviation)}
    return told if config.pixel_scale == SCALE else {**told, "pixel_scale": config.pixel_scale}


def config_to_ours(
    values: Mapping[str, Any], said: Mapping[str, Any] | None, tensors: Mapping[str, Tensor], where: str
) -> ViTConfig:
    """Our config from their config.json.

    Arguments:
        values: the content of config.json, and under `preprocessor` that of the file beside it.
        said: what regard.json keeps beside it; None for a folder made elsewhere.
        tensors: those of the file, which say whether there is a head.
        where: what messages call config.json.

    Raises:
        InputError: for what is missing, of another type, or not to be had in our model.
    """
    settings: dict[str, Any] = {
        ours: values[theirs] for ours, theirs in SIZES.items() if values.get(theirs) is not None
    }
    given = settings.get("activation", "gelu")
    settings["activation"] = next((name for name, theirs in ACTIVATIONS.items() if given in theirs), None)
    if settings["activation"] is None:
        known = ", ".join(name for theirs in ACTIVATIONS.values() for name in theirs)
        raise InputError(f"{where}.hidden_act is {given!r}; it must be one of {known}")
    height, width = _pair(values.get("image_size", 224), f"{where}.image_size")
    across, down = _pair(settings.get("patch", 16), f"{where}.patch_size")
    if across != down:
        raise InputError(f"{where}.patch_size is {[across, down]}; Regard's ViT has square patches")
    classifier = tensors.get(f"{HEAD}weight")
    settings |= {
        "patch": across,
        "picture_height": height,
        "picture_width": width,
        "picture_channels": settings.get("picture_channels", 3),
        "outputs": 0 if classifier is None else int(classifier.shape[0]),
        "norm_epsilon": settings.get("norm_epsilon", 1e-12),
    }
    if said is not None:
        rest = from_mapping(Unsaid, said, f"{where} (with regard.json: layout.unsaid)")
        settings |= {name: getattr(rest, name) for name in rest.__slots__}
    called = {**SIZES, "picture_height": "image_size", "picture_width": "image_size"}
    try:
        config = from_mapping(ViTConfig, settings, where)
    except InputError as error:
        raise InputError(in_their_words(str(error), called, where)) from error
    if said is not None:
        return config
    prepared = prepared_as(config, values.get(BESIDE) or {}, where)
    return replace(config, pixel_mean=prepared.mean, pixel_deviation=prepared.deviation, pixel_scale=prepared.scale)


def prepared_as(config: ViTConfig, beside: Mapping[str, Any], where: str) -> Preprocessing:
    """What becomes of a picture before a model that another program wrote reads it.

    Arguments:
        beside: the content of preprocessor_config.json; where there is none, pictures are resized to the model's size, and
            pixels are moved and divided as the models were published.
        where: what messages call config.json.

    Raises:
        InputError: as `preprocessing`.
    """
    height, width, channels = config.picture_height, config.picture_width, config.picture_channels
    half = [0.5] * channels
    beside = beside or {"size": {"height": height, "width": width}, "image_mean": half, "image_std": half}
    place = where.removesuffix("config.json") + PREPROCESSOR
    return preprocessing(beside, place, height=height, width=width, channels=channels)


def _pair(value: Any, where: str) -> tuple[int, int]:
    """Height and width of what may be told by one number."""
    pair = value if isinstance(value, list | tuple) else [value, value]
    if len(pair) != 2 or not all(isinstance(each, int) and each > 0 for each in pair):
        raise InputError(f"{where} is {value!r}; it must be a whole number above 0, or two of them")
    return pair[0], pair[1]


def tensors_to_theirs(config: ViTConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our parameters under their names."""
    theirs = name_table().to_theirs(tensors)
    return {name if name.startswith(HEAD) else PREFIX + name: tensor for name, tensor in theirs.items()}


def tensors_to_ours(config: ViTConfig, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Their tensors under our names.

    Raises:
        InputError: naming every tensor that is missing, not known or of another shape, as the file calls it.
    """
    plain = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items() if not _unused(name)}
    called = {name.removeprefix(PREFIX): name for name in tensors}
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    with shapes_only():
        wanted = name_table().to_theirs(dict(ViT(config).named_parameters()))

    def name_of(name: str) -> str:
        return called.get(name, name if name.startswith(HEAD) else prefix + name)

    shapes = {name_of(name): tuple(tensor.shape) for name, tensor in wanted.items()}
    check_same(shapes, {name_of(name): tensor for name, tensor in plain.items()}, where)
    return name_table().to_ours(plain)


def _unused(name: str) -> bool:
    """Whether a tensor is of the layer that their model without a head pools by."""
    return name.removeprefix(PREFIX).startswith("pooler.")


def name_table() -> NameTable:
    """Our names of a model's parameters and theirs, without the prefix that they give those below the head."""
    ours, theirs = "layers.{i}.", "encoder.layer.{i}."
    named = [
        ("embedding.projection", "embeddings.patch_embeddings.projection"),
        *((f"{ours}attention.{part}", f"{theirs}attention.attention.{part}") for part in ("query", "key", "value")),
        (f"{ours}attention.output", f"{theirs}attention.output.dense"),
        (f"{ours}attention_residual.before", f"{theirs}layernorm_before"),
        (f"{ours}feedforward.inner", f"{theirs}intermediate.dense"),
        (f"{ours}feedforward.outer", f"{theirs}output.dense"),
        (f"{ours}feedforward_residual.before", f"{theirs}layernorm_after"),
        ("norm", "layernorm"),
        ("head", "classifier"),
    ]
    rules = [
        Rule(("embedding.token",), "embeddings.cls_token"),
        Rule(("embedding.positions",), "embeddings.position_embeddings"),
    ]
    rules += [Rule((f"{mine}.{kind}",), f"{other}.{kind}") for mine, other in named for kind in ("weight", "bias")]
    return NameTable(tuple(rules))
