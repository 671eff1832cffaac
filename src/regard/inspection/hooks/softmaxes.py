"""Attention that a module computes by itself: a softmax, followed through views until it is multiplied into something."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


def kept_axis(given: Tensor, output: Tensor, axis: int | None) -> int | None:
    """Where an axis is after a view in which the axes behind it hold as many numbers as before."""
    if axis is None:
        return None
    size, behind = given.shape[axis], math.prod(given.shape[given.dim() + axis + 1 :])
    for place in range(-1, -output.dim() - 1, -1):
        if output.shape[place] == size and math.prod(output.shape[output.dim() + place + 1 :]) == behind:
            return place
    return None


def moved(
    func: Any, arguments: tuple[Any, ...], named: Mapping[str, Any], given: Tensor, count: int
) -> list[tuple[list[int | None], dict[int, int]]] | None:
    """For each output of a view: the axis of the input that each axis is, and where axes begin; None where it is no view.

    Read off the strides of the same view of a tensor without storage, all of whose strides differ.
    """
    if any(isinstance(one, Tensor) and one is not given for one in _indices(arguments[1:])):
        return None
    strides = [1]
    for size in reversed(given.shape[1:]):
        strides.insert(0, strides[0] * (size + 1))
    probe = torch.empty_strided(given.shape, strides, device="meta")
    try:
        outputs = replaced(func, arguments, named, given, probe)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # asks for numbers, which the probe has none of
    outputs = outputs if isinstance(outputs, list | tuple) else (outputs,)
    if len(outputs) != count:
        return None
    found = []
    for one in outputs:
        offset, starts = one.storage_offset(), {}
        for axis, stride in zip(range(-len(strides), 0), strides, strict=True):
            starts[axis], offset = divmod(offset, stride)
        axes = [
            # An axis of size 1 that was put in may stand as far apart as another.
            strides.index(stride) - len(strides)
            if stride in strides and (size > 1 or one.stride().count(stride) == 1)
            else None
            for stride, size in zip(one.stride(), one.shape, strict=True)
        ]
        found.append((axes, starts))
    return found


def _indices(arguments: Any) -> Iterator[Any]:
    for one in arguments:
        if isinstance(one, list | tuple):
            yield from _indices(one)
        else:
            yield one


def replaced(
    func: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any], given: Tensor, other: Tensor
) -> Any:
    """What a function gives of another tensor in the place of one of its arguments."""
    return func(
        *_exchanged(arguments, given, other), **{name: other if one is given else one for name, one in named.items()}
    )


def _exchanged(arguments: Any, given: Tensor, other: Tensor) -> list[Any]:
    return [
        other if one is given else _exchanged(one, given, other) if isinstance(one, list) else one for one in arguments
    ]


_SAME = frozenset(
    {"to", "type_as", "type", "float", "double", "half", "bfloat16", "contiguous", "clone", "detach", "nan_to_num"}
    | {"dropout"}
)
"""What changes nothing that is to be seen: weights are shown before dropout."""
_SHAPES = frozenset({"view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"})
_MOVES = frozenset(
    {
        "transpose",
        "permute",
        "swapaxes",
        "swapdims",
        "movedim",
        "moveaxis",
        "select",
        "narrow",
        "chunk",
        "split",
        "unbind",
    }
    | {"squeeze", "unsqueeze", "expand", "expand_as", "__getitem__", "__get__"}
)
_VALUES = frozenset(
    {"masked_fill", "masked_fill_", "mul", "mul_", "div", "div_", "true_divide", "where", "clamp", "clamp_min"}
    | {"add", "add_", "sub", "sub_", "__rsub__", "neg"}
)
"""What changes numbers and leaves every axis where it is; only numbers, and tensors that are smaller, may take part."""
_PRODUCTS = frozenset({"matmul", "__matmul__", "__rmatmul__", "bmm", "baddbmm", "einsum", "linear", "conv2d"})
_TOLD_BY = frozenset({"matmul", "__matmul__", "__rmatmul__", "bmm", "baddbmm", "einsum"})
_EXPONENTIALS = frozenset({"exp", "logsumexp", "log_softmax", "sub", "sum", "div", "softmax"})
"""What a softmax may be written with."""


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """What became of a softmax.

    Arguments:
        tensor: what is to be seen of it, before dropout, detached; another shape than what is followed has the same numbers.
        key, query: which axes of what is followed have the keys and the queries, counted from behind; None where unknown.
        over: over how many keys the softmax is.
        first: how many of them were cut off in front.
        dropped: whether dropout was applied to what is followed.
        mixed: whether other axes, the heads, were added up after the softmax.
        composed: whether it is a product of several.
    """

    tensor: Tensor
    key: int | None
    query: int | None
    over: int
    first: int = 0
    dropped: bool = False
    mixed: bool = False
    composed: bool = False

    @property
    def rearranged(self) -> bool:
        """Whether columns no longer are keys, as where a band is laid out as a matrix."""
        return self.key is None


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """A product in which a softmax weighs something.

    Arguments:
        weights: (..., queries, keys).
        operands: of the product: what was followed and what it weighs, where both are plain; None otherwise.
        note: what is to be said of its axes; None where rows are queries and columns keys, as always.
    """

    weights: Tensor
    operands: tuple[Tensor, Tensor] | None
    note: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A function called on something that is followed, `given`, which is among the arguments."""

    name: str
    func: Any
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    given: Tensor
    followed: Followed

    def of(self, other: Tensor) -> Any:
        """What the function gives of another tensor in its place."""
        return replaced(self.func, self.arguments, self.named, self.given, other)

    def without_dropout(self, output: Tensor) -> Tensor:
        """What the function gave, had there been no dropout."""
        seen, given = self.followed.tensor, self.given
        if not self.followed.dropped or seen.numel() != given.numel():
            return output.detach()
        with torch.no_grad():
            return self.of(seen.reshape(given.shape).to(given.dtype).clone())


class Alive:
    """Something known about tensors for as long as they live."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], Any]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, tensor: Any) -> Any:
        reference, known = self._known.get(id(tensor), (None, None))
        return known if reference is not None and reference() is tensor else None

    def __setitem__(self, tensor: Tensor, known: Any) -> None:
        place, all_known = id(tensor), self._known
        # The callback frees what is known, and the number, which another tensor may get.
        all_known[place] = (weakref.ref(tensor, lambda _: all_known.pop(place, None)), known)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


class Softmaxes:
    """Follows softmaxes over one of the last two axes until they weigh something, which makes them attention weights.

    A softmax may also be written with its exponentials. It is followed through whatever moves, cuts or scales it, and through
    sums over other axes than its keys, as in attention with talking heads.
    """

    def __init__(self) -> None:
        self._followed = Alive()
        self._written = Alive()
        self._gathered = Alive()
        self.lost: dict[str, tuple[int, ...]] = {}

    def product(self, func: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Weighing | None:
        """What is weighed in a product that is about to be computed; None where nothing is."""
        if not self._followed:
            return None
        name = getattr(func, "__name__", "")
        if name not in _TOLD_BY:
            return None
        if name == "einsum":
            return self._einsum(*arguments)
        left, right = _sides(name, arguments)
        first, second = self._followed[left], self._followed[right]
        if first is not None and second is None:
            return self._weighing(left, first, right, on_left=True)
        if second is not None and first is None:
            return self._weighing(right, second, left, on_left=False)
        return None

    def weighed(self, weighing: Weighing, output: Any) -> None:
        """What a product gave, which may be weighed in turn."""
        if isinstance(output, Tensor) and weighing.operands is not None:
            self._gathered[output] = weighing.weights

    def before_dropout(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Dropout is about to be applied; where it works in place, what it is applied to is copied first."""
        in_place = named.get("inplace", arguments[3] if len(arguments) > 3 else False)
        given = named.get("input", arguments[0] if arguments else None)
        followed = self._followed[given]
        if in_place and _training(arguments, named) and followed is not None:
            self._followed[given] = replace(followed, tensor=followed.tensor.clone(), dropped=True)

    def ran(self, func: Any, arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any) -> None:
        """A function that weighs nothing gave `output`."""
        name = getattr(func, "__name__", "")
        if name in _EXPONENTIALS:
            self._write(name, arguments, named, output)
        if self._followed:
            for given in _tensors(arguments):
                followed = self._followed[given]
                if followed is not None:
                    self._follow(_Call(name, func, arguments, named, given, followed), output)
                    return

    def clear(self) -> None:
        """Forget all."""
        for known in (self._followed, self._written, self._gathered):
            known.clear()

    def _write(self, name: str, arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any) -> None:
        given = named.get("input", arguments[0] if arguments else None)
        if not isinstance(given, Tensor) or not isinstance(output, Tensor):
            return
        axis = named.get("dim", arguments[1] if len(arguments) > 1 else None)
        axis = axis[0] if isinstance(axis, list | tuple) and len(axis) == 1 else axis
        axis = axis - given.dim() if isinstance(axis, int) and axis >= 0 else axis
        known = self._written[given]
        if name == "softmax":
            self._made(output, axis)
        elif name in ("logsumexp", "log_softmax", "sum"):
            if isinstance(axis, int) and (name == "log_softmax" or output.dim() == given.dim()):
                of = weakref.ref(given)
                self._written[output] = ("logarithm" if name == "log_softmax" else name, of, axis)
        elif name == "exp":
            if known is not None and known[0] == "logarithm":
                self._made(output, known[2])
            else:
                self._written[output] = ("exp", None, None)
        else:
            other = named.get("other", arguments[1] if len(arguments) > 1 else None)
            second = self._written[other]
            if second is not None and second[1] is not None and second[1]() is given:
                if name == "sub" and second[0] == "logsumexp":
                    self._written[output] = ("logarithm", None, second[2])
                elif name == "div" and second[0] == "sum" and known is not None and known[0] == "exp":
                    self._made(output, second[2])

    def _made(self, output: Tensor, axis: Any) -> None:
        if axis == -1 and output.dim() >= 2:
            self._followed[output] = Followed(output.detach(), -1, -2, output.shape[-1])
        elif axis == -2 and output.dim() >= 3:
            self._followed[output] = Followed(output.detach(), -2, -1, output.shape[-2])

    def _follow(self, call: _Call, output: Any) -> None:
        name, given, followed = call.name, call.given, call.followed
        outputs = output if isinstance(output, list | tuple) else (output,)
        if not any(isinstance(one, Tensor) and one.is_floating_point() for one in outputs):
            return
        if name in _MOVES:
            self._move(call, outputs)
            return
        if not isinstance(output, Tensor):
            self.lost.setdefault(name, tuple(given.shape))
        elif name in _SAME:
            dropped = followed.dropped or (name == "dropout" and _training(call.arguments, call.named))
            if output is not given:
                self._followed[output] = replace(followed, dropped=dropped)
        elif name in _SHAPES:
            self._followed[output] = _reshaped(followed, given, output)
        elif name in _VALUES and output.shape == given.shape and self._leaves_axes(call.arguments, given):
            self._followed[output] = replace(followed, tensor=call.without_dropout(output))
        elif name in _PRODUCTS:
            mixed = self._mixed(call, output)
            if mixed is not None:
                self._followed[output] = mixed
        elif name == "pad":
            self._followed[output] = replace(followed, key=None, query=None)
        elif output is not given:
            self.lost.setdefault(name, tuple(given.shape))

    def _leaves_axes(self, arguments: tuple[Any, ...], given: Tensor) -> bool:
        others = [one for one in arguments if isinstance(one, Tensor) and one is not given]
        return all(
            one.numel() < given.numel() or one.dtype == torch.bool or self._followed[one] is not None for one in others
        )

    def _move(self, call: _Call, outputs: Any) -> None:
        given, followed = call.given, call.followed
        where = moved(call.func, call.arguments, call.named, given, len(outputs))
        whole = followed.tensor.numel() == given.numel()
        if where is None or not whole or followed.rearranged:
            kept = where is not None and followed.rearranged
            for one in outputs:
                self._followed[one] = followed if kept else replace(followed, key=None, query=None)
            return
        shown = call.of(followed.tensor.reshape(given.shape))
        for one, seen, (axes, starts) in zip(
            outputs, shown if isinstance(shown, list | tuple) else (shown,), where, strict=True
        ):
            key, query = (
                None if place is None or place not in axes else axes.index(place) - one.dim()
                for place in (followed.key, followed.query)
            )
            first = followed.first if followed.key is None else followed.first + starts.get(followed.key, 0)
            self._followed[one] = replace(followed, tensor=seen.detach(), key=key, query=query, first=first)

    def _mixed(self, call: _Call, output: Tensor) -> Followed | None:
        """A product that sums over another axis than the keys, or a product of two softmaxes."""
        name, arguments, given, followed = call.name, call.arguments, call.given, call.followed
        shown = call.without_dropout(output)
        if name == "einsum":
            letters = _letters(arguments)
            if letters is None or followed.key is None:
                return None
            (mine, result), place = letters, _operands(arguments).index(given)
            at = {
                role: mine[place][axis]
                for role, axis in (("key", followed.key), ("query", followed.query))
                if axis is not None
            }
            axes = {role: result.index(letter) - len(result) for role, letter in at.items() if letter in result}
            if "key" not in axes:
                return None
            return replace(followed, tensor=shown, mixed=True, key=axes["key"], query=axes.get("query"))
        if name in ("linear", "conv2d"):
            contracted = -1 if name == "linear" else -3
            if given is not arguments[0] or contracted in (followed.key, followed.query) or followed.rearranged:
                self.lost.setdefault(name, tuple(given.shape))
                return None
            return replace(followed, tensor=shown, mixed=True)
        left, right = _sides(name, arguments)
        if self._followed[left] is not None and self._followed[right] is not None:
            return Followed(shown, -1, -2, output.shape[-1], dropped=followed.dropped, composed=True)
        return replace(followed, tensor=shown, mixed=True)

    def _weighing(self, given: Tensor, followed: Followed, other: Tensor, *, on_left: bool) -> Weighing | None:
        """What a product of two matrices weighs; None where it sums over other axes than queries and keys."""
        if followed.rearranged:
            return Weighing(followed.tensor, None, _note(followed, None))
        contracted = -1 if on_left else -2
        if contracted not in (followed.key, followed.query):
            return None
        if contracted != followed.key:
            followed = replace(followed, over=0)  # a softmax over the queries
        shown = followed.tensor
        turned = not on_left
        weights = shown.mT if turned else shown
        plain = on_left and not turned and isinstance(other, Tensor)
        before = self._gathered[other] if plain else None
        if before is not None and before.shape[-2] == weights.shape[-1] and before.shape[:-2] == weights.shape[:-2]:
            with torch.no_grad():
                return Weighing(
                    weights.to(before.dtype) @ before,
                    None,
                    f"the product of two steps: {weights.shape[-2]} queries weigh {weights.shape[-1]} intermediate places, "
                    f"which weigh {before.shape[-1]} keys",
                )
        return Weighing(weights, (given, other) if plain else None, _note(followed, tuple(weights.shape)))

    def _einsum(self, *arguments: Any) -> Weighing | None:
        operands = _operands(arguments)
        found = [place for place, one in enumerate(operands) if self._followed[one] is not None]
        letters = _letters(arguments)
        if len(found) != 1:
            return None
        followed: Followed = self._followed[operands[found[0]]]
        if followed.rearranged or letters is None:
            return Weighing(followed.tensor, None, _note(replace(followed, key=None), None))
        (mine, result), others = (
            letters,
            set().union(*(letters[0][place] for place in range(len(operands)) if place != found[0])),
        )
        own = mine[found[0]]
        summed = [letter for letter in own if letter not in result and letter in others]
        roles = {own[axis] for axis in (followed.key, followed.query) if axis is not None}
        if len(summed) != 1 or summed[0] not in roles:
            return None
        shared = [letter for letter in own if letter in result and letter in others]
        queries = [letter for letter in own if letter in result and letter not in others]
        shown = followed.tensor
        if shown.shape != operands[found[0]].shape or len(shared) + len(queries) + 1 != len(own) or len(queries) > 1:
            return Weighing(shown, None, _note(followed, tuple(shown.shape)))
        weights = shown.permute(*(own.index(letter) for letter in (*shared, *queries, summed[0])))
        if not queries:
            weights = weights.unsqueeze(-2)
        order = (*shared, *queries, summed[0])
        plain = len(operands) == 2 and found[0] == 0 and tuple(own) == order and mine[1][: len(shared)] == shared
        if plain and len(queries) == 1 and result == [*shared, *queries, mine[1][-1]] and mine[1][-2] == summed[0]:
            return Weighing(weights, (operands[0], operands[1]), _note(followed, tuple(weights.shape)))
        return Weighing(weights, None, _note(followed, tuple(weights.shape)))


def _note(followed: Followed, shape: Sequence[int] | None) -> str | None:
    said = []
    if shape is None:
        shown = tuple(followed.tensor.shape)
        said.append(
            f"laid out by the module as {shown} and rearranged before it weighs anything, so that columns are not places: "
            f"each query has {shown[-1]} of its own"
        )
    else:
        if len(shape) > 4:
            blocks = math.prod(shape[2:-2])
            said.append(
                f"{blocks} blocks of {shape[-2]} queries, one after another; columns are the {shape[-1]} keys of a query's "
                "block, not places"
            )
        if not followed.composed and followed.key is not None and shape[-1] < followed.over:
            said.append(
                f"{shape[-1]} of the {followed.over} keys of one softmax, from number {followed.first} on: the rows of this part "
                "need not add up to 1"
            )
    if followed.mixed:
        said.append(
            "heads are mixed after the softmax: these are the weights that the values get, which need not add up to 1"
        )
    if followed.composed:
        said.append("a product of several softmaxes")
    return "; ".join(said) or None


def _training(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    return bool(named.get("training", named.get("train", arguments[2] if len(arguments) > 2 else True)))


def _tensors(arguments: tuple[Any, ...]) -> Iterator[Tensor]:
    for one in arguments:
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, list | tuple):
            yield from (each for each in one if isinstance(each, Tensor))


def _sides(name: str, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    both = arguments[1:3] if name == "baddbmm" else arguments[:2]
    if len(both) < 2:
        return None, None
    return (both[1], both[0]) if name == "__rmatmul__" else (both[0], both[1])


def _operands(arguments: tuple[Any, ...]) -> list[Any]:
    given = arguments[1:]
    return list(given[0]) if len(given) == 1 and isinstance(given[0], list | tuple) else list(given)


def _letters(arguments: tuple[Any, ...]) -> tuple[list[list[str]], list[str]] | None:
    """The letters of each operand of an einsum and of its result; the axes of an ellipsis get letters of their own."""
    if not arguments or not isinstance(arguments[0], str):
        return None
    equation = arguments[0].replace(" ", "")
    operands = _operands(arguments)
    inputs, arrow, result = equation.partition("->")
    if not arrow or len(inputs.split(",")) != len(operands) or not all(isinstance(one, Tensor) for one in operands):
        return None
    found, most = [], 0
    for part, one in zip(inputs.split(","), operands, strict=True):
        hidden = one.dim() - len(part.replace("...", ""))
        most = max(most, hidden if "..." in part else 0)
        found.append(_spelt(part, hidden))
    return found, _spelt(result, most)


def _spelt(part: str, hidden: int) -> list[str]:
    before, dots, after = part.partition("...")
    return [*before, *((f"{place}" for place in range(-hidden, 0)) if dots else ()), *after]


def _reshaped(followed: Followed, given: Tensor, output: Tensor) -> Followed:
    if followed.rearranged or followed.tensor.numel() != output.numel():
        return replace(followed, key=None, query=None)
    key, query = (kept_axis(given, output, axis) for axis in (followed.key, followed.query))
    if key is None:
        return replace(followed, key=None, query=None)
    shown = followed.tensor
    if shown.dim() != 4 and (output.dim() == 4 or shown.dim() == given.dim()):
        shown = shown.reshape(output.shape)
    return replace(followed, tensor=shown, key=key, query=query)
