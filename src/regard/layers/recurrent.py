"""Reading a sequence with recurrent cells, from one end or from both."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.cells import GatedRecurrentCell, RecurrentCell, blended


def read(cell: RecurrentCell, x: Tensor, valid: Tensor) -> Tensor:
    """The state after the last real token, starting from zeros; over padding on either side it stays as it is.

        h_t = f(x_t, h_{t-1}),   h_0 = 0

    Arguments:
        x: (B, S, input_width), embedded tokens.
        valid: (B, S) bool, True = a real token.

    Returns:
        (B, n); zeros for a row without tokens.
    """
    state = x.new_zeros(x.shape[0], cell.width)
    reals = valid.unsqueeze(-1).to(x.dtype).unbind(dim=1)
    for projected, real in zip(cell.input(x).unbind(dim=1), reals, strict=True):
        state = cell.advance(projected, state, real)
    return state


class BidirectionalReader(nn.Module):
    """Two gated recurrent nets read the sequence, one from each end (Bahdanau et al. 2015, section 3.2).

        h_j = [forward_j ; backward_j]

    Padding on either side changes nothing: over it a state stays as it is. The two directions do not depend on each other,
    so they run side by side, as a batch of two.

    Arguments:
        input_width: size of one embedded token.
        width: n, size of each direction's state; annotations are 2n wide.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.forwards = GatedRecurrentCell(input_width, width)
        self.backwards = GatedRecurrentCell(input_width, width)

    def forward(self, x: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read a batch.

        Arguments:
            x: (B, S, input_width), embedded tokens.
            valid: (B, S) bool, True = a real token.

        Returns:
            The annotations (B, S, 2n); the last forward state (B, n), which has read up to the last word; the last
            backward state (B, n), which has read down to the first.
        """
        # The backward direction reads the sequence flipped. Both in one product per gate: (2, S*B, m) with (2, m, 2n or n).
        there = x.transpose(0, 1)
        both = torch.stack((there, there.flip(0))).flatten(1, 2)
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        cells = (self.forwards, self.backwards)
        matrices = torch.stack([cell.input.weight.t() for cell in cells]).to(dtype)
        biases = torch.stack([cell.input.bias for cell in cells]).unsqueeze(1).to(dtype)
        gates, candidate = (
            torch.stack([part.weight.t() for part in parts]).to(dtype)
            for parts in zip(*((cell.gates, cell.candidate) for cell in cells), strict=True)
        )
        shape = (2, *there.shape[:2], -1)
        gates_x, candidate_x = (
            torch.baddbmm(bias, both.to(dtype), matrix).view(shape).unbind(1)
            for bias, matrix in zip(
                biases.split((2 * self.width, self.width), dim=-1),
                matrices.split((2 * self.width, self.width), dim=-1),
                strict=True,
            )
        )
        padded = valid.t().to(x.dtype).unsqueeze(-1)
        real = torch.stack((padded, padded.flip(0)), dim=1).unbind(0)
        state = x.new_zeros(2, x.shape[0], self.width)
        states = []
        for gate_x, new_x, mask in zip(gates_x, candidate_x, real, strict=True):
            reset, update = torch.sigmoid(torch.baddbmm(gate_x, state, gates)).chunk(2, dim=-1)
            new = torch.tanh(torch.baddbmm(new_x, reset * state, candidate))
            state = blended(state, new, update, mask)
            states.append(state)
        ahead, behind = torch.stack(states).unbind(1)
        annotations = torch.cat((ahead, behind.flip(0)), dim=-1).transpose(0, 1).contiguous()
        return annotations, state[0], state[1]
