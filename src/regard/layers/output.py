"""From a decoder's last layer to logits over a vocabulary, and a look at whether what a model gives is finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError

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


def maxout(x: Tensor) -> Tensor:
    """The larger of each pair of neighbouring channels: (..., 2l) to (..., l) (Bahdanau et al. 2015, appendix A.1.2).

        t_i = max(t~_{2i-1}, t~_{2i})

    >>> maxout(torch.tensor([1.0, 5.0, -2.0, -3.0])).tolist()
    [5.0, -2.0]
    """
    return x.unflatten(-1, (-1, 2)).amax(dim=-1)


class NotFinite(InputError):
    """What a model made holds NaN or infinity, so no answer can be read off it."""


def check_finite(values: Tensor, what: str, *, where: Tensor | None = None) -> Tensor:
    """The values themselves, unless they tell nothing.

    Arguments:
        values: (..., N), logits or a vector of each row; single ones may be minus infinity, which forbids.
        what: they are of, for the message.
        where: (...) bool, the rows that count; None = all.

    Raises:
        NotFinite: where a row that counts has NaN or plus infinity, or nothing but minus infinity.

    >>> import torch
    >>> check_finite(torch.tensor([[1.0, -torch.inf]]), "classes").tolist()
    [[1.0, -inf]]
    """
    if values.numel() and values.device.type != "meta":
        fine = values.amax(dim=-1).isfinite()
        if not bool((fine if where is None else fine | ~where).all()):
            raise not_finite(what)
    return values


def check_number(value: float, what: str) -> float:
    """The number itself, unless it is NaN or infinite.

    Raises:
        NotFinite: where it is.
    """
    if not math.isfinite(value):
        raise not_finite(what)
    return value


def not_finite(what: str) -> NotFinite:
    """The error of a model that made NaN or infinity of `what`."""
    return NotFinite(
        f"the model's numbers for {what} are not finite; its weights overflow or hold NaN: load it in float32, or take an "
        "earlier checkpoint"
    )
