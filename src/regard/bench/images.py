"""The suite `images`: training a ViT and a captioner."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.bench.rounds import OURS, Contest, Contestant, Options

PRECISIONS = ("float32", "bfloat16")
SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The amount of work.

    Arguments:
        vit: a ViT's config; ViT-Ti/16 by default.
        images: in one of its updates.
        captioner: the config of Xu et al.'s model.
        captions: (captions, words) of one of its updates.
        updates: in one turn.
    """

    vit: dict[str, int] = field(
        default_factory=lambda: {
            "image_height": 224,
            "image_width": 224,
            "patch": 16,
            "width": 192,
            "heads": 3,
            "feedforward_width": 768,
            "layers": 12,
            "outputs": 1_000,
        }
    )
    images: int = 16
    captioner: dict[str, Any] = field(
        default_factory=lambda: {
            "image_height": 112,
            "image_width": 112,
            "convolutions": (32, 64, 128),
            "feature_width": 256,
            "embedding_width": 256,
            "hidden_width": 512,
            "attention_width": 256,
            "target_vocabulary": 5_000,
            "dropout": 0.3,
        }
    )
    captions: tuple[int, int] = (32, 16)
    updates: int = 2


QUICK = Sizes(
    vit={
        "image_height": 16,
        "image_width": 16,
        "patch": 8,
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
        "layers": 2,
        "outputs": 5,
    },
    images=2,
    captioner={
        "image_height": 16,
        "image_width": 16,
        "convolutions": (8, 8),
        "feature_width": 12,
        "embedding_width": 8,
        "hidden_width": 16,
        "attention_width": 8,
        "target_vocabulary": 30,
        "dropout": 0.3,
    },
    captions=(2, 4),
    updates=1,
)


def contests(options: Options, folder: Path) -> list[Contest]:
    """The contests asked for; nothing is written into `folder`."""
    sizes = QUICK if options.quick else Sizes()
    found = []
    if "vit" in options.cases:
        found.append(_vit(options, sizes))
    if "captions" in options.cases:
        found.append(_captions(options, sizes))
    return found


def _vit(options: Options, sizes: Sizes) -> Contest:
    job = {"kind": "vit_training", "model": sizes.vit, "images": sizes.images}
    shape = sizes.vit
    about = (
        f"ViT of {shape['layers']} layers, width {shape['width']}, {shape['heads']} heads, patches of {shape['patch']}; batches "
        f"of {sizes.images} images of {shape['image_height']} x {shape['image_width']}, no dropout, AdamW"
    )
    return _contest("vit", about, "images/s", job, "timm", options, sizes)


def _captions(options: Options, sizes: Sizes) -> Contest:
    count, words = sizes.captions
    job = {"kind": "caption_training", "model": sizes.captioner, "captions": count, "words": words}
    shape = sizes.captioner
    about = (
        f"Show, attend and tell, soft: {shape['hidden_width']} wide LSTM, {shape['target_vocabulary']:,} words; batches of "
        f"{count} captions of {words} words and their images of {shape['image_height']} x {shape['image_width']}, dropout "
        f"{shape['dropout']}, AdamW"
    )
    return _contest("captions", about, "words/s", job, "pytorch", options, sizes)


def _contest(
    name: str, about: str, unit: str, job: dict[str, Any], peer: str, options: Options, sizes: Sizes
) -> Contest:
    job = job | {"updates": sizes.updates, "learning_rate": 1e-4, "seed": SEED}

    def contestant(called: str, library: str, precision: str) -> Contestant:
        return Contestant(name=called, library=library, job=job | {"precision": precision})

    return Contest(
        name=name,
        about=about,
        unit=unit,
        ours=tuple(contestant(precision, OURS, precision) for precision in PRECISIONS),
        peers=tuple(contestant(f"{peer} {precision}", peer, precision) for precision in PRECISIONS)
        if peer in options.peers
        else (),
        best=True,
    )


def random_images(count: int, model: dict[str, Any]) -> torch.Tensor:
    """Random images, (count, 3, Y, X) uint8."""
    generator = torch.Generator().manual_seed(SEED)
    size = (count, 3, model["image_height"], model["image_width"])
    return torch.randint(256, size, generator=generator, dtype=torch.uint8)
