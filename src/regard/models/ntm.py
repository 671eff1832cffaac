"""Neural Turing machines (Graves, Wayne, Danihelka 2014), NTM: a controller that reads and writes a memory by attention.

The names in the comments are the paper's (section 3): M_t the memory, N slots of width W; w_t the weights of a head, k_t its key,
beta_t its key strength, g_t its interpolation gate, s_t its shift, gamma_t its sharpness; e_t and a_t the erase and add vectors
of a write head; r_t the read vector of a read head. Heads are addressed by `Cosine` and `Addressed` in `regard.attention`; the
slots are both keys and values.

The LSTM of section 4, to which the paper compares the NTM, is below: layers without a memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Addressed, AttentionInputs, Cosine, ScoredAttention
from regard.layers import LongShortTermMemoryCell, LSTMStack, LSTMState
from regard.models.config import check_sizes, check_types

BLANK = 1e-6
"""The initial value of every number in the memory. All slots are then equal, and only their index distinguishes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NTMConfig:
    """The sizes of a neural Turing machine. The defaults are those of the paper's copy task, as far as known.

    Arguments:
        inputs: I, the width of the input vectors.
        outputs: O, the width of the output vectors.
        slots: N, the number of memory slots.
        slot_width: W, the width of a slot.
        heads: the number of read heads, and of write heads.
        reach: the largest shift in either direction, in slots.
        controller: `lstm`, or `feedforward`, one layer of tanh units without a state.
        controller_width: the number of units of the controller.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "ntm"

    inputs: int
    outputs: int
    slots: int = 128
    slot_width: int = 20
    heads: int = 1
    reach: int = 1
    controller: Literal["lstm", "feedforward"] = "lstm"
    controller_width: int = 100

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "inputs", "outputs", "slots", "slot_width", "heads", "reach", "controller_width")


class NTMState(NamedTuple):
    """The state between two steps, for B sequences.

    Arguments:
        memory: M, (B, N, W).
        weights: w of the read heads, then of the write heads, (B, 2H, 1, N).
        read: r of all read heads, (B, H W).
        controller: h and c of an LSTM; None for a controller without a state.
    """

    memory: Tensor
    weights: Tensor
    read: Tensor
    controller: LSTMState | None


class FeedForwardController(nn.Module):
    """A controller without a state: h_t = tanh(W [x_t ; r_{t-1}] + b).

    Arguments:
        input_width: I.
        width: units.
        read_width: size of r.
    """

    def __init__(self, input_width: int, width: int, read_width: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_width, width)
        self.read = nn.Linear(read_width, width, bias=False)

    def zeros(self, like: Tensor) -> None:
        """None: this controller has no state."""
        del like

    def advance(self, projected: Tensor, read: Tensor, state: LSTMState | None) -> tuple[Tensor, LSTMState | None]:
        """x_t projected by `input` (B, width), and r_{t-1} (B, read_width), to h_t (B, width)."""
        return torch.tanh(projected + self.read(read)), state


class LSTMController(LongShortTermMemoryCell):
    """An LSTM with the input [x_t ; r_{t-1}].

    Arguments:
        input_width: I.
        width: units.
        read_width: size of r.
    """

    def __init__(self, input_width: int, width: int, read_width: int) -> None:
        super().__init__(input_width, width, context_width=read_width)

    def advance(  # type: ignore[override]
        self, projected: Tensor, read: Tensor, state: LSTMState
    ) -> tuple[Tensor, LSTMState]:
        """x_t projected by `input` (B, 4 width), r_{t-1} (B, read_width) and the state to h_t and the next state."""
        hidden, memory = super().advance(self.with_context(projected, read), state)
        return hidden, (hidden, memory)


class NTM(nn.Module):
    """A neural Turing machine: at each step its heads address the memory, read, and then write (Graves et al. 2014, section 3).

        h_t = controller([x_t ; r_{t-1}])
        w_t = address(M_{t-1}, w_{t-1}, k_t, beta_t, g_t, s_t, gamma_t)                 each head, of h_t; see `Addressed`
        r_t = sum_i w_t(i) M_{t-1}(i)                                                   read heads
        M_t(i) = M_{t-1}(i) * prod (1 - w_t(i) e_t) + sum w_t(i) a_t                    write heads: all erase, then all add
        y_t = W [h_t ; r_t] + b

    beta is a softplus, g and e are sigmoids, s is a softmax, gamma is 1 + softplus; k and a are linear. What is written at a step
    can be read from the next step on. All memory slots start with the same values, and the heads with learned weights.

    Arguments:
        config: its sizes.

    >>> model = NTM(NTMConfig(inputs=4, outputs=3, slots=6, slot_width=5, controller_width=8))
    >>> model(torch.zeros(2, 7, 4)).shape
    torch.Size([2, 7, 3])
    """

    def __init__(self, config: NTMConfig) -> None:
        super().__init__()
        self.config = config
        heads, width = config.heads, config.slot_width
        controller = LSTMController if config.controller == "lstm" else FeedForwardController
        self.controller = controller(config.inputs, config.controller_width, heads * width)
        self.sizes = (width, 1, 1, 2 * config.reach + 1, 1)  # of k, beta, g, s and gamma
        self.address = nn.Linear(config.controller_width, 2 * heads * sum(self.sizes))
        self.write = nn.Linear(config.controller_width, 2 * heads * width)
        self.places = nn.Parameter(torch.empty(2 * heads, config.slots))
        self.memory = ScoredAttention(Cosine(), Addressed())
        self.output = nn.Linear(config.controller_width + heads * width, config.outputs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample the logits of the first weights from N(0, 1): with equal logits all slots would stay equal."""
        nn.init.normal_(self.places)

    def forward(self, x: Tensor) -> Tensor:
        """X (B, T, I) to logits (B, T, O): those at t depend only on the first t vectors."""
        state, outputs = self.start(x), []
        for projected in self.controller.input(x).unbind(dim=1):
            hidden, state = self.step(projected, state)
            outputs.append(torch.cat((hidden, state.read), dim=-1))
        return self.output(torch.stack(outputs, dim=1)) if outputs else x.new_zeros(*x.shape[:2], self.config.outputs)

    def start(self, like: Tensor) -> NTMState:
        """The state before the first step of the sequences of `like` (B, ...), in its dtype."""
        config, rows = self.config, len(like)
        weights = self.places.softmax(dim=-1)[None, :, None, :].expand(rows, -1, -1, -1)
        return NTMState(
            memory=like.new_full((rows, config.slots, config.slot_width), BLANK),
            weights=weights,
            read=like.new_zeros(rows, config.heads * config.slot_width),
            controller=self.controller.zeros(like),
        )

    def step(self, projected: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """One step: x_t, projected by the controller's `input`, to h_t (B, controller_width) and the next state."""
        hidden, controller = self.controller.advance(projected, state.read, state.controller)  # type: ignore[arg-type]
        gathered = self.memory(self._addressing(hidden, state), self._readable(state.memory))
        read, weights = gathered.split((self.config.slot_width, self.config.slots), dim=-1)
        heads = self.config.heads
        memory = self._written(hidden, state.memory, weights[:, heads:, 0])
        return hidden, NTMState(memory, weights, read[:, :heads, 0].flatten(1), controller)

    def _addressing(self, hidden: Tensor, state: NTMState) -> AttentionInputs:
        """The attention inputs of every head: its key, and its previous weights."""
        parts = self.address(hidden).view(len(hidden), 2 * self.config.heads, 1, -1).split(self.sizes, dim=-1)
        key, strength, gate, shift, sharpness = parts
        record = {
            "strength": F.softplus(strength).squeeze(-1),
            "previous": state.weights,
            "gate": torch.sigmoid(gate).squeeze(-1),
            "shift": shift.softmax(dim=-1),
            "sharpness": 1 + F.softplus(sharpness).squeeze(-1),
        }
        return AttentionInputs(query=key, key=state.memory.unsqueeze(1), record=record)

    def _readable(self, memory: Tensor) -> Tensor:
        """The slots as values, each next to a row of the identity matrix: what a head gathers is then r, and its weights."""
        slots = self.config.slots
        identity = torch.eye(slots, dtype=memory.dtype, device=memory.device).expand(len(memory), -1, -1)
        return torch.cat((memory, identity), dim=-1).unsqueeze(1)

    def _written(self, hidden: Tensor, memory: Tensor, weights: Tensor) -> Tensor:
        """The memory (B, N, W) after all write heads, whose weights are (B, H, N), erased and then added."""
        heads = self.config.heads
        erased, added = self.write(hidden).view(len(hidden), heads, 2, -1).unbind(dim=2)
        for head in range(heads):
            memory = memory * (1 - weights[:, head, :, None] * torch.sigmoid(erased[:, head, None, :]))
        return torch.baddbmm(memory, weights.transpose(1, 2), added)


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
        """X (B, T, I) to logits (B, T, O): those at t depend only on the first t vectors."""
        everything = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        hidden, _ = self.stack.read(x, everything)
        return self.output(hidden)
