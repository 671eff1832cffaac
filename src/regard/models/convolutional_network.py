"""A plain convolutional network for pictures: what models with attention are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from regard.layers import Dropout, Pictures, Pixels, halving_blocks
from regard.models.pictures import check_channels, check_picture_classifier


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionalNetworkConfig:
    """The sizes of a convolutional network.

    Arguments:
        picture_height, picture_width, picture_channels: of the pictures, in pixels. Filled in by the task.
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
        """Rows and columns that are left of a picture; at least one of each."""
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
        """Pictures to logits (B, outputs)."""
        features = self.blocks(self.pixels(pictures, self.head.weight.dtype))
        return self.head(self.dropout(features.flatten(1)))
