"""Long short-term memory-networks for machine reading (Cheng, Dong, Lapata 2016), LSTMN: an LSTM that attends to its own past.

The names in the comments are the paper's (section 3): x_t the token at time t, h_t and c_t its hidden and its memory vector, H
and C the tapes of all of them, h~_t and c~_t the weighted sums over the tapes. This is the encoder that the paper's language
model uses, without the fusion with a second sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.attention import Additive, AttentionLayer, KeysValues, KVCache, Mask, Padding, ScoredAttention
from regard.layers import TARGET, DecoderState, Dropout, LeftToRight, LongShortTermMemoryCell, Tokens
from regard.models.config import check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class LSTMNConfig:
    """The sizes of an LSTMN language model. The defaults are the paper's, as far as known.

    Arguments:
        vocabulary: number of tokens.
        embedding_width: the size of a token embedding.
        hidden_width: n, size of each layer's h and of its c.
        attention_width: size of the alignment network's hidden layer; null = `hidden_width`.
        layers: the number of layers; each reads the h of the one below.
        dropout: probability of dropping, in training, an entry of embeddings, of the outputs between layers, and of
            the input of the output layer.
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lstmn"

    vocabulary: int
    embedding_width: int = 150
    hidden_width: int = 300
    attention_width: int | None = None
    layers: int = 1
    dropout: float = 0.0
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "embedding_width", "hidden_width", "layers")
        if self.attention_width is not None:
            check_sizes(self, "attention_width")
        check_shares(self, "dropout", usual="0 to 0.5 is usual")
        check_tokens(self, "padding_id", "end_id")


@dataclass(frozen=True, kw_only=True, eq=False)
class LSTMNState(DecoderState):
    """The state of the model: the tapes of all past tokens.

    Arguments:
        cache: the tapes, for each layer from the bottom up Wh h_i as keys (N, 1, C, a) and [h_i ; c_i] as values (N, 1, C, 2n),
            and which columns are real tokens.
        summaries: the last h~ of every layer, (N, n).
    """

    cache: KVCache = field(metadata=TARGET)
    summaries: tuple[Tensor, ...] = field(metadata=TARGET)


class LSTMNLayer(nn.Module):
    """One memory-network layer (section 3.1).

        a_i^t = v^T tanh(Wh h_i + Wx x_t + Wh~ h~_{t-1}),   i = 1 .. t-1       h~_{t-1}: the previous summary, not h_{t-1}
        s^t = softmax(a^t),   [h~_t ; c~_t] = sum_i s_i^t [h_i ; c_i]           zeros at the first token, whose tape is empty
        i, f, o = sigmoid(W [h~_t ; x_t]),   u = tanh(W' [h~_t ; x_t])
        c_t = f * c~_t + i * u,   h_t = o * tanh(c_t)

    The last two lines are a step of an LSTM from the state (h~_t, c~_t).

    Arguments:
        input_width: size of x_t.
        width: n.
        attention_width: size of v.
    """

    def __init__(self, input_width: int, width: int, attention_width: int) -> None:
        super().__init__()
        self.attention = AttentionLayer(
            query=nn.Linear(input_width + width, attention_width, bias=False),  # [Wx Wh~]
            key=nn.Linear(width, attention_width, bias=False),
            value=nn.Identity(),
            output=nn.Identity(),
            attention=ScoredAttention(Additive(attention_width)),
        )
        self.cell = LongShortTermMemoryCell(input_width, width)

    def empty(self, like: Tensor) -> tuple[KeysValues, Tensor]:
        """The tape before the first token of the rows of `like` (B, ...), in its dtype, and the summary: zeros."""
        rows, width = len(like), self.cell.width
        keys = like.new_empty(rows, 1, 0, self.attention.key.weight.shape[0])  # type: ignore[union-attr]
        return KeysValues(keys, like.new_empty(rows, 1, 0, 2 * width)), like.new_zeros(rows, width)

    def advance(
        self,
        x: Tensor,
        projected: Tensor,
        tape: KeysValues,
        summary: Tensor,
        mask: Mask | None = None,
        real: Tensor | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """One step.

        Arguments:
            x: (N, input_width).
            projected: (N, 4n), x projected by the cell's `input`.
            tape: of the previous tokens.
            summary: h~_{t-1}, (N, n).
            mask: which columns of the tape are real; None = all.
            real: (N, 1) bool, False = padding, for which the summary does not change; None = all real.
            places: (N, C + 1), the positions of the tokens of the tape and of x_t; None = 0, 1, 2, ...

        Returns:
            h_t (N, n), the tape with it, and h~_t.
        """
        query = torch.cat((x, summary.to(x.dtype)), dim=-1).unsqueeze(1)
        of_tape = None if places is None else places[:, :-1]
        here = query.new_full((len(x), 1), tape.key.shape[2], dtype=torch.long) if places is None else places[:, -1:]
        gathered = self.attention(query, tape, mask=mask, query_positions=here, key_positions=of_tape).squeeze(1)
        before, memory = gathered.chunk(2, dim=-1)
        hidden, memory = self.cell.advance(projected, (before, memory))
        written = self.attention.keys_values(hidden.unsqueeze(1)).key.to(tape.key.dtype)
        left = torch.cat((hidden, memory), dim=-1).view(len(x), 1, 1, -1)
        after = before if real is None else torch.where(real, before, summary)
        return hidden, tape.extended(KeysValues(written, left)), after

    def read(
        self, x: Tensor, tape: KeysValues, summary: Tensor, valid: Tensor | None, places: Tensor | None = None
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """Whole sequences: x (B, L, input_width) to h (B, L, n), the tape and the summary after.

        Arguments:
            valid: (B, C + L) bool, which tokens are real, starting with those on the tape; None = all.
            places: (B, C + L), their positions; None = their columns.
        """
        first = tape.key.shape[2]
        steps = zip(x.unbind(dim=1), self.cell.input(x).unbind(dim=1), strict=True)
        outputs = []
        if places is None:
            places = torch.arange(first + x.shape[1], device=x.device).expand(len(x), -1)
        for place, (token, projected) in enumerate(steps, start=first):
            mask = None if valid is None or not place else Padding(valid[:, :place])
            real = None if valid is None else valid[:, place, None]
            hidden, tape, summary = self.advance(token, projected, tape, summary, mask, real, places[:, : place + 1])
            outputs.append(hidden)
        return torch.stack(outputs, dim=1) if outputs else x.new_zeros(*x.shape[:2], self.cell.width), tape, summary


class LSTMN(LeftToRight[LSTMNState]):
    """A language model of memory-network layers: each token attends to all earlier ones (Cheng et al. 2016, section 3).

        p(x_{t+1} | x_1 .. x_t) = softmax(W D(h_t) + b)         h_t of the top layer, D is dropout

    Arguments:
        config: its sizes.

    >>> model = LSTMN(LSTMNConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    >>> model(Tokens.pad([[0, 3, 4], [0, 6]])).shape
    torch.Size([2, 3, 9])
    """

    maximum_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = ""

    def __init__(self, config: LSTMNConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_width)
        widths = (config.embedding_width, *(config.hidden_width for _ in range(config.layers - 1)))
        attention_width = config.attention_width or config.hidden_width
        self.layers = nn.ModuleList(LSTMNLayer(width, config.hidden_width, attention_width) for width in widths)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.hidden_width, config.vocabulary)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise embeddings N(0, 0.1^2) and v N(0, 1/a); other parameters keep the initialisation of their layers."""
        nn.init.normal_(self.embedding.weight, std=0.1)
        # A v of zero, as the score itself starts with, passes no gradient to Wh, Wx and Wh~ in the first step.
        for module in self.modules():
            if isinstance(module, Additive):
                nn.init.normal_(module.weight, std=module.weight.numel() ** -0.5)

    def start(self, rows: int) -> LSTMNState:
        """The state before the first token of this many texts: empty tapes, without a source."""
        weight = self.embedding.weight
        like = torch.empty(rows, 0, dtype=weight.dtype, device=weight.device)
        tapes, summaries = zip(*(layer.empty(like) for layer in self.layers), strict=True)  # type: ignore[operator]
        return LSTMNState(source_valid=like.to(torch.bool), cache=KVCache(tapes), summaries=summaries)

    def hidden(self, tokens: Tokens, state: LSTMNState) -> tuple[Tensor, LSTMNState]:
        """Continue from a state: D(h) (B, L, n) for each token, and the state after these L tokens."""
        x = self.dropout(self.embedding(tokens.ids))
        padded = state.cache.seen is not None or tokens.padding_side != "nowhere"
        cache = state.cache.extended(
            rows=len(x),
            width=1,
            slots=tokens.ids.shape[1],
            valid=tokens.valid if padded else None,
            lengths=None if state.lengths is None else state.for_each_row(state.lengths),
            device=x.device,
        )
        tapes, summaries = [], []
        for layer, tape, summary in zip(self.layers, state.cache.layers, state.summaries, strict=True):
            hidden, tape, summary = layer.read(x, tape, summary, cache.seen, cache.places)  # type: ignore[operator]
            x = self.dropout(hidden)
            tapes.append(tape)
            summaries.append(summary)
        return x, state.read(tokens, cache=cache.filled(tapes), summaries=tuple(summaries))

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., n) to (..., V): W h + b."""
        return self.output(hidden)

    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """W and b."""
        return self.output.weight, self.output.bias
