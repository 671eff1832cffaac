"""Token and position vectors of a model with quantised weights."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from regard.attention import LearnedPositions
from regard.layers import PositionedEmbedding


class RoundedEmbedding(nn.Module):
    """Token vectors and position vectors, those that were learnt kept in bfloat16, and added in float32.

    Arguments:
        embedding: the embedding they come from.
    """

    def __init__(self, embedding: PositionedEmbedding) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(embedding.tokens.weight.detach().bfloat16())
        positions = copy.deepcopy(embedding.positions).requires_grad_(False)
        self.positions = positions.bfloat16() if isinstance(positions, LearnedPositions) else positions.float()
        self.scale = embedding.scale

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, L) ids and (B, L) positions to (B, L, D) float32."""
        return self.tokens(ids).float() * self.scale + self.positions(positions).float()
