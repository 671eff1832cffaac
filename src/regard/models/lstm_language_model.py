"""Recurrent neural network regularization (Zaremba, Sutskever, Vinyals 2014): a language model of stacked LSTM layers.

The names in the comments are the paper's (section 3): x_t the token at time t, h_t^l the output of layer l, 1 .. L. As in the
paper, dropout is applied between layers and never between time steps. Residual connections are those of Wu et al. 2016 (GNMT),
section 3.1, which make deep stacks trainable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.layers import TARGET, DecoderState, Dropout, LeftToRight, LSTMStack, LSTMStates, Tokens
from regard.models.config import check, check_shares, check_sizes, check_tokens, check_types


@dataclass(frozen=True, kw_only=True, slots=True)
class LSTMLanguageModelConfig:
    """The sizes of an LSTM language model. The defaults are those of the paper's medium model.

    Arguments:
        vocabulary: number of tokens.
        embedding_width: the size of a token embedding.
        hidden_width: n, size of each layer's h and of its c.
        layers: L.
        residual: whether the input of a layer is added to its output, from the second layer on; not in the paper.
        tied: whether the output layer shares the embedding table, which needs equal widths; not in the paper.
        dropout: probability of dropping, in training, an entry of embeddings, of the outputs between layers, and of
            the input of the output layer.
        initialization: `paper` initialises every parameter U(-0.05, 0.05) as published; `standard` initialises LSTM layers as
            PyTorch does, with forget biases of 1, and embeddings N(0, 0.1^2).
        padding_id: the token that fills padding.
        end_id: the token that ends a text; it is also before the first token of a text.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "lstm_language_model"

    vocabulary: int
    embedding_width: int = 650
    hidden_width: int = 650
    layers: int = 2
    residual: bool = False
    tied: bool = False
    dropout: float = 0.5
    initialization: Literal["standard", "paper"] = "standard"
    padding_id: int = 0
    end_id: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "vocabulary", "embedding_width", "hidden_width", "layers")
        check_shares(self, "dropout", usual="0.5 is the paper's")
        check(
            not self.tied or self.embedding_width == self.hidden_width,
            "embedding_width",
            self.embedding_width,
            f"hidden_width, {self.hidden_width}, where tied",
            "make them equal",
        )
        check_tokens(self, "padding_id", "end_id")


@dataclass(frozen=True, kw_only=True, eq=False)
class LSTMLanguageModelState(DecoderState):
    """The state of the model after a text.

    Arguments:
        layers: h and c of every layer, (N, n) each, from the bottom up.
    """

    layers: LSTMStates = field(metadata=TARGET)


class LSTMLanguageModel(LeftToRight[LSTMLanguageModelState]):
    """A stack of LSTM layers that predicts the next token at each position (Zaremba et al. 2014, section 3).

        h_t^l, c_t^l = LSTM_l(D(h_t^{l-1}), h_{t-1}^l, c_{t-1}^l)        h_t^0 = E[x_t], D is dropout
        p(x_{t+1} | x_1 .. x_t) = softmax(W D(h_t^L) + b)

    Arguments:
        config: its sizes.

    >>> model = LSTMLanguageModel(LSTMLanguageModelConfig(vocabulary=9, embedding_width=4, hidden_width=5))
    >>> model(Tokens.pad([[0, 3, 4], [0, 6]])).shape
    torch.Size([2, 3, 9])
    """

    maximum_length: int | None = None  # a recurrent net has no positions to run out of
    length_setting: str = ""

    def __init__(self, config: LSTMLanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_width)
        self.stack = LSTMStack(
            config.embedding_width,
            config.hidden_width,
            config.layers,
            dropout=config.dropout,
            residual_from=1 if config.residual and config.layers > 1 else None,
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.hidden_width, config.vocabulary)
        if config.tied:
            self.output.weight = self.embedding.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weights as `config.initialization` says."""
        if self.config.initialization == "paper":
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -0.05, 0.05)
            return
        nn.init.normal_(self.embedding.weight, std=0.1)

    def start(self, rows: int) -> LSTMLanguageModelState:
        """The state before the first token of this many texts: zeros, without a source."""
        weight = self.embedding.weight
        like = torch.empty(rows, 0, dtype=weight.dtype, device=weight.device)
        return LSTMLanguageModelState(source_valid=like.to(torch.bool), layers=self.stack.zeros(like))

    def hidden(self, tokens: Tokens, state: LSTMLanguageModelState) -> tuple[Tensor, LSTMLanguageModelState]:
        """Continue from a state: D(h^L) (B, L, n) for each token, and the state after these L tokens."""
        embedded = self.dropout(self.embedding(tokens.ids))
        hidden, layers = self.stack.read(embedded, tokens.valid, state.layers)
        return self.dropout(hidden), state.read(tokens, layers=layers)

    def step(self, tokens: Tensor, state: LSTMLanguageModelState) -> tuple[Tensor, LSTMLanguageModelState]:
        """Consume tokens (N,); return the logits (N, V) of the next and the state after."""
        hidden, layers = self.stack.step(self.dropout(self.embedding(tokens)), state.layers)
        return self.logits(self.dropout(hidden)), state.advanced(layers=layers)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., n) to (..., V): W h + b."""
        return self.output(hidden)

    def output_map(self) -> tuple[Tensor, Tensor | None]:
        """W and b."""
        return self.output.weight, self.output.bias
