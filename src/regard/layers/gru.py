"""Reading sequences with PyTorch's own gated recurrent units, from both ends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.order import in_order, put_back, reading_order


class BidirectionalGRU(nn.Module):
    """Two gated recurrent nets read the sequence, one from each end, by PyTorch's kernel.

        r  = sigmoid(Wr x + Ur h + br)
        z  = sigmoid(Wz x + Uz h + bz)             the share of the old state
        h~ = tanh(W x + b + r * (U h + b'))        reset AFTER the product
        h' = (1 - z) * h~ + z * h                  both directions side by side: [forward ; backward]

    Papers that write z for the share of the new state mean the same nets with the signs of Wz, Uz and bz turned.

    Arguments:
        input_width: size of x.
        width: n, size of each direction's state; what is given is 2n wide.

    >>> reader = BidirectionalGRU(4, 3)
    >>> reader(torch.randn(2, 5, 4), torch.tensor([[True] * 5, [False, False, True, True, True]])).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.forwards = nn.GRU(input_width, width, batch_first=True)
        self.backwards = nn.GRU(input_width, width, batch_first=True)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Read a batch. Padding on either side changes nothing.

        Arguments:
            x: (B, S, input_width).
            valid: (B, S) bool, True = real; a row without any is allowed.

        Returns:
            (B, S, 2n) in the dtype of the parameters, zeros at padding.
        """
        x = x.to(next(self.parameters()).dtype)
        if (
            not x.shape[0] or not x.shape[1]
        ):  # a function of x, so that a batch without a token has gradients all the same
            return x.new_zeros(*x.shape[:2], 2 * self.width) + 0.0 * x.sum()
        # A net that goes step by step gains nothing from half the digits, and its sums would lose some.
        with torch.autocast(x.device.type, enabled=False):
            ahead = _read(self.forwards, x, reading_order(valid))
            behind = _read(self.backwards, x, reading_order(valid, backwards=True))
        return torch.cat([ahead, behind], dim=-1).masked_fill(~valid.unsqueeze(-1), 0.0)


def _read(gru: nn.GRU, x: Tensor, order: Tensor | None) -> Tensor:
    """The states beside their tokens: in the order of reading padding comes last, where it reaches no real token."""
    return put_back(gru(in_order(x, order))[0], order)
