"""InferSent (Conneau et al. 2017): sentence embeddings from a bidirectional LSTM, trained on natural language inference.

The names in the comments are the paper's (section 3): w_t is a word, h_t the states of both directions at it, u and v are the
embeddings of premise and hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.layers import Dropout, LSTMStack, SentenceEncoderModel, Tokens, VectorHead
from regard.layers.sentence_encoder import LONGEST
from regard.models.config import check, check_sentence_encoder, check_sizes, check_types, vector_head

Pooling = Literal["max", "mean", "last"]
"""The pooling of states (section 3.2): the maximum of each component, the mean, or the last state of each direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferSentConfig:
    """The sizes of an InferSent. The defaults are those of the published encoder.

    Arguments:
        vocabulary: V, number of tokens.
        embedding_width: of the word embeddings.
        hidden_width: n, of each direction; the vector of a text has width 2n.
        layers: 1; or 0 for no LSTM: the word embeddings themselves are pooled (bag of words).
        pooling: of the states: the maximum of each component (`max`), the `mean`, or the `last` state of each direction.
        classifier_width: of the hidden layer of the classifier; 0 = a linear classifier.
        dropout: probability of dropping an entry of word embeddings, and of the input of each classifier layer, in training.
        padding_id: the id that fills padding.
        texts: the number of texts that the head reads, 1 or 2. Filled in by the task.
        head: the prediction for them: `none`, `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "infersent"

    vocabulary: int
    embedding_width: int = 300
    hidden_width: int = 2048
    layers: int = 1
    pooling: Pooling = "max"
    classifier_width: int = 512
    dropout: float = 0.0
    padding_id: int = 0
    texts: int = 1
    head: VectorHead = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "embedding_width", "hidden_width")
        check(self.layers in (0, 1), "layers", self.layers, "0 or 1", "1 is the paper's")
        check(
            self.layers == 1 or self.pooling != "last",
            "pooling",
            self.pooling,
            "'max' or 'mean' with layers=0",
            "without a recurrent net there is no last state",
        )
        check(self.classifier_width >= 0, "classifier_width", self.classifier_width, "0 or more", "512 is the paper's")
        check_sentence_encoder(self)

    @property
    def width(self) -> int:
        """D, the width of the vector of a text."""
        return 2 * self.hidden_width if self.layers else self.embedding_width

    @property
    def segments(self) -> int:
        """0: there are no segment embeddings."""
        return 0

    @property
    def maximum_positions(self) -> int:
        """None: texts can have any length."""
        return LONGEST


class BidirectionalLSTM(nn.Module):
    """A forward and a backward LSTM: h_t = [forward_t ; backward_t].

    Arguments:
        input_width: of the word embeddings.
        width: n, of each direction.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.forwards = LSTMStack(input_width, width, 1)
        self.backwards = LSTMStack(input_width, width, 1)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """X (B, L, input_width) and valid (B, L) to (B, L, 2n), without meaning at padding."""
        ahead, _ = self.forwards.read(x, valid)
        behind, _ = self.backwards.read(x, valid, backwards=True)
        return torch.cat([ahead, behind], dim=-1)


class InferSent(SentenceEncoderModel):
    """A bidirectional LSTM whose states are pooled to the vector of a text (Conneau et al. 2017, section 3).

        h_t = [LSTM_forwards(w_1 .. w_t) ; LSTM_backwards(w_t .. w_T)]
        u = max_t h_t                                      in each component; or the mean, or the last states
        p = softmax(W2 tanh(W1 [u ; v ; |u - v| ; u * v]))           over entailment, neutral, contradiction

    Arguments:
        config: its sizes.

    >>> config = InferSentConfig(vocabulary=9, embedding_width=4, hidden_width=3, texts=2, head="sequence", outputs=3)
    >>> segments = torch.tensor([[0, 0, 0, 1, 1]])
    >>> InferSent(config)(Tokens.pad([[1, 5, 2, 6, 2]]), segments).logits.shape
    torch.Size([1, 3])
    """

    config: InferSentConfig

    def __init__(self, config: InferSentConfig) -> None:
        super().__init__(config, vector_head(config, config.classifier_width))
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_width)
        self.dropout = Dropout(config.dropout)
        self.reader = BidirectionalLSTM(config.embedding_width, config.hidden_width) if config.layers else None

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The LSTM, if there is one."""
        return () if self.reader is None else (self.reader,)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the word embeddings and of h_t."""
        return (self.config.embedding_width, self.config.width)[: 1 + self.config.layers]

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The word embeddings (B, L, E), and h_t (B, L, 2n)."""
        del segments
        embedded = self.dropout(self.embedding(tokens.ids))
        return (embedded,) if self.reader is None else (embedded, self.reader(embedded, tokens.valid))

    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The vector of each text (B, D), without padding; zeros for an empty text."""
        valid = tokens.valid.unsqueeze(-1)
        if self.config.pooling == "mean":
            return hidden.masked_fill(~valid, 0.0).sum(dim=1) / valid.sum(dim=1).clamp_min(1)
        if self.config.pooling == "max":
            found = hidden.masked_fill(~valid, -torch.inf).amax(dim=1)
            return found.masked_fill(~valid.any(dim=1), 0.0)
        # Forwards the last word's state has read all, backwards the first word's.
        ahead, behind = hidden.masked_fill(~valid, 0.0).chunk(2, dim=-1)
        rows = torch.arange(len(hidden), device=hidden.device)
        first = tokens.valid.long().argmax(dim=1)
        last = tokens.valid.shape[1] - 1 - tokens.valid.long().flip(1).argmax(dim=1)
        return torch.cat([ahead[rows, last], behind[rows, first]], dim=-1)
