"""LambdaNetworks: modelling long-range interactions without attention (Bello 2021).

A convolutional network whose bottleneck blocks have a lambda layer over the whole grid (`regard.attention.LambdaAttention`)
instead of the 3 x 3 convolution of a ResNet. The names in the comments are the paper's: k the width of queries and keys, h the
query heads that share their lambdas, v = d / h the width of a value, r the scope of position lambdas.

The baseline is below: a plain convolutional network with the same interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.attention import AttentionLayer, LambdaAttention, Lambdas
from regard.layers import Dropout, Images, Pixels, halving_blocks
from regard.layers.images import Grid
from regard.models.config import check, check_channels, check_divides, check_image_classifier


@dataclass(frozen=True, kw_only=True, slots=True)
class LambdaNetworkConfig:
    """The sizes of a lambda network.

    Arguments:
        image_height, image_width, image_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        convolutions: the channels of convolutional blocks before the lambda blocks, each of which halves height and width; the
            last one is the width of the lambda blocks.
        width: d, inside a bottleneck block.
        layers: the number of lambda blocks.
        heads: h; divides the width.
        key_width: k.
        lambdas: which lambdas to use: `content`, `position`, or `both`.
        scope: r, odd: position lambdas use the r x r positions around each position; null = the whole grid.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lambda_network"

    image_height: int
    image_width: int
    image_channels: int
    outputs: int
    convolutions: tuple[int, ...] = (32, 64)
    width: int = 64
    layers: int = 1
    heads: int = 4
    key_width: int = 16
    lambdas: Lambdas = "both"
    scope: int | None = None

    def __post_init__(self) -> None:
        check_image_classifier(self, "width", "layers", "heads", "key_width")
        check_channels("convolutions", self.convolutions, some=True)
        check(
            self.width % self.heads == 0,
            "heads",
            self.heads,
            f"a divisor of width {self.width}",
            "change one of the two",
        )
        check_divides(self, "convolutions", 1 << len(self.convolutions), "for each convolution halves it")
        scope = self.scope
        check(scope is None or (scope > 0 and scope % 2 == 1), "scope", scope, "odd, or null", "23 is the paper's")

    @property
    def grid(self) -> Grid:
        """Rows and columns of positions."""
        return self.image_height >> len(self.convolutions), self.image_width >> len(self.convolutions)


class LambdaLayer(AttentionLayer):
    """Projections around a lambda attention (section 3.1): h query heads, and one key and value head.

        q = LN(Wq x),   k = Wk x,   v = LN(Wv x),   output = [y_1; ...; y_h],   y_n = (lambda_c + lambda_n)^T q_n

    The norms are layer norms over the vector of each head and position; the paper has batch norm.

    Arguments:
        width: d.
        heads: h.
        key_width: k.
        grid: rows and columns of positions.
        lambdas: which lambdas to use.
        scope: r.
    """

    def __init__(
        self, width: int, *, heads: int, key_width: int, grid: Grid, lambdas: Lambdas, scope: int | None = None
    ) -> None:
        value_width = width // heads
        super().__init__(
            query=nn.Sequential(
                nn.Linear(width, heads * key_width, bias=False),
                nn.Unflatten(-1, (heads, key_width)),
                nn.LayerNorm(key_width),
                nn.Flatten(-2),
            ),
            key=nn.Linear(width, key_width, bias=False),
            value=nn.Sequential(nn.Linear(width, value_width, bias=False), nn.LayerNorm(value_width)),
            output=nn.Identity(),
            attention=LambdaAttention(key_width, rows=grid[0], columns=grid[1], lambdas=lambdas, scope=scope),
            heads=heads,
            key_heads=1,
        )


class LambdaBlock(nn.Module):
    """A bottleneck block with a lambda layer: x + W2 ReLU(LN(lambda(ReLU(LN(W1 x))))).

    Arguments:
        channels: of x.
        width: d, between the two maps.
        lambdas: the layer.
    """

    def __init__(self, channels: int, width: int, lambdas: LambdaLayer) -> None:
        super().__init__()
        self.narrow = nn.Sequential(nn.Linear(channels, width, bias=False), nn.LayerNorm(width), nn.ReLU())
        self.attention = lambdas
        self.widen = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, C) to (B, N, C)."""
        inner = self.narrow(x)
        return x + self.widen(self.attention(inner, self.attention.keys_values(inner)))


class LambdaNetwork(nn.Module):
    """Convolutions, lambda blocks over the grid of their output, and a linear map of the mean over the grid (Bello 2021).

    The mean does not depend on positions, so only the lambda layers use them.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> config = LambdaNetworkConfig(image_height=8, image_width=8, image_channels=1, outputs=3, convolutions=(8,), width=8)
    >>> images = Images(torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> LambdaNetwork(config)(images).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: LambdaNetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.pixels = Pixels((config.image_channels, config.image_height, config.image_width))
        self.stem = halving_blocks(config.image_channels, config.convolutions)
        channels = config.convolutions[-1]
        self.blocks = nn.ModuleList(
            LambdaBlock(
                channels,
                config.width,
                LambdaLayer(
                    config.width,
                    heads=config.heads,
                    key_width=config.key_width,
                    grid=config.grid,
                    lambdas=config.lambdas,
                    scope=config.scope,
                ),
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, config.outputs)

    @property
    def grid(self) -> Grid:
        """Rows and columns of positions."""
        return self.config.grid

    def forward(self, images: Images) -> Tensor:
        """Images to logits (B, outputs)."""
        x = self.stem(self.pixels(images, self.head.weight.dtype)).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionalNetworkConfig:
    """The sizes of a convolutional network.

    Arguments:
        image_height, image_width, image_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        convolutions: channels of each block, which halves height and width.
        dropout: probability of dropping a feature before the output layer in training.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "convolutional_network"

    image_height: int
    image_width: int
    image_channels: int
    outputs: int
    convolutions: tuple[int, ...] = (32, 64, 128)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_image_classifier(self)
        check_channels("convolutions", self.convolutions, some=True)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the last feature map; at least 1."""
        halvings = len(self.convolutions)
        return max(1, self.image_height >> halvings), max(1, self.image_width >> halvings)


class ConvolutionalNetwork(nn.Module):
    """Blocks of a 4 x 4 convolution with stride 2, group norm and ReLU, and a linear map of the last feature map.

    Convolutions have the locality and translation equivariance that a ViT has to learn.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> config = ConvolutionalNetworkConfig(image_height=8, image_width=8, image_channels=1, outputs=3, convolutions=(4, 8))
    >>> images = Images(torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> ConvolutionalNetwork(config)(images).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: ConvolutionalNetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.pixels = Pixels((config.image_channels, config.image_height, config.image_width))
        self.blocks = halving_blocks(config.image_channels, config.convolutions)
        rows, columns = config.grid
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.convolutions[-1] * rows * columns, config.outputs)

    def forward(self, images: Images) -> Tensor:
        """Images to logits (B, outputs)."""
        features = self.blocks(self.pixels(images, self.head.weight.dtype))
        return self.head(self.dropout(features.flatten(1)))
