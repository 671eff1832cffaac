"""The network for MNIST of the lectures, as it was given, and with patches: self-attention over a sequence of length one.

What the lectures call a Vision Transformer gives an image to self-attention as one vector, a sequence of length one. The softmax
over one position is 1 for any score, so the layer is its value projection: queries and keys change nothing, and get no gradient.
With several patches the same layers do attend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, ScaledDot, ScoredAttention, Soft
from regard.layers import Images, PatchEmbedding, Pixels
from regard.layers.images import Grid
from regard.models.config import check, check_divides, check_image_classifier


@dataclass(frozen=True, kw_only=True, slots=True)
class LectureNetworkConfig:
    """The sizes of the network. The defaults are those of the lectures.

    Arguments:
        image_height, image_width, image_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        widths: of each linear layer and the attention after it.
        patch: the side of a square patch in pixels; each patch is one position. null = the whole image is one position, as in the
            lectures.
        positions: whether patches have position embeddings; a single patch has none.
        query_and_key: whether there are projections of queries and keys. Without them a layer is its value projection, which is
            the same for one position.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lecture_network"

    image_height: int
    image_width: int
    image_channels: int
    outputs: int
    widths: tuple[int, ...] = (128, 64)
    patch: int | None = None
    positions: bool = True
    query_and_key: bool = True

    def __post_init__(self) -> None:
        check_image_classifier(self)
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
        return self.image_height // self.patch, self.image_width // self.patch


class LectureNetwork(nn.Module):
    """Alternating linear maps with ReLU and self-attention, and a linear map of the mean over positions.

        h_1 = attention_1(ReLU(W_1 x + b_1)),   h_2 = attention_2(ReLU(W_2 h_1 + b_2)),   logits = W_3 mean(h_2) + b_3
        attention(x) = softmax(q k^T / sqrt(D)) v,   q, k, v = affine maps of x

    For one position the mean is this position, and attention(x) = v. There are no residual connections and no norms, as given.

    Arguments:
        config: its sizes.

    >>> config = LectureNetworkConfig(image_height=28, image_width=28, image_channels=1, outputs=10)
    >>> model = LectureNetwork(config)
    >>> sum(parameter.numel() for parameter in model.parameters())
    171402
    >>> model(Images(torch.zeros(2, 1, 1, 28, 28, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: LectureNetworkConfig) -> None:
        super().__init__()
        self.config = config
        size = (config.image_channels, config.image_height, config.image_width)
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

    def forward(self, images: Images) -> Tensor:
        """Images to logits (B, outputs)."""
        pixels = self.pixels(images, self.head.weight.dtype)
        x = self.embedding(pixels.flatten(1).unsqueeze(1) if self.config.patch is None else pixels)
        for place, attention in enumerate(self.attentions):
            x = torch.relu(x if place == 0 else self.maps[place - 1](x))
            x = attention(x, attention.keys_values(x)) if isinstance(attention, AttentionLayer) else attention(x)
        return self.head(x.mean(dim=1))


class _LaidOut(Soft):
    """The softmax step by step, as in the lectures. For one position its gradient is exactly 0; a fused kernel gives 1e-8."""

    plain_softmax = False


def without_queries_and_keys(model: LectureNetwork) -> LectureNetwork:
    """The network for one position without its projections of queries and keys; it gives the same logits.

    Raises:
        InputError: for a network over several patches, whose queries and keys matter.
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
