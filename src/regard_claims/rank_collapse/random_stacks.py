"""Depth against rank in stacks of attention that were drawn and never trained."""

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
    """How far drawn vectors are from rank one after each layer of a drawn stack, in float64 (Dong et al. 2021, section 2).

    Vectors and all matrices are normal, the matrices with deviation 1/sqrt(width), without biases and norms. Measured is
    `regard.inspection.analysis.relative_residual` of the vectors that go in, at 0, and after each layer.

    Arguments:
        skips, feedforward: as in `AttentionStackConfig`.
        tokens: vectors that go in.
        width, heads, layers, feedforward_width: of the stack.

    Raises:
        InputError: for sizes that are none.
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
        """One number for each layer."""
        return (Measure(name=RESIDUAL, kind="computed", along=LAYER),)

    def run(self, seed: int) -> dict[str, Mapping[int, float]]:
        """Draw, and go through the layers."""
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
