"""Local attention in chunks: each chunk of a text looks at itself and at those beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.alignments import Soft
from regard.attention.inputs import AttentionInputs
from regard.attention.mechanism import Attention, Declaration


def filled_length(length: int, chunks: Sequence[int]) -> int:
    """The tokens that a text has once padding is put behind it, as Hugging Face's code puts it.

    A text of more tokens than the shortest chunk has is filled to a multiple of the length of every chunk.

    >>> [filled_length(length, (4, 6)) for length in (4, 5, 13)]
    [4, 12, 24]
    """
    multiple = math.lcm(*chunks)
    return length if length <= min(chunks) else -(-length // multiple) * multiple


class ChunkedAttention(Attention):
    """Scaled dot-product attention to the keys of the own chunk and of so many before it (the local layers of Reformer's code).

        s_ij = q_i . k_j / sqrt(E),   c(j) = floor(j / m)
        weights = softmax of s over the visible j with c(i) - before <= c(j) <= c(i)

    With `filled` a text has the n chunks that Hugging Face's code gives it. There the chunks before the first are the last ones,
    which no query sees that reads from the left, and from the n-th chunk before on it is the own once more: with before >= n > 1
    each of its keys counts before - n + 2 times, which adds the logarithm of that to s_ij.

    Time and memory grow with the length, not with its square. Positions are those of the inputs. Where
    any are given, as with padding on the left, the whole matrix of weights is computed.

    Arguments:
        chunk: m, in tokens.
        before: how many chunks to look back, besides the own.
        dropout: probability of dropping a weight in training.
        filled: the lengths of all chunks of a model, see `filled_length`; none, where the text alone is cut.

    Raises:
        ValueError: for a chunk below 1 or a negative number of chunks.

    >>> inputs = AttentionInputs(query=torch.zeros(1, 1, 6, 2), key=torch.zeros(1, 1, 6, 2))
    >>> ChunkedAttention(chunk=2).weights(inputs)[0, 0, 5].tolist()
    [0.0, 0.0, 0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self, *, chunk: int, before: int = 1, dropout: float = 0.0, filled: Sequence[int] = ()) -> None:
        super().__init__(dropout=dropout)
        if chunk < 1 or before < 0:
            raise ValueError(f"chunks of {chunk} and {before} before: there is at least one token in a chunk")
        self.chunk = chunk
        self.before = before
        self.filled = tuple(filled)

    @property
    def declaration(self) -> Declaration:
        """No distribution over all that is seen: beyond the chunks nothing has weight."""
        return Declaration(distribution=False)

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the equation above, plainly."""
        exact = inputs.exact
        with torch.autocast(inputs.query.device.type, enabled=False):
            scores = inputs.query.to(exact) @ inputs.key_per_query_head.to(exact).transpose(-1, -2)
            seen = inputs.visible()
            back = self._back(inputs)
            near = (back >= 0) & (back <= self.before)
            scores = scores / math.sqrt(inputs.query.shape[-1])
            times = self._times(inputs.shape[3])
            if times > 1:
                scores = scores + (back == 0) * math.log(times)
            return Soft()(scores, near if seen is None else near & seen, inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        queries, keys = inputs.shape[2:]
        whole = keys <= self.chunk or self._times(keys) > 1
        if whole or queries != keys or not inputs.in_order:
            return super().forward(inputs, value)
        inputs.check_value(value)
        query = self._cut(inputs.query, 0)
        key, value = (self._cut(inputs.per_query_head(x), self.before) for x in (inputs.key, value))
        seen = self._seen(inputs)
        batch, heads, count = query.shape[:3]
        output = F.scaled_dot_product_attention(
            query.flatten(0, 2),
            key.flatten(0, 2),
            value.flatten(0, 2),
            attn_mask=seen.expand(batch, heads, *seen.shape[2:]).flatten(0, 2),
            dropout_p=self.dropout if self.training else 0.0,
        )
        output = output.unflatten(0, (batch, heads, count))
        # A query with nothing to see looked at everything alike.
        output = output * seen.any(dim=-1, keepdim=True)
        return output.flatten(2, 3)[:, :, :queries]

    def extra_repr(self) -> str:
        """Its sizes."""
        return ", ".join(part for part in (f"chunk={self.chunk}, before={self.before}", super().extra_repr()) if part)

    def _times(self, keys: int) -> int:
        """How often a key of a query's own chunk counts."""
        count = -(-filled_length(keys, self.filled or (self.chunk,)) // self.chunk)
        return max(1, self.before - count + 2) if self.filled and count > 1 else 1

    def _back(self, inputs: AttentionInputs) -> Tensor:
        """(B or 1, 1, L, S), how many chunks before that of a query each key stands."""
        query, key = inputs.query_positions // self.chunk, inputs.key_positions // self.chunk
        return (query.unsqueeze(-1) - key.unsqueeze(-2)).unsqueeze(1)

    def _cut(self, x: Tensor, before: int) -> Tensor:
        """X (B, H, S, E) to windows of chunks (B, H, n, (before + 1) m, E), with zeros before the first and after the last."""
        count = -(-x.shape[2] // self.chunk)
        x = F.pad(x, (0, 0, before * self.chunk, count * self.chunk - x.shape[2])).unflatten(2, (-1, self.chunk))
        return torch.cat([x[:, :, step : step + count] for step in range(before + 1)], dim=3)

    def _seen(self, inputs: AttentionInputs) -> Tensor:
        """(B or 1, H or 1, n, m, w) bool, which keys of its window a query may see."""
        keys, device = inputs.shape[3], inputs.query.device
        count = -(-keys // self.chunk)
        first = torch.arange(count, device=device).view(1, 1, -1, 1, 1) * self.chunk
        query = first + torch.arange(self.chunk, device=device).view(-1, 1)
        key = first + torch.arange(-self.before * self.chunk, self.chunk, device=device)
        there = (key >= 0) & (key < keys)
        if inputs.mask is None:
            return there.expand(-1, -1, -1, self.chunk, -1)
        batch, heads = inputs.shape[:2]
        row = torch.arange(batch, device=device).view(-1, 1, 1, 1, 1)
        head = torch.arange(heads, device=device).view(1, -1, 1, 1, 1)
        return there & inputs.mask(row, head, query.clamp_max(keys - 1), key.clamp(0, keys - 1))
