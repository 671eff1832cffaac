"""The LSTM that neural Turing machines are compared with (Graves, Wayne, Danihelka 2014, section 4): layers without a memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.layers import LSTMStack
from regard.models.config import check_sizes, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class LSTMTransducerConfig:
    """The sizes of a stack of LSTM layers from vectors to vectors; the defaults are those of the paper's copy task.

    Arguments:
        inputs: I, the numbers read at each step.
        outputs: O, the numbers given at each step.
        hidden_width: n, size of each layer's h and of its c.
        layers: how many.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lstm_transducer"

    inputs: int
    outputs: int
    hidden_width: int = 256
    layers: int = 3

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "inputs", "outputs", "hidden_width", "layers")


class LSTMTransducer(nn.Module):
    """Layers of long short-term memory that give a vector at each step.

        h_t^l, c_t^l = LSTM_l(h_t^{l-1}, h_{t-1}^l, c_{t-1}^l),   h_t^0 = x_t
        y_t = W h_t^L + b

    Arguments:
        config: its sizes.

    >>> LSTMTransducer(LSTMTransducerConfig(inputs=4, outputs=3, hidden_width=8))(torch.zeros(2, 7, 4)).shape
    torch.Size([2, 7, 3])
    """

    def __init__(self, config: LSTMTransducerConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = LSTMStack(config.inputs, config.hidden_width, config.layers)
        self.output = nn.Linear(config.hidden_width, config.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """X (B, T, I) to logits (B, T, O): those at t depend on the first t vectors alone."""
        everything = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        hidden, _ = self.stack.read(x, everything)
        return self.output(hidden)
