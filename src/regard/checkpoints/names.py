"""Name tables that run both ways: our parameter names and another library's.

A table is a list of rules; saving runs it forwards, loading backwards. Every tensor must be mapped by a rule, or listed as
ignored, in both directions: nothing is dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from regard.errors import InputError


@dataclass(frozen=True, slots=True)
class Rule:
    """One of their tensors and the one or several of ours it is made of.

    Names are patterns in which `{i}` stands for a layer's number and `{*}` for any rest of a name.

    Arguments:
        ours: our names; several are stacked along the first axis to make theirs.
        theirs: their name.
        channels: axes along which the model's channels run in another order there. Ours are in pairs, the sine and cosine of
            each frequency side by side; theirs are the first of every pair, then the second of every pair.
        transposed: whether theirs is the transpose: a matrix that stands behind what it multiplies. A vector stays as it is.
        unsqueezed: at which place theirs has an axis of size 1 more.
    """

    ours: tuple[str, ...]
    theirs: str
    channels: tuple[int, ...] = ()
    transposed: bool = False
    unsqueezed: int | None = None

    def to_theirs(self, parts: Sequence[Tensor]) -> Tensor:
        """Their tensor of ours."""
        tensor = parts[0] if len(parts) == 1 else torch.cat(tuple(parts))
        for axis in self.channels:
            tensor = halved(tensor, axis) if axis < tensor.dim() else tensor
        tensor = tensor.t().contiguous() if self.transposed else tensor
        return tensor if self.unsqueezed is None else tensor.unsqueeze(self.unsqueezed)

    def to_ours(self, tensor: Tensor) -> Sequence[Tensor]:
        """Our tensors of theirs."""
        tensor = tensor if self.unsqueezed is None else tensor.squeeze(self.unsqueezed)
        tensor = tensor.t().contiguous() if self.transposed else tensor
        for axis in self.channels:
            tensor = paired(tensor, axis) if axis < tensor.dim() else tensor
        return tensor.chunk(len(self.ours)) if len(self.ours) > 1 else (tensor,)


@dataclass(frozen=True, slots=True)
class NameTable:
    """Reversible renames between two layouts.

    Arguments:
        rules: tried in order; the first that matches is taken.
        ignored: patterns of their names that carry nothing we need, such as constant buffers.

    >>> table = NameTable((Rule(("a.{i}.query", "a.{i}.key"), "block.{i}.both"),))
    >>> theirs = table.to_theirs({"a.0.query": torch.zeros(1), "a.0.key": torch.ones(1)})
    >>> {name: tensor.tolist() for name, tensor in theirs.items()}
    {'block.0.both': [0.0, 1.0]}
    >>> sorted(table.to_ours(theirs))
    ['a.0.key', 'a.0.query']
    """

    rules: tuple[Rule, ...]
    ignored: tuple[str, ...] = ()

    def ignores(self, name: str) -> bool:
        """Whether a tensor of theirs carries nothing we need."""
        return any(_match(pattern, name) is not None for pattern in self.ignored)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under their names.

        Raises:
            InputError: listing every tensor that no rule maps.
        """
        renamed: dict[str, Tensor] = {}
        left = dict(tensors)
        for name in tensors:
            if name not in left:
                continue
            for rule in self.rules:
                found = _match(rule.ours[0], name)
                if found is None:
                    continue
                parts = [_fill(pattern, found) for pattern in rule.ours]
                if all(part in left for part in parts):
                    renamed[_fill(rule.theirs, found)] = rule.to_theirs([left.pop(part) for part in parts])
                    break
        _refuse(left, "has no name in the other layout")
        return renamed

    def to_ours(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors under our names.

        Raises:
            InputError: listing every tensor that no rule maps and that is not ignored.
        """
        renamed: dict[str, Tensor] = {}
        unknown: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            if self.ignores(name):
                continue
            for rule in self.rules:
                found = _match(rule.theirs, name)
                if found is None:
                    continue
                names = [_fill(pattern, found) for pattern in rule.ours]
                renamed.update(zip(names, rule.to_ours(tensor), strict=True))
                break
            else:
                unknown[name] = tensor
        _refuse(unknown, "has no name in our layout")
        return renamed


IDENTITY = NameTable((Rule(("{*}",), "{*}"),))
"""Our own names, as they are."""


def halved(tensor: Tensor, axis: int) -> Tensor:
    """Pairs along `axis` taken apart: the first of every pair, then the second of every pair.

    >>> halved(torch.tensor([0, 1, 2, 3, 4, 5]), 0).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return tensor.unflatten(axis, (-1, 2)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def paired(tensor: Tensor, axis: int) -> Tensor:
    """What `halved` took apart put together.

    >>> paired(torch.tensor([0, 2, 4, 1, 3, 5]), 0).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return tensor.unflatten(axis, (2, -1)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def _match(pattern: str, name: str) -> dict[str, str] | None:
    found = _expression(pattern).fullmatch(name)
    return None if found is None else found.groupdict()


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{\*\}", "(?P<rest>.+)"))


def _fill(pattern: str, found: Mapping[str, str]) -> str:
    return pattern.replace("{i}", found.get("i", "")).replace("{*}", found.get("rest", ""))


def _refuse(tensors: Mapping[str, Tensor], why: str) -> None:
    if tensors:
        raise InputError(f"{', '.join(sorted(tensors))} {why}; the file belongs to another kind of model")


def torch_transformer(norm: Literal["post", "pre"]) -> NameTable:
    """The names of `torch.nn.Transformer` (encoder and decoder stacks, no embeddings), biases in every projection.

    Arguments:
        norm: where our layer norms stand: after each residual sum (`norm_first=False` there) or before each sub-layer.
    """
    slot = "after" if norm == "post" else "before"
    rules: list[Rule] = []
    for stack in ("encoder", "decoder"):
        ours, theirs = f"{stack}.layers.{{i}}.", f"{stack}.layers.{{i}}."
        attentions = [("attention", "self_attn")]
        residuals = ["attention_residual", "feedforward_residual"]
        if stack == "decoder":
            attentions.append(("cross_attention", "multihead_attn"))
            residuals.insert(1, "cross_residual")
        for kind in ("weight", "bias"):
            for mine, other in attentions:
                projections = tuple(f"{ours}{mine}.{part}.{kind}" for part in ("query", "key", "value"))
                rules.append(Rule(projections, f"{theirs}{other}.in_proj_{kind}"))
                rules.append(Rule((f"{ours}{mine}.output.{kind}",), f"{theirs}{other}.out_proj.{kind}"))
            rules.append(Rule((f"{ours}feedforward.inner.{kind}",), f"{theirs}linear1.{kind}"))
            rules.append(Rule((f"{ours}feedforward.outer.{kind}",), f"{theirs}linear2.{kind}"))
            for number, residual in enumerate(residuals, start=1):
                rules.append(Rule((f"{ours}{residual}.{slot}.{kind}",), f"{theirs}norm{number}.{kind}"))
            rules.append(Rule((f"{stack}.norm.{kind}",), f"{stack}.norm.{kind}"))
    return NameTable(tuple(rules))
