"""What a Reformer must be exactly: full attention where nothing is cut off, and what it would be if everything were kept."""

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
    """The largest differences between two ways to one thing, drawn numbers throughout (Kitaev et al. 2020, sections 2 and 3).

    `one bucket beside full`: LSH attention with every key in one bucket and every chunk in reach, and full attention with shared
    queries and keys, both by their fast path. `inverse`: what went into a reversible block, and what is computed from what came
    out, by the largest entry. `gradients`: those of a model trained by reversing, and of the same model with everything kept, by
    the largest of each parameter's.

    Arguments:
        length: of the texts, in tokens.
        chunk: of the hashed order.

    Raises:
        InputError: for a text of a single chunk.
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
        """Three differences."""
        return tuple(Measure(name=name, kind="computed") for name in (LIKE_FULL, INVERSE, GRADIENTS))

    def run(self, seed: int) -> dict[str, float]:
        """Draw and compare, in float32."""
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
    """The largest difference of two ways to the gradients, by the largest entry of each, dropout and hashes drawn alike."""
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
