"""The attention contract, and the mechanism built from a score and an alignment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.alignments import Alignment, Soft
from regard.attention.dropping import dropped
from regard.attention.inputs import AttentionInputs
from regard.attention.masks import Causal
from regard.attention.scores import Score

SHORT, LONG = 24, 256
"""Fewer queries or keys than the first, and PyTorch's fused kernel trains fastest in float32; more keys than the second, and it
does so as they are given; between the two it is better to lay the weights out. For processors and bfloat16 alone, see
`benchmarks/attention_kernels.py`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """What a mechanism says of itself; the contract test holds it to every word.

    Arguments:
        distribution: weights are non-negative and sum to one over the keys a query sees.
        added: `added(inputs, weights)` is a term of the output besides the weighted values.
        drawn: `draw` fills the record with random numbers that `weights` and `forward` need.
        counts_padding: what a query gets depends on keys that it does not see, so masks have to hide padding behind a text too.
    """

    distribution: bool = True
    added: bool = False
    drawn: bool = False
    counts_padding: bool = False


class Attention(nn.Module, ABC):
    """An attention mechanism is its weights; `forward` may get to the same output faster.

    In evaluation `forward(inputs, value)` equals `weights(inputs) @ value` (plus the declared `added` term) within the
    tolerance of the dtype. A query that may attend nowhere gets exact zeros from both.

    Arguments:
        dropout: probability of dropping a weight in training, in [0, 1). `weights` is always before dropout.
    """

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

        Draws no random number.
        """

    @abstractmethod
    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """The weighted values: value (B, G, S, Ev) to output (B, H, L, Ev), in the dtype of `value`."""

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with what is random in the mechanism drawn into their record; nothing is by default.

        `AttentionLayer` calls it in training, and nobody else. What the record holds already stays.
        """
        return inputs

    def decided(self, inputs: AttentionInputs) -> Mapping[str, Tensor]:
        """What was decided between numbers so near that rounding may turn it round, by name; nothing is by default.

        It goes into the record of whoever computes the same inputs again.
        """
        return {}

    def added(self, inputs: AttentionInputs, weights: Tensor) -> Tensor | None:
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
        """A distribution where the alignment gives one, drawn where it draws."""
        return Declaration(distribution=self.alignment.distribution, drawn=self.alignment.drawn)

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> AttentionInputs:
        """The same inputs with what the alignment draws in their record."""
        drawn = self.alignment.draw(inputs, generator)
        return replace(inputs, record={**inputs.record, **drawn}) if drawn else inputs

    def weights(self, inputs: AttentionInputs) -> Tensor:
        """(B, H, L, S): the alignment of the scores, in float32 whatever the inputs are, before dropout."""
        return self.aligned(inputs, self.alignment)

    def aligned(self, inputs: AttentionInputs, alignment: Alignment) -> Tensor:
        """What another alignment would make of the same scores, (B, H, L, S): such as the probabilities of hard draws."""
        exact = torch.float64 if inputs.query.dtype == torch.float64 else torch.float32
        with torch.autocast(inputs.query.device.type, enabled=False):
            scores = self.score(inputs.query.to(exact), inputs.key_per_query_head.to(exact), inputs)
            return alignment(scores, inputs.visible(), inputs)

    def forward(self, inputs: AttentionInputs, value: Tensor) -> Tensor:
        """Value (B, G, S, Ev) to output (B, H, L, Ev)."""
        inputs.check_value(value)
        product = self.score.product_and_term(inputs) if self.alignment.plain_softmax else None
        if product is not None:
            way = self._laid_out if self._better_laid_out(inputs) else self._fused
            return way(inputs, value, *product)
        weights = F.dropout(self.weights(inputs), self.dropout, self.training)
        groups = inputs.query.shape[1] // value.shape[1]
        value = value if groups == 1 else value.repeat_interleave(groups, dim=1)
        return weights.to(value.dtype) @ value

    def _fused(self, inputs: AttentionInputs, value: Tensor, scale: float, term: Tensor | None) -> Tensor:
        # SDPA's `is_causal` aligns the triangle top left: right only where queries and keys are the same slots.
        mask = inputs.mask
        square = inputs.query.shape[2] == inputs.key.shape[2]
        causal = term is None and type(mask) is Causal and mask.offset == 0 and square
        visible = None if causal else inputs.visible()
        query, key = inputs.query, inputs.key
        exact = inputs.shape[3] <= LONG and _slow_backward(query)
        if exact:
            query, key, value = query.float(), key.float(), value.float()
        # Autocast would turn the float32 inputs back into bfloat16.
        with torch.autocast(query.device.type, enabled=False) if exact else nullcontext():
            output = F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=visible if term is None else _added(term, visible, _number_format(query)),
                dropout_p=self.dropout if self.training else 0.0,
                is_causal=causal,
                scale=scale,
                enable_gqa=query.shape[1] != key.shape[1],
            )
        if term is not None and visible is not None:  # a query with nothing visible looked at everything alike
            output = output * visible.any(dim=-1, keepdim=True)
        return output.to(inputs.query.dtype)

    def _better_laid_out(self, inputs: AttentionInputs) -> bool:
        """Whether, in training on a processor, the weights are better laid out than left to the fused kernel.

        With dropout it lays them out too, in float32, and is slower. In bfloat16 its backward pass is slow on short sequences:
        forward and backward of 192 heads of 128 tokens took 35 ms laid out, 65 ms by the kernel in float32 and 114 ms in
        bfloat16, on one AVX512-BF16 core; 256 heads of 32 tokens 7, 14 and 33 ms (`benchmarks/attention_kernels.py`).
        """
        if not self.training or inputs.query.device.type != "cpu":
            return False
        queries, keys = inputs.shape[2:]
        middling = min(queries, keys) >= SHORT and keys <= LONG
        return self.dropout > 0 or (middling and _slow_backward(inputs.query))

    def _laid_out(self, inputs: AttentionInputs, value: Tensor, scale: float, term: Tensor | None) -> Tensor:
        """What the kernel does, step by step, in the number format given."""
        query, key = _given(inputs.query), _given(inputs.key_per_query_head)
        groups = query.shape[1] // value.shape[1]
        value = _given(value if groups == 1 else value.repeat_interleave(groups, dim=1))
        visible = inputs.visible()
        with torch.autocast("cpu", enabled=False):
            scores = (query * scale) @ key.transpose(-1, -2)
            if term is not None:
                scores = scores.add_(_added(term, visible, scores.dtype))
            elif visible is not None:  # the mask is smaller than the scores, and this touches them once, not four times
                scores = scores.add_(_added(torch.zeros((), device=scores.device), visible, scores.dtype))
            weights = scores.softmax(dim=-1)
            output = (dropped(weights, self.dropout) if self.dropout else weights) @ value
            if visible is not None:  # a query with nothing visible looked at everything alike
                output = output * visible.any(dim=-1, keepdim=True)
            return output.to(inputs.query.dtype)


def _added(term: Tensor, visible: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What is added to products of query and key.

    The term where a key is visible; where not, so low a number that nothing is left of it after the softmax.
    """
    term = term.to(dtype)
    # Half the lowest: no score makes it infinite.
    return term if visible is None else torch.where(visible, term, torch.finfo(dtype).min / 2)


def _number_format(x: Tensor) -> torch.dtype:
    """That in which autocast, where it is on, would give a tensor to a matrix product."""
    kind = x.device.type
    wide = x.dtype == torch.float64 or not torch.is_autocast_enabled(kind)
    return x.dtype if wide else torch.get_autocast_dtype(kind)


def _given(x: Tensor) -> Tensor:
    """A tensor in the number format in which autocast would give it to a matrix product on a processor."""
    wide = x.dtype == torch.float64 or not torch.is_autocast_enabled("cpu")
    return x if wide else x.to(torch.get_autocast_dtype("cpu"))


def _slow_backward(query: Tensor) -> bool:
    """Whether the fused kernel would run its backward pass for processors in bfloat16, given or by autocast."""
    given = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    return (
        torch.bfloat16 in (query.dtype, given)
        and query.dtype != torch.float64
        and query.device.type == "cpu"
        and torch.is_grad_enabled()
        and query.requires_grad
    )
