"""Heads of encoders: from the vectors of tokens, or the pooled vector of a text, to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.layers.blocks import Dropout

HeadKind = Literal[
    "none", "masked", "next_sentence", "pretraining", "replaced", "sequence", "tokens", "spans", "choice"
]
"""The prediction of a head:

`none`            nothing: the model outputs vectors.
`masked`          the token at each masked position.
`next_sentence`   whether the second text followed the first.
`pretraining`     both `masked` and `next_sentence`.
`replaced`        whether each token is a replacement (ELECTRA only).
`sequence`        a class, or a number, of the whole text.
`tokens`          a class of every token.
`spans`           start and end of an answer.
`choice`          a score of the text, to compare with those of other texts.
"""

POOLED: frozenset[str] = frozenset({"next_sentence", "pretraining", "sequence", "choice"})
"""The heads that read the pooled vector of a text."""

FIXED_OUTPUTS = {"none": 0, "masked": 0, "next_sentence": 2, "pretraining": 2, "replaced": 1, "spans": 2, "choice": 1}
"""The number of outputs of a head, if it does not depend on the task; `masked` has one for each token of the vocabulary."""


class HeadLogits(NamedTuple):
    """The output of a head for a batch.

    Arguments:
        logits: from `masked` and `pretraining` (M, V) at M requested positions, or (B, L, V); from `sequence`, `next_sentence`
            and `choice` (B, outputs); from `tokens` and `spans` (B, L, outputs); None from `none`.
        next_sentence: (B, 2) from `pretraining`: the second text followed, or did not.
    """

    logits: Tensor | None = None
    next_sentence: Tensor | None = None


class NoHead(nn.Module):
    """No logits: the model outputs vectors."""

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Nothing."""
        del hidden, pooled, at
        return HeadLogits()


class MaskedHead(nn.Module):
    """Logits of the token at each position (Devlin et al. 2019, section 3.1, task 1).

        t = LayerNorm(f(W h + b)),   logits = t E^T + c,   E the embedding table itself, c a number for each token

    Arguments:
        table: E.
        activation: f.
        epsilon: added to the variance in the layer norm.
        inner: D of h, if it is not the width of the table (ELECTRA).
        bias, norm_bias, output_bias: whether there are b, the bias of the layer norm, and c.
        tied: whether the output layer shares E, or has its own table of the same shape.
    """

    def __init__(
        self,
        table: nn.Embedding,
        *,
        activation: Callable[[Tensor], Tensor],
        epsilon: float,
        inner: int | None = None,
        bias: bool = True,
        norm_bias: bool = True,
        output_bias: bool = True,
        tied: bool = True,
    ) -> None:
        super().__init__()
        width = table.embedding_dim
        self.transform = nn.Linear(width if inner is None else inner, width, bias=bias)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=epsilon, bias=norm_bias)
        self.output = nn.Linear(width, table.num_embeddings, bias=output_bias)
        if tied:
            self.output.weight = table.weight

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (M, V) at the positions `at`, (M,) indices into B x L, or to (B, L, V) without `at`."""
        del pooled
        if at is not None:
            hidden = hidden.flatten(0, 1).index_select(0, at)
        return HeadLogits(self.output(self.norm(self.activation(self.transform(hidden)))))


class PooledHead(nn.Module):
    """Logits of the whole text: a linear map of the pooled vector.

    Arguments:
        width: D.
        outputs: the number of outputs.
        dropout: probability of dropping an entry of the pooled vector in training.
        bias: whether the map has a bias.
    """

    def __init__(self, width: int, outputs: int, *, dropout: float, bias: bool = True) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs, bias=bias)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Pooled (B, D) to (B, outputs)."""
        del hidden, at
        if pooled is None:
            raise RuntimeError("this head reads the pooled vector and the model has none")
        return HeadLogits(self.output(self.dropout(pooled)))


class TokenHead(nn.Module):
    """Logits of every token: a linear map of its vector.

    Arguments:
        width: D.
        outputs: the number of outputs for each token.
        dropout: probability of dropping an entry of the vectors in training.
    """

    def __init__(self, width: int, outputs: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (B, L, outputs)."""
        del pooled, at
        return HeadLogits(self.output(self.dropout(hidden)))


class ReplacedHead(nn.Module):
    """Whether each token is a replacement (Clark et al. 2020, section 2): the logit is above 0 if it is.

        logit = w f(W h + b) + c

    Arguments:
        width: D.
        activation: f.
    """

    def __init__(self, width: int, *, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = activation
        self.output = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (B, L, 1)."""
        del pooled, at
        return HeadLogits(self.output(self.activation(self.transform(hidden))))


class PretrainingHead(nn.Module):
    """Both pre-training tasks of BERT: the masked tokens, and whether the second text followed the first.

    Arguments:
        masked: the head of the first task.
        next_sentence: the head of the second, of two outputs.
    """

    def __init__(self, masked: MaskedHead, next_sentence: PooledHead) -> None:
        super().__init__()
        self.masked = masked
        self.next_sentence = next_sentence

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) and pooled (B, D) to the logits of both."""
        return HeadLogits(
            self.masked(hidden, None, at).logits,
            self.next_sentence(hidden, pooled, None).logits,
        )


class Pooler(nn.Module):
    """The vector of a text, from that of its first token (in the code of Devlin et al. 2019; not in the paper).

        pooled = f(W h_0 + b),   f = tanh in BERT

    Arguments:
        width: D.
        activation: f.
        dropout: probability of dropping an entry of h_0 in training.
    """

    def __init__(
        self, width: int, *, activation: Callable[[Tensor], Tensor] = torch.tanh, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.map = nn.Linear(width, width)
        self.activation = activation

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Hidden (B, L, D) and valid (B, L) to (B, D), from the first real token, with padding on either side."""
        first = valid.long().argmax(dim=1)
        rows = torch.arange(hidden.shape[0], device=hidden.device)  # len() would fix B where the model is exported
        chosen = self.dropout(hidden[rows, first])
        return self.activation(self.map(chosen))


def build_head(
    kind: HeadKind,
    table: nn.Embedding,
    *,
    outputs: int,
    activation: Callable[[Tensor], Tensor],
    dropout: float,
    epsilon: float,
) -> nn.Module:
    """The head of a kind.

    Arguments:
        table: the embedding table, which the output over the vocabulary shares.
        outputs: the number of outputs of `sequence` and `tokens`.
        activation: of the heads `masked` and `replaced`.
        dropout: before the linear map.
        epsilon: of the masked head's layer norm.
    """
    width = table.embedding_dim
    if kind == "none":
        return NoHead()
    if kind in ("masked", "pretraining"):
        masked = MaskedHead(table, activation=activation, epsilon=epsilon)
        return masked if kind == "masked" else PretrainingHead(masked, PooledHead(width, 2, dropout=0.0))
    if kind == "replaced":
        return ReplacedHead(width, activation=activation)
    if kind in ("tokens", "spans"):
        return TokenHead(width, outputs, dropout=dropout)
    return PooledHead(width, outputs, dropout=dropout)
