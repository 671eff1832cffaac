"""Exact identities of the Reformer: LSH attention over all keys is full attention, and reversing is storing activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention import AttentionInputs, Causal, LSHAttention
from regard.attention.lsh import BUCKETS
from regard.claims.measure import Measure
from regard.layers import Randomness, ReversibleBlock, Seen, Tokens
from regard.models import Reformer, ReformerConfig
from regard.models.config import check

LIKE_FULL, INVERSE, GRADIENTS = "one bucket beside full", "inverse", "gradients"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReformerIdentities:
    """The largest differences of two computations of the same quantity, on random inputs (Kitaev et al. 2020, sections 2, 3).

    - `one bucket beside full`: LSH attention with all keys in one bucket and all chunks visible, against full attention with
      shared queries and keys; the largest absolute difference of the outputs, both computed by the fast path.
    - `inverse`: the input of a reversible block, against the input recomputed from its output; the largest absolute difference
      divided by the largest absolute entry of the input.
    - `gradients`: the gradients with activations recomputed by reversing, against the gradients of the same model with stored
      activations; the largest absolute difference of a parameter's gradient divided by its largest absolute entry, maximum over
      parameters.

    Arguments:
        length: the length of the sequences, in tokens.
        chunk: the chunk length of LSH attention, in tokens.

    Raises:
        InputError: if a sequence has only one chunk.
    """

    precision: ClassVar[str] = "float32"
    length: int = 96
    chunk: int = 16

    def __post_init__(self) -> None:
        check(self.chunk >= 1, "experiment.chunk", self.chunk, "at least 1", "16 is usual")
        more = f"above experiment.chunk, {self.chunk}"
        check(self.length > self.chunk, "experiment.length", self.length, more, "so that something is cut")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The three differences."""
        return tuple(Measure(name=name, kind="computed") for name in (LIKE_FULL, INVERSE, GRADIENTS))

    def run(self, seed: int) -> dict[str, float]:
        """Sample weights and inputs, and compute the differences in float32."""
        draw = torch.Generator().manual_seed(seed)
        return {
            LIKE_FULL: self._beside_full(draw),
            **self._reversed(self._model(draw), draw),
        }

    def _beside_full(self, draw: torch.Generator) -> float:
        query, value = (torch.randn(2, 4, self.length, 16, generator=draw) for _ in range(2))
        one = torch.zeros(2, 4, 2, self.length, dtype=torch.int64)
        inputs = AttentionInputs(query=query, key=query, mask=Causal(), record={BUCKETS: one})
        chunks = -(-self.length // self.chunk)
        hashed = LSHAttention(chunk=self.chunk, rounds=2, buckets=(2,), before=chunks - 1)
        full = LSHAttention(chunk=self.length, rounds=1, buckets=(2,))
        return _largest(hashed(inputs, value) - full(inputs, value))

    def _model(self, draw: torch.Generator) -> Reformer:
        config = ReformerConfig(
            vocabulary=32,
            width=32,
            heads=4,
            head_width=8,
            feedforward_width=64,
            layers=("lsh", "local", "lsh"),
            maximum_positions=self.length,
            chunk=self.chunk,
            local_chunk=self.chunk,
            rounds=2,
            feedforward_chunk=self.chunk,
            dropout=0.1,
            local_attention_dropout=0.0,
        )
        model = Reformer(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
        return model

    def _reversed(self, model: Reformer, draw: torch.Generator) -> Mapping[str, float]:
        x = torch.randn(2, self.length, 32, generator=draw)
        block = model.eval().layers[0]
        if not isinstance(block, ReversibleBlock):
            raise TypeError("a Reformer's blocks are reversible")
        with torch.no_grad():
            first, second, _ = block(x, x.flip(1), Causal())
            back = second - block.feed(first)
            inverse = max(
                _largest(back - x.flip(1)), _largest(first - block.attend(back, Seen(Causal()))[0] - x)
            ) / _largest(x)
        return {INVERSE: inverse, GRADIENTS: _gradients_apart(model.train(), self._tokens(draw), draw)}

    def _tokens(self, draw: torch.Generator) -> Tokens:
        ids = torch.randint(0, 32, (2, self.length), generator=draw)
        return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere")


def _gradients_apart(model: Reformer, tokens: Tokens, draw: torch.Generator) -> float:
    """The largest relative difference of the gradients by reversing and with stored activations.

    Dropout masks and hashes are the same in both passes. Each parameter's difference is divided by its largest absolute gradient.
    """
    upstream = torch.randn(*tokens.ids.shape, 32, generator=draw)
    chance = Randomness(draw.get_state(), upstream.device, None)
    found: list[tuple[Tensor, ...]] = []
    for reversing in (True, False):
        with chance.again():
            logits = model(tokens) if reversing else model.logits(model.hidden(tokens, model.start(2))[0])
            found.append(torch.autograd.grad(logits, list(model.parameters()), upstream))
    return max(_largest(mine - kept) / max(_largest(kept), 1e-12) for mine, kept in zip(*found, strict=True))


def _largest(x: Tensor) -> float:
    return float(x.abs().max())
