"""`regard.inspection.change`: run a model with something inside it changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs
from regard.errors import InputError, nearest
from regard.inspection.choosing import attention_addresses, is_called
from regard.inspection.editing.edits import Edit, HeadEdit, SetOutput, SetWeights
from regard.inspection.foreign import (
    Attended,
    FusedLayers,
    Interception,
    Place,
    addresses_of,
    around_forward,
    is_compiled,
)
from regard.models.families import is_packaged
from regard.tasks.predictor import Predictor


@contextlib.contextmanager
def change(model: Predictor[Any] | nn.Module, *edits: Edit) -> Iterator[None]:
    """Inside a `with` block, what the edits say is changed whenever this thread runs the model; afterwards nothing is.

    No parameter is touched. Addresses are those that `regard.look` shows; a look within the block sees the model as it is
    changed: weights set by an edit are then in what follows, not in the layer's own record.

    Attention whose weights are set runs by the plain product of weights and values, and so does torch's own multi-head
    attention under any edit; all else keeps its kernel.

    Arguments:
        model: what `regard.load` gives, or any torch module.
        edits: what to change, in this order.

    Raises:
        InputError: for an address that nothing has, a head or a position that is not there, a tensor that does not fit, a
            compiled model, and attention that cannot be changed (flex attention).

    >>> import torch
    >>> from regard.inspection.editing import ScaleHeads
    >>> layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(1, 3, 8)
    >>> with change(layer, ScaleHeads(address="MultiheadAttention", heads=[0, 1])):
    ...     silent = layer(x, x, x)[0]
    >>> torch.allclose(silent, layer.out_proj.bias.expand_as(silent))
    True
    """
    module = model if isinstance(model, nn.Module) else model.model
    editor = _Editor(module, edits)
    with editor.editing():
        yield
    editor.check_all_used()


class _Editor:
    def __init__(self, module: nn.Module, edits: Sequence[Edit]) -> None:
        self._module = module
        self._modules = addresses_of(module)
        self._mechanisms = attention_addresses(module)
        self._outputs = [edit for edit in edits if isinstance(edit, SetOutput)]
        self._attention = [edit for edit in edits if not isinstance(edit, SetOutput)]
        self._unused = {id(edit): edit for edit in self._attention}
        self._thread = 0
        self._ran = False
        for edit in edits:
            names = self._modules if isinstance(edit, SetOutput) else {**self._modules, **self._mechanisms}
            # The parts of a name after the module's own tell calls of it apart; they are known when it runs.
            fits = is_called if isinstance(edit, SetOutput) else fnmatchcase
            if not any(fits(name, _bare(edit.address)) for name in names):
                raise InputError(
                    f"nothing in the model is called {edit.address!r}; {nearest(edit.address, list(names))}"
                )
        compiled = [name for name, part in self._modules.items() if is_compiled(part)]
        if compiled:
            raise InputError(
                f"{compiled[0]} runs through torch.compile, in which nothing can be changed; load or build the model without it"
            )

    @contextlib.contextmanager
    def editing(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        with contextlib.ExitStack() as stack:
            for address, mechanism in self._mechanisms.items():
                edits = [edit for edit in self._attention if fnmatchcase(address, edit.address)]
                if edits:
                    around = partial(self._mechanism, address, mechanism, edits)
                    stack.enter_context(around_forward(mechanism, around))
            if self._attention and not is_packaged(self._module):
                interception = Interception(self._module, self, fused=False)
                stack.enter_context(FusedLayers(interception).telling())
                stack.enter_context(interception.telling())
            for address, part in self._modules.items():
                edits = [edit for edit in self._outputs if is_called(address, edit.address)]
                if edits:
                    stack.enter_context(around_forward(part, partial(self._output, edits)))
            stack.enter_context(around_forward(self._module, self._run))
            yield

    def check_all_used(self) -> None:
        """Refuse to have done nothing: attention that an edit named was not called.

        Raises:
            InputError: naming the edit.
        """
        if self._ran and self._unused:
            edit = next(iter(self._unused.values()))
            raise InputError(
                f"{edit.address}: no attention of this name was called, so nothing was changed; regard.look shows the names"
            )

    def attended(self, place: Place, attended: Attended, run: Callable[[], Any]) -> Any:
        """Attention of another library is about to be computed."""
        edits = [edit for edit in self._attention if fnmatchcase(place.address, edit.address)]
        if not edits or threading.get_ident() != self._thread:
            return run()
        self._use(edits)
        if attended.finish is None or attended.value is None:
            raise InputError(f"{place.address}: this attention cannot be changed, only looked at")
        weights = None
        if attended.heads_of is not None and not any(isinstance(edit, SetWeights) for edit in edits):
            outputs = attended.heads_of(run())
        else:
            weights = _weights_changed(edits, _weights_of(attended))
            outputs = _weighed(weights, attended.value())
        return attended.finish(_heads_changed(edits, outputs), weights)

    def _mechanism(
        self,
        address: str,
        mechanism: Attention,
        edits: list[HeadEdit | SetWeights],
        forward: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if threading.get_ident() != self._thread:
            return forward(*arguments, **named)
        self._use(edits)
        inputs, value = _inputs_and_value(*arguments, **named)
        if any(isinstance(edit, SetWeights) for edit in edits):
            weights = _weights_changed(edits, mechanism.weights(inputs))
            outputs = _weighed(weights, value)
            added = mechanism.added(inputs, weights)
            outputs = outputs if added is None else outputs + added.to(outputs.dtype)
        else:
            outputs = forward(*arguments, **named)
        return _heads_changed(edits, outputs)

    def _output(
        self, edits: list[SetOutput], forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        output = forward(*arguments, **named)
        if threading.get_ident() != self._thread:
            return output
        several = isinstance(output, tuple | list)
        first = output[0] if several else output
        if not isinstance(first, Tensor):
            raise InputError(
                f"{edits[0].address}: gives out a {type(first).__name__}, not a tensor, so it cannot be set"
            )
        for edit in edits:
            first = edit.output_changed(first)
        return type(output)((first, *output[1:])) if several else first

    def _run(self, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self._ran = self._ran or threading.get_ident() == self._thread
        return forward(*arguments, **named)

    def _use(self, edits: Sequence[Edit]) -> None:
        for edit in edits:
            self._unused.pop(id(edit), None)


def _inputs_and_value(inputs: AttentionInputs, value: Tensor) -> tuple[AttentionInputs, Tensor]:
    return inputs, value


def _weights_of(attended: Attended) -> Tensor:
    if attended.weights is not None:
        return attended.weights
    if attended.inputs is None:
        raise RuntimeError("a call with neither inputs nor weights")
    return attended.mechanism.weights(attended.inputs)


def _weights_changed(edits: Sequence[HeadEdit | SetWeights], weights: Tensor) -> Tensor:
    for edit in edits:
        weights = edit.weights_changed(weights) if isinstance(edit, SetWeights) else weights
    return weights


def _heads_changed(edits: Sequence[HeadEdit | SetWeights], outputs: Tensor) -> Tensor:
    for edit in edits:
        outputs = outputs if isinstance(edit, SetWeights) else edit.heads_changed(outputs)
    return outputs


def _weighed(weights: Tensor, value: Tensor) -> Tensor:
    """Weights (B, H, L, S) on values (B, G, S, Ev), to (B, H, L, Ev)."""
    return weights.to(value.dtype) @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)


def _bare(address: str) -> str:
    return address.split(":")[0].split("@")[0]
