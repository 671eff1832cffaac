"""The lectures' network for MNIST, as it was given, and over patches: self-attention with no more than one place to look at.

What the lectures call a Vision Transformer lays an image out as one vector and hands it to self-attention as a sequence of one.
The softmax over one place is 1 for any score, so the layer is its map of values; queries and keys change nothing and are
never taught anything. Over several patches the same layers do attend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, ScaledDot, ScoredAttention, Soft
from regard.layers import PatchEmbedding, Pictures, Pixels
from regard.layers.pictures import Grid
from regard.models.config import check, check_divides, check_picture_classifier


@dataclass(frozen=True, kw_only=True, slots=True)
class LectureNetworkConfig:
    """The sizes of the network; the defaults are the lectures'.

    Arguments:
        picture_height, picture_width, picture_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        widths: of each layer with its attention behind it.
        patch: pixels from side to side of a square patch, each a place of its own; null for one place that is the whole image,
            as in the lectures.
        positions: whether patches have positions; one patch never is.
        query_and_key: whether there are maps of queries and keys. Without them a layer is its map of values, which of one place
            is the same.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lecture_network"

    picture_height: int
    picture_width: int
    picture_channels: int
    outputs: int
    widths: tuple[int, ...] = (128, 64)
    patch: int | None = None
    positions: bool = True
    query_and_key: bool = True

    def __post_init__(self) -> None:
        check_picture_classifier(self)
        widths = self.widths
        check(bool(widths) and min(widths) > 0, "widths", widths, "one size or more, each at least 1", "give some")
        if self.patch is not None:
            check(self.patch > 0, "patch", self.patch, "at least 1", "4 and 7 divide MNIST's 28 pixels")
            check_divides(self, "patch", self.patch, "the side of a patch")
            check(
                self.query_and_key, "query_and_key", self.query_and_key, "true where there are patches", "leave it out"
            )

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        if self.patch is None:
            return 1, 1
        return self.picture_height // self.patch, self.picture_width // self.patch


class LectureNetwork(nn.Module):
    """Linear maps, ReLU and self-attention by turns, and a linear map of the mean over places.

        h_1 = attention_1(ReLU(W_1 x + b_1)),   h_2 = attention_2(ReLU(W_2 h_1 + b_2)),   logits = W_3 mean(h_2) + b_3
        attention(x) = softmax(q k^T / sqrt(D)) v,   q, k, v = affine maps of x

    Of one place the mean is that place, and attention(x) = v. There is no residual connection and no norm, as given.

    Arguments:
        config: its sizes.

    >>> config = LectureNetworkConfig(picture_height=28, picture_width=28, picture_channels=1, outputs=10)
    >>> model = LectureNetwork(config)
    >>> sum(parameter.numel() for parameter in model.parameters())
    171402
    >>> model(Pictures(torch.zeros(2, 1, 1, 28, 28, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: LectureNetworkConfig) -> None:
        super().__init__()
        self.config = config
        size = (config.picture_channels, config.picture_height, config.picture_width)
        self.pixels = Pixels(size)
        first, *_ = config.widths
        self.embedding = (
            nn.Linear(size[0] * size[1] * size[2], first)
            if config.patch is None
            else PatchEmbedding(
                size[0], first, patch=config.patch, grid=config.grid, token=False, positions=config.positions
            )
        )
        before = zip(config.widths, config.widths[1:], strict=False)
        self.maps = nn.ModuleList(nn.Linear(*pair) for pair in before)
        self.attentions = nn.ModuleList(
            _attention(width) if config.query_and_key else nn.Linear(width, width) for width in config.widths
        )
        self.head = nn.Linear(config.widths[-1], config.outputs)

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.config.grid

    def forward(self, pictures: Pictures) -> Tensor:
        """Images to logits (B, outputs)."""
        pixels = self.pixels(pictures, self.head.weight.dtype)
        x = self.embedding(pixels.flatten(1).unsqueeze(1) if self.config.patch is None else pixels)
        for place, attention in enumerate(self.attentions):
            x = torch.relu(x if place == 0 else self.maps[place - 1](x))
            x = attention(x, attention.keys_values(x)) if isinstance(attention, AttentionLayer) else attention(x)
        return self.head(x.mean(dim=1))


class _LaidOut(Soft):
    """The softmax step by step, as in the lectures: over one place its gradient is exactly zero, and a fused kernel's 1e-8."""

    plain_softmax = False


def without_queries_and_keys(model: LectureNetwork) -> LectureNetwork:
    """The network of one place with the maps of queries and keys deleted; it gives the same logits.

    Raises:
        InputError: for a network over patches, whose queries and keys matter.
    """
    config = model.config
    check(config.patch is None, "patch", config.patch, "null", "the queries and keys of several patches matter")
    reduced = LectureNetwork(replace(config, query_and_key=False))
    kept = {name.replace(".value.", "."): tensor for name, tensor in model.state_dict().items()}
    reduced.load_state_dict({name: tensor for name, tensor in kept.items() if not _deleted(name)})
    return reduced.train(model.training)


def _deleted(name: str) -> bool:
    return ".query." in name or ".key." in name


def _attention(width: int) -> AttentionLayer:
    return AttentionLayer(
        query=nn.Linear(width, width),
        key=nn.Linear(width, width),
        value=nn.Linear(width, width),
        output=nn.Identity(),
        attention=ScoredAttention(ScaledDot(), _LaidOut()),
    )
