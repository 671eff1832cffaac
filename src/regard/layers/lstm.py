"""Long short-term memory (Hochreiter and Schmidhuber 1997): a cell, and stacks that read whole sequences or single steps.

`TwoWayLSTM` has cells with an output projection (Sak et al. 2014) in both directions, as in ELMo.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.layers.blocks import Dropout
from regard.layers.lstm_steps import lstm_steps
from regard.layers.step_kernels import are_plain, fits, in_bfloat16
from regard.layers.tokens import in_order, put_back, reading_order

LSTMState = tuple[Tensor, Tensor]
"""The state of a layer: the hidden state h (B, n), which is also its output, and the cell state c (B, n)."""

LSTMStates = tuple[LSTMState, ...]
"""The states of a stack, from the bottom layer to the top layer."""

_SHUT = 1e4  # its sigmoid is exactly 1, and that of its negative exactly 0, in every precision


class LongShortTermMemoryCell(nn.Module):
    """One layer of long short-term memory without peepholes, as in `torch.nn.LSTM`.

        i = sigmoid(Wi x + Ui h + Vi a)            input gate
        f = sigmoid(Wf x + Uf h + Vf a)            forget gate
        g = tanh(Wg x + Ug h + Vg a)               candidate
        o = sigmoid(Wo x + Uo h + Vo a)            output gate
        c' = f * c + i * g,   h' = o * tanh(c')

    The four parts are stacked in PyTorch's order i, f, g, o; there is one bias instead of PyTorch's two. a is a context vector,
    such as the output of attention; [W V] is then the matrix of the concatenation [x ; a].

    Arguments:
        input_width: the width of x.
        width: n, the width of h and of c.
        context_width: the width of a; 0 = no context.
        forget_bias: the initial bias of the forget gate. Above 0 it lets an untrained network remember (Gers et al. 2000).

    >>> cell = LongShortTermMemoryCell(4, 5)
    >>> hidden, memory = cell(torch.randn(2, 4), cell.zeros(torch.randn(2, 4)))
    >>> hidden.shape, memory.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    def __init__(self, input_width: int, width: int, *, context_width: int = 0, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.width = width
        self.forget_bias = forget_bias
        self.input = nn.Linear(input_width, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width, bias=False)
        self.context = nn.Linear(context_width, 4 * width, bias=False) if context_width else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise weights U(-1/sqrt(n), 1/sqrt(n)) as PyTorch does, and biases with zeros except the forget gate's."""
        for weight in (
            self.input.weight,
            self.recurrent.weight,
            *(() if self.context is None else self.context.parameters()),
        ):
            nn.init.uniform_(weight, -(self.width**-0.5), self.width**-0.5)
        nn.init.zeros_(self.input.bias)
        nn.init.constant_(self.input.bias.data[self.width : 2 * self.width], self.forget_bias)

    def zeros(self, like: Tensor) -> LSTMState:
        """A zero state for the rows of `like` (B, ...), in its dtype."""
        empty = like.new_zeros(like.shape[0], self.width)
        return empty, empty

    def forward(self, x: Tensor, state: LSTMState, context: Tensor | None = None) -> LSTMState:
        """X (B, input_width), the state and the context (B, context_width) to the next state."""
        return self.advance(self.with_context(self.input(x), context), state)

    def with_context(self, projected: Tensor, context: Tensor | None) -> Tensor:
        """Add V a to a projected input: (..., 4n) and the context (..., context_width), or None, to (..., 4n)."""
        if (context is None) != (self.context is None):
            raise ValueError("give a context if and only if the cell has a context_width")
        return projected if self.context is None or context is None else projected + self.context(context)

    def advance(self, projected: Tensor, state: LSTMState, real: Tensor | None = None) -> LSTMState:
        """The next state from an input that was already projected (which can be done for all steps at once).

        Arguments:
            projected: (B, 4n), the output of `self.input` for x, plus the context (`with_context`) if there is one.
            state: h and c, (B, n) each.
            real: (B, 1), 1 = a real token, 0 = padding, at which h and c do not change at all; None = all real.

        Returns:
            h and c, (B, n) each, in the dtypes of `state`.
        """
        hidden, memory = state
        gates = projected + self.recurrent(hidden)
        keep_in, forget, candidate, out = gates.split(self.width, dim=-1)
        new = torch.sigmoid(forget) * memory + torch.sigmoid(keep_in) * torch.tanh(candidate)
        return (
            _held(torch.sigmoid(out) * torch.tanh(new), hidden, real),
            _held(new, memory, real),
        )

    def read(
        self, x: Tensor, valid: Tensor | None, state: LSTMState, context: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Read whole sequences: in bfloat16 training on a processor by a kernel of ours, else by PyTorch's (oneDNN or cuDNN).

        Ours takes 0.65 to 0.98 of the time of oneDNN's in bfloat16, and 1.1 to 1.8 in float32.

        PyTorch's does not support padding. So there padding steps get an additional input of 1, whose weights close the input
        gate and open the forget gate exactly, and c passes through them bit by bit.

        Arguments:
            x: (B, S, input_width).
            valid: (B, S) bool, True = a real token; padding must be on the right. None = all are real.
            state: h and c before the first token, (B, n) each.
            context: (B, S, context_width).

        Returns:
            h after each token (B, S, n), without meaning at padding, and the state after the last real token.
        """
        if (context is None) != (self.context is None):
            raise ValueError("give a context if and only if the cell has a context_width")
        if not x.shape[0] or not x.shape[1]:
            return x.new_zeros(*x.shape[:2], self.width), state
        if in_bfloat16() and fits(self, x) and are_plain(self.recurrent):
            steps = self.with_context(
                self.input(x.transpose(0, 1)), None if context is None else context.transpose(0, 1)
            )
            real = x.new_ones(x.shape[:2], dtype=torch.bool) if valid is None else valid
            outputs, memory = lstm_steps(steps.transpose(0, 1), real, *state, self.recurrent.weight)
            return outputs, (outputs[:, -1], memory)
        kind, dtype = x.device.type, x.dtype
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else dtype
        inputs, matrices = [x.to(dtype)], [self.input.weight.to(dtype)]
        if context is not None and self.context is not None:
            inputs.append(context.to(dtype))
            matrices.append(self.context.weight.to(dtype))
        if valid is not None:
            # Use enough columns to make the width a multiple of 16: oneDNN is three times slower for odd widths in bfloat16.
            columns = 16 - sum(part.shape[-1] for part in inputs) % 16
            inputs.append((~valid).unsqueeze(-1).expand(-1, -1, columns).to(dtype))
            shut = x.new_zeros(4 * self.width, columns, dtype=dtype)
            shut[: self.width, 0] = -_SHUT
            shut[self.width : 2 * self.width, 0] = _SHUT
            matrices.append(shut)
        bias = self.input.bias.to(dtype)
        outputs, hidden, memory = torch.lstm(
            torch.cat(inputs, dim=-1) if len(inputs) > 1 else inputs[0],
            [part.to(dtype).unsqueeze(0) for part in state],
            [
                torch.cat(matrices, dim=-1) if len(matrices) > 1 else matrices[0],
                self.recurrent.weight.to(dtype),
                bias,
                torch.zeros_like(bias),
            ],
            True,  # has_biases
            1,  # num_layers
            0.0,  # dropout
            torch.is_grad_enabled(),  # train: store activations for the backward pass
            False,  # bidirectional
            True,  # batch_first
        )
        hidden, memory = hidden[0], memory[0]
        if valid is not None:
            lengths = valid.sum(dim=1, keepdim=True)
            last = outputs.gather(1, (lengths - 1).clamp_min(0).unsqueeze(-1).expand(-1, -1, self.width)).squeeze(1)
            hidden = torch.where(lengths > 0, last, state[0].to(dtype))
        return outputs, (hidden, memory)


def _held(new: Tensor, old: Tensor, real: Tensor | None) -> Tensor:
    """Exactly `new` where real is 1, and `old` where it is 0; in the dtype of `old`."""
    new = new.to(old.dtype)
    return new if real is None else torch.lerp(old, new, real.to(old.dtype))


class LSTMStack(nn.Module):
    """A stack of LSTM layers.

        c_t^i, m_t^i = LSTM_i(c_{t-1}^i, m_{t-1}^i, [x_t^{i-1} ; a_t])
        x_t^i = m_t^i                       for layers below `residual_from`
        x_t^i = m_t^i + x_t^{i-1}           for layers from `residual_from` on (Wu et al. 2016, section 3.1)

    A residual layer passes the sum of its output and its input to the next layer; its own state m is not residual. Layers are
    counted from 0.

    Arguments:
        input_width: the width of x_t^0.
        width: n, the width of h and c in every layer.
        layers: the number of layers, at least 1.
        dropout: probability of dropping an entry of the input of each layer except the first in training; the input that a
            residual connection adds is not dropped.
        residual_from: the first layer with a residual connection; None = none. It can be 0 only if input_width is n.
        context_width: the width of a context vector a_t that enters every layer; 0 = no context.
        forget_bias: the initial bias of all forget gates.

    Raises:
        ValueError: for sizes that do not fit together.

    >>> stack = LSTMStack(4, 5, 2)
    >>> x, valid = torch.randn(2, 3, 4), torch.tensor([[True, True, True], [False, True, True]])
    >>> outputs, states = stack.read(x, valid)
    >>> outputs.shape, len(states), states[-1][0].shape
    (torch.Size([2, 3, 5]), 2, torch.Size([2, 5]))
    >>> output, states = stack.step(torch.randn(2, 4), states)
    >>> output.shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        input_width: int,
        width: int,
        layers: int,
        *,
        dropout: float = 0.0,
        residual_from: int | None = None,
        context_width: int = 0,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers is {layers}; give 1 or more")
        if residual_from is not None and (residual_from < 0 or (residual_from == 0 and input_width != width)):
            raise ValueError(
                f"residual_from is {residual_from} with input_width {input_width} and width {width}; a residual connection needs "
                "an input and an output of the same width"
            )
        self.width = width
        self.residual_from = layers if residual_from is None else residual_from
        self.cells = nn.ModuleList(
            LongShortTermMemoryCell(
                width if layer else input_width, width, context_width=context_width, forget_bias=forget_bias
            )
            for layer in range(layers)
        )
        self.dropout = Dropout(dropout)

    @property
    def layers(self) -> Sequence[LongShortTermMemoryCell]:
        """The cells, from the bottom layer to the top layer."""
        return [cell for cell in self.cells if isinstance(cell, LongShortTermMemoryCell)]

    def zeros(self, like: Tensor) -> LSTMStates:
        """Zero states for the rows of `like` (B, ...), in its dtype."""
        return tuple(cell.zeros(like) for cell in self.layers)

    def read(
        self,
        x: Tensor,
        valid: Tensor,
        states: LSTMStates | None = None,
        *,
        context: Tensor | None = None,
        backwards: bool = False,
    ) -> tuple[Tensor, LSTMStates]:
        """Read whole sequences layer by layer: in an encoder, or with teacher forcing if inputs do not depend on earlier outputs.

        Padding can be anywhere; states do not change at all at padding.

        Arguments:
            x: (B, S, input_width).
            valid: (B, S) bool, True = a real token.
            states: the states before the first token; None for zeros.
            context: (B, S, context_width), a_t for every t.
            backwards: read each row's real tokens from the last to the first. Outputs are still at the columns of their tokens.

        Returns:
            The top layer's x_t (B, S, n), without meaning at padding, and the state of every layer after the last token read.
        """
        states = self.zeros(x) if states is None else states
        order = reading_order(valid, backwards=backwards)
        x, valid = in_order(x, order), in_order(valid, order)
        context = None if context is None else in_order(context, order)
        padded = None if bool(valid.all()) else valid
        after: list[LSTMState] = []
        for layer, (cell, state) in enumerate(zip(self.layers, states, strict=True)):
            outputs, last = cell.read(self.dropout(x) if layer else x, padded, state, context)
            x = outputs + x if layer >= self.residual_from else outputs
            after.append(last)
        return put_back(x, order), tuple(after)

    def step(self, x: Tensor, states: LSTMStates, context: Tensor | None = None) -> tuple[Tensor, LSTMStates]:
        """Read one token of every row.

        Arguments:
            x: (B, input_width).
            states: the state of every layer before the token.
            context: a_t, (B, context_width).

        Returns:
            The top layer's x_t (B, n), and the state of every layer after the token.
        """
        bottom = self.layers[0]
        return self.advance(x, bottom.with_context(bottom.input(x), context), states, context)

    def advance(
        self,
        x: Tensor,
        projected: Tensor,
        states: LSTMStates,
        context: Tensor | None = None,
        real: Tensor | None = None,
    ) -> tuple[Tensor, LSTMStates]:
        """`step` with an already projected input of the bottom layer, for loops that project all steps at once beforehand.

        Arguments:
            x: (B, input_width), used if the bottom layer is residual.
            projected: (B, 4n), the output of the bottom layer's `input` for x, plus the context (`with_context`) if there is one.
            states: the state of every layer before the token.
            context: a_t, (B, context_width), for the layers above the bottom layer.
            real: (B, 1), 1 = a real token, 0 = padding, at which states do not change at all; None = all real.

        Returns:
            The top layer's x_t (B, n), and the state of every layer after the token.
        """
        below, after = x, []
        for layer, (cell, state) in enumerate(zip(self.layers, states, strict=True)):
            if layer:
                projected = cell.with_context(cell.input(self.dropout(below)), context)
            state = cell.advance(projected, state, real)
            below = state[0] if layer < self.residual_from else state[0] + below
            after.append(state)
        return below, tuple(after)


class ProjectedLSTMCell(nn.Module):
    """The weights of one direction of a `TwoWayLSTM`, which has the equations.

    Arguments:
        width: P, the width of inputs and outputs.
        cells: n, the width of the cell state.
    """

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.cells = cells
        self.input = nn.Linear(width, 4 * cells)
        self.recurrent = nn.Linear(width, 4 * cells, bias=False)
        self.projection = nn.Linear(cells, width, bias=False)
        for part in (self.input, self.recurrent):
            nn.init.uniform_(part.weight, -(cells**-0.5), cells**-0.5)
        nn.init.zeros_(self.input.bias)
        nn.init.constant_(self.input.bias.data[cells : 2 * cells], 1.0)


class TwoWayLSTM(nn.Module):
    """A forward and a backward LSTM with projections, independent of each other (Peters et al. 2018, section 3.1).

        i, f, g, o = parts of W x_t + U h_{t-1} + b          sigmoid for i, f and o, tanh for g
        c_t = clip(f * c_{t-1} + i * g)
        h_t = clip(P (o * tanh(c_t)))                        (Sak et al. 2014)
        output_t = h_t + x_t  if residual

    The forward network reads and writes the first half of each word's vector, the backward network the second half. Both are
    computed together, as a batch of two. The initial state is zero for each text, so a text always has the same vectors.

    Arguments:
        width: P, the width of each half.
        cells: n, the width of the cell state.
        residual: whether the input is added to the output; the recurrent h is not residual.
        cell_clip, projection_clip: c and h are clipped to [-clip, clip]; None = no clipping.
        dropout: probability of dropping an entry of the input in training; as in the authors' code, this also affects the
            input that is added to the output.

    >>> layer = TwoWayLSTM(3, 5)
    >>> layer(torch.randn(2, 4, 6), torch.ones(2, 4, dtype=torch.bool)).shape
    torch.Size([2, 4, 6])
    """

    def __init__(
        self,
        width: int,
        cells: int,
        *,
        residual: bool = False,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.residual = residual
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.forwards = ProjectedLSTMCell(width, cells)
        self.backwards = ProjectedLSTMCell(width, cells)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Read a batch.

        Arguments:
            x: (B, S, 2P).
            valid: (B, S) bool, True = a word. Padding can be on either side.

        Returns:
            (B, S, 2P), without meaning at padding.
        """
        if not x.shape[0] or not x.shape[1]:
            return x
        x = self.dropout(x)
        ahead, behind = reading_order(valid), reading_order(valid, backwards=True)
        first, second = x.split(self.width, dim=-1)
        read = torch.stack((in_order(first, ahead), in_order(second, behind)))
        there, back = self._read(read).unbind(0)
        found = torch.cat((put_back(there, ahead), put_back(back, behind)), dim=-1)
        return found + x if self.residual else found

    def _read(self, x: Tensor) -> Tensor:
        """Run both networks on their sequences in reading order: (2, B, S, P) to (2, B, S, P)."""
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        nets = (self.forwards, self.backwards)
        into, again, out = (
            torch.stack([part.weight.t() for part in parts]).to(dtype)
            for parts in zip(*((net.input, net.recurrent, net.projection) for net in nets), strict=True)
        )
        bias = torch.stack([net.input.bias for net in nets]).unsqueeze(1).to(dtype)
        rows = x.shape[1]
        by_step = x.transpose(1, 2).flatten(1, 2).to(dtype)
        steps = torch.baddbmm(bias, by_step, into).unflatten(1, (-1, rows)).unbind(1)
        hidden = x.new_zeros(2, rows, self.width, dtype=dtype)
        memory = x.new_zeros(2, rows, self.forwards.cells, dtype=torch.promote_types(dtype, torch.float32))
        found = []
        for step in steps:
            keep_in, forget, new, give_out = torch.baddbmm(step, hidden, again).chunk(4, dim=-1)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(keep_in) * torch.tanh(new)
            memory = _clipped(memory, self.cell_clip)
            hidden = _clipped(
                torch.bmm((torch.sigmoid(give_out) * torch.tanh(memory)).to(dtype), out), self.projection_clip
            )
            found.append(hidden)
        return torch.stack(found, dim=2).to(x.dtype)


def _clipped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)
