"""Learning phrase representations using RNN encoder-decoder (Cho et al. 2014): a sentence as one vector, without attention.

The names in the comments are the paper's: encoder state h_t and the gates r, z (section 2.3), the summary c, decoder state h'_t
(section 2.2 and the appendix), the maxout output s'_t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.layers import (
    SOURCE,
    TARGET,
    ChoCell,
    DecoderState,
    Dropout,
    RecurrentCell,
    ResetAfterCell,
    TanhCell,
    Tokens,
    in_order,
    maxout,
    put_back,
    read,
    reading_order,
)
from regard.layers.tokens import chosen
from regard.models.config import check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import RecurrentEncoderDecoder


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoConfig:
    """The sizes of an RNN encoder-decoder. The defaults are the paper's, as far as known.

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        embedding_width: m, the size of a token embedding.
        hidden_width: n, size of each recurrent state and of the summary.
        maxout_width: l, outputs of the maxout layer.
        cell: `gru` is the paper's gated unit; `gru_after` applies the reset gate after the matrix product, as `torch.nn.GRU`
            does; `tanh` has no gates. The last two are for comparison.
        dropout: probability of dropping an entry of embeddings and of the maxout layer in training; 0 in the paper.
        initialization: `paper` initialises weights N(0, 0.01^2) as published; `standard` initialises linear layers as PyTorch
            does and embeddings N(0, 0.1^2). Recurrent matrices are orthogonal in both.
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "cho"

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 100
    hidden_width: int = 1000
    maxout_width: int = 500
    cell: Literal["gru", "gru_after", "tanh"] = "gru"
    dropout: float = 0.0
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "source_vocabulary", "target_vocabulary", "embedding_width", "hidden_width", "maxout_width")
        check_shares(self, "dropout", usual="0.1 to 0.3 is usual")
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")


@dataclass(frozen=True, kw_only=True, eq=False)
class ChoState(DecoderState):
    """The decoder's state: h'_t, and the terms of c in every step.

    Arguments:
        hidden: (N, n), the decoder's state.
        context: (R, 3n), or (R, n) without gates: Cr c, Cz c and C c, computed once per sentence.
        readout: (R, 2l), Oc c, computed once per sentence.
    """

    hidden: Tensor = field(metadata=TARGET)
    context: Tensor = field(metadata=SOURCE)
    readout: Tensor = field(metadata=SOURCE)


class ChoEncoder(nn.Module):
    """Words to the summary c = tanh(V h_N), h_N the state after the last word."""

    def __init__(self, config: ChoConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        kind = {"gru": ChoCell, "gru_after": ResetAfterCell, "tanh": TanhCell}[config.cell]
        self.cell: RecurrentCell = kind(config.embedding_width, config.hidden_width)
        self.summary = nn.Linear(config.hidden_width, config.hidden_width)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tokens) -> Tensor:
        """Source (B, S) to c (B, n)."""
        last = read(self.cell, self.dropout(self.embedding(source.ids)), source.valid)
        return torch.tanh(self.summary(last))


class ChoDecoder(nn.Module):
    """Previous words and the summary to the next word.

    The gates read c and the embedding: z' = sigmoid(Wz e(y_{t-1}) + Uz h'_{t-1} + Cz c). In the paper's appendix, as far as
    known, the reset gate of the decoder multiplies the whole bracket

        h~' = tanh(W e(y_{t-1}) + r' * (U h'_{t-1} + C c)),

    after the matrix product, while in the encoder it acts before the product. `cell: gru` does the same. With `gru_after` and
    `tanh` c is part of the input, as with PyTorch's cells.
    """

    def __init__(self, config: ChoConfig) -> None:
        super().__init__()
        width = config.hidden_width
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)
        self.initial = nn.Linear(width, width)
        self.cell = (TanhCell if config.cell == "tanh" else ResetAfterCell)(config.embedding_width, width)
        self.context = nn.Linear(width, self.cell.input.out_features, bias=False)  # Cr, Cz, C
        self.readout = nn.Linear(width + config.embedding_width, 2 * config.maxout_width)  # Oh, Oy
        self.readout_context = nn.Linear(width, 2 * config.maxout_width, bias=False)  # Oc
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.maxout_width, config.target_vocabulary)
        self.inside = width if config.cell == "gru" else 0

    def begin(self, summary: Tensor, valid: Tensor) -> ChoState:
        """h'_0 = tanh(V' c), and the other terms of c."""
        return ChoState(
            source_valid=valid,
            hidden=torch.tanh(self.initial(summary)),
            context=self.context(summary),
            readout=self.readout_context(summary),
        )

    def states(self, projected: Tensor, state: ChoState) -> Tensor:
        """y_{t-1}, projected by the cell (B, L, 3n or n), to h'_t (B, L, n)."""
        context = state.for_each_row(state.context)
        outside, inside = context.unsqueeze(1), None
        if self.inside:  # C c is the last n of the three
            gates, inside = context.split((2 * self.inside, self.inside), dim=-1)
            outside = nn.functional.pad(gates, (0, self.inside)).unsqueeze(1)
        hidden, states = state.hidden, []
        for step in (projected + outside).unbind(dim=1):
            if isinstance(self.cell, ResetAfterCell):
                hidden = self.cell.advance(step, hidden, inside=inside)
            else:
                hidden = self.cell.advance(step, hidden)
            states.append(hidden)
        return torch.stack(states, dim=1)

    def read(self, embedded: Tensor, state: ChoState) -> tuple[Tensor, Tensor]:
        """Embedded previous words (B, L, m) to what the output layer reads and the last state (B, n): h'_t AFTER y_{t-1}."""
        hidden = self.states(self.cell.input(embedded), state)
        read_out = self.readout(torch.cat((hidden, embedded), dim=-1)) + state.for_each_row(state.readout).unsqueeze(1)
        return maxout(read_out), hidden[:, -1]

    def logits(self, read_out: Tensor) -> Tensor:
        """What `read` returns, (..., l), to logits (..., V)."""
        return self.output(self.dropout(read_out))

    def forward(self, state: ChoState, target: Tokens, at: Tensor | None = None) -> Tensor:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), or (M, V) at the positions `at`."""
        # With real tokens first nothing that comes of padding is ever read again, so no step has to hold its state.
        order = reading_order(target.valid)
        embedded = in_order(self.dropout(self.embedding(target.ids)), order)
        return self.logits(chosen(put_back(self.read(embedded, state)[0], order), at))


class Cho(RecurrentEncoderDecoder[ChoConfig, ChoEncoder, ChoDecoder, ChoState]):
    """RNN encoder-decoder: the source is one vector, which is an input of every decoder step (Cho et al. 2014, section 2.2).

        h_t  = f(h_{t-1}, x_t),   c = tanh(V h_N)                summary
        h'_0 = tanh(V' c),   h'_t = f'(h'_{t-1}, y_{t-1}, c)
        p(y_t) ~ exp(G maxout(Oh h'_t + Oy e(y_{t-1}) + Oc c))

    Arguments:
        config: its sizes.

    >>> model = Cho(ChoConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=5, maxout_width=3))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 7])
    """

    def __init__(self, config: ChoConfig) -> None:
        super().__init__(config, ChoEncoder(config), ChoDecoder(config))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights by `config.initialization`; recurrent matrices keep the initialisation of their cells."""
        paper = self.config.initialization == "paper"
        for module in (self.encoder.embedding, self.decoder.embedding):
            nn.init.normal_(module.weight, std=0.01 if paper else 0.1)
        recurrent = {*self.encoder.cell.recurrent, *self.decoder.cell.recurrent}
        for module in self.modules() if paper else ():
            if isinstance(module, nn.Linear) and module not in recurrent:
                nn.init.normal_(module.weight, std=0.01)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def start(self, source: Tokens) -> ChoState:
        """Read the source (B, S)."""
        return self.decoder.begin(self.encoder(source), source.valid)

    def step(self, tokens: Tensor, state: ChoState) -> tuple[Tensor, ChoState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        read_out, hidden = self.decoder.read(self.decoder.embedding(tokens).unsqueeze(1), state)
        logits = self.decoder.logits(read_out)
        return logits.squeeze(1), state.advanced(hidden=hidden)
