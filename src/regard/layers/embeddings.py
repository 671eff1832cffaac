"""Token embeddings with positions added."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout


class PositionedEmbedding(nn.Module):
    """Token vectors, scaled, plus position vectors, then dropout (Vaswani et al. 2017, sections 3.4 and 3.5).

        x = sqrt(D) * E[token] + P[position]

    Arguments:
        tokens: the embedding table E; passed in, because source, target and output may share one.
        positions: P, a module from positions (B, L) to (B, L, D).
        dropout: probability of dropping an entry in training.
        scale: of the token vectors, where it is another than sqrt(D); GPT has 1.
    """

    def __init__(
        self, tokens: nn.Embedding, positions: nn.Module, *, dropout: float = 0.0, scale: float | None = None
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale is None else scale

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, L) ids and (B, L) positions to (B, L, D)."""
        vectors = self.tokens(ids)
        return self.dropout((vectors if self.scale == 1 else vectors * self.scale) + self.positions(positions))


def token_embedding(vocabulary: int, width: int, *, padding: int | None = None) -> nn.Embedding:
    """An embedding table with entries of standard deviation D^-1/2, so that scaled by sqrt(D) they have variance one.

    Arguments:
        vocabulary: number of rows.
        width: D.
        padding: a row that is zero and gets no gradient from being looked up.
    """
    table = nn.Embedding(vocabulary, width, padding_idx=padding)
    nn.init.normal_(table.weight, std=width**-0.5)
    if padding is not None:
        with torch.no_grad():
            table.weight[padding].zero_()
    return table
