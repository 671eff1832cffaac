"""Scores: how well a query and a key match, before any normalisation.

Each maps queries (B, H, L, E) and keys (B, H, S, E) to scores (B, H, L, S). Projections are part of the layer around it
(`AttentionLayer`): Luong's *general* is `Dot` with a projected query, and his *concat* and Bahdanau's score are both
`Additive` with projected queries and keys. `General` contains Luong's matrix, as in his equation.

A score can also use the other attention inputs: `Location` uses positions, `Cosine` the record, and the scores in
`regard.attention.relative` distances.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.additive import additive_scores
from regard.attention.inputs import AttentionInputs, Reads
from regard.attention.positions import check_length


class Score(nn.Module, ABC):
    """How well each query matches each key; `reads` declares the tensors that it reads from the record."""

    reads: Reads = MappingProxyType({})
    takes_half_precision: bool = False
    """Whether `forward` takes queries and keys in half precision as they are; others get them in float32."""

    @abstractmethod
    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """The score of each pair of query and key.

        Arguments:
            query: (B, H, L, E).
            key: (B, H, S, E), repeated if several query heads share one key head.
            inputs: the attention inputs, for scores that use positions or the record. The mechanism always passes them; their
                query and key can have another dtype and fewer key heads.

        Returns:
            (B, H, L, S), in the dtype of the query or in float32.
        """

    def product_scale(self, width: int) -> float | None:
        """The constant c, if the score is exactly c times the inner product of query and key; else None.

        A score with such a constant is computed by PyTorch's fused kernel.

        Arguments:
            width: E, the size of one query.
        """
        return None

    def product_and_term(self, inputs: AttentionInputs) -> tuple[float, Tensor | None] | None:
        """The constant c and the term t, if the score is exactly c times the inner product plus t; else None.

        The term t must not depend on the contents of query and key: it is a bias by position. Such a score is computed by
        PyTorch's fused kernel. A score without a term only has to define `product_scale`.

        Returns:
            c, and t, which broadcasts to (B, H, L, S), or None without a term.
        """
        scale = self.product_scale(inputs.query.shape[-1])
        return None if scale is None else (scale, None)


def known(query: Tensor, key: Tensor, inputs: AttentionInputs | None) -> AttentionInputs:
    """The given attention inputs, or inputs made of query and key alone."""
    return AttentionInputs(query=query, key=key) if inputs is None else inputs


class Dot(Score):
    """The inner product of query and key (Luong et al. 2015, section 3.1, *dot*).

        score(q, k) = q . k

    >>> Dot()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 2, 4)).tolist()
    [[[[4.0, 4.0]]]]
    """

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S)."""
        return query @ key.transpose(-2, -1)

    def product_scale(self, width: int) -> float:
        """1."""
        return 1.0


class ScaledDot(Score):
    """The inner product divided by the square root of its width (Vaswani et al. 2017, equation 1).

        score(q, k) = q . k / sqrt(E)

    With unit-variance entries the product has standard deviation sqrt(E); the score has 1 at every width. Division by E, as some
    lectures print it, gives 1/sqrt(E), and the softmax is close to uniform.

    Arguments:
        power: the score is q . k / E^power. 0.5 is the paper's, 0 the inner product without scaling, 1 the lectures' error.

    >>> ScaledDot()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 2, 4)).tolist()
    [[[[2.0, 2.0]]]]
    """

    def __init__(self, power: float = 0.5) -> None:
        super().__init__()
        self.power = power

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S)."""
        return query @ key.transpose(-2, -1) / query.shape[-1] ** self.power

    def product_scale(self, width: int) -> float:
        """1 / E^power."""
        return 1.0 / width**self.power

    def extra_repr(self) -> str:
        """The power, if it is not 0.5."""
        return "" if self.power == 0.5 else f"power={self.power}"


class General(Score):
    """A bilinear form between query and key (Luong et al. 2015, section 3.1, *general*).

        score(q, k) = q^T Wa k

    It equals `Dot` after the query is projected with Wa.

    Arguments:
        query_width, key_width: sizes of one query and one key. Wa is (query_width, key_width).
    """

    def __init__(self, query_width: int, key_width: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width or query_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise Wa as PyTorch does a linear layer."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, query_width) and (B, H, S, key_width) to (B, H, L, S)."""
        return query @ self.weight.to(query.dtype) @ key.transpose(-2, -1)


class Additive(Score):
    """A one-hidden-layer network on query and key (Bahdanau et al. 2015, section 3.1 and appendix A.1.2).

        score(q, k) = va^T tanh(q + k)        with q = Wa s_{i-1} and k = Ua h_j projected by the layer around

    `va` starts at zero, as in the paper, so the first attention of an untrained model is exactly uniform.

    On a processor a compiled kernel computes it, in float32 also for inputs in bfloat16, and tanh(q + k), (B, H, L, S, width), is
    never in memory. Elsewhere tanh(q + k) has the dtype of the inputs in training, and float32 in evaluation.

    Arguments:
        width: n', the size of a projected query and key.

    >>> Additive(3)(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 5, 3)).abs().max().item()
    0.0
    """

    takes_half_precision = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set va to zero (appendix B.1 of the paper)."""
        nn.init.zeros_(self.weight)

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, width) and (B, H, S, width) to (B, H, L, S)."""
        compiled = additive_scores(query, key, self.weight)
        if compiled is not None:
            return compiled
        if not self.training:
            exact = torch.promote_types(query.dtype, torch.float32)
            query, key = query.to(exact), key.to(exact)
        hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
        # Va as a matrix of one row: in bfloat16 a product with a vector takes PyTorch twice as long.
        return F.linear(hidden, self.weight.to(query.dtype)[None]).squeeze(-1)


class Location(Score):
    """A score from the query alone, one for each source position (Luong et al. 2015, section 3.1, *location*).

        score(q, k_s) = (Wa q)_s

    The score does not depend on the contents of the key, only on its position s in `inputs.key_positions`, counted from the first
    real token, so padding on the left does not matter.

    Arguments:
        width: E, the size of one query.
        maximum: number of positions in the table Wa (maximum, E); a longer source raises an error.

    Raises:
        ValueError: for a table without positions.

    >>> score = Location(3, maximum=5)
    >>> score(torch.randn(1, 1, 2, 3), torch.randn(1, 1, 4, 3)).shape
    torch.Size([1, 1, 2, 4])
    """

    def __init__(self, width: int, maximum: int) -> None:
        super().__init__()
        if maximum < 1:
            raise ValueError(f"maximum is {maximum}; the table needs at least 1 position")
        self.maximum = maximum
        self.weight = nn.Parameter(torch.empty(maximum, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise Wa as PyTorch does a linear layer."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            InputError: for a source with more tokens than the table has positions.
        """
        slots, positions = key.shape[-2], known(query, key, inputs).positions
        # A position is at most the number of slots, so it is checked only if there are more slots than positions in the table.
        if slots > self.maximum:
            longest = slots if positions.keys_in_order else int(positions.keys.max()) + 1
            check_length(longest, self.maximum, "source", "maximum of the location table")
        places = query @ self.weight[: min(slots, self.maximum)].to(query.dtype).t()
        if positions.keys_in_order:
            return places
        return places.gather(-1, positions.keys[:, None, None, :].expand(*query.shape[:3], slots))


class Cosine(Score):
    """The cosine of query and key times a key strength (Graves, Wayne, Danihelka 2014, section 3.3.1).

        score(q, k) = beta cos(q, k),   cos(q, k) = q . k / (|q| |k|)

    Because a cosine is in [-1, 1], the softmax without beta would be nearly uniform; with a large beta it selects the nearest
    key. Each query can have its own beta: `inputs.record["strength"]` (B, H, L). A zero vector has cosine 0 with every vector,
    and its gradient is zero.

    Arguments:
        strength: beta, if the record holds none.

    >>> query, key = torch.tensor([[[[4.0, 0.0]]]]), torch.tensor([[[[5.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]])
    >>> Cosine(2.0)(query, key).tolist()
    [[[[2.0, 0.0, 0.0]]]]
    """

    reads: Reads = MappingProxyType({"strength": "BHL"})

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            ValueError: if the strength in the record does not have the shape (B, H, L) of the queries.
        """
        strength = known(query, key, inputs).part("strength", self.reads)
        if strength is None:
            return self.strength * _unit(query) @ _unit(key).transpose(-2, -1)
        return strength.to(query.dtype).unsqueeze(-1) * _unit(query) @ _unit(key).transpose(-2, -1)

    def extra_repr(self) -> str:
        """The constant strength."""
        return f"strength={self.strength}"


def _unit(x: Tensor) -> Tensor:
    """Vectors (..., E) divided by their length; zeros stay zeros with a zero gradient, where a division gives an infinite one."""
    # Divide by the largest entry first: the square of a small float32 is 0, and of a large one infinite. The result is the same.
    largest = x.detach().abs().amax(dim=-1, keepdim=True)
    nothing = largest == 0
    scaled = x / largest.masked_fill(nothing, 1.0)
    square = scaled.square().sum(dim=-1, keepdim=True)
    return (scaled * square.masked_fill(nothing, 1.0).rsqrt()).masked_fill(nothing, 0.0)
