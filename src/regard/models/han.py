"""Hierarchical attention networks for document classification (Yang et al. 2016): words to sentences, sentences to a document.

The names in the comments are the paper's (section 2.2): w_it is the t-th word of sentence i, h_it what the two recurrent nets of
the words make of it, s_i the vector of the sentence, h_i what those of the sentences make of that, v the vector of the document.
u_w and u_s are the context vectors: what an informative word, and an informative sentence, would look like.
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
"""How the word embeddings become that of their sentence, and those of sentences that of the document."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HANConfig:
    """The sizes of a hierarchical attention network; the defaults are the paper's.

    Arguments:
        vocabulary: V, number of tokens.
        embedding_width: of the word embeddings.
        hidden_width: n, of each direction of the recurrent nets; sentence embeddings and of the document are 2n wide.
        attention_width: of the context vectors and of what is compared with them.
        gathering: `attention`; or `average` or `maximum`, what it was compared with (HN-AVE and HN-MAX), at both levels.
        dropout: probability of dropping an entry of the word embeddings and of the document in training; the paper has none.
        padding_id: the id that fills padding.
        boundary_ids: tokens that stand around and between sentences and are no words. Filled in by the task.
        texts: how many documents the head reads, 1 or 2. Filled in by the task.
        head: what is predicted of a document: `none`, `sequence` or `choice`. Filled in by the task.
        outputs: how many numbers the head gives. Filled in by the task.

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
        """D = 2n, of the vector of a document."""
        return 2 * self.hidden_width

    @property
    def layers(self) -> int:
        """The words' net is the one whose vectors are at tokens."""
        return 1

    @property
    def segments(self) -> int:
        """Segments are not distinguished."""
        return 0

    @property
    def maximum_positions(self) -> int:
        """There are no positions to run out of."""
        return LONGEST


class Level(nn.Module):
    """One of the two levels: recurrent nets over a sequence, and one vector of all that belongs together in it.

        h_t = [GRU_forwards ; GRU_backwards](x_t)
        u_t = tanh(W h_t + b),   a_t = exp(u_t . u) / sum_k exp(u_k . u),   s = sum_t a_t h_t       (equations 5 to 10)

    Weighed is h, not u; the product with the context vector u is not scaled.

    Arguments:
        input_width: of x.
        config: its sizes.
        between: what gathers and what is gathered, for whoever looks.
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
        """One vector of all that belongs together.

        Arguments:
            h: (B, T, D).
            members: (B, G, T) bool, True = this one is of that group.

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
    """Words to sentences, sentences to a document, and what is predicted of it.

        s_i = sum_t a_it h_it,   v = sum_i a_i h_i,   p = softmax(W_c v + b_c)

    A document is one row of tokens in which boundary tokens part the sentences. Of the attention among its words there is one row
    for each sentence, over all tokens of the document, with weights on its own words alone.

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
        """The words' level."""
        return (self.words,)

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the words' vectors, and of what the recurrent nets make of them."""
        return self.config.embedding_width, self.config.width

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        """The words' vectors, and h_it, (B, L, 2n), zeros where no word stands."""
        del segments
        embedded = self.embedding(tokens.ids)
        sentences = SentencesOf.tokens(tokens, self.config.boundary_ids)
        return embedded, sentences.read(self.dropout(embedded), self.words.reader)

    def vector(self, hidden: Tensor, tokens: Tokens) -> Tensor:
        """The document's v (B, 2n) from h_it (B, L, 2n); zeros for a document without a word."""
        sentences = SentencesOf.tokens(tokens, self.config.boundary_ids)
        vectors = self.words.gathered(hidden, sentences.members())
        valid = sentences.valid
        return self.sentences.gathered(self.sentences.reader(vectors, valid), valid.unsqueeze(1)).squeeze(1)


def _maximum(h: Tensor, members: Tensor) -> Tensor:
    """The largest number in each place over the members of each group: (B, T, D) and (B, G, T) to (B, G, D)."""
    batch, groups, _ = members.shape
    belongs = members.any(dim=1)
    group = torch.arange(batch, device=h.device).unsqueeze(1) * groups + members.long().argmax(dim=1)
    rows = group[belongs].unsqueeze(1).expand(-1, h.shape[-1])
    empty = h.new_zeros(batch * groups, h.shape[-1])
    found = empty.scatter_reduce(0, rows, h[belongs], "amax", include_self=False)
    return found.unflatten(0, (batch, groups))
