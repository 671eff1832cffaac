"""Residual connections with a norm before, after, or nowhere; and what stands in their place where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from regard.layers.dropout import Dropout

NormPlacement = Literal["post", "pre"]


class Residual(nn.Module):
    """A sub-layer's output added to its input, with norms in two slots.

        output = after(x + dropout(sublayer(before(x))))

    Post-norm (Vaswani et al. 2017, section 3.1) fills `after`; pre-norm (tensor2tensor since 2018, GPT-2) fills `before`. They
    are different modules with differently named parameters: weights of one do not fit the other.

    Arguments:
        before, after: norms over the last axis, or `nn.Identity()`.
        dropout: probability of dropping an entry of the sub-layer's output in training.
    """

    def __init__(self, *, before: nn.Module, after: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.dropout = Dropout(dropout)

    @classmethod
    def with_norm(
        cls, placement: NormPlacement, width: int, *, dropout: float = 0.0, epsilon: float = 1e-5
    ) -> Residual:
        """A layer norm in the slot that `placement` names."""
        norm = nn.LayerNorm(width, eps=epsilon)
        if placement == "pre":
            return cls(before=norm, after=nn.Identity(), dropout=dropout)
        return cls(before=nn.Identity(), after=norm, dropout=dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.after(x + self.dropout(sublayer(self.before(x))))


class Straight(Residual):
    """A sub-layer's output in the place of its input: what is left of a residual connection without its skip.

        output = after(dropout(sublayer(before(x))))

    It has the parameters of a `Residual`, under the same names, so one can stand where the other stood.
    """

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        return self.after(self.dropout(sublayer(self.before(x))))
