"""Pictures of any size to one size."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from regard.models.config import check

Fit = Literal["crop", "pad", "stretch"]


def fitted(picture: np.ndarray, height: int, width: int, fit: Fit = "crop") -> np.ndarray:
    """A picture at another size, smoothed where it becomes smaller.

    | fit | what becomes of a picture with other proportions |
    |---|---|
    | `crop` | it fills the frame, and what stands over on two sides is cut off |
    | `pad` | all of it is seen, with black beside it |
    | `stretch` | its proportions change |

    Arguments:
        picture: (Y, X, C) uint8.
        height, width: in pixels.
        fit: see the table.

    Returns:
        (height, width, C) uint8.

    >>> fitted(np.full((4, 8, 1), 200, np.uint8), 2, 2, "pad")[..., 0].tolist()
    [[200, 200], [0, 0]]
    """
    check(height > 0 and width > 0, "the size of pictures", (height, width), "at least 1 x 1", "give one")
    if picture.shape[:2] == (height, width):
        return picture
    rows, columns = picture.shape[:2]
    scales = (height / rows, width / columns)
    if fit != "stretch":
        scales = (max(scales),) * 2 if fit == "crop" else (min(scales),) * 2
    inner = max(1, round(rows * scales[0])), max(1, round(columns * scales[1]))
    pixels = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).unsqueeze(0).float()
    resized = F.interpolate(pixels, size=inner, mode="bilinear", antialias=True, align_corners=False)
    resized = resized.round().clamp(0, 255).to(torch.uint8)[0].permute(1, 2, 0).numpy()
    return _framed(resized, height, width)


def _framed(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of a picture, and black where it has nothing."""
    framed = np.zeros((height, width, picture.shape[2]), np.uint8)
    (top, rows, above), (left, columns, before) = (
        (max(0, (size - room) // 2), min(size, room), max(0, (room - size) // 2))
        for size, room in ((picture.shape[0], height), (picture.shape[1], width))
    )
    framed[above : above + rows, before : before + columns] = picture[top : top + rows, left : left + columns]
    return framed
