"""Effective approaches to attention-based neural machine translation (Luong, Pham, Manning 2015).

The names in the comments are the paper's: top-layer source states hs_s and target states h_t, weights a_t, context c_t
(section 3), the aligned position p_t (section 3.2), the attentional state h~_t and input feeding (section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    AttentionInputs,
    AttentionLayer,
    Dot,
    KeysValues,
    Local,
    Location,
    Mask,
    Padding,
    ScoredAttention,
    Soft,
    positions_of,
)
from regard.attention.kernels import as_autocast
from regard.attention.positions import check_length
from regard.layers import (
    LAST_STEP,
    TARGET,
    Dropout,
    LSTMStack,
    LSTMStates,
    Tokens,
    reading_order,
)
from regard.layers.lstm_steps import FedLayer, fed_steps
from regard.layers.step_kernels import are_plain, attends_by, fits, steps_shown
from regard.layers.tokens import chosen
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import AttendingState, RecurrentEncoderDecoder
from regard.models.own_attention import own_score
from regard.parts import Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class LuongConfig:
    """The sizes and choices of a model; the sizes are the paper's (section 4.1).

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        embedding_width: the size of a token embedding.
        hidden_width: n, size of every layer's state.
        layers: number of LSTM layers in the encoder and in the decoder.
        attention: `global` attends to the whole source; `local_m` to a window around source position t for target token t;
            `local_p` to a window around a predicted position, with weights that decrease with the distance from it.
        score: how a target state matches a source state: `dot`, `general`, `concat`, `location`, which depends only on positions,
            or your own score, between the unprojected states.
        window: D of local attention, in tokens on either side.
        input_feeding: whether h~ of the previous step is part of the input of a step. Training then computes step by step.
        reverse_source: whether the encoder reads the source from the last word to the first.
        maximum_source: the longest source in tokens for `location`; other scores have no limit.
        dropout: probability of dropping an entry of embeddings, between layers and of h~ before the output, in training.
        initialization: `paper` initialises every parameter U(-0.1, 0.1) as published; `standard` initialises layers as PyTorch
            does, embeddings N(0, 0.1^2), and opens forget gates.
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "luong"

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 1000
    hidden_width: int = 1000
    layers: int = 4
    attention: Literal["global", "local_m", "local_p"] = "global"
    score: Annotated[str, Choice(("dot", "general", "concat", "location"), ("score",))] = "general"
    window: int = 10
    input_feeding: bool = True
    reverse_source: bool = True
    maximum_source: int = 100
    dropout: float = 0.2
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(
            self,
            "source_vocabulary",
            "target_vocabulary",
            "embedding_width",
            "hidden_width",
            "layers",
            "window",
            "maximum_source",
        )
        check_shares(self, "dropout", usual="the paper has 0.2")
        check(
            self.score != "location" or self.attention == "global",
            "score",
            self.score,
            f"dot, general or concat with attention {self.attention!r}",
            "a location score already says where to look; choose attention: global or another score",
        )
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")


@dataclass(frozen=True, kw_only=True, eq=False)
class LuongState(AttendingState):
    """The decoder's state.

    Arguments:
        recurrent: h and c of every layer, (N, n) each.
        attentional: (N, n), h~ of the previous step; zeros before the first.
        memory: keys and values of the source (R, 1, S, n), computed once per sentence.
        centre: (N, 1), p_t of the last step, if it is predicted.
    """

    recurrent: LSTMStates = field(metadata=TARGET)
    attentional: Tensor = field(metadata=TARGET)
    centre: Tensor | None = field(default=None, metadata=LAST_STEP)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The mask of the source, the positions of its tokens, and the number of tokens in each row; the same at every step."""

    mask: Mask
    positions: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, valid: Tensor) -> Places:
        """Of a source whose real tokens are `valid` (N, S)."""
        batch, slots = valid.shape
        mask = Padding(valid).materialize(batch=batch, queries=1, keys=slots, device=valid.device)
        return cls(mask, positions_of(valid), valid.sum(dim=1))


class LuongEncoder(nn.Module):
    """Words to source states (section 3)."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        self.lstm = LSTMStack(config.embedding_width, config.hidden_width, config.layers, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)
        self.reversed = config.reverse_source

    def forward(self, source: Tokens) -> tuple[Tensor, LSTMStates]:
        """Source (B, S) to hs (B, S, n), in the order of the source words, and the last state of every layer."""
        embedded = self.dropout(self.embedding(source.ids))
        return self.lstm.read(embedded, source.valid, backwards=self.reversed)


class PredictedCentre(nn.Module):
    """The source position around which a target state attends (section 3.2, *local-p*).

        p_t = S sigmoid(vp^T tanh(Wp h_t))

    S is the number of real source tokens, so p_t is a real number in [0, S].
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, 1, bias=False)

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """States h_t (B, L, n) and source lengths (B,) to p_t (B, 1, L), at least float32, which positions need."""
        share = self.output(torch.tanh(self.hidden(hidden))).squeeze(-1)
        share = torch.sigmoid(share if share.dtype == torch.float64 else share.float())
        return (lengths.unsqueeze(1) * share).unsqueeze(1)


class LuongDecoder(nn.Module):
    """Previous words and source states to the next word."""

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        width = config.hidden_width
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)
        self.lstm = LSTMStack(config.embedding_width, width, config.layers, dropout=config.dropout)
        # The columns that h~ has in the bottom layer's matrix: [W F] [emb ; h~] is W emb + F h~, so W emb needs no waiting.
        self.feeding = nn.Linear(width, 4 * width, bias=False) if config.input_feeding else None
        self.attention = alignment_layer(config)
        self.centre = PredictedCentre(width) if config.attention == "local_p" else None
        self.combination = nn.Linear(2 * width, width, bias=False)  # Wc
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocabulary)  # Ws

    def begin(self, states: Tensor, recurrent: LSTMStates, valid: Tensor) -> LuongState:
        """The encoder's last states, and the part of the attention that does not depend on the decoder."""
        dtype = self.embedding.weight.dtype
        recurrent = tuple((hidden.to(dtype), cell.to(dtype)) for hidden, cell in recurrent)
        return LuongState(
            source_valid=valid,
            recurrent=recurrent,
            attentional=torch.zeros_like(recurrent[-1][0]),
            memory=self.attention.keys_values(as_autocast(states)),
        )

    def attend(
        self, hidden: Tensor, memory: KeysValues, places: Places, query_positions: Tensor
    ) -> tuple[Tensor, AttentionInputs]:
        """Top-layer states h_t (B, L, n) at target positions (B, L) to h~_t (B, L, n), and the attention inputs."""
        record = None if self.centre is None else {"centre": self.centre(hidden, places.lengths)}
        inputs = self.attention.inputs(
            hidden,
            memory.key,
            mask=places.mask,
            query_positions=query_positions,
            key_positions=places.positions,
            record=record,
        )
        context = self.attention.attend(inputs, memory.value)
        return torch.tanh(self.combination(torch.cat((context, hidden), dim=-1))), inputs

    def projected(self, embedded: Tensor) -> Tensor:
        """The bottom layer's projection of the words: (..., m) to (..., 4n)."""
        return self.lstm.layers[0].input(embedded)

    def advance(
        self,
        projected: Tensor,
        embedded: Tensor,
        recurrent: LSTMStates,
        attentional: Tensor,
        real: Tensor | None = None,
    ) -> tuple[Tensor, LSTMStates]:
        """One step of the layers: y_{t-1} (B, m), projected (B, 4n), and h~_{t-1} (B, n) to h_t (B, n) and all states."""
        if self.feeding is not None:
            projected = projected + self.feeding(attentional)
        return self.lstm.advance(embedded, projected, recurrent, real=real)

    def logits(self, attentional: Tensor) -> Tensor:
        """Ws h~_t: (..., n) to (..., V)."""
        return self.output(self.dropout(attentional))

    def forward(self, state: LuongState, target: Tokens, at: Tensor | None = None) -> Tensor:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), or (M, V) at the positions `at`."""
        embedded = self.dropout(self.embedding(target.ids))
        places, positions = Places.of(state.source_valid), positions_of(target.valid)
        # In full precision once, where autocast would turn it at every step: on processors one query at a time trains in float32.
        memory = KeysValues(state.memory.key.to(embedded.dtype), state.memory.value.to(embedded.dtype))
        if self.feeding is None:
            hidden, _ = self.lstm.read(embedded, target.valid, state.recurrent)
            return self.logits(chosen(self.attend(hidden, memory, places, positions)[0], at))
        found = self.by_kernel(state, memory, embedded, target)
        found = self.by_steps(state, memory, embedded, target) if found is None else found
        return self.logits(chosen(found, at))

    def by_steps(self, state: LuongState, memory: KeysValues, embedded: Tensor, target: Tokens) -> Tensor:
        """Of the embedded true previous words (B, L, m), every h~_t (B, L, n), step by step."""
        places, positions = Places.of(state.source_valid), positions_of(target.valid)
        recurrent, attentional, steps = state.recurrent, state.attentional, []
        words = zip(
            self.projected(embedded).unbind(dim=1),
            embedded.unbind(dim=1),
            positions.split(1, dim=1),
            _held_at(target.valid),
            strict=True,
        )
        for projected, word, position, real in words:
            share = None if real is None else real.to(word.dtype)
            hidden, recurrent = self.advance(projected, word, recurrent, attentional, share)
            combined = self.attend(hidden.unsqueeze(1), memory, places, position)[0].squeeze(1)
            attentional = combined if real is None else torch.where(real, combined, attentional.to(combined.dtype))
            steps.append(attentional)
        return torch.stack(steps, dim=1)

    def by_kernel(self, state: LuongState, memory: KeysValues, embedded: Tensor, target: Tokens) -> Tensor | None:
        """Every h~_t (B, L, n) by the compiled kernel; None where it does not compute this, such as another score."""
        cells = self.lstm.layers
        matrices: Any = [self.feeding, *(cell.input for cell in cells[1:])]
        plain = are_plain(self.combination, *matrices, *(cell.recurrent for cell in cells))
        attends = attends_by(self.attention, Dot) and type(self.attention.query) is nn.Identity
        if not plain or not attends or not memory.key.numel() or not fits(self, embedded):
            return None
        show = steps_shown(self, lambda: self.by_steps(state, memory, embedded, target))
        masks = self._dropped(embedded, len(cells))
        layers = []
        for number, (cell, matrix, (hidden, memory_cell)) in enumerate(
            zip(cells, matrices, state.recurrent, strict=True)
        ):
            layers.append(
                FedLayer(
                    input=matrix.weight,
                    bias=matrix.bias,
                    hidden=cell.recurrent.weight,
                    mask=masks[number],
                    first=hidden,
                    first_cell=memory_cell,
                )
            )
        found = fed_steps(
            self.projected(embedded),
            target.valid,
            state.attentional,
            layers,
            self.combination.weight,
            memory.key.squeeze(1),
            memory.value.squeeze(1),
            state.source_valid,
        )
        show()
        return found

    def _dropped(self, embedded: Tensor, layers: int) -> list[Tensor | None]:
        """What each layer's input is multiplied by, (B, L, n), or None: sampled step by step, as `LSTMStack.advance` does."""
        dropout, (rows, steps, _) = self.lstm.dropout, embedded.shape
        if not dropout.p:
            return [None] * layers
        ones = embedded.new_ones(rows, self.lstm.width)
        drawn = [[dropout(ones) for _ in range(layers - 1)] for _ in range(steps)]
        return [None, *(torch.stack(each, dim=1) for each in zip(*drawn, strict=True))]


def _held_at(valid: Tensor) -> list[Tensor | None]:
    """For each step, which rows (B, 1) continue and which are padding and stay as they are; None where it need not be known.

    What comes of padding behind the last real token is never read, so nothing has to be held where all padding is there.
    """
    if reading_order(valid) is None:
        return [None] * valid.shape[1]
    return list(valid.unsqueeze(-1).unbind(dim=1))


class Luong(RecurrentEncoderDecoder[LuongConfig, LuongEncoder, LuongDecoder, LuongState]):
    """Stacked LSTMs with global or local attention after each step (Luong et al. 2015, section 3).

        a_t(s) = softmax_s(score(h_t, hs_s))                     with the state AFTER the step
        c_t    = sum_s a_t(s) hs_s
        h~_t   = tanh(Wc [c_t ; h_t]),   p(y_t) = softmax(Ws h~_t)
        x_t    = [emb(y_{t-1}) ; h~_{t-1}]                       input feeding

    Arguments:
        config: its sizes and choices.

    >>> model = Luong(LuongConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=5, layers=2))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 7])
    """

    has_alignment: bool = True
    length_setting: str = "model.maximum_source"

    def __init__(self, config: LuongConfig) -> None:
        super().__init__(config, LuongEncoder(config), LuongDecoder(config))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as `config.initialization` says."""
        if self.config.initialization == "paper":
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.1, 0.1)
            return
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.1)
            elif isinstance(module, Additive):  # a va of zero passes no gradient to Wa in the first step
                nn.init.normal_(module.weight, std=module.weight.numel() ** -0.5)

    @property
    def maximum_source_length(self) -> int | None:
        """The number of positions of a `location` score; None with other scores, which have no limit."""
        return self.config.maximum_source if self.config.score == "location" else None

    def start(self, source: Tokens) -> LuongState:
        """Read the source (B, S).

        Raises:
            InputError: if `score` is `location` and a source is longer than `maximum_source`.
        """
        maximum = self.maximum_source_length
        if maximum is not None and source.ids.shape[1] > maximum:
            longest = int(source.lengths.max())
            check_length(longest, maximum, "source", f"{self.length_setting}, or another model.score")
        states, recurrent = self.encoder(source)
        return self.decoder.begin(states, recurrent, source.valid)

    def step(self, tokens: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        decoder = self.decoder
        embedded = decoder.embedding(tokens)
        hidden, recurrent = decoder.advance(decoder.projected(embedded), embedded, state.recurrent, state.attentional)
        places = Places.of(state.source_valid)
        # Hypotheses about one sentence are so many queries over its states.
        together = state.by_source(hidden)
        combined, inputs = decoder.attend(together, state.memory, places, state.places())
        attentional, centre = combined.flatten(0, 1), inputs.record.get("centre")
        return decoder.logits(attentional), state.advanced(
            recurrent=recurrent,
            attentional=attentional.to(state.attentional.dtype),
            query=inputs.query.transpose(1, 2).flatten(0, 1),
            centre=None if centre is None else centre.transpose(1, 2).flatten(0, 1),
        )

    def alignment(self, state: LuongState) -> Tensor:
        """a_t of the last step, (N, S) float32; zeros before the first. Local weights need not sum to one."""
        if state.query is None:
            return state.no_alignment()
        places = Places.of(state.source_valid)
        query = state.by_source(state.query).transpose(1, 2)
        inputs = AttentionInputs(
            query=query,
            key=state.memory.key,
            mask=places.mask,
            query_positions=state.places(back=1),
            key_positions=places.positions,
            record={} if state.centre is None else {"centre": state.by_source(state.centre).transpose(1, 2)},
        )
        return self.decoder.attention.attention.weights(inputs).squeeze(1).flatten(0, 1)


def alignment_layer(config: LuongConfig) -> AttentionLayer:
    """The layer that computes a_t and c_t: source states are the values; keys and queries depend on the score.

    *general* is h_t^T Wa hs_s. Here Wa projects the source states, once per sentence; projecting h_t would take a product at
    every step. *concat* is va^T tanh(Wa [h_t ; hs_s]), with Wa split into two matrices.
    """
    width = config.hidden_width
    query, key, score = nn.Identity(), nn.Identity(), Dot()
    if config.score == "general":
        key = nn.Linear(width, width, bias=False)
    elif config.score == "concat":
        query, key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        score = Additive(width)
    elif config.score == "location":
        score = Location(width, config.maximum_source)
    elif config.score != "dot":
        score = own_score(config.score, width)
    local = config.attention != "global"
    alignment = Local(config.window, gaussian=config.attention == "local_p") if local else Soft()
    return AttentionLayer(
        query=query,
        key=key,
        value=nn.Identity(),
        output=nn.Identity(),
        attention=ScoredAttention(score, alignment),
        sequences=("target", "source"),
    )
