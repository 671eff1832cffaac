"""What becomes of a picture before a model reads it: Hugging Face's `preprocessor_config.json`, both ways."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.pictures import FILTERS, PictureSteps
from regard.errors import InputError
from regard.models import ViTConfig

PREPROCESSOR = "preprocessor_config.json"

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
"""What a key means that is missing or null, for ViT."""

OF_DEIT: Mapping[str, Any] = {
    "size": {"height": 256, "width": 256},
    "resample": FILTERS.index("bicubic"),
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
}
"""Where DeiT's, which are ViTs, differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """What a preprocessor_config.json says.

    Arguments:
        steps: to the model's size.
        scale, mean, deviation: of pixels; `ViTConfig.pixel_scale` and so on.
    """

    steps: PictureSteps
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


def preprocessing(values: Mapping[str, Any], where: str, *, height: int, width: int, channels: int) -> Preprocessing:
    """What preprocessor_config.json says becomes of a picture, all of it.

    Arguments:
        values: its content.
        where: what messages call it.
        height, width, channels: of the pictures that the model reads.

    Raises:
        InputError: naming what is of another type or cannot be followed, or where no picture would get the model's size.
    """
    key = "image_processor_type" if values.get("image_processor_type") is not None else "feature_extractor_type"
    name = str(values.get(key) or "ViTImageProcessor")
    family = (
        name.removesuffix("Pil").removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    )
    if family not in ("ViT", "DeiT"):
        raise InputError(
            f"{where}: {key} is {name!r}; Regard prepares pictures as ViTImageProcessor and DeiTImageProcessor do, and no other; "
            "give the folder one of these"
        )
    said = {**DEFAULTS, **(OF_DEIT if family == "DeiT" else {})}
    said |= {key: value for key, value in values.items() if key in said and value is not None}
    asked = {}
    for key in ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_pad"):
        if not isinstance(said[key], bool):
            raise InputError(f"{where}: {key} is {said[key]!r}; it must be true or false")
        asked[key] = said[key]
    if asked["do_pad"]:
        raise InputError(f"{where}: do_pad is true; Regard's ViT has no padding around pictures, set it to false")
    resample = said["resample"]
    if type(resample) is not int or not 0 <= resample < len(FILTERS):
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(FILTERS))
        raise InputError(f"{where}: resample is {resample!r}; it must be one of {known}")
    size = _size(said["size"], f"{where}: size", shortest=True) if asked["do_resize"] else ()
    crop = _size(said["crop_size"], f"{where}: crop_size") if asked["do_center_crop"] else ()
    for key, made in (("crop_size", crop), ("size", () if crop else size)):
        if len(made) == 2 and made != (height, width):
            raise InputError(
                f"{where}: {key} makes pictures of {made[0]} x {made[1]} pixels, and config.json says that the model reads "
                f"{height} x {width} (image_size); mend one of the two"
            )
    scale = said["rescale_factor"] if asked["do_rescale"] else 1.0
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
        raise InputError(f"{where}: rescale_factor is {scale!r}; it must be a number above 0, such as 1 / 255")
    mean, deviation = (0.0,), (1.0,)
    if asked["do_normalize"]:
        mean = _channels(said["image_mean"], channels, f"{where}: image_mean")
        deviation = _channels(said["image_std"], channels, f"{where}: image_std", least=sys.float_info.min)
    steps = PictureSteps(size=size, resample=FILTERS[resample], crop=crop)
    return Preprocessing(steps=steps, scale=float(scale), mean=mean, deviation=deviation)


def preprocessor_to_theirs(config: ViTConfig, steps: PictureSteps | None) -> dict[str, Any]:
    """The content of preprocessor_config.json.

    Arguments:
        steps: what a picture goes through; None where pictures are made to fit in our way, which is told as plain resizing.
    """
    steps = steps or PictureSteps(size=(config.picture_height, config.picture_width))
    mean, deviation = (
        list(each) * (config.picture_channels if len(each) == 1 else 1)
        for each in (config.pixel_mean, config.pixel_deviation)
    )
    values: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": bool(steps.size),
        "resample": FILTERS.index(steps.resample),
        "do_rescale": config.pixel_scale != 1,
        "rescale_factor": config.pixel_scale,
        "do_normalize": any(mean) or any(each != 1 for each in deviation),
        "image_mean": mean,
        "image_std": deviation,
        "do_center_crop": bool(steps.crop),
    }
    if steps.size:
        edges = ("height", "width") if len(steps.size) == 2 else ("shortest_edge",)
        values["size"] = dict(zip(edges, steps.size, strict=True))
    if steps.crop:
        values["crop_size"] = dict(zip(("height", "width"), steps.crop, strict=True))
    return values


def _size(value: Any, where: str, *, shortest: bool = False) -> tuple[int, ...]:
    """Height and width; or the shorter side, where that may be told."""
    made: Any = value
    if isinstance(value, Mapping):
        known = [("height", "width"), ("shortest_edge",)] if shortest else [("height", "width")]
        told = {key for key, number in value.items() if number is not None}
        made = next(([value[key] for key in keys] for keys in known if told == set(keys)), None)
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
