"""The location score: a state says where to look without looking."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs
from regard.attention.positions import check_length
from regard.attention.scores import Score


class Location(Score):
    """A score from the query alone, one for each place in the source (Luong et al. 2015, section 3.1, *location*).

        score(q, k_s) = (Wa q)_s

    What stands at a place has no say, only where it stands: place s is one of `inputs.key_places`, counted from the first real
    token, so padding on the left shifts nothing.

    Arguments:
        width: E, the size of one query.
        maximum: places in the table Wa (maximum, E); a longer source is refused.

    Raises:
        ValueError: for a table without places.

    >>> score = Location(3, maximum=5)
    >>> score(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 4, 3)).shape
    torch.Size([1, 1, 2, 4])
    """

    def __init__(self, width: int, maximum: int) -> None:
        super().__init__()
        if maximum < 1:
            raise ValueError(f"maximum is {maximum}; a table of places needs at least 1")
        self.maximum = maximum
        self.weight = nn.Parameter(torch.empty(maximum, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Wa as PyTorch draws a linear layer."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            InputError: for a source with more tokens than the table has places.
        """
        slots = key.shape[-2]
        positions = None if inputs is None else inputs.key_positions
        # Positions count real tokens, so there are never more than slots: only a longer source has to be looked at.
        if slots > self.maximum:
            longest = slots if positions is None else int(positions.max()) + 1
            check_length(longest, self.maximum, "source", "maximum of the location table")
        places = query @ self.weight[: min(slots, self.maximum)].to(query.dtype).t()
        if positions is None:
            return places
        return places.gather(-1, positions[:, None, None, :].expand(*query.shape[:3], slots))
