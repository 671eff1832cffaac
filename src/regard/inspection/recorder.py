"""The recorder: keeps what attention weights are a function of, while a model runs at full speed.

It hangs a hook before every attention mechanism of a module and keeps its inputs, detached, without copying them. Weights
are computed when they are read. The model's path, its kernels and its output are what they are without it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention import Attention, AttentionInputs, AttentionLayer
from regard.errors import InputError
from regard.generation import Hypothesis
from regard.inspection.calls import Call, Kept, Snapshot
from regard.layers import Tokens


@dataclass(slots=True, eq=False)
class Run:
    """The calls of one forward pass, or of one search.

    Arguments:
        calls: by address, in the order they were made.
        source, target: what the model read; the target only in a forward pass.
        hypotheses: of a search, per source row, best first; `rows` in them says where each stood at every step.
        predictions: what the hypotheses became, where a task made something of them.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    source: Tokens | None = None
    target: Tokens | None = None
    hypotheses: list[list[Hypothesis]] | None = None
    predictions: list[Any] | None = None

    @property
    def searched(self) -> bool:
        """Whether this was a search."""
        return self.hypotheses is not None


class Recorder:
    """Records the attention of one module, in one thread.

    Arguments:
        module: any module with `regard.attention.Attention` mechanisms inside.
        addresses: which layers, as names or patterns with `*`; all where None.
        keep: how many runs to keep, the latest; all where None.

    Raises:
        InputError: where nothing in the module is called so, the module is compiled, or `keep` is below 1.
    """

    def __init__(self, module: nn.Module, addresses: Sequence[str] | None = None, keep: int | None = None) -> None:
        self.module = module
        self.runs: list[Run] = []
        self.layers = _chosen(attention_addresses(module), addresses)
        self._keep = keep
        self._thread = 0
        self._current: Run | None = None
        self._keys: dict[tuple[Any, ...], Kept] = {}
        self._parameters: dict[str, tuple[Snapshot, ...]] = {}
        if keep is not None and keep < 1:
            raise InputError(f"keep is {keep}; give the number of runs to keep, 1 or more, or None for all")
        # Compiled in place (`module.compile()`), or wrapped (`torch.compile(module)`).
        if any(part._compiled_call_impl is not None or hasattr(part, "_orig_mod") for part in module.modules()):
            raise InputError(
                "the model runs through torch.compile, which a recorder cannot look into; load or build it without compile"
            )

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Inside the block, what this thread calls is recorded; calls from other threads are not."""
        self._thread = threading.get_ident()
        handles: list[RemovableHandle] = [
            self.module.register_forward_pre_hook(self._entered),
            self.module.register_forward_hook(self._left, always_call=True),
        ]
        for address, mechanism in self.layers.items():
            handles.append(mechanism.register_forward_pre_hook(partial(self._called, address)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._close()

    # What a search tells (regard.generation.SearchObserver, regard.tasks.PredictionObserver).

    def search_started(self, source: Tokens) -> None:
        """A search begins a run."""
        self._open(Run(source=source))

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """A search ends its run."""
        if self._current is not None:
            self._current.hypotheses = hypotheses
        self._close()

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """What became of the last search."""
        if self.runs:
            self.runs[-1].predictions = list(predictions)

    # Hooks. None of them returns anything, so nothing they see is replaced.

    def _entered(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread or _is_recomputing():
            return
        if self._current is not None and self._current.source is not None:
            return  # within a search whose decoder calls its own forward pass
        tokens = [argument for argument in arguments if isinstance(argument, Tokens)]
        self._open(Run(source=tokens[0] if tokens else None, target=tokens[1] if len(tokens) > 1 else None))

    def _left(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if threading.get_ident() == self._thread and (self._current is None or not self._current.searched):
            self._close()

    def _called(self, address: str, mechanism: nn.Module, arguments: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread or not isinstance(mechanism, Attention) or _is_recomputing():
            return
        inputs: AttentionInputs = arguments[0]
        if self._current is None:  # the user's own calls of `start` and `step`
            self._open(Run())
        run = self._current
        if run is None:
            return
        calls = run.calls.setdefault(address, [])
        calls.append(self._call(address, mechanism, inputs, calls))

    def _call(self, address: str, mechanism: Attention, inputs: AttentionInputs, before: Sequence[Call]) -> Call:
        identity = _identity(inputs.key)
        kept = None if identity is None else self._keys.get(identity)
        _, heads, queries, _ = inputs.shape
        width = inputs.key.shape[1] * inputs.key.shape[3]
        if kept is None and before and heads * queries < width:
            # A key that is new at every call, as in a growing cache: its weights are smaller than it.
            return Call.computed(address, mechanism, inputs)
        if kept is None:
            kept = Kept.of(inputs.key)
            if identity is not None:
                self._keys[identity] = kept
        if address not in self._parameters:
            self._parameters[address] = tuple(map(Snapshot.of, mechanism.parameters()))
        return Call.keeping(address, mechanism, inputs, kept, self._parameters[address])

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


def _is_recomputing() -> bool:
    """Whether this is a backward pass, where gradient checkpointing calls layers a second time."""
    return torch._C._current_graph_task_id() != -1


def attention_addresses(module: nn.Module) -> dict[str, Attention]:
    """Every attention mechanism of a module by its layer's name, such as `encoder.layers.3.attention`."""
    found: dict[str, Attention] = {}
    inside: set[int] = set()
    for name, part in module.named_modules():
        if isinstance(part, AttentionLayer):
            found[name] = part.attention
            inside.add(id(part.attention))
    for name, part in module.named_modules():
        if isinstance(part, Attention) and id(part) not in inside:
            found[name] = part
    return found


def _chosen(layers: Mapping[str, Attention], addresses: Sequence[str] | None) -> dict[str, Attention]:
    if not layers:
        raise InputError("there is no attention in this module to look at; choose a model that has some")
    if addresses is None:
        return dict(layers)
    chosen: dict[str, Attention] = {}
    for pattern in addresses:
        matching = {name: part for name, part in layers.items() if fnmatchcase(name, pattern)}
        if not matching:
            raise InputError(f"no attention layer is called {pattern!r}; choose from {', '.join(layers)}")
        chosen.update(matching)
    return chosen


def _identity(key: Tensor) -> tuple[Any, ...] | None:
    """What tells that a key is one seen before: the same memory, unchanged. Kept keys hold theirs, so it is not reused."""
    if key.is_inference():
        return None
    return (key.data_ptr(), tuple(key.shape), key.stride(), key.dtype, key._version)
