"""Google's neural machine translation system (Wu et al. 2016), GNMT: deep LSTM stacks with residual connections and attention.

The names in the comments are the paper's (section 3): x_t^i the output of layer i, m_t^i and c_t^i its state, a_t the attention
context, y_{t-1} the output of the bottom decoder layer at the previous step. The length and coverage penalties of beam search
(section 7) are `GnmtLength` and `CoveragePenalty` in `regard.generation`, for every model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    AttentionInputs,
    AttentionLayer,
    KeysValues,
    Mask,
    Padding,
    ScoredAttention,
    positions_of,
)
from regard.attention.kernels import as_autocast
from regard.layers import (
    TARGET,
    Dropout,
    LongShortTermMemoryCell,
    LSTMStack,
    LSTMState,
    LSTMStates,
    Tokens,
)
from regard.layers.tokens import chosen
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import AttendingState, RecurrentEncoderDecoder, last_alignment


@dataclass(frozen=True, kw_only=True, slots=True)
class GNMTConfig:
    """The sizes of a GNMT model. The defaults are the paper's, as far as known.

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        embedding_width: m, the size of a token embedding.
        hidden_width: n, size of each layer's m and c.
        attention_width: n', size of the alignment network's hidden layer.
        layers: the number of layers of the encoder, whose bidirectional layer counts once, and of the decoder; at least 2.
        residual: whether the input of a layer is added to its output, from the third layer on; false for comparison.
        dropout: probability of dropping, in training, an entry of embeddings, of the outputs between layers, and of
            the input of the output layer.
        initialization: `paper` initialises every parameter U(-0.04, 0.04); `standard` initialises LSTM and linear layers as
            PyTorch does, with forget biases of 1, and embeddings N(0, 0.1^2).
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "gnmt"

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 1024
    hidden_width: int = 1024
    attention_width: int = 1024
    layers: int = 8
    residual: bool = True
    dropout: float = 0.2
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(
            self, "source_vocabulary", "target_vocabulary", "embedding_width", "hidden_width", "attention_width"
        )
        check(self.layers >= 2, "layers", self.layers, "at least 2", "residual connections start at the third")
        check_shares(self, "dropout", usual="0.2 or 0.3 is the paper's")
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")


@dataclass(frozen=True, kw_only=True, eq=False)
class GNMTState(AttendingState):
    """The decoder's state: the states of its layers, and the source that it attends to.

    Arguments:
        bottom: m and c of the bottom layer, (N, n) each; the next step's query is its m.
        upper: m and c of the layers above.
        memory: keys (R, 1, S, n') and values (R, 1, S, n) of the encoder's top layer, computed once per sentence.
    """

    bottom: LSTMState = field(metadata=TARGET)
    upper: LSTMStates = field(metadata=TARGET)


def upper_layers(config: GNMTConfig, input_width: int, context_width: int = 0) -> LSTMStack:
    """All layers above the bottom one. Residual connections start at the third layer of all, which is layer 1 of these."""
    return LSTMStack(
        input_width,
        config.hidden_width,
        config.layers - 1,
        dropout=config.dropout,
        residual_from=1 if config.residual else None,
        context_width=context_width,
    )


class GNMTEncoder(nn.Module):
    """Words to the outputs of the top layer: the bottom layer is bidirectional, the others read forwards."""

    def __init__(self, config: GNMTConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        self.forwards = LSTMStack(config.embedding_width, config.hidden_width, 1)
        self.backwards = LSTMStack(config.embedding_width, config.hidden_width, 1)
        self.upper = upper_layers(config, 2 * config.hidden_width)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tokens) -> tuple[Tensor, LSTMStates]:
        """Source (B, S) to outputs (B, S, n) and the last state of every layer; of the bottom layer that of its backward LSTM."""
        embedded = self.dropout(self.embedding(source.ids))
        ahead, _ = self.forwards.read(embedded, source.valid)
        behind, bottom = self.backwards.read(embedded, source.valid, backwards=True)
        outputs, upper = self.upper.read(self.dropout(torch.cat((ahead, behind), dim=-1)), source.valid)
        return outputs, (*bottom, *upper)


class GNMTDecoder(nn.Module):
    """Previous words and the encoder's outputs to the next word.

    Each layer starts from the last state of the encoder layer with the same number; the bottom one from that of the backward
    LSTM. The paper, as far as known, does not say how the decoder starts; this follows the implementation in tensorflow/nmt.
    """

    def __init__(self, config: GNMTConfig) -> None:
        super().__init__()
        width = config.hidden_width
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)
        self.attention = AttentionLayer(
            query=nn.Linear(width, config.attention_width, bias=False),
            key=nn.Linear(width, config.attention_width, bias=False),
            value=nn.Identity(),
            output=nn.Identity(),
            attention=ScoredAttention(Additive(config.attention_width)),
            sequences=("target", "source"),
        )
        self.bottom = LongShortTermMemoryCell(config.embedding_width, width, context_width=width)
        self.upper = upper_layers(config, width, context_width=width)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, config.target_vocabulary)

    def begin(self, outputs: Tensor, states: LSTMStates, source: Tokens) -> GNMTState:
        """The first state, from the encoder's outputs (B, S, n) and its states. The keys are computed here, once per sentence."""
        return GNMTState(
            source_valid=source.valid,
            source_places=source.places,
            bottom=states[0],
            upper=states[1:],
            memory=self.attention.keys_values(as_autocast(outputs)),
        )

    def advance(
        self,
        projected: Tensor,
        bottom: LSTMState,
        memory: KeysValues,
        mask: Mask,
        real: Tensor | None = None,
        *,
        target_places: Tensor,
        source_places: Tensor | None,
    ) -> tuple[LSTMState, Tensor, AttentionInputs]:
        """One step of the bottom layer: its next state, a_t (N, n) and the query, which is its output BEFORE the step.

        Arguments:
            projected: (N, 4n), the previous word, projected by the cell's `input`.
            bottom: m and c, (N, n) each; the states of one sentence, next to each other, are queries over its outputs.
            real: (N, 1), 1 = a real token, 0 = padding; None = all real.
            target_places: (R, N / R), the target position of each state.
            source_places: (R, S), the position of each source token; None = its column.
        """
        inputs = self.attention.inputs(
            bottom[0].unflatten(0, (len(memory.key), -1)),
            memory.key,
            mask=mask,
            query_positions=target_places,
            key_positions=source_places,
        )
        context = self.attention.attend(inputs, memory.value).flatten(0, 1)
        return self.bottom.advance(self.bottom.with_context(projected, context), bottom, real), context, inputs

    def forward(self, state: GNMTState, target: Tokens, at: Tensor | None = None) -> Tensor:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), or (M, V) at the positions `at`.

        Only the bottom layer and the attention are computed word by word. Then all contexts are known, and each layer above
        processes the whole sequence.
        """
        embedded = self.dropout(self.embedding(target.ids))
        batch, length = state.source_valid.shape
        mask = Padding(state.source_valid).materialize(batch=batch, queries=1, keys=length, device=embedded.device)
        bottom, outputs, contexts = state.bottom, [], []
        steps = self.bottom.input(embedded).unbind(dim=1)
        reals = target.valid.unsqueeze(-1).to(embedded.dtype).unbind(dim=1)
        places = positions_of(target.valid).split(1, dim=1)
        for projected, real, place in zip(steps, reals, places, strict=True):
            bottom, context, _ = self.advance(
                projected, bottom, state.memory, mask, real, target_places=place, source_places=state.source_places
            )
            outputs.append(bottom[0])
            contexts.append(context)
        below, context = self.dropout(torch.stack(outputs, dim=1)), torch.stack(contexts, dim=1)
        top, _ = self.upper.read(below, target.valid, state.upper, context=context)
        return self.output(self.dropout(chosen(top, at)))


class GNMT(RecurrentEncoderDecoder[GNMTConfig, GNMTEncoder, GNMTDecoder, GNMTState]):
    """GNMT: a deep LSTM encoder and decoder with residual connections and additive attention (Wu et al. 2016, section 3).

        x_t^1 = [forward_t ; backward_t] in the encoder                      the bottom layer is bidirectional
        c_t^i, m_t^i = LSTM_i(c_{t-1}^i, m_{t-1}^i, x_t^{i-1})               in the decoder [x_t^{i-1} ; a_t]
        x_t^i = m_t^i + x_t^{i-1} from the third layer on, m_t^i below       the state itself is not residual
        a_t = sum_s softmax_s(va^T tanh(Wa y_{t-1} + Ua x_s)) x_s            y_{t-1}: bottom decoder layer, the step BEFORE
        p(y_t) = softmax(W x_t^top + b)

    Each decoder layer starts from the state of the encoder layer with the same number, see `GNMTDecoder`.

    Arguments:
        config: its sizes.

    >>> model = GNMT(GNMTConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=5, attention_width=6,
    ...                         layers=3))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 7])
    """

    has_alignment: bool = True

    def __init__(self, config: GNMTConfig) -> None:
        super().__init__(config, GNMTEncoder(config), GNMTDecoder(config))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as `config.initialization` says."""
        if self.config.initialization == "paper":
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.04, 0.04)
            return
        for module in (self.encoder.embedding, self.decoder.embedding):
            nn.init.normal_(module.weight, std=0.1)
        # A va of zero, as the score itself starts with, passes no gradient to Wa and Ua in the first step.
        for module in self.modules():
            if isinstance(module, Additive):
                nn.init.normal_(module.weight, std=module.weight.numel() ** -0.5)

    def start(self, source: Tokens) -> GNMTState:
        """Read the source (B, S)."""
        outputs, states = self.encoder(source)
        return self.decoder.begin(outputs, states, source)

    def step(self, tokens: Tensor, state: GNMTState) -> tuple[Tensor, GNMTState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        decoder = self.decoder
        projected = decoder.bottom.input(decoder.dropout(decoder.embedding(tokens)))
        bottom, context, inputs = decoder.advance(
            projected,
            state.bottom,
            state.memory,
            Padding(state.source_valid),
            target_places=state.places(),
            source_places=state.source_places,
        )
        top, upper = decoder.upper.step(decoder.dropout(bottom[0]), state.upper, context)
        query = inputs.query.transpose(1, 2).flatten(0, 1)
        return decoder.output(decoder.dropout(top)), state.advanced(bottom=bottom, upper=upper, query=query)

    def alignment(self, state: GNMTState) -> Tensor:
        """The attention weights of the last step, (N, S) float32; zeros before the first step."""
        return last_alignment(self.decoder.attention, state)
