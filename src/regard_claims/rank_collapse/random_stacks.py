"""Rank collapse with depth in randomly initialized, untrained stacks of attention layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.claims.measure import Measure
from regard.inspection.analysis.collapse import relative_residual
from regard.models import AttentionStack, AttentionStackConfig
from regard.models.config import check

RESIDUAL = "residual"
LAYER = "layer"


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomStacks:
    """The distance of random vectors from rank one after each layer of a random stack, in float64 (Dong et al. 2021, section 2).

    The vectors are sampled from a standard normal distribution, and the weight matrices from a normal distribution with standard
    deviation 1/sqrt(width). Biases are 0 and there is no normalization. Measured is
    `regard.inspection.analysis.relative_residual` of the input vectors (layer 0) and of the output of each layer.

    Arguments:
        skips, feedforward: as in `AttentionStackConfig`.
        tokens: the number of input vectors.
        width, heads, layers, feedforward_width: the sizes of the stack.

    Raises:
        InputError: for a size below its minimum.
    """

    precision: ClassVar[str] = "float64"
    skips: bool = False
    feedforward: bool = False
    tokens: int = 32
    width: int = 64
    heads: int = 4
    layers: int = 12
    feedforward_width: int = 256

    def __post_init__(self) -> None:
        check(self.tokens >= 2, "experiment.tokens", self.tokens, "at least 2", "one vector is of rank one")
        self._config()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The residual, with one number for each layer."""
        return (Measure(name=RESIDUAL, kind="computed", along=LAYER),)

    def run(self, seed: int) -> dict[str, Mapping[int, float]]:
        """Sample vectors and weights, and measure the residual after each layer."""
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(1, self.tokens, self.width, generator=draw, dtype=torch.float64)
        found = {0: relative_residual(x[0]).item()}
        for number, layer in enumerate(self._stack(draw).layers, start=1):
            with torch.no_grad():
                x = layer(x, None)
            found[number] = relative_residual(x[0]).item()
        return {RESIDUAL: found}

    def _config(self) -> AttentionStackConfig:
        return AttentionStackConfig(
            vocabulary=1,
            width=self.width,
            heads=self.heads,
            feedforward_width=self.feedforward_width,
            layers=self.layers,
            skips=self.skips,
            feedforward=self.feedforward,
            norm="none",
        )

    def _stack(self, draw: torch.Generator) -> AttentionStack:
        stack = AttentionStack(self._config()).double().eval()
        for name, parameter in stack.layers.named_parameters():
            _redrawn(parameter, draw, 0.0 if name.endswith("bias") else self.width**-0.5)
        return stack


def _redrawn(parameter: nn.Parameter, draw: torch.Generator, deviation: float) -> Tensor:
    with torch.no_grad():
        return parameter.copy_(deviation * torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype))
