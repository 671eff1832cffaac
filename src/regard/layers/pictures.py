"""Pictures: as a batch, as patches or annotations that a model attends to, and what models that tell their class are asked."""

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
class Pictures:
    """A batch of images of one size, or of short sequences of them.

    Arguments:
        pixels: (B, F, C, Y, X) uint8, F frames of C channels, rows from the top; an image by itself is one frame. What is at
            a frame of padding is never looked at.
        valid: (B, F) bool, True = a real frame. In every row the real ones are first, one at least.

    Raises:
        ValueError: where the shapes do not fit together or a dtype is wrong.

    >>> Pictures.of([np.zeros((1, 8, 6, 3), np.uint8), np.zeros((2, 8, 6, 3), np.uint8)]).valid.tolist()
    [[True, False], [True, True]]
    """

    pixels: Tensor
    valid: Tensor

    def __post_init__(self) -> None:
        fits = self.pixels.dim() == 5 and self.pixels.shape[:2] == self.valid.shape
        if not fits or self.pixels.dtype != torch.uint8 or self.valid.dtype != torch.bool:
            raise ValueError(
                "Pictures takes pixels (B, F, C, Y, X) uint8 and valid (B, F) bool, True = a real frame, not "
                f"{self.pixels.dtype} {tuple(self.pixels.shape)} and {self.valid.dtype} {tuple(self.valid.shape)}"
            )

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> Pictures:
        """Sequences of frames (F, Y, X, C) uint8, of one size and perhaps of different lengths, side by side."""
        longest = max((len(frames) for frames in sequences), default=0)
        valid = np.arange(longest) < np.array([[len(frames)] for frames in sequences]).reshape(-1, 1)
        size = sequences[0].shape[1:] if len(sequences) else (0, 0, 0)
        pixels = np.zeros((len(sequences), longest, *size), np.uint8)
        for row, frames in zip(pixels, sequences, strict=True):
            row[: len(frames)] = frames
        return cls(torch.from_numpy(pixels).permute(0, 1, 4, 2, 3), torch.from_numpy(valid))

    def to(self, device: torch.device | str) -> Pictures:
        """The same images on another device."""
        return Pictures(self.pixels.to(device), self.valid.to(device))

    def select(self, rows: Tensor) -> Pictures:
        """The rows of the index tensor `rows`, in that order."""
        return Pictures(self.pixels.index_select(0, rows), self.valid.index_select(0, rows))

    def strip(self, row: int) -> np.ndarray:
        """The real frames of one row side by side, (Y, F * X, 3) uint8, to be shown."""
        frames = self.pixels[row, self.valid[row]].cpu().permute(2, 0, 3, 1).flatten(1, 2).numpy()
        return frames if frames.shape[2] == 3 else np.repeat(frames[..., :1], 3, axis=2)

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, real frames in each row."""
        return self.valid.sum(dim=1)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.pixels.device

    def __len__(self) -> int:
        return self.pixels.shape[0]


Grid = tuple[int, int]
"""Rows and columns of patches."""

POSITION_INIT_STD = 0.02
"""Of the normal distribution that positions are sampled from, in the paper."""


class PatchEmbedding(nn.Module):
    """A vector of each patch, and perhaps one before them that stands for the whole (Dosovitskiy et al. 2021, equation 1).

        z_0 = [x_class; x_1 E; x_2 E; ...; x_N E] + E_pos

    x_n is patch n laid out as one vector, patches numbered row by row. Cutting patches out and mapping each by E is a convolution
    whose kernel and step are a patch, so it is computed as one.

    Arguments:
        channels: C, of what is cut into patches.
        width: D.
        patch: P, from side to side.
        grid: rows and columns of patches.
        token: whether there is x_class, which is learned.
        positions: whether there is E_pos; without it patches are a set, and their order means nothing.
        init_std: of the normal distribution that positions are sampled from.

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
        """As the authors' code: positions from a normal distribution, the class token zero, E by what goes into it."""
        if self.positions is not None:
            nn.init.normal_(self.positions, std=self.init_std)
        if self.token is not None:
            nn.init.zeros_(self.token)
        incoming = self.projection.weight[0].numel()
        nn.init.trunc_normal_(self.projection.weight, std=incoming**-0.5)
        if self.projection.bias is not None:
            nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, Y, X) to (B, N + 1, D), without a token (B, N, D)."""
        patches = self.projection(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            patches = torch.cat((self.token.to(patches.dtype).expand(len(patches), -1, -1), patches), dim=1)
        return patches if self.positions is None else patches + self.positions


def resized_positions(positions: Tensor, before: Grid, after: Grid) -> Tensor:
    """Positions learned for one grid of patches, for another (Dosovitskiy et al. 2021, section 3.2).

    They are resized as an image is, bicubically in two dimensions. What is before the patches, the class token's, stays.

    Arguments:
        positions: (1, T + N, D), the last N those of patches, row by row.
        before, after: the grid that they are of, and that they are to be of.

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
"""Channels that are normalised together, where they divide by it."""


class PictureEncoder(nn.Module):
    """Images to one vector for each place of a grid laid over them.

        f  = CNN(pixels)                                blocks of convolution 4 x 4 in steps of 2, group norm, ReLU
        a_i = ReLU(W (f_i + row_i + column_i + frame_i) + b)

    Each block halves height and width, so n blocks make a grid of Y / 2^n rows and X / 2^n columns. A place sees the part of the
    image around it, not all: so its place is added, by learned vectors for its row, column and frame.

    The frames of a sequence stand side by side, as in a strip of film: places are numbered row by row through the strip. Group
    norm (Wu and He 2018) looks at one frame alone, so neither the batch nor padding changes what comes out.

    Arguments:
        channels: of the pictures: 3, or 1 for grey ones.
        convolutions: channels of each block.
        width: D, of an annotation.
        height, picture_width: of the images in pixels; each divides by 2^n.
        frames: the most frames of a sequence; 1 for images.
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
        """Initialise the vectors of places N(0, 0.5^2): about as large as what a normalised feature is distinguished by."""
        for table in (self.row, self.column, self.frame):
            if table is not None:
                nn.init.normal_(table.weight, std=0.5)

    def forward(self, pictures: Pictures) -> tuple[Tensor, Tensor]:
        """Images (B, F, C, Y, X) to annotations (B, S, D) and which are of real frames (B, S), S = rows x F x columns.

        Raises:
            ValueError: for images of another size, or more frames than there are vectors for.
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
    """Such a block for each of the numbers of channels, one behind the other; none leave images as they are."""
    return nn.Sequential(*(halving_block(*pair) for pair in itertools.pairwise([channels, *convolutions])))


class PictureClassifierConfig(Protocol):
    """What the task needs to know of a model's sizes."""

    @property
    def picture_height(self) -> int:
        """Rows of an image, in pixels."""
        ...

    @property
    def picture_width(self) -> int:
        """Columns of an image, in pixels."""
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
    """A model that predicts a class of a whole image."""

    @property
    def config(self) -> PictureClassifierConfig:
        """Its sizes."""
        ...

    def __call__(self, pictures: Pictures) -> Tensor:
        """Images of one frame each to (B, outputs) logits."""
        ...


SCALE = 1 / 255
"""What pixels are multiplied by so that they lie between 0 and 1."""


class Pixels(nn.Module):
    """Images of one size as numbers about zero.

        x = (scale pixels - mean) / std

    Arguments:
        size: (C, Y, X) of an image.
        mean, std: one number for all channels, or one for each; with 0.5 and 0.5 numbers lie between -1 and 1.
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
        std: tuple[float, ...] = (0.5,),
        scale: float = SCALE,
    ) -> None:
        super().__init__()
        self.size = size
        self.mean = mean
        self.std = std
        self.scale = scale

    def forward(self, pictures: Pictures, dtype: torch.dtype = torch.float32) -> Tensor:
        """B images to (B, C, Y, X).

        Raises:
            ValueError: for images of another size, or of several frames.
        """
        found = tuple(pictures.pixels.shape[2:])
        if found != self.size or pictures.pixels.shape[1] != 1:
            raise ValueError(
                f"pictures of {pictures.pixels.shape[1]} frames and {found} (channels, height, width) for a model of one frame "
                f"and {self.size}"
            )
        pixels = pictures.pixels[:, 0].to(dtype)
        mean, std = (
            torch.tensor(each, device=pixels.device, dtype=dtype).view(-1, 1, 1) for each in (self.mean, self.std)
        )
        # The quotient is the nearest number there is, which a product with a rounded 1 / 255 is not.
        scaled = pixels / 255 if self.scale == SCALE else pixels * self.scale
        return (scaled - mean) / std

    def extra_repr(self) -> str:
        """The size."""
        return f"size={self.size}"


class FewShotConfig(Protocol):
    """What the task needs to know of a model's sizes."""

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
    """A model that learns within a sequence: what it knows of the classes is what it has just been shown."""

    @property
    def config(self) -> FewShotConfig:
        """Its sizes."""
        ...

    def __call__(self, pictures: Tensor, labels: Tensor) -> Tensor:
        """The class of the last image of each episode.

        Arguments:
            pictures: (B, T, Y, X) uint8, T - 1 labelled ones and the one that is asked about.
            labels: (B, T - 1) int64, in [0, N).

        Returns:
            (B, N) logits.
        """
        ...
