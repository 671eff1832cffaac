"""Lambda layers: the context is summarised as a linear map, which is applied to every query (Bello 2021)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.alignments import Soft
from regard.attention.inputs import AttentionInputs
from regard.attention.mechanism import Attention, Declaration

Lambdas = Literal["content", "position", "both"]
"""Which linear maps to use: the content lambda, the position lambdas, or their sum."""


class RelativeEmbeddings(nn.Module):
    """A learned vector for each offset between two positions of a grid: E in section 2 of the paper.

    Positions are numbered row by row. All heads and examples share the vectors.

    Arguments:
        width: k, of a vector.
        rows, columns: of the grid.
        scope: r, odd: offsets of at most (r - 1) / 2 rows and columns have a vector, others are zero; None = all offsets.

    Raises:
        ValueError: if the scope is even.

    >>> RelativeEmbeddings(4, rows=2, columns=3)(torch.arange(6), torch.arange(6)).shape
    torch.Size([6, 6, 4])
    """

    def __init__(self, width: int, *, rows: int, columns: int, scope: int | None = None) -> None:
        super().__init__()
        if scope is not None and (scope < 1 or scope % 2 == 0):
            raise ValueError(f"scope is {scope}; it must be odd, so that each position is the centre of its context")
        self.rows = rows
        self.columns = columns
        self.scope = scope
        self.reach = (rows - 1, columns - 1) if scope is None else (scope // 2, scope // 2)
        down, right = self.reach
        self.weight = nn.Parameter(torch.empty(2 * down + 1, 2 * right + 1, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the vectors small, so that a sum over all positions has about the size of one initial vector."""
        down, right = self.weight.shape[:2]
        nn.init.normal_(self.weight, std=(down * right) ** -0.5)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The vector of each pair of positions.

        Arguments:
            queries: (..., L) integers below rows x columns.
            keys: (..., S) integers below rows x columns.

        Returns:
            (..., L, S, k).
        """
        queries, keys = queries.unsqueeze(-1), keys.unsqueeze(-2)
        down, right = self.reach
        row = keys // self.columns - queries // self.columns
        column = keys % self.columns - queries % self.columns
        found = self.weight[(row + down).clamp(0, 2 * down), (column + right).clamp(0, 2 * right)]
        if self.scope is None:
            return found
        near = (row.abs() <= down) & (column.abs() <= right)
        return found * near.unsqueeze(-1)

    def extra_repr(self) -> str:
        """The grid and the scope."""
        return f"rows={self.rows}, columns={self.columns}" + ("" if self.scope is None else f", scope={self.scope}")


class LambdaAttention(Attention):
    """Linear maps computed from a context and applied to queries (Bello 2021, section 3).

        Kbar = softmax(K) over the m positions of the context,   lambda_c = Kbar^T V,   lambda_n = E_n^T V
        y_n = (lambda_c + lambda_n)^T q_n

    So the weight of position m for query n is `q_n . (Kbar_m + E_nm)`. These weights are linear in the query, can be negative,
    and need not sum to one. `weights` computes them; `forward` computes the maps instead, and never a number for each pair of
    positions. With G key heads and H > G query heads, the query heads of a group share their maps (multi-query lambdas, section
    3.2); in the paper G is 1.

    Padding is left out of the context. If queries see different keys there is no common summary, and the weights are computed
    explicitly; so they are in training with dropout.

    Arguments:
        width: k, of queries and keys.
        rows, columns: of the grid of the context's positions, numbered row by row.
        lambdas: which maps to use.
        scope: r, odd: the context of the position lambdas is r x r around each query, as in the lambda convolution (section 3.2).
        dropout: probability of dropping a weight in training.

    >>> attention = LambdaAttention(4, rows=2, columns=3)
    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 6, 4), key=torch.randn(2, 1, 6, 4))
    >>> value = torch.randn(2, 1, 6, 5)
    >>> torch.allclose(attention(inputs, value), attention.weights(inputs) @ value, atol=1e-5)
    True
    """

    def __init__(
        self,
        width: int,
        *,
        rows: int,
        columns: int,
        lambdas: Lambdas = "both",
        scope: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dropout=dropout)
        self.content = Soft() if lambdas != "position" else None
        self.positions = (
            RelativeEmbeddings(width, rows=rows, columns=columns, scope=scope) if lambdas != "content" else None
        )

    @property
    def declaration(self) -> Declaration:
        """No distribution: weights can be negative."""
        return Declaration(distribution=False)

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) float32: q_n . (Kbar_m + E_nm), zero for a key that the query does not see."""
        exact = inputs.exact
        visible = inputs.visible()
        with torch.autocast(inputs.query.device.type, enabled=False):
            query = inputs.query.to(exact)
            weights = query.new_zeros(inputs.shape)
            if self.content is not None:
                keys = inputs.key_per_query_head.to(exact).transpose(-2, -1).unsqueeze(2)  # (B, H, 1, k, S)
                seen = None if visible is None else visible.unsqueeze(-2)  # of each query: (B, H, L, 1, S)
                weights = weights + (query.unsqueeze(-2) @ self.content(keys, seen, inputs)).squeeze(-2)
            if self.positions is not None:
                found = self.positions(*_places(inputs, self.positions)).to(exact)
                along = "lsk" if found.dim() == 3 else "blsk"
                weights = weights + torch.einsum(f"bhlk,{along}->bhls", query, found)
            return weights if visible is None else weights.masked_fill(~visible, 0.0)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, v) to output (B, H, L, v)."""
        inputs.check_value(value)
        visible = inputs.visible()
        alike = visible is None or visible.shape[1:3] == (1, 1)
        if not alike or (self.training and self.dropout > 0):
            return self._laid_out(inputs, value)
        exact = inputs.exact
        with torch.autocast(inputs.query.device.type, enabled=False):
            # (B, G, H/G, L, k): H/G queries share a map.
            query = inputs.query.to(exact).unflatten(1, (inputs.key.shape[1], -1))
            seen = value.to(exact) if visible is None else value.to(exact).masked_fill(~visible.transpose(-2, -1), 0.0)
            output = query.new_zeros(())
            if self.content is not None:
                keys = self.content(inputs.key.to(exact).transpose(-2, -1), visible, inputs)  # (B, G, k, S)
                output = output + query @ (keys @ seen).unsqueeze(2)
            if self.positions is not None:
                output = output + torch.einsum("bghlk,bglkv->bghlv", query, self._by_position(inputs, seen))
            if visible is not None:
                output = output * visible.any(dim=-1, keepdim=True).unsqueeze(2)
            return output.flatten(1, 2).to(value.dtype)

    def _by_position(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """The position lambdas, one for each query: value (B, G, S, v) to (B, G, L, k, v)."""
        if self.positions is None:
            raise RuntimeError("there are no position lambdas")
        table = self.positions
        every = table.rows * table.columns
        if table.scope is not None and inputs.in_order and inputs.shape[2:] == (every, every):
            return _convolved(table, value)
        found = table(*_places(inputs, table)).to(value.dtype)
        along = "lsk" if found.dim() == 3 else "blsk"
        return torch.einsum(f"{along},bgsv->bglkv", found, value)

    def _laid_out(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        weights = F.dropout(self.weights(inputs), self.dropout, self.training)
        return (weights @ inputs.per_query_head(value).to(weights.dtype)).to(value.dtype)


def _places(inputs: AttentionInputs, table: RelativeEmbeddings) -> tuple[Tensor, Tensor]:
    """The positions of queries and keys in the grid: (L,) and (S,) if all examples have the same, else (B, L) and (B, S)."""
    most = table.rows * table.columns
    if inputs.in_order and max(inputs.shape[2:]) > most:
        raise ValueError(
            f"{inputs.shape[2]} queries and {inputs.shape[3]} keys are more than the {most} positions of the grid"
        )
    queries, keys = inputs.query_positions, inputs.key_positions
    if all(each.shape[0] == 1 or each.stride(0) == 0 for each in (queries, keys)):
        return queries[0], keys[0]
    return queries, keys.expand(len(queries), -1)


def _convolved(table: RelativeEmbeddings, value: Tensor) -> Tensor:
    """The position lambdas as a convolution over the grid, whose cost depends on the scope, not on the grid.

    `value` is (B, G, S, v).
    """
    batch, groups, _, width = value.shape
    grid = value.movedim(-1, -2).reshape(-1, 1, table.rows, table.columns)
    kernel = table.weight.to(value.dtype).permute(2, 0, 1).unsqueeze(1)  # (k, 1, r, r)
    found = F.conv2d(grid, kernel, padding=table.reach)  # (B G v, k, rows, columns)
    return found.flatten(2).view(batch, groups, width, kernel.shape[0], -1).permute(0, 1, 4, 3, 2)
