"""What becomes of a picture before a model reads it, as Hugging Face's library wants to be told: preprocessor_config.json."""

from __future__ import annotations

import json
from pathlib import Path

from regard.checkpoints.vit import PREPROCESSOR
from regard.models import ViTConfig

BILINEAR = 2
"""Pillow's number for the way that pictures are resized."""


def write_preprocessor(folder: Path, config: ViTConfig) -> None:
    """Tell Hugging Face's library what becomes of a picture before the model reads it."""
    mean, deviation = (
        list(each) * (config.picture_channels if len(each) == 1 else 1)
        for each in (config.pixel_mean, config.pixel_deviation)
    )
    values = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": config.picture_height, "width": config.picture_width},
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": mean,
        "image_std": deviation,
    }
    (folder / PREPROCESSOR).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
