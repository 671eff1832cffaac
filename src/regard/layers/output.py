"""From a decoder's last layer to logits over a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

OutputBias = Literal["padding", "trained", "none"]

Reduction = Callable[[Tensor, Tensor, Tensor | None], Any]
"""What becomes of the logits W h + b: a function of h (..., D), W (V, D) and b (V,) or None."""

NEVER = -1e4
"""The logit of what is ruled out: its probability is exactly zero, and float16 still holds the number."""


class VocabularyOutput(nn.Linear):
    """Logits of every token, with one that is never wanted ruled out.

        logits = W x + b

    With `bias="padding"` b is constant: `NEVER` at the padding token, 0 elsewhere. Its probability is then exactly zero, and so
    is the gradient of its row of W, which stays at the zeros it starts from: under any optimiser, tied to an embedding or not,
    on one worker or sharded over many.

    Arguments:
        width: D.
        vocabulary: V.
        bias: `padding`, `trained` (one number per token), or `none`.
        padding: the token to rule out where `bias` is `padding`.

    >>> output = VocabularyOutput(4, 3, bias="padding", padding=2)
    >>> output(torch.ones(1, 4)).softmax(dim=-1)[0, 2].item()
    0.0
    """

    ruled_out: Tensor | None

    def __init__(self, width: int, vocabulary: int, *, bias: OutputBias = "none", padding: int | None = None) -> None:
        self.padding = padding if bias == "padding" else None
        super().__init__(width, vocabulary, bias=bias == "trained")
        self.register_buffer("ruled_out", None if self.padding is None else self._constant(), persistent=False)

    def _constant(self) -> Tensor:
        constant = torch.zeros(self.out_features, device=self.weight.device, dtype=self.weight.dtype)
        constant[self.padding] = NEVER
        return constant

    def reset_parameters(self) -> None:
        """Draw W Glorot-uniformly, the row of what is ruled out zero, and a trained bias zero."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.padding is not None:
            with torch.no_grad():
                self.weight[self.padding].zero_()
        if getattr(self, "ruled_out", None) is not None:  # a module that came from the meta device
            self.ruled_out = self._constant()

    def forward(self, input: Tensor) -> Tensor:
        """(..., D) to (..., V)."""
        return F.linear(input, self.weight, self.bias if self.ruled_out is None else self.ruled_out)
