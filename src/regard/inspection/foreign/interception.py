"""Sees the attention functions of torch while any module runs, from within one thread, changing nothing."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import Attention
from regard.errors import InputError
from regard.inspection.foreign.attended import (
    Attended,
    of_flex,
    of_fused,
    of_laid_out,
    of_multi_head,
    unfolded,
)
from regard.inspection.foreign.folded_heads import Folds
from regard.inspection.foreign.forwards import addresses_of, around_forward, is_compiled
from regard.inspection.foreign.laid_out import Softmaxes
from regard.inspection.foreign.packed_heads import unpacked
from regard.inspection.foreign.places import Place, place_of

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
