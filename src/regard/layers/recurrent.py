"""Recurrent cells, which map a state and an input to the next state, and networks that read a sequence with them.

There are three conventions of the gated recurrent unit, and weights of one do not fit another:

- `ChoCell`, Cho et al. 2014: z is the share of the OLD state; the reset gate acts on the state before the matrix product.
- `GatedRecurrentCell`, Bahdanau et al. 2015: z is the share of the NEW state; reset before the product.
- `ResetAfterCell`, as in `torch.nn.GRU` (run by `BidirectionalGRU`): z is the share of the old state; reset AFTER it.

`TanhCell` has no gates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.gated_steps import gated_steps
from regard.layers.step_kernels import are_plain, fits
from regard.layers.tokens import in_order, put_back, reading_order


class RecurrentCell(nn.Module, ABC):
    """The base class of cells, with an input projection that can be computed for all steps at once.

    Arguments:
        input_width: size of x.
        width: n, size of the state.
        parts: the width of the projected input divided by n.
    """

    def __init__(self, input_width: int, width: int, parts: int) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(input_width, parts * width)

    @property
    @abstractmethod
    def recurrent(self) -> tuple[nn.Linear, ...]:
        """The recurrent layers, with their (n, n) matrices stacked."""

    def reset_parameters(self) -> None:
        """Initialise recurrent matrices orthogonal, as in both papers, input matrices as PyTorch does, and biases zero."""
        self.input.reset_parameters()
        nn.init.zeros_(self.input.bias)
        for layer in self.recurrent:
            for block in layer.weight.data.split(self.width):
                nn.init.orthogonal_(block)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """X (B, input_width) and the state (B, n) to the next state (B, n)."""
        return self.advance(self.input(x), state)

    @abstractmethod
    def advance(self, projected: Tensor, state: Tensor, real: Tensor | None = None) -> Tensor:
        """The next state from an input that was already projected by `self.input`.

        Arguments:
            projected: (B, parts * n).
            state: (B, n).
            real: (B, 1), 1 = a real token, 0 = padding, at which the state does not change; None = all real.
        """


class GatedRecurrentCell(RecurrentCell):
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
        super().__init__(input_width, width, parts=3)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        self.reset_parameters()

    @property
    def recurrent(self) -> tuple[nn.Linear, ...]:
        """The matrices Ur and Uz, stacked, and U."""
        return self.gates, self.candidate

    def advance(self, projected: Tensor, state: Tensor, real: Tensor | None = None) -> Tensor:
        """The next state from a projected input (B, 3n), see `RecurrentCell.advance`."""
        gates_x, candidate_x = projected.split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(gates_x + self.gates(state)).chunk(2, dim=-1)
        candidate = torch.tanh(candidate_x + self.candidate(reset * state))
        return blended(state, candidate, update, real)


class ChoCell(GatedRecurrentCell):
    """One step of the first gated recurrent unit (Cho et al. 2014, section 2.3).

        r  = sigmoid(Wr x + Ur h)                  reset
        z  = sigmoid(Wz x + Uz h)                  update: the share of the OLD state
        h~ = tanh(W x + U (r * h))                 reset before the product
        h' = z * h + (1 - z) * h~

    Arguments:
        input_width: size of x.
        width: n, size of the state.
    """

    def advance(self, projected: Tensor, state: Tensor, real: Tensor | None = None) -> Tensor:
        """The next state from a projected input (B, 3n), see `RecurrentCell.advance`."""
        gates_x, candidate_x = projected.split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(gates_x + self.gates(state)).chunk(2, dim=-1)
        candidate = torch.tanh(candidate_x + self.candidate(reset * state))
        return blended(state, candidate, 1 - update, real)


class ResetAfterCell(RecurrentCell):
    """One step of the gated recurrent unit of `torch.nn.GRU`.

        r  = sigmoid(Wr x + Ur h + br)
        z  = sigmoid(Wz x + Uz h + bz)             the share of the old state
        h~ = tanh(W x + r * (U h + b))             reset AFTER the product
        h' = z * h + (1 - z) * h~

    `input` and `hidden` hold PyTorch's weight_ih and weight_hh, in its order.

    Arguments:
        input_width: size of x.
        width: n, size of the state.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=3)
        self.hidden = nn.Linear(width, 3 * width)
        self.reset_parameters()

    @property
    def recurrent(self) -> tuple[nn.Linear, ...]:
        """Ur, Uz and U, stacked."""
        return (self.hidden,)

    def advance(
        self, projected: Tensor, state: Tensor, real: Tensor | None = None, inside: Tensor | None = None
    ) -> Tensor:
        """The next state from a projected input (B, 3n), see `RecurrentCell.advance`.

        Arguments:
            inside: (B, n), added to U h + b, so that the reset gate acts on it too; None = nothing.
        """
        gates_x, candidate_x = projected.split((2 * self.width, self.width), dim=-1)
        gates_h, candidate_h = self.hidden(state).split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(gates_x + gates_h).chunk(2, dim=-1)
        candidate = torch.tanh(candidate_x + reset * (candidate_h if inside is None else candidate_h + inside))
        return blended(state, candidate, 1 - update, real)


class TanhCell(RecurrentCell):
    """One step of the simple recurrent network (Elman 1990): h' = tanh(W x + U h).

    Arguments:
        input_width: size of x.
        width: n, size of the state.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=1)
        self.hidden = nn.Linear(width, width, bias=False)
        self.reset_parameters()

    @property
    def recurrent(self) -> tuple[nn.Linear, ...]:
        """U."""
        return (self.hidden,)

    def advance(self, projected: Tensor, state: Tensor, real: Tensor | None = None) -> Tensor:
        """The next state from a projected input (B, n), see `RecurrentCell.advance`."""
        after = torch.tanh(projected + self.hidden(state)).to(state.dtype)
        return after if real is None else torch.where(real.bool(), after, state)


def blended(state: Tensor, candidate: Tensor, update: Tensor, real: Tensor | None) -> Tensor:
    """(1 - z) * s + z * s~, with z = 0 at padding."""
    share = update if real is None else update * real
    return torch.lerp(state, candidate.to(state.dtype), share.to(state.dtype))


def read(cell: RecurrentCell, x: Tensor, valid: Tensor) -> Tensor:
    """The state after the last real token, starting from zeros; padding on either side does not change it.

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
    """A bidirectional gated recurrent network (Bahdanau et al. 2015, section 3.2).

        h_j = [forward_j ; backward_j]

    Padding on either side does not change a state. Both directions are computed together, as a batch of two.

    Arguments:
        input_width: size of one embedded token.
        width: n, size of each direction's state; annotations have width 2n.
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
            The annotations (B, S, 2n); the forward state at the last word (B, n); the backward state at the first word
            (B, n).
        """
        cells = (self.forwards, self.backwards)
        if fits(self, x) and are_plain(*(part for cell in cells for part in (cell.gates, cell.candidate))):
            first = x.new_zeros(x.shape[0], self.width)
            ahead, behind = (
                gated_steps(cell.input(read), real, first, cell.gates.weight, cell.candidate.weight)[0]
                for cell, read, real in zip(cells, (x, x.flip(1)), (valid, valid.flip(1)), strict=True)
            )
            return torch.cat((ahead, behind.flip(1)), dim=-1), ahead[:, -1], behind[:, -1]
        # The backward direction reads the sequence flipped. Both in one product per gate: (2, S*B, m) with (2, m, 2n or n).
        there = x.transpose(0, 1)
        both = torch.stack((there, there.flip(0))).flatten(1, 2)
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
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


class BidirectionalGRU(nn.Module):
    """A bidirectional gated recurrent network, computed by PyTorch's kernel.

        r  = sigmoid(Wr x + Ur h + br)
        z  = sigmoid(Wz x + Uz h + bz)             the share of the old state
        h~ = tanh(W x + b + r * (U h + b'))        reset AFTER the product
        h' = (1 - z) * h~ + z * h                  the output is [forward ; backward]

    With z as the share of the new state, as in some papers, it is the same network with the signs of Wz, Uz and bz changed.

    Arguments:
        input_width: size of x.
        width: n, size of each direction's state; the output has width 2n.

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
            (B, S, 2n) in the dtype of the parameters; zeros at padding.
        """
        x = x.to(next(self.parameters()).dtype)
        if not x.shape[0] or not x.shape[1]:  # a function of x, so that gradients exist for a batch without tokens too
            return x.new_zeros(*x.shape[:2], 2 * self.width) + 0.0 * x.sum()
        # A recurrent network gains no speed from half precision, and would lose accuracy.
        with torch.autocast(x.device.type, enabled=False):
            ahead = _read(self.forwards, x, reading_order(valid))
            behind = _read(self.backwards, x, reading_order(valid, backwards=True))
        return torch.cat([ahead, behind], dim=-1).masked_fill(~valid.unsqueeze(-1), 0.0)


def _read(gru: nn.GRU, x: Tensor, order: Tensor | None) -> Tensor:
    """The states in the order of their tokens: in reading order padding comes last, and so affects no real token."""
    return put_back(gru(in_order(x, order))[0], order)


class TransducerConfig(Protocol):
    """The sizes of the model that the task needs."""

    @property
    def inputs(self) -> int:
        """I, the width of the input vectors."""
        ...

    @property
    def outputs(self) -> int:
        """O, the width of the output vectors."""
        ...


class Transducer(Protocol):
    """A causal model of sequences of vectors: the output at each step depends only on the inputs so far."""

    @property
    def config(self) -> TransducerConfig:
        """The sizes of the model."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """X (B, T, I) to logits (B, T, O). Padding must be on the right: no step depends on later ones."""
        ...
