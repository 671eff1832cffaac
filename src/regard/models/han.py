"""Hierarchical attention networks for document classification (Yang et al. 2016): words to sentences, sentences to a document.

The names in the comments are the paper's (section 2.2): w_it is word t of sentence i, h_it its state in the bidirectional GRU
over words, s_i the vector of the sentence, h_i its state in the bidirectional GRU over sentences, v the vector of the document.
u_w and u_s are the context vectors, the learned queries for informative words and sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, Dense, Dot, ScoredAttention
from regard.attention.layer import Side
from regard.layers import BidirectionalGRU, Dropout, SentenceEncoderModel, SentencesOf, Tokens, VectorHead
from regard.layers.sentence_encoder import LONGEST
from regard.models.config import check, check_sentence_encoder, check_sizes, check_types, vector_head

Gathering = Literal["attention", "average", "maximum"]
"""How the states of words are pooled to the vector of their sentence, and those of sentences to the vector of the document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HANConfig:
    """The sizes of a hierarchical attention network. The defaults are the paper's.

    Arguments:
        vocabulary: V, number of tokens.
        embedding_width: of the word embeddings.
        hidden_width: n, of each direction of the GRUs; the vectors of sentences and of the document have width 2n.
        attention_width: of the context vectors, and of the projections that are compared with them.
        gathering: the pooling at both levels: `attention`, or its baselines `average` and `maximum` (HN-AVE and HN-MAX).
        dropout: probability of dropping an entry of word embeddings and of the document vector in training; 0 in the paper.
        padding_id: the id that fills padding.
        boundary_ids: the tokens around and between sentences, which are not words. Filled in by the task.
        texts: the number of documents that the head reads, 1 or 2. Filled in by the task.
        head: the prediction for a document: `none`, `sequence` or `choice`. Filled in by the task.
        outputs: the number of outputs of the head. Filled in by the task.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    model_type: ClassVar[str] = "han"

    vocabulary: int
    embedding_width: int = 200
    hidden_width: int = 50
    attention_width: int = 100
    gathering: Gathering = "attention"
    dropout: float = 0.0
    padding_id: int = 0
    boundary_ids: tuple[int, ...] = ()
    texts: int = 1
    head: VectorHead = "none"
    outputs: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        check_sizes(self, "embedding_width", "hidden_width", "attention_width")
        check_sentence_encoder(self)
        for index in self.boundary_ids:
            check(0 <= index < self.vocabulary, "boundary_ids", index, f"in [0, {self.vocabulary})", "they are tokens")

    @property
    def width(self) -> int:
        """D = 2n, the width of the vector of a document."""
        return 2 * self.hidden_width

    @property
    def layers(self) -> int:
        """The GRU over words, whose states are those of the tokens."""
        return 1

    @property
    def segments(self) -> int:
        """0: there are no segment embeddings."""
        return 0

    @property
    def maximum_positions(self) -> int:
        """None: texts can have any length."""
        return LONGEST


class Level(nn.Module):
    """One of the two levels: a bidirectional GRU over a sequence, and one pooled vector for each group of its elements.

        h_t = [GRU_forwards ; GRU_backwards](x_t)
        u_t = tanh(W h_t + b),   a_t = exp(u_t . u) / sum_k exp(u_k . u),   s = sum_t a_t h_t       (equations 5 to 10)

    The weighted sum is over h, not over u_t. The product with the context vector u is not scaled.

    Arguments:
        input_width: of x.
        config: its sizes.
        between: the sequences of queries and keys, the axes of the weights in a record.
    """

    def __init__(self, input_width: int, config: HANConfig, sequences: tuple[Side, Side]) -> None:
        super().__init__()
        self.gathering = config.gathering
        self.reader = BidirectionalGRU(input_width, config.hidden_width)
        if config.gathering == "attention":
            self.context = nn.Parameter(torch.empty(config.attention_width))
            nn.init.uniform_(self.context, -(config.attention_width**-0.5), config.attention_width**-0.5)
            self.attention = AttentionLayer(
                query=nn.Identity(),
                key=nn.Sequential(nn.Linear(config.width, config.attention_width), nn.Tanh()),
                value=nn.Identity(),
                output=nn.Identity(),
                attention=ScoredAttention(Dot()),
                sequences=sequences,
            )

    def gathered(self, h: Tensor, members: Tensor) -> Tensor:
        """One pooled vector for each group.

        Arguments:
            h: (B, T, D).
            members: (B, G, T) bool, True = the element belongs to the group.

        Returns:
            (B, G, D), zeros for a group without members.
        """
        if self.gathering == "maximum":
            return _maximum(h, members)
        if self.gathering == "average":
            return members.to(h.dtype) @ h / members.sum(dim=-1, keepdim=True).clamp_min(1)
        context = self.context.to(h.dtype).expand(*members.shape[:2], -1)
        return self.attention(context, self.attention.keys_values(h), mask=Dense(members.unsqueeze(1)))


class HAN(SentenceEncoderModel):
    """Words to sentences, sentences to a document, and a prediction for the document (Yang et al. 2016, section 2.2).

        s_i = sum_t a_it h_it,   v = sum_i a_i h_i,   p = softmax(W_c v + b_c)

    A document is one row of tokens, with boundary tokens between the sentences. The attention over words has one query for each
    sentence; its weights are over all tokens of the document, and zero outside the sentence.

    Arguments:
        config: its sizes.

    >>> sizes = {"embedding_width": 4, "hidden_width": 3, "attention_width": 5}
    >>> model = HAN(HANConfig(vocabulary=9, boundary_ids=(1, 2), head="sequence", outputs=2, **sizes))
    >>> model(Tokens.pad([[1, 3, 4, 2, 5, 2], [1, 6, 2]])).logits.shape
    torch.Size([2, 2])
    """

    config: HANConfig

    def __init__(self, config: HANConfig) -> None:
        super().__init__(config, vector_head(config, 0))
        self.embedding = nn.Embedding(config.vocabulary, config.embedding_width)
        self.dropout = Dropout(config.dropout)
        self.words = Level(config.embedding_width, config, sequences=("sentences", "source"))
        self.sentences = Level(config.width, config, sequences=("document", "sentences"))

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The level of words."""
        return (self.words,)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the word embeddings and of h_it."""
        return self.config.embedding_width, self.config.width

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The word embeddings, and h_it (B, L, 2n), zeros at tokens that are not words."""
        del segments
        embedded = self.embedding(tokens.ids)
        sentences = SentencesOf.tokens(tokens, self.config.boundary_ids)
        return embedded, sentences.read(self.dropout(embedded), self.words.reader)

    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The vector v (B, 2n) of the document from h_it (B, L, 2n); zeros for a document without words."""
        sentences = SentencesOf.tokens(tokens, self.config.boundary_ids)
        vectors = self.words.gathered(hidden, sentences.members())
        valid = sentences.valid
        return self.sentences.gathered(self.sentences.reader(vectors, valid), valid.unsqueeze(1)).squeeze(1)


def _maximum(h: Tensor, members: Tensor) -> Tensor:
    """The maximum of each component over the members of each group: (B, T, D) and (B, G, T) to (B, G, D)."""
    batch, groups, _ = members.shape
    belongs = members.any(dim=1)
    group = torch.arange(batch, device=h.device).unsqueeze(1) * groups + members.long().argmax(dim=1)
    rows = group[belongs].unsqueeze(1).expand(-1, h.shape[-1])
    empty = h.new_zeros(batch * groups, h.shape[-1])
    found = empty.scatter_reduce(0, rows, h[belongs], "amax", include_self=False)
    return found.unflatten(0, (batch, groups))
