"""A linear map of a text's vector, as some sentence encoders have behind the pooling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

DenseActivation = Literal["identity", "tanh", "relu", "gelu"]

FUNCTIONS: dict[DenseActivation, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
}


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """f(W v + b), in float32. It is kept as it is and never trained.

    Arguments:
        weight: W, (outputs, inputs).
        bias: b, (outputs,); None for none.
        activation: f.

    >>> Dense(torch.ones(1, 3), torch.tensor([1.0]), "identity")(torch.ones(2, 3)).tolist()
    [[4.0], [4.0]]
    """

    weight: Tensor
    bias: Tensor | None
    activation: DenseActivation

    def __call__(self, vectors: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        weight = self.weight.to(vectors)
        return FUNCTIONS[self.activation](
            F.linear(vectors, weight, None if self.bias is None else self.bias.to(vectors))
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense) or self.activation != other.activation:
            return False
        if (self.bias is None) != (other.bias is None) or not torch.equal(self.weight, other.weight):
            return False
        return self.bias is None or other.bias is None or torch.equal(self.bias, other.bias)

    def __hash__(self) -> int:
        return hash((tuple(self.weight.shape), self.activation))
