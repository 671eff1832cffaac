"""What stands on an encoder: from its last layer, and the vector pooled from it, to logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout

HeadKind = Literal["none", "masked", "next_sentence", "pretraining", "sequence", "tokens", "spans", "choice"]
"""What a model's head tells of:

`none`            nothing: the model gives vectors.
`masked`          which token stands where one is masked.
`next_sentence`   whether the second text followed the first.
`pretraining`     both of these.
`sequence`        a class, or a number, of the whole text.
`tokens`          a class of every token.
`spans`           where an answer starts and where it ends.
`choice`          how well a text answers, one number, to be compared with those of other texts.
"""

POOLED: frozenset[str] = frozenset({"next_sentence", "pretraining", "sequence", "choice"})
"""The heads that read the vector pooled from the whole text."""

FIXED_OUTPUTS = {"none": 0, "masked": 0, "next_sentence": 2, "pretraining": 2, "spans": 2, "choice": 1}
"""How many numbers a head gives where the task does not decide it; `masked` gives one for each token of the vocabulary."""


class HeadLogits(NamedTuple):
    """What a head makes of a batch.

    Arguments:
        logits: (M, V) at the M places asked for from `masked` and `pretraining`, (B, L, V) where none were; (B, outputs) from
            `sequence`, `next_sentence` and `choice`; (B, L, outputs) from `tokens` and `spans`; None from `none`.
        next_sentence: (B, 2) from `pretraining`: that the second text followed, and that it did not.
    """

    logits: Tensor | None = None
    next_sentence: Tensor | None = None


class NoHead(nn.Module):
    """No logits: the model gives vectors."""

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Nothing."""
        del hidden, pooled, at
        return HeadLogits()


class MaskedHead(nn.Module):
    """Logits of the token that stands at each place (Devlin et al. 2019, section 3.1, task 1).

        t = LayerNorm(f(W h + b)),   logits = t E^T + c,   E the embedding table itself, c a number for each token

    Arguments:
        table: E; its weight is shared.
        activation: f.
        epsilon: added to the variance in the layer norm.
    """

    def __init__(self, table: nn.Embedding, *, activation: Callable[[Tensor], Tensor], epsilon: float) -> None:
        super().__init__()
        width = table.embedding_dim
        self.transform = nn.Linear(width, width)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.output = nn.Linear(width, table.num_embeddings)
        self.output.weight = table.weight

    def forward(self, hidden: Tensor, pooled: Tensor | None, at: Tensor | None) -> HeadLogits:
        """Hidden (B, L, D) to (M, V): only the places `at`, (M,) indices into B x L, are computed; all without it."""
        del pooled
        if at is not None:
            hidden = hidden.flatten(0, 1).index_select(0, at)
        return HeadLogits(self.output(self.norm(self.activation(self.transform(hidden)))))


class PooledHead(nn.Module):
    """Logits of the whole text: a linear map of the pooled vector.

    Arguments:
        width: D.
        outputs: how many.
        dropout: probability of dropping an entry of the pooled vector in training.
    """

    def __init__(self, width: int, outputs: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, outputs)

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
        outputs: how many for each token.
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


class PretrainingHead(nn.Module):
    """Both of BERT's own tasks: the masked tokens, and whether the second text followed the first.

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
    """The vector of a whole text, from that of its first token (Devlin et al. 2019; a layer the paper leaves out).

        pooled = f(W h_0 + b),   f = tanh in BERT

    Arguments:
        width: D.
        activation: f.
    """

    def __init__(self, width: int, *, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.activation = activation

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Hidden (B, L, D) and valid (B, L) to (B, D): the first real token's, on whichever side padding stands."""
        first = valid.long().argmax(dim=1)
        return self.activation(self.map(hidden[torch.arange(len(hidden), device=hidden.device), first]))


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
        outputs: how many numbers `sequence` and `tokens` give.
        activation: of the masked head.
        dropout: in front of the linear map.
        epsilon: of the masked head's layer norm.
    """
    width = table.embedding_dim
    if kind == "none":
        return NoHead()
    if kind in ("masked", "pretraining"):
        masked = MaskedHead(table, activation=activation, epsilon=epsilon)
        return masked if kind == "masked" else PretrainingHead(masked, PooledHead(width, 2, dropout=0.0))
    if kind in ("tokens", "spans"):
        return TokenHead(width, outputs, dropout=dropout)
    return PooledHead(width, outputs, dropout=dropout)
