"""The content-based score of memories: the cosine, times how strongly a query insists on it."""

from __future__ import annotations

from torch import Tensor

from regard.attention.inputs import AttentionInputs
from regard.attention.scores import Score


class Cosine(Score):
    """The cosine of query and key times a key strength (Graves, Wayne, Danihelka 2014, section 3.3.1).

        score(q, k) = beta cos(q, k),   cos(q, k) = q . k / (|q| |k|)

    Without the strength no weight could ever be large, since a cosine lies in [-1, 1]; as beta grows, the softmax becomes a
    look-up of the nearest key. Each query may bring its own: `inputs.record["strength"]` (B, H, L). A vector of zeros has the
    cosine 0 with everything, and passes back a gradient of zero.

    Arguments:
        strength: beta where the record holds none.

    >>> import torch
    >>> query, key = torch.tensor([[[[4.0, 0.0]]]]), torch.tensor([[[[5.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]])
    >>> Cosine(2.0)(query, key).tolist()
    [[[[2.0, 0.0, 0.0]]]]
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, query: Tensor, key: Tensor, inputs: AttentionInputs | None = None) -> Tensor:
        """(B, H, L, E) and (B, H, S, E) to (B, H, L, S).

        Raises:
            ValueError: where the record's strength does not stand one for one beside the queries.
        """
        strength = None if inputs is None else inputs.record.get("strength")
        if strength is None:
            return self.strength * _unit(query) @ _unit(key).transpose(-2, -1)
        if strength.shape != query.shape[:3]:
            raise ValueError(
                f"the record's strength has shape {tuple(strength.shape)}; queries want {tuple(query.shape[:3])}"
            )
        return strength.to(query.dtype).unsqueeze(-1) * _unit(query) @ _unit(key).transpose(-2, -1)

    def extra_repr(self) -> str:
        """The constant strength."""
        return f"strength={self.strength}"


def _unit(x: Tensor) -> Tensor:
    """Vectors (..., E) at length one; zeros stay zeros, and their gradient is zero where a division would make it infinite."""
    # The largest entry first: the square of a small float32 is 0 and of a large one infinite. The length does not depend on it.
    largest = x.detach().abs().amax(dim=-1, keepdim=True)
    nothing = largest == 0
    scaled = x / largest.masked_fill(nothing, 1.0)
    square = scaled.square().sum(dim=-1, keepdim=True)
    return (scaled * square.masked_fill(nothing, 1.0).rsqrt()).masked_fill(nothing, 0.0)
