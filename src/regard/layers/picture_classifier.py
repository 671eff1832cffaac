"""What a model is asked that tells the class of a picture, and what such models do with pixels first."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.pictures import Pictures


class PictureClassifierConfig(Protocol):
    """What the task needs to know of a model's sizes."""

    @property
    def picture_height(self) -> int:
        """Rows of a picture, in pixels."""
        ...

    @property
    def picture_width(self) -> int:
        """Columns of a picture, in pixels."""
        ...

    @property
    def picture_channels(self) -> int:
        """3 for colours, 1 for grey."""
        ...

    @property
    def outputs(self) -> int:
        """How many classes there are."""
        ...


class PictureClassifier(Protocol):
    """A model that tells a class of a whole picture."""

    @property
    def config(self) -> PictureClassifierConfig:
        """Its sizes."""
        ...

    def __call__(self, pictures: Pictures) -> Tensor:
        """Pictures of one frame each to (B, outputs) logits."""
        ...


SCALE = 1 / 255
"""What pixels are multiplied by so that they lie between 0 and 1."""


class Pixels(nn.Module):
    """Pictures of one size as numbers about zero.

        x = (scale pixels - mean) / deviation

    Arguments:
        size: (C, Y, X) of a picture.
        mean, deviation: one number for all channels, or one for each; with 0.5 and 0.5 numbers lie between -1 and 1.
        scale: what pixels, which are 0 to 255, are multiplied by before.

    >>> white = Pictures(torch.full((3, 1, 1, 2, 2), 255, dtype=torch.uint8), torch.ones(3, 1, dtype=torch.bool))
    >>> Pixels((1, 2, 2))(white).unique()
    tensor([1.])
    """

    def __init__(
        self,
        size: tuple[int, int, int],
        *,
        mean: tuple[float, ...] = (0.5,),
        deviation: tuple[float, ...] = (0.5,),
        scale: float = SCALE,
    ) -> None:
        super().__init__()
        self.size = size
        self.mean = mean
        self.deviation = deviation
        self.scale = scale

    def forward(self, pictures: Pictures, dtype: torch.dtype = torch.float32) -> Tensor:
        """B pictures to (B, C, Y, X).

        Raises:
            ValueError: for pictures of another size, or of several frames.
        """
        found = tuple(pictures.pixels.shape[2:])
        if found != self.size or pictures.pixels.shape[1] != 1:
            raise ValueError(
                f"pictures of {pictures.pixels.shape[1]} frames and {found} (channels, height, width) for a model of one frame "
                f"and {self.size}"
            )
        pixels = pictures.pixels[:, 0].to(dtype)
        mean, deviation = (
            torch.tensor(each, device=pixels.device, dtype=dtype).view(-1, 1, 1) for each in (self.mean, self.deviation)
        )
        # The quotient is the nearest number there is, which a product with a rounded 1 / 255 is not.
        scaled = pixels / 255 if self.scale == SCALE else pixels * self.scale
        return (scaled - mean) / deviation

    def extra_repr(self) -> str:
        """The size."""
        return f"size={self.size}"
