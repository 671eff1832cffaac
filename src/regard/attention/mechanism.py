"""The attention contract, and the mechanism built from a score and an alignment."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.alignments import Alignment, Soft
from regard.attention.inputs import AttentionInputs, Reads
from regard.attention.kernels import softmax_product
from regard.attention.scores import Score
from regard.structure import renamed


@renamed(added="extra_output")
@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """What a mechanism says of itself; the contract test holds it to every word.

    Arguments:
        distribution: weights are non-negative and sum to one over the keys a query sees.
        extra_output: `extra_output(inputs, weights)` is a term of the output besides the weighted values.
        drawn: `draw` fills the record with random numbers that `weights` and `forward` need.
        counts_padding: what a query gets depends on keys that it does not see, so masks have to hide padding behind a text too.
        reads: what it looks for in the record, and nothing else there; what `draw` samples is among it.
    """

    distribution: bool = True
    extra_output: bool = False
    drawn: bool = False
    counts_padding: bool = False
    reads: Reads = field(default_factory=dict)


class Attention(nn.Module, ABC):
    """An attention mechanism is its weights; `forward` may get to the same output faster.

    In evaluation `forward(inputs, value)` equals `weights(inputs) @ value` (plus the declared `extra_output`) within the
    tolerance of the dtype. A query that may attend nowhere gets exact zeros from both.

    Arguments:
        dropout: probability of dropping a weight in training, in [0, 1). `weights` is always before dropout.
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        for old, name in (("added", "extra_output"), ("decided", "replay_state")):
            if old in vars(cls):
                warnings.warn(f"{cls.__name__}.{old} is called {name}; use that name", DeprecationWarning, stacklevel=2)
                setattr(cls, name, vars(cls)[old])

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout is {dropout}; it must lie in [0, 1)")
        self.dropout = dropout

    @property
    @abstractmethod
    def declaration(self) -> Declaration:
        """What this mechanism promises."""

    @abstractmethod
    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S) float32 (float64 for float64 inputs): the paper's equation, plainly, before dropout.

        Samples no random number.
        """

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """The weighted values: value (B, G, S, Ev) to output (B, H, L, Ev), in the dtype of `value`."""
        inputs.check_value(value)
        weights = F.dropout(self.weights(inputs), self.dropout, self.training)
        value = inputs.per_query_head(value)
        return weights.to(value.dtype) @ value

    @property
    def fuses_plainly(self) -> bool:
        """Whether `forward` is PyTorch's fused kernel without a bias by position."""
        return False

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with what is random in the mechanism sampled into their record; nothing is by default.

        `AttentionLayer` calls it in training, and nobody else. What the record holds already stays.
        """
        return inputs

    def replay_state(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        """Discrete choices to reuse when the same inputs are computed again, by name; nothing by default.

        Rounding could turn a choice between nearly equal numbers round. They go into the record of whoever computes again.
        """
        return {}

    def extra_output(self, inputs: AttentionInputs, weights: Tensor) -> Tensor | None:
        """The declared term of the output besides `weights @ value`, (B, H, L, Ev); None where none is declared."""
        return None

    def extra_repr(self) -> str:
        """Dropout, where there is any."""
        return f"dropout={self.dropout}" if self.dropout else ""


class ScoredAttention(Attention):
    """Weights from a score and an alignment: `alignment(score(query, key))`.

    Where the score is a scaled inner product, perhaps plus a bias by position, and the alignment the plain softmax, `forward`
    runs PyTorch's fused kernel (`scaled_dot_product_attention`), which never lays the weights out.

    Arguments:
        score: how well a query matches a key.
        alignment: how scores become weights; the softmax where None.
        dropout: probability of dropping a weight in training.

    >>> from regard.attention import AttentionInputs, ScaledDot
    >>> attention = ScoredAttention(ScaledDot())
    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 5, 4), key=torch.randn(2, 3, 7, 4))
    >>> value = torch.randn(2, 3, 7, 6)
    >>> torch.allclose(attention(inputs, value), attention.weights(inputs) @ value, atol=1e-5)
    True
    """

    def __init__(self, score: Score, alignment: Alignment | None = None, *, dropout: float = 0.0) -> None:
        super().__init__(dropout=dropout)
        self.score = score
        self.alignment = alignment if alignment is not None else Soft()

    @property
    def declaration(self) -> Declaration:
        """A distribution where the alignment gives one, sampled where it samples."""
        reads = {**self.score.reads, **self.alignment.reads}
        return Declaration(distribution=self.alignment.distribution, drawn=self.alignment.drawn, reads=reads)

    @property
    def fuses_plainly(self) -> bool:
        """Whether `forward` is PyTorch's fused kernel without a bias by position."""
        plain = type(self.score).product_and_term is Score.product_and_term
        return plain and self.alignment.plain_softmax and self.score.product_scale(1) is not None

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with what the alignment samples in their record."""
        drawn = self.alignment.draw(inputs, generator)
        return replace(inputs, record={**inputs.record, **drawn}) if drawn else inputs

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the alignment of the scores, in float32 for any inputs, before dropout."""
        return self.aligned(inputs, self.alignment)

    def aligned(self, inputs: AttentionInputs, alignment: Alignment) -> Tensor:
        """What another alignment would make of the same scores, (B, H, L, S): such as the probabilities of hard samples."""
        exact = inputs.exact
        with torch.autocast(inputs.query.device.type, enabled=False):
            scores = self.score(inputs.query.to(exact), inputs.key_per_query_head.to(exact), inputs)
            return alignment(scores, inputs.visible(), inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        product = self.score.product_and_term(inputs) if self.alignment.plain_softmax else None
        if product is None:
            return super().forward(inputs, value)
        inputs.check_value(value)
        scale, term = product
        return softmax_product(inputs, value, scale, term, dropout=self.dropout, training=self.training)
