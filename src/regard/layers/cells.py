"""Recurrent cells: one step from a state and an input to the next state.

Three conventions of the gated recurrent unit are in circulation, and weights of one do not fit another:

- `ChoCell`, Cho et al. 2014: z is the share of the OLD state; the reset gate acts on the state before the matrix product.
- `GatedRecurrentCell`, Bahdanau et al. 2015: z is the share of the NEW state; reset before the product.
- `ResetAfterCell`, as in `torch.nn.GRU`: z is the share of the old state; reset AFTER the product.

`TanhCell` has no gates at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class RecurrentCell(nn.Module, ABC):
    """What all cells share: an input projection that can be computed for all steps at once, before the first.

    Arguments:
        input_width: size of x.
        width: n, size of the state.
        parts: how many times n the projected input is wide.
    """

    def __init__(self, input_width: int, width: int, parts: int) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(input_width, parts * width)

    @property
    @abstractmethod
    def recurrent(self) -> tuple[nn.Linear, ...]:
        """The layers from state to state, their (n, n) matrices stacked."""

    def reset_parameters(self) -> None:
        """Recurrent matrices orthogonal, as in both papers; the input's as PyTorch draws them; biases zero."""
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
        """The next state from an input that `self.input` has projected already, for all its steps at once.

        Arguments:
            projected: (B, parts * n).
            state: (B, n).
            real: (B, 1), 1 = a real token, 0 = padding, over which the state stays exactly as it is; None = all real.
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
    """One step of the gated recurrent unit as `torch.nn.GRU` computes it.

        r  = sigmoid(Wr x + Ur h + br)
        z  = sigmoid(Wz x + Uz h + bz)             the share of the old state
        h~ = tanh(W x + r * (U h + b))             reset AFTER the product
        h' = z * h + (1 - z) * h~

    `input` and `hidden` hold what PyTorch calls weight_ih and weight_hh, in its order.

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
            inside: (B, n), added to U h + b, so that the reset gate acts on it too; nothing where None.
        """
        gates_x, candidate_x = projected.split((2 * self.width, self.width), dim=-1)
        gates_h, candidate_h = self.hidden(state).split((2 * self.width, self.width), dim=-1)
        reset, update = torch.sigmoid(gates_x + gates_h).chunk(2, dim=-1)
        candidate = torch.tanh(candidate_x + reset * (candidate_h if inside is None else candidate_h + inside))
        return blended(state, candidate, 1 - update, real)


class TanhCell(RecurrentCell):
    """One step of the plain recurrent net (Elman 1990): h' = tanh(W x + U h).

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
    """(1 - z) * s + z * s~, with z = 0 over padding."""
    share = update if real is None else update * real
    return torch.lerp(state, candidate.to(state.dtype), share.to(state.dtype))
