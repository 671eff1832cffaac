"""Batches of images, their patches and annotations, and the interfaces of image classifiers and few-shot learners."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.blocks import Dropout


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """A batch of images of one size, or of short sequences of them.

    Arguments:
        pixels: (B, F, C, Y, X) uint8, F frames of C channels, rows from the top; a single image is one frame. Padding frames are
            ignored.
        valid: (B, F) bool, True = a real frame. In every row the real frames come first; there is at least one.

    Raises:
        ValueError: if the shapes do not fit together, or a dtype is wrong.

    >>> Images.of([np.zeros((1, 8, 6, 3), np.uint8), np.zeros((2, 8, 6, 3), np.uint8)]).valid.tolist()
    [[True, False], [True, True]]
    """

    pixels: Tensor
    valid: Tensor

    def __post_init__(self) -> None:
        fits = self.pixels.dim() == 5 and self.pixels.shape[:2] == self.valid.shape
        if not fits or self.pixels.dtype != torch.uint8 or self.valid.dtype != torch.bool:
            raise ValueError(
                "Images takes pixels (B, F, C, Y, X) uint8 and valid (B, F) bool, True = a real frame, not "
                f"{self.pixels.dtype} {tuple(self.pixels.shape)} and {self.valid.dtype} {tuple(self.valid.shape)}"
            )

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> Images:
        """A batch of sequences of frames (F, Y, X, C) uint8, of one size, with equal or different lengths."""
        longest = max((len(frames) for frames in sequences), default=0)
        valid = np.arange(longest) < np.array([[len(frames)] for frames in sequences]).reshape(-1, 1)
        size = sequences[0].shape[1:] if len(sequences) else (0, 0, 0)
        pixels = np.zeros((len(sequences), longest, *size), np.uint8)
        for row, frames in zip(pixels, sequences, strict=True):
            row[: len(frames)] = frames
        return cls(torch.from_numpy(pixels).permute(0, 1, 4, 2, 3), torch.from_numpy(valid))

    def to(self, device: torch.device | str) -> Images:
        """The same images on another device."""
        return Images(self.pixels.to(device), self.valid.to(device))

    def select(self, rows: Tensor) -> Images:
        """The rows of the index tensor `rows`, in that order."""
        return Images(self.pixels.index_select(0, rows), self.valid.index_select(0, rows))

    def strip(self, row: int) -> np.ndarray:
        """The real frames of one row, side by side, (Y, F * X, 3) uint8, for display."""
        frames = self.pixels[row, self.valid[row]].cpu().permute(2, 0, 3, 1).flatten(1, 2).numpy()
        return frames if frames.shape[2] == 3 else np.repeat(frames[..., :1], 3, axis=2)

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, the number of real frames in each row."""
        return self.valid.sum(dim=1)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.pixels.device

    def __len__(self) -> int:
        return self.pixels.shape[0]


Grid = tuple[int, int]
"""Rows and columns of patches."""

POSITION_INIT_STD = 0.02
"""The standard deviation of initial position embeddings in the paper."""


class PatchEmbedding(nn.Module):
    """The vectors of patches, with a learned class token before them (Dosovitskiy et al. 2021, equation 1).

        z_0 = [x_class; x_1 E; x_2 E; ...; x_N E] + E_pos

    x_n is patch n as one vector; patches are numbered row by row. The projection of all patches by E is computed as a convolution
    whose kernel size and stride are P.

    Arguments:
        channels: C, of the input.
        width: D.
        patch: P, the side of a patch.
        grid: rows and columns of patches.
        token: whether there is a class token x_class.
        positions: whether there are position embeddings E_pos; without them the order of patches has no effect.
        init_std: standard deviation of the initial position embeddings.

    >>> PatchEmbedding(3, 8, patch=4, grid=(2, 3))(torch.zeros(5, 3, 8, 12)).shape
    torch.Size([5, 7, 8])
    """

    def __init__(
        self,
        channels: int,
        width: int,
        *,
        patch: int,
        grid: Grid,
        token: bool = True,
        positions: bool = True,
        init_std: float = POSITION_INIT_STD,
    ) -> None:
        super().__init__()
        self.init_std = init_std
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)  # E
        self.token = nn.Parameter(torch.empty(1, 1, width)) if token else None  # x_class
        places = grid[0] * grid[1] + token
        self.positions = nn.Parameter(torch.empty(1, places, width)) if positions else None  # E_pos
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as the authors' code: positions normal, the class token zero, E by its number of inputs."""
        if self.positions is not None:
            nn.init.normal_(self.positions, std=self.init_std)
        if self.token is not None:
            nn.init.zeros_(self.token)
        incoming = self.projection.weight[0].numel()
        nn.init.trunc_normal_(self.projection.weight, std=incoming**-0.5)
        if self.projection.bias is not None:
            nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, Y, X) to (B, N + 1, D), or without a class token to (B, N, D)."""
        patches = self.projection(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            patches = torch.cat((self.token.to(patches.dtype).expand(len(patches), -1, -1), patches), dim=1)
        return patches if self.positions is None else patches + self.positions


def resized_positions(positions: Tensor, before: Grid, after: Grid) -> Tensor:
    """Position embeddings of one grid of patches, interpolated for another grid (Dosovitskiy et al. 2021, section 3.2).

    The interpolation is bicubic, in two dimensions. The vector of the class token is kept.

    Arguments:
        positions: (1, T + N, D), the last N are those of patches, row by row.
        before, after: the grid of these positions, and the new grid.

    >>> resized_positions(torch.ones(1, 5, 3), (2, 2), (4, 6)).shape
    torch.Size([1, 25, 3])
    """
    if before == after:
        return positions
    leading = positions.shape[1] - before[0] * before[1]
    first, patches = positions[:, :leading], positions[:, leading:]
    plane = patches.unflatten(1, before).permute(0, 3, 1, 2)
    found = F.interpolate(plane.float(), size=after, mode="bicubic", align_corners=False).to(positions.dtype)
    return torch.cat((first, found.flatten(2).transpose(1, 2)), dim=1)


GROUP = 8
"""The number of channels in a group of group norm, if it divides the number of channels."""


class ImageEncoder(nn.Module):
    """A convolutional network that maps images to one vector for each position of a grid.

        f  = CNN(pixels)                                blocks of a 4 x 4 convolution with stride 2, group norm, ReLU
        a_i = ReLU(W (f_i + row_i + column_i + frame_i) + b)

    Each block halves height and width, so n blocks give a grid of Y / 2^n rows and X / 2^n columns. The vector of a position
    depends only on a part of the image, so learned vectors for its row, column and frame are added.

    The frames of a sequence are placed side by side, and positions are numbered row by row through all frames. Group norm (Wu and
    He 2018) normalises each frame separately, so the result does not depend on the batch or on padding.

    Arguments:
        channels: of the images: 3, or 1 for grey ones.
        convolutions: channels of each block.
        width: D, of an annotation.
        height, image_width: of the images in pixels, multiples of 2^n.
        frames: the largest number of frames in a sequence; 1 for images.
        dropout: probability of dropping an entry of an annotation in training.

    >>> encoder = ImageEncoder(3, (8, 16), 12, height=8, image_width=16)
    >>> annotations, valid = encoder(Images(torch.zeros(2, 1, 3, 8, 16, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.bool)))
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
        image_width: int,
        frames: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size = (channels, height, image_width)
        self.frames = frames
        self.grid = (height >> len(convolutions), image_width >> len(convolutions))
        self.blocks = halving_blocks(channels, convolutions)
        last = convolutions[-1]
        self.row = nn.Embedding(self.grid[0], last)
        self.column = nn.Embedding(self.grid[1], last)
        self.frame = nn.Embedding(frames, last) if frames > 1 else None
        self.output = nn.Linear(last, width)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the position vectors N(0, 0.5^2), about the size of the differences between normalised features."""
        for table in (self.row, self.column, self.frame):
            if table is not None:
                nn.init.normal_(table.weight, std=0.5)

    def forward(self, images: Images) -> tuple[Tensor, Tensor]:
        """Images (B, F, C, Y, X) to annotations (B, S, D), and (B, S) bool, True = of a real frame; S = rows x F x columns.

        Raises:
            ValueError: for images of another size, or more than `frames` frames.
        """
        count, frames = images.valid.shape
        if tuple(images.pixels.shape[2:]) != self.size or frames > self.frames:
            raise ValueError(
                f"images of {frames} frames and {tuple(images.pixels.shape[2:])} (channels, height, width) for an encoder of "
                f"{self.frames} and {self.size}"
            )
        rows, columns = self.grid
        pixels = images.pixels.flatten(0, 1).to(self.output.weight.dtype) / 127.5 - 1
        features = (
            self.blocks(pixels).unflatten(0, (count, frames)).permute(0, 3, 1, 4, 2)
        )  # (B, rows, F, columns, channels)
        places = self.row.weight.view(rows, 1, 1, -1) + self.column.weight
        if self.frame is not None:
            places = places + self.frame.weight[:frames].unsqueeze(1)
        annotations = torch.relu(self.output(features + places)).flatten(1, 3)
        valid = images.valid.view(count, 1, frames, 1).expand(-1, rows, -1, columns).flatten(1)
        return self.dropout(annotations), valid


def mean_annotation(annotations: Tensor, valid: Tensor) -> Tensor:
    """The mean over real positions: annotations (B, S, D) and valid (B, S) to (B, D)."""
    real = valid.unsqueeze(-1).to(annotations.dtype)
    return (annotations * real).sum(dim=1) / real.sum(dim=1)


def halving_block(before: int, after: int) -> nn.Sequential:
    """A 4 x 4 convolution with stride 2, group norm and ReLU: (B, before, Y, X) to (B, after, Y / 2, X / 2)."""
    groups = after // GROUP if after % GROUP == 0 else 1
    # A stride of 2, because max pooling over 2 x 2 would cost three times as much as everything else.
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=4, stride=2, padding=1), nn.GroupNorm(groups, after), nn.ReLU()
    )


def halving_blocks(channels: int, convolutions: Sequence[int]) -> nn.Sequential:
    """A sequence of such blocks, one for each number of channels; without numbers it is the identity."""
    return nn.Sequential(*(halving_block(*pair) for pair in itertools.pairwise([channels, *convolutions])))


class ImageClassifierConfig(Protocol):
    """The sizes of the model that the task needs."""

    @property
    def image_height(self) -> int:
        """Rows of an image, in pixels."""
        ...

    @property
    def image_width(self) -> int:
        """Columns of an image, in pixels."""
        ...

    @property
    def image_channels(self) -> int:
        """3 for colours, 1 for grey."""
        ...

    @property
    def outputs(self) -> int:
        """The number of classes."""
        ...


class ImageClassifier(Protocol):
    """A model that predicts the class of an image."""

    @property
    def config(self) -> ImageClassifierConfig:
        """The sizes of the model."""
        ...

    def __call__(self, images: Images) -> Tensor:
        """Images of one frame each to (B, outputs) logits."""
        ...


SCALE = 1 / 255
"""The factor that maps pixels to [0, 1]."""


class Pixels(nn.Module):
    """Normalises the pixels of images of one size.

        x = (scale pixels - mean) / std

    Arguments:
        size: (C, Y, X) of an image.
        mean, std: one number for all channels, or one for each; 0.5 and 0.5 map pixels to [-1, 1].
        scale: the factor of pixels, which are 0 to 255, before that.

    >>> white = Images(torch.full((3, 1, 1, 2, 2), 255, dtype=torch.uint8), torch.ones(3, 1, dtype=torch.bool))
    >>> Pixels((1, 2, 2))(white).unique()
    tensor([1.])
    """

    def __init__(
        self,
        size: tuple[int, int, int],
        *,
        mean: tuple[float, ...] = (0.5,),
        std: tuple[float, ...] = (0.5,),
        scale: float = SCALE,
    ) -> None:
        super().__init__()
        self.size = size
        self.mean = mean
        self.std = std
        self.scale = scale

    def forward(self, images: Images, dtype: torch.dtype = torch.float32) -> Tensor:
        """B images to (B, C, Y, X).

        Raises:
            ValueError: for images of another size, or of several frames.
        """
        found = tuple(images.pixels.shape[2:])
        if found != self.size or images.pixels.shape[1] != 1:
            raise ValueError(
                f"images of {images.pixels.shape[1]} frames and {found} (channels, height, width) for a model of one frame "
                f"and {self.size}"
            )
        pixels = images.pixels[:, 0].to(dtype)
        mean, std = (
            torch.tensor(each, device=pixels.device, dtype=dtype).view(-1, 1, 1) for each in (self.mean, self.std)
        )
        # Division is correctly rounded; multiplication by a rounded 1 / 255 would not be.
        scaled = pixels / 255 if self.scale == SCALE else pixels * self.scale
        return (scaled - mean) / std

    def extra_repr(self) -> str:
        """The size."""
        return f"size={self.size}"


class FewShotConfig(Protocol):
    """The sizes of the model that the task needs."""

    @property
    def ways(self) -> int:
        """N, the classes of an episode."""
        ...

    @property
    def shots(self) -> int:
        """K, the labelled images of each class."""
        ...

    @property
    def side(self) -> int:
        """Rows and columns of an image, in pixels."""
        ...


class FewShotLearner(Protocol):
    """A few-shot classifier: it gets the classes from the labelled images in the same sequence."""

    @property
    def config(self) -> FewShotConfig:
        """The sizes of the model."""
        ...

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        """The class of the last image of each episode.

        Arguments:
            images: (B, T, Y, X) uint8, T - 1 labelled images, and one without a label.
            labels: (B, T - 1) int64, in [0, N).

        Returns:
            (B, N) logits.
        """
        ...
