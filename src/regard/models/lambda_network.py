"""LambdaNetworks: modelling long-range interactions without attention (Bello 2021).

A network of convolutions in which bottleneck blocks look at the whole grid by lambda layers (`regard.attention.LambdaAttention`)
where a ResNet has a convolution 3 x 3. The names in the comments are the paper's: k the width of queries and keys, h the query
heads that share their lambdas, v = d / h the width of a value, r the scope of position lambdas.

Below it, a plain convolutional network of the same interface: the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.attention import AttentionLayer, LambdaAttention, Lambdas
from regard.layers import Dropout, Pictures, Pixels, halving_blocks
from regard.layers.pictures import Grid
from regard.models.config import check, check_channels, check_divides, check_picture_classifier


@dataclass(frozen=True, kw_only=True, slots=True)
class LambdaNetworkConfig:
    """The sizes of a lambda network.

    Arguments:
        picture_height, picture_width, picture_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        convolutions: channels of blocks in front, each of which halves height and width; the last is the width of what follows.
        width: d, inside a bottleneck block.
        layers: how many blocks.
        heads: h; divides the width.
        key_width: k.
        lambdas: which there are: of `content`, of `position`, or `both`.
        scope: r, odd: how far position lambdas reach, r x r places around each; null for the whole grid.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lambda_network"

    picture_height: int
    picture_width: int
    picture_channels: int
    outputs: int
    convolutions: tuple[int, ...] = (32, 64)
    width: int = 64
    layers: int = 1
    heads: int = 4
    key_width: int = 16
    lambdas: Lambdas = "both"
    scope: int | None = None

    def __post_init__(self) -> None:
        check_picture_classifier(self, "width", "layers", "heads", "key_width")
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
        """Rows and columns of places."""
        return self.picture_height >> len(self.convolutions), self.picture_width >> len(self.convolutions)


class LambdaLayer(AttentionLayer):
    """Projections around a lambda attention (section 3.1): queries of h heads, one key and one value for all of them.

        q = LN(Wq x),   k = Wk x,   v = LN(Wv x),   output = [y_1; ...; y_h],   y_n = (lambda_c + lambda_n)^T q_n

    The norms are over the vector of each head and place, where the paper has batch norm.

    Arguments:
        width: d.
        heads: h.
        key_width: k.
        grid: rows and columns of places.
        lambdas: which.
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
    """Convolutions, blocks with lambda layers over the grid that is left, and a linear map of the mean over it.

    The mean tells nothing of where things were: that is for the lambda layers to have seen.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> config = LambdaNetworkConfig(picture_height=8, picture_width=8, picture_channels=1, outputs=3, convolutions=(8,), width=8)
    >>> pictures = Pictures(torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> LambdaNetwork(config)(pictures).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: LambdaNetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.pixels = Pixels((config.picture_channels, config.picture_height, config.picture_width))
        self.stem = halving_blocks(config.picture_channels, config.convolutions)
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
        """Rows and columns of places."""
        return self.config.grid

    def forward(self, pictures: Pictures) -> Tensor:
        """Images to logits (B, outputs)."""
        x = self.stem(self.pixels(pictures, self.head.weight.dtype)).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionalNetworkConfig:
    """The sizes of a convolutional network.

    Arguments:
        picture_height, picture_width, picture_channels: of the images, in pixels. Filled in by the task.
        outputs: the number of classes. Filled in by the task.
        convolutions: channels of each block, which halves height and width.
        dropout: probability of dropping a feature in front of the output in training.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "convolutional_network"

    picture_height: int
    picture_width: int
    picture_channels: int
    outputs: int
    convolutions: tuple[int, ...] = (32, 64, 128)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_picture_classifier(self)
        check_channels("convolutions", self.convolutions, some=True)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns that are left of an image; at least one of each."""
        halvings = len(self.convolutions)
        return max(1, self.picture_height >> halvings), max(1, self.picture_width >> halvings)


class ConvolutionalNetwork(nn.Module):
    """Blocks of convolution 4 x 4 in steps of 2, group norm and ReLU, and a linear map of all that is left.

    Neighbours are looked at together and every place in the same way, from the first update on: the two things that a ViT has to
    learn.

    Arguments:
        config: its sizes.

    >>> import torch
    >>> config = ConvolutionalNetworkConfig(picture_height=8, picture_width=8, picture_channels=1, outputs=3, convolutions=(4, 8))
    >>> pictures = Pictures(torch.zeros(2, 1, 1, 8, 8, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool))
    >>> ConvolutionalNetwork(config)(pictures).shape
    torch.Size([2, 3])
    """

    def __init__(self, config: ConvolutionalNetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.pixels = Pixels((config.picture_channels, config.picture_height, config.picture_width))
        self.blocks = halving_blocks(config.picture_channels, config.convolutions)
        rows, columns = config.grid
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.convolutions[-1] * rows * columns, config.outputs)

    def forward(self, pictures: Pictures) -> Tensor:
        """Images to logits (B, outputs)."""
        features = self.blocks(self.pixels(pictures, self.head.weight.dtype))
        return self.head(self.dropout(features.flatten(1)))
