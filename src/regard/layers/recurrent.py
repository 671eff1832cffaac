"""Recurrent cells and readers that PyTorch does not have.

Three conventions of the gated recurrent unit are in circulation and their weights do not fit one another:

- Cho et al. 2014: z is the share of the OLD state; the reset gate acts on the state before the matrix product.
- Bahdanau et al. 2015: z is the share of the NEW state; reset before the product.
- `torch.nn.GRU`: z is the share of the old state; reset AFTER the product.

Here: the second.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedRecurrentCell(nn.Module):
    """One step of the gated recurrent unit of Bahdanau et al. 2015, appendix A.1.1.

        r  = sigmoid(Wr x + Ur s)                  reset
        z  = sigmoid(Wz x + Uz s)                  update: the share of the new state
        s~ = tanh(W x + U (r * s))                 reset before the product
        s' = (1 - z) * s + z * s~

    Arguments:
        input_width: size of x.
        width: n, size of the state.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(input_width, 3 * width)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Recurrent matrices orthogonal, as in the paper; the input's as PyTorch draws them; biases zero."""
        self.input.reset_parameters()
        nn.init.zeros_(self.input.bias)
        for block in self.gates.weight.data.split(self.width):
            nn.init.orthogonal_(block)
        nn.init.orthogonal_(self.candidate.weight)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """X (B, input_width) and the state (B, n) to the next state (B, n)."""
        return self.advance(self.input(x), state)

    def advance(self, projected: Tensor, state: Tensor, real: Tensor | None = None) -> Tensor:
        """The next state from an input that `self.input` has projected already, for all its steps at once.

        Arguments:
            projected: (B, 3n).
            state: (B, n).
            real: (B, 1), 1 = a real token, 0 = padding, over which the state stays exactly as it is; None = all real.
        """
        gates_x, candidate_x = projected.split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(gates_x + self.gates(state)).chunk(2, dim=-1)
        candidate = torch.tanh(candidate_x + self.candidate(reset * state))
        return _blended(state, candidate, update, real)


def _blended(state: Tensor, candidate: Tensor, update: Tensor, real: Tensor | None) -> Tensor:
    """(1 - z) * s + z * s~, with z = 0 over padding."""
    share = update if real is None else update * real
    return torch.lerp(state, candidate.to(state.dtype), share.to(state.dtype))


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
            state = _blended(state, new, update, mask)
            states.append(state)
        ahead, behind = torch.stack(states).unbind(1)
        annotations = torch.cat((ahead, behind.flip(0)), dim=-1).transpose(0, 1).contiguous()
        return annotations, state[0], state[1]
