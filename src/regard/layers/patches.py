"""Pictures as sequences: patches as vectors, with positions that are learnt."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Grid = tuple[int, int]
"""Rows and columns of patches."""

POSITION_DEVIATION = 0.02
"""Of the normal distribution that positions are drawn from, in the paper."""


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
        token: whether there is x_class, which is learnt.
        positions: whether there is E_pos; without it patches are a set, and their order means nothing.
        deviation: of the normal distribution that positions are drawn from.

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
        deviation: float = POSITION_DEVIATION,
    ) -> None:
        super().__init__()
        self.deviation = deviation
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)  # E
        self.token = nn.Parameter(torch.empty(1, 1, width)) if token else None  # x_class
        places = grid[0] * grid[1] + token
        self.positions = nn.Parameter(torch.empty(1, places, width)) if positions else None  # E_pos
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the authors' code: positions from a normal distribution, the class token zero, E by what goes into it."""
        if self.positions is not None:
            nn.init.normal_(self.positions, std=self.deviation)
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
    """Positions learnt for one grid of patches, for another (Dosovitskiy et al. 2021, section 3.2).

    They are resized as a picture is, bicubically in two dimensions. What stands before the patches, the class token's, stays.

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
