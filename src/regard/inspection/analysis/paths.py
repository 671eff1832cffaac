"""A stack of attention alone as the sum of its paths (Dong et al. 2021, section 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer
from regard.errors import InputError
from regard.inspection.analysis.rank_one import composite_norm, relative_residual
from regard.layers import EncoderBlock, Residual, Straight


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PathLengths:
    """What goes through a stack by paths of each length.

        X_L = sum over paths (h_1 ... h_L) of  P_{h_L} ... P_{h_1} X W_{h_1} ... W_{h_L}  +  1 b^T

    A path takes in each layer one head, or where there are skip connections the skip, for which P and W are the identity. Its
    length is how many heads it takes. P are the weights that the model itself computes on this text, W_h is a head's map of
    values and of outputs; all biases together are the same row b for every token.

    Arguments:
        terms: (L + 1, N, D), the sum over all paths of 0, 1, ... L heads; zeros where there is none.
        counts: how many paths of each length there are.
        bias: (D,), b.
    """

    terms: Tensor
    counts: tuple[int, ...]
    bias: Tensor

    @classmethod
    def of(cls, blocks: Sequence[nn.Module], x: Tensor) -> Self:
        """Take a stack of attention apart; exact, and in time linear in its depth.

        Arguments:
            blocks: from the bottom up, `EncoderBlock`s without norms and feed-forward nets, such as the layers of an
                `AttentionStack` with `norm="none"` and `feedforward=False`, in evaluation mode.
            x: (N, D), the vectors of one text, without padding.

        Raises:
            InputError: for blocks with anything in them that is not linear in what is attended to, and in training mode.
        """
        if x.dim() != 2:
            raise InputError(f"x is {tuple(x.shape)}; give the vectors of one text, (tokens, width)")
        terms, bias = [x.detach()], torch.zeros_like(x[0])
        counts = [1]
        for number, block in enumerate(blocks):
            attention, skips = _attention_alone(block, number)
            weights, maps, added = _heads(attention, torch.stack(terms).sum(dim=0) + bias)
            higher = [_through(weights, maps, term) for term in terms]
            many = [len(maps) * count for count in counts]
            nothing = torch.zeros_like(x)
            below = (
                (terms, counts, bias) if skips else ([nothing] * len(terms), [0] * len(counts), torch.zeros_like(bias))
            )
            # What attention adds to the same row of every token is the same row: each row of P sums to one.
            bias = below[2] + bias @ maps.sum(dim=0) + added
            terms = [one + other for one, other in zip([*below[0], nothing], [nothing, *higher], strict=True)]
            counts = [one + other for one, other in zip([*below[1], 0], [0, *many], strict=True)]
        return cls(terms=torch.stack(terms), counts=tuple(counts), bias=bias)

    @property
    def output(self) -> Tensor:
        """(N, D), the sum of all paths and b: what the stack gives."""
        return self.terms.sum(dim=0) + self.bias

    @property
    def residuals(self) -> tuple[float, ...]:
        """Of each length, how far the sum of its paths is from rank one, `relative_residual`; NaN where there is no path."""
        found = relative_residual(self.terms).tolist()
        return tuple(each if count else math.nan for each, count in zip(found, self.counts, strict=True))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The `composite_norm` of each length's sum."""
        return tuple(composite_norm(self.terms).tolist())


def _attention_alone(block: nn.Module, number: int) -> tuple[AttentionLayer, bool]:
    """A block's attention, and whether it is added to its input; refuses a block that is more than attention."""
    if not isinstance(block, EncoderBlock):
        raise InputError(f"block {number} is a {type(block).__name__}; paths are those of a stack of EncoderBlock")
    around, beyond = block.attention_residual, block.feedforward_residual
    plain = all(isinstance(part, nn.Identity) for part in (around.before, around.after, beyond.before, beyond.after))
    if not plain or not isinstance(block.feedforward, nn.Identity) or type(beyond) is not Straight:
        raise InputError(
            f"block {number} has a norm or a feed-forward net, with which it is no sum of paths; give one of attention alone"
        )
    if type(around) not in (Residual, Straight):
        raise InputError(f"block {number} has a {type(around).__name__}; give one with a skip connection, or with none")
    if any(part.training for part in block.modules()):
        raise InputError(f"block {number} is in training mode; call eval() first")
    return block.attention, type(around) is Residual


def _heads(attention: AttentionLayer, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of every head P (H, N, N) and W (H, D, D), and what the biases of values and output add to each token, (D,)."""
    value, output, heads = attention.value, attention.output, attention.heads
    if not isinstance(value, nn.Linear) or not isinstance(output, nn.Linear) or attention.key_heads != heads:
        raise InputError("the attention has no linear map of values and of outputs for each head; give one that has")
    batch = state.unsqueeze(0)
    with torch.no_grad():
        inputs = attention.inputs(batch, attention.keys_values(batch).key)
        weights = attention.attention.weights(inputs)[0].to(state.dtype)
        maps = value.weight.unflatten(0, (heads, -1)).transpose(1, 2) @ output.weight.T.unflatten(0, (heads, -1))
        added = torch.zeros_like(state[0]) if value.bias is None else value.bias @ output.weight.T
        return weights, maps, added if output.bias is None else added + output.bias


def _through(weights: Tensor, maps: Tensor, x: Tensor) -> Tensor:
    """sum_h P_h X W_h: (N, D) to (N, D)."""
    return (weights @ x @ maps).sum(dim=0)
