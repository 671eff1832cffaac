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
    """The properties of a mechanism, which the contract test checks.

    Arguments:
        distribution: weights are non-negative and sum to one over the visible keys.
        extra_output: the output has the term `extra_output(inputs, weights)` in addition to the weighted values.
        sampled: `sample` samples random tensors into the record, which `weights` and `forward` need.
        counts_padding: the output can depend on keys that no query sees, so masks must hide padding on the right too.
        reads: the tensors that it reads from the record, with their axes, including those that `sample` samples.
    """

    distribution: bool = True
    extra_output: bool = False
    sampled: bool = False
    counts_padding: bool = False
    reads: Reads = field(default_factory=dict)


class Attention(nn.Module, ABC):
    """An attention mechanism, defined by its `weights`; `forward` may compute the same output faster.

    In evaluation `forward(inputs, value)` equals `weights(inputs) @ value` (plus `extra_output`, if declared) within the
    tolerance of the dtype. A query without a visible key gets exact zeros from both.

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
        """The properties of this mechanism."""

    @abstractmethod
    def weights(self, inputs: AttentionInputs) -> Tensor:
        """The weights (B, H, L, S), float32 (float64 for float64 inputs), by the paper's equation, before dropout.

        It samples no random numbers.
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

    def sample(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with the mechanism's random tensors sampled into their record. By default there are none.

        Only `AttentionLayer` calls it, in training. Tensors that the record already holds are kept.
        """
        return inputs

    def replay_state(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        """Discrete choices to reuse when the same inputs are computed again, by name. By default there are none.

        Rounding could change a choice between nearly equal numbers. The choices go into the record of the second computation.
        """
        return {}

    def extra_output(self, inputs: AttentionInputs, weights: Tensor) -> Tensor | None:
        """The declared further term of the output, (B, H, L, Ev), which is added to `weights @ value`; None = no such term."""
        return None

    def extra_repr(self) -> str:
        """The dropout probability, if it is not 0."""
        return f"dropout={self.dropout}" if self.dropout else ""


class ScoredAttention(Attention):
    """Weights from a score and an alignment: `alignment(score(query, key))`.

    If the score is a scaled inner product, with or without a bias by position, and the alignment is the plain softmax, `forward`
    runs PyTorch's fused kernel (`scaled_dot_product_attention`), which never stores the (L, S) weights.

    Arguments:
        score: how well a query matches a key.
        alignment: how scores become weights; None = the softmax.
        dropout: probability of dropping a weight in training.

    >>> from regard.attention import AttentionInputs, ScaledDot
    >>> attention = ScoredAttention(ScaledDot())
    >>> inputs = AttentionInputs(query=torch.randn(2, 3, 5, 4), key=torch.randn(2, 3, 7, 4))
    >>> value = torch.randn(2, 3, 7, 6)
    >>> torch.allclose(attention(inputs, value), attention.weights(inputs) @ value, atol=1e-5)
    True
    """

    batch_invariant: bool = False
    """Whether the fused kernel of `forward` gives a row the same bits alone and in any batch, as within `BatchInvariant`."""

    def __init__(self, score: Score, alignment: Alignment | None = None, *, dropout: float = 0.0) -> None:
        super().__init__(dropout=dropout)
        self.score = score
        self.alignment = alignment if alignment is not None else Soft()

    @property
    def declaration(self) -> Declaration:
        """The properties of the alignment."""
        reads = {**self.score.reads, **self.alignment.reads}
        return Declaration(distribution=self.alignment.distribution, sampled=self.alignment.sampled, reads=reads)

    @property
    def fuses_plainly(self) -> bool:
        """Whether `forward` is PyTorch's fused kernel without a bias by position."""
        plain = type(self.score).product_and_term is Score.product_and_term
        return plain and self.alignment.plain_softmax and self.score.product_scale(1) is not None

    def sample(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with the alignment's sampled tensors in their record."""
        sampled = self.alignment.sample(inputs, generator)
        return replace(inputs, record={**inputs.record, **sampled}) if sampled else inputs

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the alignment of the scores, in float32 for any inputs, before dropout."""
        return self.aligned(inputs, self.alignment)

    def aligned(self, inputs: AttentionInputs, alignment: Alignment) -> Tensor:
        """The weights (B, H, L, S) that another alignment gives to the same scores, such as the probabilities of hard samples."""
        query, key = inputs.query, inputs.key_per_query_head
        if not self.score.takes_half_precision:
            query, key = query.to(inputs.exact), key.to(inputs.exact)
        with torch.autocast(query.device.type, enabled=False):
            scores = self.score(query, key, inputs)
            return alignment(scores.to(inputs.exact), inputs.visible(), inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        product = self.score.product_and_term(inputs) if self.alignment.plain_softmax else None
        if product is None:
            return super().forward(inputs, value)
        inputs.check_value(value)
        scale, term = product
        alike = self.batch_invariant
        return softmax_product(
            inputs, value, scale, term, dropout=self.dropout, training=self.training, batch_invariant=alike
        )
