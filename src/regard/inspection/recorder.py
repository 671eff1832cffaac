"""The recorder: stores the inputs of attention while a model runs at full speed.

It adds a hook before every attention mechanism of a module, and stores its inputs, detached, without copying them. In modules of
other libraries it observes the attention functions of torch instead (`regard.inspection.hooks`). Weights are computed when they
are read. The code path of the model, its kernels and its output do not change.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer, Dense, Unpadded
from regard.attention.texts import in_batch
from regard.errors import InputError
from regard.generation import Hypothesis
from regard.inspection.calls import Call, Called, Kept, Snapshot
from regard.inspection.hooks import (
    Around,
    Attended,
    FusedLayers,
    Interception,
    Place,
    addresses_of,
    around_forward,
    is_compiled,
)
from regard.inspection.hooks.interception import attention_addresses, chosen_mechanisms, chosen_modules
from regard.inspection.runs import Run
from regard.layers import Images, Source, Tokens
from regard.models.families import is_packaged


class Recorder:
    """Records the attention of one module, in one thread.

    Arguments:
        module: any torch module.
        addresses: of layers, as names or patterns with `*`; None = all.
        keep: the number of runs to store, the latest ones; None = all.
        values: whether to store values too.
        hidden: modules whose outputs to store, as names or patterns in which `*` matches text without a dot.

    Raises:
        InputError: if no layer matches, the module is a model of this package without attention, it is compiled, or `keep` is
            below 1.
    """

    def __init__(
        self,
        module: nn.Module,
        addresses: Sequence[str] | None = None,
        keep: int | None = None,
        *,
        values: bool = False,
        hidden: Sequence[str] = (),
    ) -> None:
        self.module = module
        self.runs: list[Run] = []
        self.modules = addresses_of(module)
        self.compiled = {name: part for name, part in self.modules.items() if is_compiled(part)}
        self.registered = is_packaged(getattr(module, "_orig_mod", module))
        self.layers = chosen_mechanisms(attention_addresses(module), addresses, () if self.registered else self.modules)
        self._addresses = None if addresses is None else tuple(addresses)
        self._hidden = chosen_modules(self.modules, hidden)
        self._values = values
        self._keep = keep
        self._thread = 0
        self._current: Run | None = None
        self._keys: dict[tuple[Any, ...], Kept] = {}
        self._parameters: dict[str, tuple[Snapshot, ...]] = {}
        self._latest: dict[str, tuple[Snapshot, ...]] = {}
        self._sites: dict[str, list[object]] = {}
        # What compiled graphs gave out.
        self._traced: list[tuple[str, Any]] = []
        self.lost: dict[str, tuple[int, ...]] = {}
        if self.registered and not self.layers and not hidden:
            raise InputError("there is no attention in this model to look at; choose a model that has some")
        if keep is not None and keep < 1:
            raise InputError(f"keep is {keep}; give the number of runs to keep, 1 or more, or None for all")

    @property
    def addresses(self) -> list[str]:
        """The addresses of the recorded attention layers: those known in advance, then those found in a run."""
        found = (address for run in self.runs for address in run.calls)
        return list(dict.fromkeys((*self.layers, *found)))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """A context in which calls of this thread are recorded; calls of other threads are not."""
        self._thread = threading.get_ident()
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            for address, mechanism in self.layers.items():
                around, traced = partial(self._called, address), _tracing_inputs(self._traced, address, self._values)
                stack.enter_context(around_forward(mechanism, around, traced, reads_rows=True))
            for address, part in self._hidden.items():
                traced = _tracing_output(self._traced, address)
                stack.enter_context(around_forward(part, partial(self._gave, address), traced))
            # All attention of a registered model is a mechanism with an address; in any other module there may be more.
            if not self.registered or self.compiled:
                interception = Interception(self.module, self, values=self._values)
                self.lost = interception.softmaxes.lost
                stack.enter_context(FusedLayers(interception).telling())
                stack.enter_context(interception.telling())
            for part in self.compiled.values():
                stack.enter_context(around_forward(part, self._ran_compiled, outside=True))
            # Outermost, for a run begins before anything in it is recorded.
            stack.enter_context(around_forward(self.module, self._ran, outside=True))
            yield

    # What a search tells (regard.generation.SearchObserver, regard.tasks.PredictionObserver).

    def search_started(self, source: Source) -> None:
        """Start a run at the beginning of a search."""
        self._open(self._reading(source))

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """End the run at the end of a search."""
        if self._current is not None:
            self._current.hypotheses = hypotheses
        self._close()

    def read(self, tokens: Tokens | None) -> None:
        """Store a text that was read in parts, and end the run."""
        if self._current is not None:
            self._current.source = tokens
        self._close()

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """Store the predictions of the last search."""
        if self.runs:
            self.runs[-1].predictions = list(predictions)

    # What stands around and before the modules. Nothing of what passes through is replaced.

    def _ran(self, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self._listening() or (self._current is not None and self._current.source is not None):
            return forward(*arguments, **named)  # or within a search whose decoder calls its own forward pass
        self._open(self._reading(*arguments, *named.values()))
        try:
            return forward(*arguments, **named)
        finally:
            self._close()

    def _ran_compiled(self, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self._listening():
            return forward(*arguments, **named)
        self._traced.clear()
        output = forward(*arguments, **named)
        for address, given in self._traced:
            if isinstance(given, Tensor):
                self._keep_output(address, given)
            else:
                *axes, visible, value, record = given
                names = ("query", "key", "query_positions", "key_positions")
                mask = None if visible is None else Dense(visible)
                inputs = AttentionInputs(**dict(zip(names, axes, strict=True)), mask=mask, record=record)
                self._keep_call(address, inputs, value)
        self._traced.clear()
        return output

    def _gave(
        self, address: str, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        output = forward(*arguments, **named)
        if self._listening():
            self._keep_output(address, output[0] if isinstance(output, tuple | list) else output)
        return output

    def _keep_output(self, address: str, output: Any) -> None:
        if isinstance(output, Tensor):
            self._run().hidden.setdefault(address, []).append(Kept.of(output))

    def _called(
        self, address: str, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        if self._listening():
            self._keep_call(address, *arguments, **named)
        return forward(*arguments, **named)

    def _keep_call(self, address: str, inputs: AttentionInputs, value: Tensor | None = None) -> None:
        calls = self._run().calls.setdefault(address, [])
        if isinstance(inputs.mask, Unpadded):
            with torch.no_grad():
                inputs, value = in_batch(inputs, inputs.mask, value)
        layer = self.modules[address]
        between = layer.sequences if isinstance(layer, AttentionLayer) else ("source", "source")
        kept = Kept.of(value) if self._values and value is not None else None
        called = Called(address, self.layers[address], inputs.shape, between, kept)
        calls.append(self._call(called, inputs, growing=bool(calls)))

    def attended(self, place: Place, attended: Attended, run: Callable[[], Any]) -> Any:
        """Called before a module of another library computes attention (`regard.inspection.hooks.Listener`)."""
        if self._listening():
            address = self._address(place, attended)
            if self._addresses is None or any(fnmatchcase(address, pattern) for pattern in self._addresses):
                self._run().calls.setdefault(address, []).append(self._foreign_call(address, place, attended))
        return run()

    def _foreign_call(self, address: str, place: Place, attended: Attended) -> Call:
        crossed = place.crossed if attended.crossed is None else attended.crossed
        value = Kept.of(attended.value()) if self._values and attended.value is not None else None
        between = ("target", "source") if crossed else ("source", "source")
        called = Called(address, attended.mechanism, attended.shape, between, value, attended.note)
        if attended.weights is not None:
            return Call.laid_out(called, attended.weights, None if attended.value is None else attended.value())
        if attended.inputs is None:
            raise RuntimeError("attention with neither inputs nor weights")
        # Fewer queries than keys: what else is looked at, or what a cache holds.
        return self._call(called, attended.inputs, growing=attended.shape[2] < attended.shape[3])

    def _address(self, place: Place, attended: Attended) -> str:
        """The module's address; a number after it where the module attends from several lines, or again in one pass."""
        lines = self._sites.setdefault(place.address, [])
        if place.line not in lines:
            lines.append(place.line)
        site = lines.index(place.line)
        address = f"{place.address}:{site + 1}" if site else place.address
        # One query after another is a sequence that grows; several at once are another layer with the same parameters.
        if attended.shape[2] > 1:
            calls = self._run().calls
            again = 2
            first = address
            while address in calls:
                address = f"{first}@{again}"
                again += 1
        return address

    def _call(self, called: Called, inputs: AttentionInputs, *, growing: bool) -> Call:
        identity = _identity(inputs.key)
        kept = None if identity is None else self._keys.get(identity)
        _, heads, queries, _ = called.shape
        width = inputs.key.shape[1] * inputs.key.shape[3]
        if kept is None and growing and heads * queries < width:
            # A key that is new at every call, as in a growing cache: its weights are smaller than it.
            return Call.computed(called, inputs)
        if kept is None:
            kept = Kept.of(inputs.key)
            if identity is not None:
                self._keys[identity] = kept
        if called.address not in self._parameters:
            self._parameters[called.address] = self._snapshots(called.address, called.mechanism)
        return Call.keeping(called, inputs, kept, self._parameters[called.address])

    def _snapshots(self, address: str, mechanism: Attention) -> tuple[Snapshot, ...]:
        last = {id(snapshot.parameter): snapshot for snapshot in self._latest.get(address, ())}
        snapshots = []
        for parameter in mechanism.parameters():
            snapshot = last.get(id(parameter))
            current = snapshot is not None and snapshot.seems_current(parameter)
            snapshots.append(snapshot if snapshot is not None and current else Snapshot.of(parameter))
        if snapshots:
            self._latest[address] = tuple(snapshots)
        return tuple(snapshots)

    def _reading(self, *arguments: Any) -> Run:
        """A run that reads the first of these that can be read, and has the second as its target."""
        read = [argument for argument in arguments if isinstance(argument, Tokens | Images)]
        source, target = [*read, None, None][:2]
        grid = getattr(self.module, "grid", None) if isinstance(source, Images) else None
        leading = 0 if grid is None else getattr(self.module, "leading", 0)
        return Run(source=source, target=target if isinstance(target, Tokens) else None, grid=grid, leading=leading)

    def _listening(self) -> bool:
        return threading.get_ident() == self._thread and not _is_recomputing()

    def _run(self) -> Run:
        """The run that is going on; one begins with the user's own calls of parts of the model."""
        if self._current is None:
            self._open(Run())
        if self._current is None:
            raise RuntimeError("a run that was opened is not there")
        return self._current

    def _open(self, run: Run) -> None:
        self._close()
        self._current = run
        self.runs.append(run)
        if self._keep is not None:
            del self.runs[: -self._keep]

    def _close(self) -> None:
        self._current = None
        self._keys.clear()
        self._parameters.clear()
        self._sites.clear()


def _is_recomputing() -> bool:
    """Whether this is a backward pass, where gradient checkpointing calls layers a second time."""
    return torch._C._current_graph_task_id() != -1


def _tracing_inputs(traced: list[tuple[str, Any]], address: str, values: bool) -> Around:
    def around(forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        # Tensors can be given out by a graph, objects of this package cannot.
        inputs, value = arguments[0], arguments[1].detach() if values else None
        places = inputs.positions.given
        record = dict(inputs.record)
        traced.append((address, (inputs.query.detach(), inputs.key.detach(), *places, inputs.visible(), value, record)))
        return forward(*arguments, **named)

    return around


def _tracing_output(traced: list[tuple[str, Any]], address: str) -> Around:
    def around(forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        output = forward(*arguments, **named)
        first = output[0] if isinstance(output, tuple | list) else output
        if isinstance(first, Tensor):
            traced.append((address, first.detach()))
        return output

    return around


def _identity(key: Tensor) -> tuple[Any, ...] | None:
    """What tells that a key is one seen before: the same memory, unchanged. Kept keys hold theirs, so it is not reused."""
    if key.is_inference():
        return None
    return (key.data_ptr(), tuple(key.shape), key.stride(), key.dtype, key._version)
