"""Low-rank adapters: a linear map that stays as it is, and a small one beside it that is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer
from regard.errors import InputError, nearest
from regard.layers.blocks import Dropout, FeedForward, GatedFeedForward


class LowRankLinear(nn.Linear):
    """A linear map that is frozen, plus the product of two narrow matrices (Hu et al. 2021, section 4.1).

        y = W x + b + (alpha / r) B A D(x),   A (r, I), B (O, r), D is dropout

    A is drawn as PyTorch draws a linear layer, B is zero, so at the start y is what it was. Of W (O, I) no gradient is computed,
    and an optimiser keeps moments for r (I + O) numbers instead of I O.

    Arguments:
        base: the map to adapt; its weight and bias are taken over, frozen, under the names that they have.
        rank: r.
        alpha: how much the adapter counts; with it fixed, another rank needs no other learning rate.
        dropout: probability of dropping an entry of the adapter's input in training.

    >>> base = nn.Linear(6, 4)
    >>> adapted = LowRankLinear(base, rank=2, alpha=4)
    >>> x = torch.randn(3, 6)
    >>> torch.equal(adapted(x), base(x)), [name for name, p in adapted.named_parameters() if p.requires_grad]
    (True, ['down', 'up'])
    """

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float, dropout: float = 0.0) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None, device="meta")
        self.weight = base.weight.requires_grad_(False)
        if base.bias is not None:
            self.bias = base.bias.requires_grad_(False)
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, base.in_features, **like))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, **like))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.rank = rank
        self.scale = alpha / rank
        self.dropout = Dropout(dropout)

    def forward(self, input: Tensor) -> Tensor:
        """(..., I) to (..., O)."""
        beside = F.linear(F.linear(self.dropout(input), self.down), self.up)
        return F.linear(input, self.weight, self.bias) + self.scale * beside

    def merged(self) -> nn.Linear:
        """One ordinary map that does what the two do in evaluation, to within rounding: W + (alpha / r) B A."""
        one = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        one.weight = nn.Parameter(merged_weight(self.weight.detach(), self.down, self.up, self.scale))
        if self.bias is not None:
            one.bias = nn.Parameter(self.bias.detach().clone())
        return one

    def extra_repr(self) -> str:
        """Sizes and rank."""
        return f"{super().extra_repr()}, rank={self.rank}, scale={self.scale:g}"


def merged_weight(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """W + scale B A, summed in float32 or wider and given in W's dtype.

    Arguments:
        weight: (O, I).
        down: A, (r, I).
        up: B, (O, r).
        scale: alpha / r.
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    return (weight.to(wide) + scale * (up.detach().to(wide) @ down.detach().to(wide))).to(weight.dtype)


def adapt(model: nn.Module, on: Sequence[str], *, rank: int, alpha: float, dropout: float = 0.0) -> list[str]:
    """Give linear maps of a model adapters, in place, and freeze all its other parameters.

    Maps in attention layers and feed-forward nets can have one; those of recurrent cells are multiplied in ways of their own.

    Arguments:
        on: names of maps, such as `query` or `layers.0.attention.query`: the ends of their full names, in which `*` stands for
            what has no dot in it.
        rank, alpha, dropout: as in `LowRankLinear`.

    Returns:
        The full names of the maps that have one.

    Raises:
        InputError: where a name fits no map, with those there are.

    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=2))
    >>> adapt(model, ["query", "layers.1.feedforward.*"], rank=2, alpha=4)[:2]
    ['layers.0.attention.query', 'layers.1.attention.query']
    """
    maps = adaptable(model)
    chosen: dict[str, nn.Linear] = {}
    for pattern in on:
        fitting = {name: each for name, each in maps.items() if _ends_with(name, pattern)}
        if not fitting:
            ends = sorted({name.rpartition(".")[2] for name in maps})
            there = nearest(pattern, ends) if ends else "this model has none that could be adapted"
            raise InputError(f"adapters.on: no linear map is called {pattern!r}; {there}")
        chosen |= fitting
    model.requires_grad_(False)
    for name, base in chosen.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, LowRankLinear(base, rank=rank, alpha=alpha, dropout=dropout))
    return list(chosen)


def adaptable(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear maps that can have an adapter, by their full names."""
    return {
        f"{place}.{name}": child
        for place, module in model.named_modules()
        if isinstance(module, AttentionLayer | FeedForward | GatedFeedForward)
        for name, child in module.named_children()
        if type(child) is nn.Linear
    }


def _ends_with(name: str, pattern: str) -> bool:
    count = pattern.count(".") + 1
    parts = name.split(".")[-count:]
    return len(parts) == count and fnmatchcase(".".join(parts), pattern)
