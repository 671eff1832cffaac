"""Name tables that run both ways: our parameter names and another library's.

A table is a list of rules; saving runs it forwards, loading backwards. Every tensor must be mapped by a rule, or listed as
ignored, in both directions: nothing is dropped in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        transposed: whether theirs is the transpose: a matrix that stands behind what it multiplies.
    """

    ours: tuple[str, ...]
    theirs: str
    channels: tuple[int, ...] = ()
    transposed: bool = False


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
                    stacked = [left.pop(part) for part in parts]
                    tensor = stacked[0] if len(stacked) == 1 else torch.cat(stacked)
                    for axis in rule.channels:
                        tensor = halved(tensor, axis)
                    tensor = tensor.t().contiguous() if rule.transposed else tensor
                    renamed[_fill(rule.theirs, found)] = tensor
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
            if any(_match(pattern, name) is not None for pattern in self.ignored):
                continue
            for rule in self.rules:
                found = _match(rule.theirs, name)
                if found is None:
                    continue
                tensor = tensor.t().contiguous() if rule.transposed else tensor
                for axis in rule.channels:
                    tensor = paired(tensor, axis)
                parts = tensor.chunk(len(rule.ours)) if len(rule.ours) > 1 else (tensor,)
                renamed.update({_fill(pattern, found): part for pattern, part in zip(rule.ours, parts, strict=True)})
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


def in_their_words(message: str, names: Mapping[str, str], where: str) -> str:
    """A complaint about one of our config's fields as one about theirs.

    Arguments:
        names: our names of fields and theirs.
        where: what messages call their config.json.

    >>> in_their_words("width is 0 but must be at least 1", {"width": "n_embd"}, "model/config.json")
    'model/config.json.n_embd is 0 but must be at least 1'
    """
    for ours, theirs in names.items():
        for start in (f"{where}.{ours} ", f"{ours} "):
            if message.startswith(start):
                return f"{where}.{theirs} {message.removeprefix(start)}"
    return message if message.startswith(where) else f"{where}: {message}"
