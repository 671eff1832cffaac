"""Sequence to sequence learning with neural networks (Sutskever, Vinyals, Le 2014): two LSTM stacks, the source reversed.

The names in the comments are the paper's (section 2): source x_1 .. x_T, target y_1 .. y_T'. There is no attention: the decoder
only has the last state of the encoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor, nn

from regard.layers import TARGET, DecoderState, Dropout, LSTMStack, LSTMStates, Tokens
from regard.layers.tokens import chosen
from regard.models.config import check_shares, check_sizes, check_tokens, check_types
from regard.models.encoder_decoder import RecurrentEncoderDecoder


@dataclass(frozen=True, kw_only=True, slots=True)
class SutskeverConfig:
    """The sizes of a pair of LSTM stacks. The defaults are the paper's, as far as known.

    Arguments:
        source_vocabulary, target_vocabulary: numbers of tokens.
        embedding_width: m, the size of a token embedding.
        hidden_width: n, size of each layer's h and of its c.
        layers: the number of layers of the encoder, and of the decoder.
        reverse_source: whether the source is read from the last word to the first, as in the paper, so that the first words of
            source and target are close to each other; false for comparison.
        dropout: probability of dropping, in training, an entry of embeddings, of the outputs between layers, and of
            what the output reads; 0 in the paper.
        initialization: `paper` initialises every parameter U(-0.08, 0.08) as published; `standard` initialises LSTM layers as
            PyTorch does, with forget biases of 1, and embeddings N(0, 0.1^2).
        padding_id, start_id, end_id: special tokens of the target.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "sutskever"

    source_vocabulary: int
    target_vocabulary: int
    embedding_width: int = 1000
    hidden_width: int = 1000
    layers: int = 4
    reverse_source: bool = True
    dropout: float = 0.0
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "source_vocabulary", "target_vocabulary", "embedding_width", "hidden_width", "layers")
        check_shares(self, "dropout", usual="0.1 to 0.3 is usual")
        check_tokens(self, "padding_id", "start_id", "end_id", of="target_vocabulary")


@dataclass(frozen=True, kw_only=True, eq=False)
class SutskeverState(DecoderState):
    """The decoder's state, which is all its information about the source.

    Arguments:
        layers: h and c of every layer, (N, n) each, from the bottom up.
    """

    layers: LSTMStates = field(metadata=TARGET)


class SutskeverEncoder(nn.Module):
    """Words to the last state of every layer."""

    def __init__(self, config: SutskeverConfig) -> None:
        super().__init__()
        self.reverse_source = config.reverse_source
        self.embedding = nn.Embedding(config.source_vocabulary, config.embedding_width)
        self.stack = LSTMStack(config.embedding_width, config.hidden_width, config.layers, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tokens) -> LSTMStates:
        """Source (B, S) to h and c of every layer, (B, n) each. Only real tokens are reversed, padding is not."""
        embedded = self.dropout(self.embedding(source.ids))
        return self.stack.read(embedded, source.valid, backwards=self.reverse_source)[1]


class SutskeverDecoder(nn.Module):
    """Previous words to the next word, starting from the last state of the encoder."""

    def __init__(self, config: SutskeverConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.target_vocabulary, config.embedding_width)
        self.stack = LSTMStack(config.embedding_width, config.hidden_width, config.layers, dropout=config.dropout)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.hidden_width, config.target_vocabulary)

    def forward(self, state: SutskeverState, target: Tokens, at: Tensor | None = None) -> Tensor:
        """Teacher forcing: the true previous words (B, L) to logits (B, L, V), or (M, V) at the positions `at`."""
        embedded = self.dropout(self.embedding(target.ids))
        hidden, _ = self.stack.read(embedded, target.valid, state.layers)
        return self.output(self.dropout(chosen(hidden, at)))


class Sutskever(RecurrentEncoderDecoder[SutskeverConfig, SutskeverEncoder, SutskeverDecoder, SutskeverState]):
    """Two LSTM stacks: one reads the reversed source, the other starts from its last state (Sutskever et al. 2014, section 2).

        (h, c)_0 of each decoder layer = (h, c) of the same encoder layer after x_T, x_{T-1}, .. x_1
        p(y_t | y_<t, x) = softmax(W h_t + b)          h_t of the top layer, after y_{t-1} was read

    Arguments:
        config: its sizes.

    >>> model = Sutskever(SutskeverConfig(source_vocabulary=9, target_vocabulary=7, embedding_width=4, hidden_width=5, layers=2))
    >>> model(Tokens.pad([[3, 4, 5], [6, 7]]), Tokens.pad([[1, 3], [1, 4]])).shape
    torch.Size([2, 2, 7])
    """

    def __init__(self, config: SutskeverConfig) -> None:
        super().__init__(config, SutskeverEncoder(config), SutskeverDecoder(config))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as `config.initialization` says."""
        if self.config.initialization == "paper":
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.08, 0.08)
            return
        for module in (self.encoder.embedding, self.decoder.embedding):
            nn.init.normal_(module.weight, std=0.1)

    def start(self, source: Tokens) -> SutskeverState:
        """Read the source (B, S)."""
        return SutskeverState(source_valid=source.valid, layers=self.encoder(source))

    def step(self, tokens: Tensor, state: SutskeverState) -> tuple[Tensor, SutskeverState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        decoder = self.decoder
        hidden, layers = decoder.stack.step(decoder.dropout(decoder.embedding(tokens)), state.layers)
        return decoder.output(decoder.dropout(hidden)), state.advanced(layers=layers)
