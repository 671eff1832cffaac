"""A model's parameters, counted on a model without numbers: exact, and at once whatever its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention import AttentionLayer, LearnedPositions, RelativeBias
from regard.layers import FeedForward, GatedFeedForward, PositionedEmbedding, TextEmbedding
from regard.layers.blocks import Block
from regard.models import MODELS
from regard.models.config import shapes_only

NORMS = (nn.LayerNorm, nn.RMSNorm)
TABLES = (nn.Embedding, LearnedPositions, PositionedEmbedding, TextEmbedding)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """How many numbers a model has.

    Arguments:
        parts: by part; a table that two parts share is counted once, among the embeddings.
        trained: how many of them are updated.
        block: those of its largest block; 0 where it has none.
        products: those that are matrices which vectors are multiplied by, a shared table among them where the output uses it.
    """

    parts: Mapping[str, int]
    trained: int
    block: int
    products: int

    @property
    def total(self) -> int:
        """N."""
        return sum(self.parts.values())


def outline(config: Any) -> nn.Module:
    """The model of a config with shapes and no numbers.

    >>> from regard.models import GPT3Config
    >>> sum(parameter.numel() for parameter in outline(GPT3Config.named("175b")).parameters())
    174604259328
    """
    with shapes_only():
        return MODELS[config.model_type].model(config)


def count_parameters(model: nn.Module) -> Parameters:
    """The parameters of a model by part: embeddings, attention, feed-forward nets, norms, and the rest, such as an output.

    >>> from regard.models import GPT2Config
    >>> counted = count_parameters(outline(GPT2Config.small()))
    >>> counted.total, dict(counted.parts)["attention"]
    (124439808, 28348416)
    """
    parts: dict[str, int] = {}
    seen: set[int] = set()
    for part, parameter in _owned(model, "rest"):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            parts[part] = parts.get(part, 0) + parameter.numel()
    matrices = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear)}
    return Parameters(
        parts=parts,
        trained=sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        block=max((size_of(module) for module in model.modules() if isinstance(module, Block)), default=0),
        products=sum(matrices.values()),
    )


def size_of(module: nn.Module) -> int:
    """How many numbers a module has."""
    return sum(parameter.numel() for parameter in module.parameters())


def _owned(module: nn.Module, part: str) -> list[tuple[str, nn.Parameter]]:
    """Every parameter with the part that it belongs to: that of the outermost module that stands for one."""
    part = part if part != "rest" else _part(module)
    found = [(part, parameter) for parameter in module.parameters(recurse=False)]
    # Tables first: an output that shares one has no parameters of its own.
    children = sorted(module.children(), key=lambda child: _part(child) != "embeddings")
    for child in children:
        found += _owned(child, part)
    return sorted(found, key=lambda each: each[0] != "embeddings")


def _part(module: nn.Module) -> str:
    if isinstance(module, TABLES):
        return "embeddings"
    if isinstance(module, AttentionLayer | RelativeBias):
        return "attention"
    if isinstance(module, FeedForward | GatedFeedForward):
        return "feed-forward"
    return "norms" if isinstance(module, NORMS) else "rest"
