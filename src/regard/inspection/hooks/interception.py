"""Sees the attention functions of torch while any module runs, from within one thread, changing nothing.

Where in the module a function was called is read off the running stack; heads that a module folded into batch rows are unfolded.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import Attention
from regard.errors import InputError
from regard.inspection.hooks.calls import Attended, of_flex, of_fused, of_laid_out, of_multi_head, unfolded, unpacked
from regard.inspection.hooks.modules import addresses_of, around_forward, is_compiled
from regard.inspection.hooks.softmaxes import Alive, Softmaxes, moved

# Arguments by which attention layers are told what to look at, where that is not their own sequence: the names that
# `transformers` and its relatives use.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "encoder_states", "memory", "context")


@dataclass(frozen=True, slots=True)
class Place:
    """The innermost module that is running, and the line in it.

    Arguments:
        address: the module's name in the model.
        module: the module.
        line: tells apart the places in the module's code from which attention is called.
        crossed: whether the module was given another sequence to look at; None where its arguments do not say.
    """

    address: str
    module: nn.Module
    line: tuple[tuple[str, int], ...]
    crossed: bool | None


def place_of(frame: FrameType | None, names: dict[int, str]) -> Place | None:
    """The innermost module of a model among the callers of a frame.

    Methods are found by their first argument `self`, functions on the way are passed over; so hooks, which would close the
    fused paths of torch's own layers, are not needed.

    Arguments:
        frame: where to begin.
        names: of the model's modules, by `id`.
    """
    line: list[tuple[str, int]] = []
    found: nn.Module | None = None
    crossed: bool | None = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<eval_with_key>"):
            return None  # a graph that was traced runs as it is: it was told of already
        module = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if found is None and isinstance(module, nn.Module) and id(module) in names:
            found = module
        if found is not None:
            if module is not found:
                break
            line.append((code.co_qualname, frame.f_lineno))
            crossed = _crossed(frame.f_locals) if crossed is None else crossed
        frame = frame.f_back
    return None if found is None else Place(names[id(found)], found, tuple(line), crossed)


def _crossed(values: dict[str, Any]) -> bool | None:
    flag = values.get("is_cross_attention")
    if isinstance(flag, bool):
        return flag
    named = [name for name in _OTHER_SEQUENCE if name in values]
    return any(values[name] is not None for name in named) if named else None


class Folds:
    """Remembers in which tensors (B*H, S, E) heads were folded into rows, and how many there are of each."""

    def __init__(self) -> None:
        self._known = Alive()

    def ran(self, func: Any, arguments: tuple[Any, ...], output: Any) -> None:
        """A function gave `output`."""
        name = getattr(func, "__name__", "")
        if name in ("view", "reshape", "flatten") and isinstance(output, Tensor) and output.dim() == 3:
            given = arguments[0] if arguments else None
            if isinstance(given, Tensor) and given is not output:
                found = _folded(given, output)
                if found is not None:
                    self._known[output] = found
        elif self._known and name in ("transpose", "contiguous", "mul", "div", "to", "permute", "clone", "type_as"):
            known = self._known[arguments[0]] if arguments else None
            if known is not None and isinstance(output, Tensor) and output.dim() == 3 and output is not arguments[0]:
                axis, lead, heads_first = known
                if output.shape != arguments[0].shape or name in ("transpose", "permute"):
                    where = moved(func, arguments, {}, arguments[0], 1)
                    axes = [] if where is None else where[0][0]
                    axis = axes.index(axis - 3) if axis - 3 in axes else None
                if axis is not None:
                    self._known[output] = (axis, lead, heads_first)

    def of(self, *tensors: Any) -> tuple[tuple[int, int], bool] | None:
        """(B, H), and whether the rows go by heads first, of the first of these whose rows are heads; None where none is."""
        for tensor in tensors:
            known = self._known[tensor]
            if known is not None and known[0] == 0:
                return known[1], known[2]
        return None

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


def _folded(given: Tensor, output: Tensor) -> tuple[int, tuple[int, int], bool] | None:
    before, after = tuple(given.shape), tuple(output.shape)
    if len(before) == 4:
        for axis in (0, 1):
            if (*before[:axis], before[axis] * before[axis + 1], *before[axis + 2 :]) == after:
                # Heads are cut from the width, so they lie closer together in memory than rows do.
                heads_first = given.stride(axis) < given.stride(axis + 1)
                first, second = before[axis : axis + 2]
                return axis, (second, first) if heads_first else (first, second), heads_first
    if len(before) == 3 and before[0] == after[0] and before[2] > after[2] and before[2] % after[2] == 0:
        heads = before[2] // after[2]
        if after[1] == before[1] * heads:
            return 1, (before[1], heads), False
    return None


FUSED = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward
FLEX = torch.ops.higher_order.flex_attention
SOFTMAXES = (F.softmax, torch.softmax, Tensor.softmax)
"""In a graph of `torch.compile` a softmax is not followed, and who looks is told that it was there."""

_READERS: dict[Any, Callable[..., Attended | None]] = {FUSED: of_fused, MULTI_HEAD: of_multi_head, FLEX: of_flex}

_NO_MODULE = ""
"""Where a function was compiled by itself, called from a module that was not."""


class Listener(Protocol):
    """Who is told of attention."""

    def attended(self, place: Place, attended: Attended, run: Callable[[], Any]) -> Any:
        """Attention is to be computed at a place; gives back its result, which is `run()` where nothing is to be changed."""


class Interception(TorchFunctionMode):
    """Tells a listener of every call of an attention function from inside a module.

    Functions that are calls of attention by themselves are `scaled_dot_product_attention`, `multi_head_attention_forward`
    and flex attention's operator. Besides, a softmax over the last axis that is multiplied into something is attention laid
    out by the module.

    While `torch.compile` traces, which it does anew because of the mode, queries and keys become outputs of the graph; the
    listener is told of them when the graph has run.

    Arguments:
        module: whose calls are told; from others, and from mechanisms of this package, nothing is.
        listener: whom to tell.
        values: whether compiled graphs are to give out the values as well.
        fused: whether torch's encoder layers may take the path that runs a whole layer as one function, in which attention
            cannot be changed.
    """

    def __init__(self, module: nn.Module, listener: Listener, *, values: bool = False, fused: bool = True) -> None:
        super().__init__()
        self.fused = fused
        self.listener = listener
        self.module = module
        self.values = values
        self.modules = addresses_of(module)
        self.names = {id(part): address for address, part in self.modules.items()}
        self.softmaxes = Softmaxes()
        self.folds = Folds()
        # What a trace reads and writes is kept in lists: these it can give back. The names of the modules that Python runs stand
        # apart from those within a graph, which is empty when a graph begins: a function compiled once is traced once,
        # whichever module calls it.
        self.outside: list[str | None] = []
        self.running: list[str | None] = []
        self.traced: list[tuple[str | None, Any, tuple[Any, ...], dict[str, Any]]] = []
        # Whole modules that were traced are read by whoever knows them: their place and what they attended to.
        self._unfollowed: dict[str, None] = {}
        self.module_readers: dict[Any, Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[str, Attended]]] = {}

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Inside the block, the listener is told of what this thread calls."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.softmaxes.clear)
            stack.callback(self.folds.clear)
            thread = threading.get_ident()
            for address, part in self.modules.items():
                if is_compiled(part):
                    compiled = functools.partial(self._compiled, thread)
                    stack.enter_context(around_forward(part, compiled, outside=True))
                if not hasattr(part, "_orig_mod") and not _calls_nothing(part):
                    inside = functools.partial(self._named, thread, None if isinstance(part, Attention) else address)
                    traced = _tracing(self, None if isinstance(part, Attention) else address)
                    stack.enter_context(around_forward(part, inside, traced))
            stack.callback(self._warn)
            stack.enter_context(self)
            yield

    def _warn(self) -> None:
        """Say which modules computed a softmax that was not followed."""
        if self._unfollowed:
            warnings.warn(
                f"{', '.join(self._unfollowed)}: a softmax is computed in a graph of torch.compile and is not followed; if the "
                "module lays attention out by itself, look at the model without torch.compile to see it",
                stacklevel=2,
            )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch, and tell of it where it is attention."""
        named = {} if kwargs is None else kwargs
        if torch.compiler.is_dynamo_compiling():
            return self._trace(func, args, named)
        if self.traced:
            self.tell_traced()
        reader = _READERS.get(func)
        if reader is not None:
            attended = reader(args, named)
            given = (*args[:3], *(named.get(name) for name in ("query", "key", "value")))
            return self._tell(self._unfolded(attended, given), functools.partial(func, *args, **named))
        weighing = self.softmaxes.product(func, args, named)
        if weighing is not None:
            attended = self._unfolded(of_laid_out(weighing), weighing.operands or ())
            output = self._tell(attended, functools.partial(func, *args, **named))
            self.softmaxes.weighed(weighing, output)
            return output
        if func is F.dropout:
            self.softmaxes.before_dropout(args, named)
        output = func(*args, **named)
        self.softmaxes.ran(func, args, named, output)
        self.folds.ran(func, args, output)
        return output

    def _unfolded(self, attended: Attended | None, given: Sequence[Any]) -> Attended | None:
        found = None if attended is None else self.folds.of(*given)
        return attended if attended is None or found is None else unfolded(attended, found[0], heads_first=found[1])

    def tell_traced(self) -> None:
        """Tell of what compiled graphs gave out."""
        traced, self.traced = self.traced, []
        for within, func, args, named in traced:
            name = self.outside[-1] if within == _NO_MODULE and self.outside else within
            if name is None or name == _NO_MODULE:
                continue
            if func is F.softmax:
                self._unfollowed[name] = None
                continue
            if func in self.module_readers:
                name, attended = self.module_readers[func](name, args, named)
            else:
                attended = _READERS[func](args, named)
            if attended is not None:
                self.listener.attended(Place(name, self.modules[name], (), attended.crossed), attended, lambda: None)

    def _tell(self, attended: Attended | None, run: Callable[[], Any]) -> Any:
        place = place_of(sys._getframe(2), self.names)
        if attended is None or place is None or isinstance(place.module, Attention):
            return run()
        return self.listener.attended(place, unpacked(attended, place.module), run)

    def _trace(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What `torch.compile` traces in place of a function: the function, with what it is given among the graph's outputs."""
        name = self.running[-1] if self.running else _NO_MODULE
        if name is not None:  # else within what is told of already
            self._keep_traced(name, func, args, named)
        if func is Tensor.unflatten:
            # Written in Python, calling its base's: that cannot be traced through a function mode.
            return torch.unflatten(*args, **named)
        return func(*args, **named)

    def _keep_traced(self, name: str, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if func is FUSED:
            query, key, value, *others = args
            kept = (query.detach(), key.detach(), value.detach() if self.values else query.detach(), *others)
            if named.get("scale") is not None:
                named = {**named, "scale": _given_out(named["scale"])}
            self.traced.append((name, func, kept, named))
        elif func is FLEX:
            query, key, value, score_mod, block_mask, scale, _, *buffers = args
            kept = (query.detach(), key.detach(), value.detach() if self.values else query.detach())
            given = (*kept, score_mod, (block_mask[-1],), _given_out(scale), {}, *buffers)
            self.traced.append((name, func, given, {}))
        elif func is MULTI_HEAD:
            self.traced.append((name, func, args, named))
        elif func in SOFTMAXES and args[0].dim() > 2 and None not in self.running:
            self.traced.append((name, F.softmax, (), {}))

    def _compiled(
        self, thread: int, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Around a compiled module: what its graph gives out is told when it ends."""
        if threading.get_ident() != thread:
            return forward(*arguments, **named)
        from torch._dynamo.exc import Unsupported  # a second to import, needed by few

        self.tell_traced()
        try:
            # Where a graph breaks under a function mode, PyTorch 2.13 was seen to go on with wrong values.
            with _without_graph_breaks():
                return forward(*arguments, **named)
        except Unsupported as error:
            raise InputError(
                "the compiled model cannot be traced as one graph with its queries and keys among the outputs; look at the "
                f"model without torch.compile ({str(error).splitlines()[0]})"
            ) from error
        finally:
            self.tell_traced()

    def _named(
        self,
        thread: int,
        name: str | None,
        forward: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if threading.get_ident() != thread:
            return forward(*arguments, **named)
        self.outside.append(name)
        try:
            return forward(*arguments, **named)
        finally:
            if self.traced:  # by a compiled function that the module called
                self.tell_traced()
            self.outside.pop()


def _without_graph_breaks() -> contextlib.AbstractContextManager[Any]:
    stop = getattr(torch._dynamo, "error_on_graph_break", None)
    if stop is None:
        raise InputError(
            f"PyTorch {torch.__version__} cannot say whether a compiled graph breaks, so a compiled model cannot be looked into; "
            "take a newer one, or look at the model without torch.compile"
        )
    return stop(True)


def _given_out(number: float) -> Tensor:
    """A number as a tensor: where shapes are dynamic a graph cannot give out the number itself, which may depend on them."""
    return torch.full((), number, dtype=torch.float64)


def _calls_nothing(module: nn.Module) -> bool:
    """Whether a module is one of torch's single layers, in which no attention is called by name."""
    return not any(True for _ in module.children()) and type(module).__module__.startswith("torch.nn.")


def _tracing(
    interception: Interception, name: str | None
) -> Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]:
    def traced(forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        interception.running.append(name)
        try:
            return forward(*arguments, **named)
        finally:
            interception.running.pop()

    return traced
