"""Pictures and which of their frames are real: what captioners read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """A batch of pictures of one size, or of short sequences of them.

    Arguments:
        pixels: (B, F, C, Y, X) uint8, F frames of C channels, rows from the top; a picture by itself is one frame. What stands at
            a frame of padding is never looked at.
        valid: (B, F) bool, True = a real frame. In every row the real ones stand first, one at least.

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
        """The same pictures on another device."""
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
