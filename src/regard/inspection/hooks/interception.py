"""Sees the attention functions of torch while any module runs, from within one thread, changing nothing.

First modules by their addresses, and functions around their forward passes: hooks would close the fused paths of torch's own
layers, and `torch.compile` does not notice them, so the method is replaced instead. Then the function mode: where in the module
a function was called is read off the running stack, and heads that a module folded into batch rows are unfolded.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FrameType, FunctionType
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.attention import Attention, AttentionLayer
from regard.errors import InputError, nearest
from regard.inspection.hooks.calls import Attended, of_flex, of_fused, of_laid_out, of_multi_head, unfolded, unpacked
from regard.inspection.hooks.softmaxes import Alive, Softmaxes, moved

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called with a module's forward, its arguments and its named arguments, in place of the forward."""

_CHANGING = threading.Lock()  # what is around a module is changed by one thread at a time


@contextlib.contextmanager
def around_forward(
    module: nn.Module,
    around: Around,
    traced: Around | None = None,
    *,
    outside: bool = False,
    reads_rows: bool = False,
) -> Iterator[None]:
    """Inside the block `around` is called in place of `module.forward`; afterwards the module is what it was.

    Blocks may be within one another, the innermost then stands outermost, and those of several threads may overlap.

    Arguments:
        module: any module.
        around: called where Python runs the module.
        traced: called in its place while `torch.compile` traces the module; the forward itself where None.
        outside: of a module that was compiled in place, stand around the compiled call, not within it.
        reads_rows: whether `around` changes nothing and can read a batch that is computed as one row without padding.
    """
    name = "_compiled_call_impl" if outside and module._compiled_call_impl is not None else "forward"
    entry = (around, traced, reads_rows)
    with _CHANGING:
        forward = module.__dict__.get(name)
        if not isinstance(forward, FunctionType) or not hasattr(forward, "arounds"):
            forward = _surrounded(getattr(module, name), forward)
            module.__dict__[name] = forward
        forward.__dict__["arounds"].append(entry)
    try:
        yield
    finally:
        with _CHANGING:
            # Whoever leaves last, of several threads in any order, puts back what was there before the first.
            forward.__dict__["arounds"].remove(entry)
            if not forward.__dict__["arounds"]:
                _put_back(module, name, forward.__dict__["own"])


def _surrounded(original: Callable[..., Any], own: Any) -> Any:
    arounds: list[tuple[Around, Around | None, bool]] = []

    @functools.wraps(original)
    def forward(*arguments: Any, **named: Any) -> Any:
        run = original
        tracing = torch.compiler.is_dynamo_compiling()
        for around, traced, _ in tuple(arounds):
            chosen = traced if tracing else around
            if chosen is not None:
                run = _within(chosen, run)
        return run(*arguments, **named)

    forward.__dict__.update(arounds=arounds, own=own, reads_rows=lambda: all(entry[2] for entry in arounds))
    return forward


def _within(around: Around, run: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*arguments: Any, **named: Any) -> Any:
        return around(run, arguments, named)

    return forward


def _put_back(module: nn.Module, name: str, own: Any) -> None:
    if own is None:
        del module.__dict__[name]
    else:
        module.__dict__[name] = own


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs through `torch.compile`: wrapped by it, or compiled in place."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def addresses_of(module: nn.Module) -> dict[str, nn.Module]:
    """Every module inside a module by its name, without what `torch.compile` puts into the names.

    The module itself, which has no name, goes by its class's.
    """
    found: dict[str, nn.Module] = {}
    for name, part in module.named_modules():
        parts = [piece for piece in name.split(".") if piece != "_orig_mod"]
        found[".".join(parts) or type(part).__name__] = part
    return found


def attention_addresses(module: nn.Module) -> dict[str, Attention]:
    """Every attention mechanism of a module by its layer's name, such as `encoder.layers.3.attention`."""
    modules = addresses_of(module)
    found = {name: part.attention for name, part in modules.items() if isinstance(part, AttentionLayer)}
    inside = {id(mechanism) for mechanism in found.values()}
    alone = {name: part for name, part in modules.items() if isinstance(part, Attention) and id(part) not in inside}
    return {**found, **alone}


def chosen_mechanisms(
    layers: Mapping[str, Attention], addresses: Sequence[str] | None, others: Iterable[str]
) -> dict[str, Attention]:
    """The mechanisms that are called so; all where no address is given.

    Arguments:
        layers: the mechanisms by address.
        addresses: names, or patterns with `*`.
        others: modules in which attention may yet be found.

    Raises:
        InputError: where nothing is called so.
    """
    if addresses is None:
        return dict(layers)
    chosen: dict[str, Attention] = {}
    for pattern in addresses:
        matching = {name: part for name, part in layers.items() if fnmatchcase(name, pattern)}
        if not matching and not any(fnmatchcase(name, pattern) for name in others):
            hint = f"choose from {', '.join(layers)}" if layers else nearest(pattern, list(others))
            raise InputError(f"no attention layer is called {pattern!r}; {hint}")
        chosen.update(matching)
    return chosen


def chosen_modules(modules: Mapping[str, nn.Module], patterns: Sequence[str]) -> dict[str, nn.Module]:
    """The modules that are called so, in the order of the patterns.

    Raises:
        InputError: where none is, naming the nearest.
    """
    found: dict[str, nn.Module] = {}
    for pattern in patterns:
        matching = {name: part for name, part in modules.items() if is_called(name, pattern)}
        if not matching:
            raise InputError(f"no module is called {pattern!r}; {nearest(pattern, list(modules)[:200])}")
        found.update(matching)
    return found


def is_called(name: str, pattern: str) -> bool:
    """Whether a module's name fits a pattern, in which `*` stands for what has no dot in it.

    `layers.*` means the layers, and not every part inside each of them.

    >>> is_called("layers.0", "layers.*"), is_called("layers.0.norm", "layers.*")
    (True, False)
    """
    return name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)


# Arguments by which attention layers get another sequence to attend to: the names that
# `transformers` and its relatives use.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "encoder_states", "memory", "context")


@dataclass(frozen=True, slots=True)
class Place:
    """The innermost module that is running, and the line in it.

    Arguments:
        address: the module's name in the model.
        module: the module.
        line: distinguishes the places in the module's code from which attention is called.
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
            return None  # a graph that was traced runs as it is: the listener was called for it already
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
"""In a graph of `torch.compile` a softmax is not followed, and a warning says that it was there."""

_READERS: dict[Any, Callable[..., Attended | None]] = {FUSED: of_fused, MULTI_HEAD: of_multi_head, FLEX: of_flex}

_NO_MODULE = ""
"""Where a function was compiled by itself, called from a module that was not."""


class Listener(Protocol):
    """Called for every attention that is about to be computed."""

    def attended(self, place: Place, attended: Attended, run: Callable[[], Any]) -> Any:
        """Attention is to be computed at a place; gives back its result, which is `run()` where nothing is to be changed."""


class Interception(TorchFunctionMode):
    """Tells a listener of every call of an attention function from inside a module.

    Functions that are calls of attention by themselves are `scaled_dot_product_attention`, `multi_head_attention_forward`
    and flex attention's operator. Besides, a softmax over the last axis that is multiplied into something is attention laid
    out by the module.

    While `torch.compile` traces, which it does again because of the mode, queries and keys become outputs of the graph; the
    listener is called for them when the graph has run.

    Arguments:
        module: whose calls are reported; those of other modules, and of mechanisms of this package, are not.
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
        """Inside the block, the listener is called for every attention function that this thread calls."""
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
        if name is not None:  # else within a call that was reported already
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
        """Around a compiled module: the listener is called for what its graph gives out when it ends."""
        if threading.get_ident() != thread:
            return forward(*arguments, **named)
        from torch._dynamo.exc import Unsupported  # a second to import, needed by few

        self.tell_traced()
        try:
            # Where a graph breaks under a function mode, PyTorch 2.13 was seen to continue wrong values.
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
