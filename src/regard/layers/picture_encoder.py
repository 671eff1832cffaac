"""From pictures to annotations: a small convolutional network, and where in the picture each annotation is from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.pictures import Pictures

GROUP = 8
"""Channels that are normalised together, where they divide by it."""


class PictureEncoder(nn.Module):
    """Pictures to one vector for each place of a grid laid over them.

        f  = CNN(pixels)                                blocks of convolution 4 x 4 in steps of 2, group norm, ReLU
        a_i = ReLU(W (f_i + row_i + column_i + frame_i) + b)

    Each block halves height and width, so n blocks make a grid of Y / 2^n rows and X / 2^n columns. A place sees the part of the
    picture around it, not all: so it is told where it is, by learnt vectors for its row, column and frame.

    The frames of a sequence stand side by side, as in a strip of film: places are numbered row by row through the strip. Group
    norm (Wu and He 2018) looks at one frame alone, so neither the batch nor padding changes what comes out.

    Arguments:
        channels: of the pictures: 3, or 1 for grey ones.
        convolutions: channels of each block.
        width: D, of an annotation.
        height, picture_width: of the pictures in pixels; each divides by 2^n.
        frames: the most frames of a sequence; 1 for pictures.
        dropout: probability of dropping an entry of an annotation in training.

    >>> encoder = PictureEncoder(3, (8, 16), 12, height=8, picture_width=16)
    >>> annotations, valid = encoder(Pictures(torch.zeros(2, 1, 3, 8, 16, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool)))
    >>> annotations.shape, valid.shape
    (torch.Size([2, 8, 12]), torch.Size([2, 8]))
    """

    def __init__(
        self,
        channels: int,
        convolutions: Sequence[int],
        width: int,
        *,
        height: int,
        picture_width: int,
        frames: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size = (channels, height, picture_width)
        self.frames = frames
        self.grid = (height >> len(convolutions), picture_width >> len(convolutions))
        self.blocks = halving_blocks(channels, convolutions)
        last = convolutions[-1]
        self.row = nn.Embedding(self.grid[0], last)
        self.column = nn.Embedding(self.grid[1], last)
        self.frame = nn.Embedding(frames, last) if frames > 1 else None
        self.output = nn.Linear(last, width)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors of places N(0, 0.5^2): about as large as what a normalised feature is told apart by."""
        for table in (self.row, self.column, self.frame):
            if table is not None:
                nn.init.normal_(table.weight, std=0.5)

    def forward(self, pictures: Pictures) -> tuple[Tensor, Tensor]:
        """Pictures (B, F, C, Y, X) to annotations (B, S, D) and which are of real frames (B, S), S = rows x F x columns.

        Raises:
            ValueError: for pictures of another size, or more frames than there are vectors for.
        """
        count, frames = pictures.valid.shape
        if tuple(pictures.pixels.shape[2:]) != self.size or frames > self.frames:
            raise ValueError(
                f"pictures of {frames} frames and {tuple(pictures.pixels.shape[2:])} (channels, height, width) for an encoder of "
                f"{self.frames} and {self.size}"
            )
        rows, columns = self.grid
        pixels = pictures.pixels.flatten(0, 1).to(self.output.weight.dtype) / 127.5 - 1
        features = (
            self.blocks(pixels).unflatten(0, (count, frames)).permute(0, 3, 1, 4, 2)
        )  # (B, rows, F, columns, channels)
        places = self.row.weight.view(rows, 1, 1, -1) + self.column.weight
        if self.frame is not None:
            places = places + self.frame.weight[:frames].unsqueeze(1)
        annotations = torch.relu(self.output(features + places)).flatten(1, 3)
        valid = pictures.valid.view(count, 1, frames, 1).expand(-1, rows, -1, columns).flatten(1)
        return self.dropout(annotations), valid


def mean_annotation(annotations: Tensor, valid: Tensor) -> Tensor:
    """The mean over real places: annotations (B, S, D) and valid (B, S) to (B, D)."""
    real = valid.unsqueeze(-1).to(annotations.dtype)
    return (annotations * real).sum(dim=1) / real.sum(dim=1)


def halving_block(before: int, after: int) -> nn.Sequential:
    """A convolution 4 x 4 in steps of 2, group norm, ReLU: (B, before, Y, X) to (B, after, Y / 2, X / 2)."""
    groups = after // GROUP if after % GROUP == 0 else 1
    # In steps of two: taking the maximum over 2 x 2 instead would cost three times as much as all the rest.
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=4, stride=2, padding=1), nn.GroupNorm(groups, after), nn.ReLU()
    )


def halving_blocks(channels: int, convolutions: Sequence[int]) -> nn.Sequential:
    """Such a block for each of the numbers of channels, one behind the other; none leave pictures as they are."""
    return nn.Sequential(*(halving_block(*pair) for pair in itertools.pairwise([channels, *convolutions])))
