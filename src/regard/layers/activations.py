"""The non-linearities of feed-forward nets, by the names that configs have for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

Activation = Literal["gelu", "gelu_tanh", "relu", "swish"]

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "swish": F.silu,
}
"""`gelu` is the exact one, `gelu_tanh` the approximation in the code of BERT's and GPT's authors."""
