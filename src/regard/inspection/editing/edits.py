"""Models with something inside them changed: while they run (`change`), or with parts taken out for good (`prune`)."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar, cast, get_args

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer
from regard.errors import InputError, nearest
from regard.inspection.hooks import (
    Attended,
    FusedLayers,
    Interception,
    Place,
    addresses_of,
    around_forward,
    is_compiled,
)
from regard.inspection.hooks.interception import attention_addresses, is_called
from regard.layers import NoSkip, Residual, TextEncoder
from regard.layers.blocks import Block
from regard.models.bert import heads_left
from regard.models.families import is_packaged
from regard.tasks.predictor import Predictor

Change = Tensor | Callable[[Tensor], Tensor]
"""What to put in place of a tensor: another, or a function of it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ScaleHeads:
    """Multiply the outputs of attention heads, before the output projection: by zero, which masks them, or by anything.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        heads: which heads; all where None.
        factor: a number.
    """

    address: str
    heads: Sequence[int] | None = None
    factor: float = 0.0

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        factors = torch.ones(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        factors[_heads(self.heads, outputs.shape[1], self.address)] = self.factor
        return outputs * factors[:, None, None]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeanHeads:
    """Put in place of the outputs of attention heads their mean over the batch and its positions.

    A head that says the same everywhere still shifts what comes after it; this takes from it only what it distinguishes.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        heads: which heads; all where None.
    """

    address: str
    heads: Sequence[int] | None = None

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        chosen = _heads(self.heads, outputs.shape[1], self.address)
        changed = outputs.clone()
        changed[:, chosen] = outputs[:, chosen].mean(dim=(0, 2), keepdim=True)
        return changed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetHeads:
    """Put given outputs in place of those of attention heads, before the output projection.

    With `Record.head_outputs` of another input this is activation patching of single heads.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        to: (B, H, L, Ev) or what broadcasts to it, or a function from the outputs to such.
        heads: which heads; all where None.
        positions: which queries; all where None.
    """

    address: str
    to: Change
    heads: Sequence[int] | None = None
    positions: Sequence[int] | None = None

    def heads_changed(self, outputs: Tensor) -> Tensor:
        """Outputs (B, H, L, Ev) to outputs."""
        given = _given(self.to, outputs, self.address)
        chosen = torch.zeros(outputs.shape[1:3], dtype=torch.bool, device=outputs.device)
        heads = _heads(self.heads, outputs.shape[1], self.address)
        chosen[heads[:, None], _places(self.positions, outputs.shape[2], self.address)] = True
        return torch.where(chosen[..., None], given, outputs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetWeights:
    """Put given weights in place of those of attention heads; the values are then weighed by them, by the plain product.

    Arguments:
        address: of attention layers, with `*` for any part of a name.
        to: (B, H, L, S) or what broadcasts to it, or a function from the weights, in float32, to such.
        heads: which heads; all where None.
    """

    address: str
    to: Change
    heads: Sequence[int] | None = None

    def weights_changed(self, weights: Tensor) -> Tensor:
        """Weights (B, H, L, S) to weights."""
        given = _given(self.to, weights, self.address)
        chosen = torch.zeros(weights.shape[1], dtype=torch.bool, device=weights.device)
        chosen[_heads(self.heads, weights.shape[1], self.address)] = True
        return torch.where(chosen[:, None, None], given, weights)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SetOutput:
    """Put a given tensor in place of what a module gives out; of several, in place of the first.

    With `Record.hidden` of another input this is activation patching of a layer.

    Arguments:
        address: of modules, with `*` for what has no dot in it: `layers.*` is the layers, not their parts.
        to: (B, L, D) or what broadcasts to it, or a function from the output to such.
        positions: which places along axis 1; all where None.
    """

    address: str
    to: Change
    positions: Sequence[int] | None = None

    def output_changed(self, output: Tensor) -> Tensor:
        """Output (B, L, D) to output."""
        given = _given(self.to, output, self.address)
        if self.positions is None:
            return given.expand_as(output)
        chosen = torch.zeros(output.shape[1], dtype=torch.bool, device=output.device)
        chosen[_places(self.positions, output.shape[1], self.address)] = True
        return torch.where(chosen.view(-1, *(1,) * (output.dim() - 2)), given, output)


HeadEdit = ScaleHeads | MeanHeads | SetHeads
Edit = HeadEdit | SetWeights | SetOutput


def _given(to: Change, present: Tensor, address: str) -> Tensor:
    given = to.to(present) if isinstance(to, Tensor) else to(present)
    try:
        fits = torch.broadcast_shapes(given.shape, present.shape) == present.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(
            f"{address}: {tuple(given.shape)} given, which does not fit {tuple(present.shape)}; give a tensor that "
            "broadcasts to it, such as one recorded on an input of the same size"
        )
    return given


def _heads(heads: Sequence[int] | None, count: int, address: str) -> Tensor:
    return _indices(heads, count, f"{address}: heads")


def _places(positions: Sequence[int] | None, count: int, address: str) -> Tensor:
    return _indices(positions, count, f"{address}: positions")


def _indices(given: Sequence[int] | None, count: int, what: str) -> Tensor:
    indices = torch.arange(count) if given is None else torch.as_tensor(list(given), dtype=torch.long)
    if len(indices) and not -count <= int(indices.min()) <= int(indices.max()) < count:
        raise InputError(f"{what} {indices.tolist()} are outside 0 to {count - 1}")
    return indices % max(count, 1)


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
            # In a model of this package all attention is known; in another's module it is found while that runs.
            found = {} if is_packaged(module) else self._modules
            names = self._modules if isinstance(edit, SetOutput) else {**found, **self._mechanisms}
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
            added = mechanism.extra_output(inputs, weights)
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


M = TypeVar("M", bound=nn.Module)


def without_skips(module: M) -> M:
    """A copy whose sub-layers give their own output alone, and not their input with it (Dong et al. 2021, section 4).

    The parameters are those of the model, norms included; what it learned, it learned with the skip connections.

    Arguments:
        module: a model of blocks, such as a BERT, a GPT-2, a T5 or a Transformer.

    Raises:
        InputError: where there is no residual connection in it.

    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1))
    >>> type(without_skips(model).layers[0].attention_residual).__name__
    'NoSkip'
    """
    copied = copy.deepcopy(module)
    found = False
    for part in list(copied.modules()):
        for name, child in part.named_children():
            if isinstance(child, Residual):
                found = True
                # In a parallel block this adds to attention's output, and the block's input is in attention's connection alone.
                if getattr(part, "parallel", False) and name == "feedforward_residual":
                    continue
                setattr(part, name, _straight(child))
    if not found:
        raise InputError(f"there is no residual connection in a {type(module).__name__}; give a model made of blocks")
    return copied


def without_feedforward(module: M) -> M:
    """A copy whose blocks attend only: what goes into a feed-forward net comes out as it was, past its norms too.

    Arguments:
        module: a model of blocks.

    Raises:
        InputError: where there is no block in it.
    """
    copied = copy.deepcopy(module)
    blocks = [part for part in copied.modules() if isinstance(part, get_args(Block))]
    if not blocks:
        raise InputError(f"there is no feed-forward net in a {type(module).__name__}; give a model made of blocks")
    for block in blocks:
        block.feedforward = nn.Identity()
        block.feedforward_residual = NoSkip(before=nn.Identity(), after=nn.Identity())
        block.parallel = False  # type: ignore[assignment]  # so that this identity reads the sum after attention
    return copied


def _straight(residual: Residual) -> NoSkip:
    straight = NoSkip(before=residual.before, after=residual.after, dropout=residual.dropout.p)
    return straight.train(residual.training)


P = TypeVar("P", bound="Predictor[Any] | TextEncoder")


def prune(model: P, heads: Mapping[int, Sequence[int]]) -> P:
    """A model without some of its attention heads (Michel et al. 2019), smaller and faster by them; the one given stays as it is.

    It answers as the model does while `change` scales those heads by zero: a head's query, key and value are rows of three
    matrices, and what the layer makes of it columns of a fourth, and these are cut out. Which are gone is in the config,
    `pruned_heads`, and is saved with it.

    Arguments:
        model: what `regard.load` gives of an encoder of texts, or such a model; of a pruned one more may be taken.
        heads: by layer, which of its heads, both from 0 and counted as before any was taken out.

    Returns:
        A predictor of the same task, or a model. A predictor's metrics are left out, for they were those of all heads.

    Raises:
        InputError: for a model that is no encoder of texts, a layer or head that it never had, or the last head of a layer.

    >>> from regard.layers import Tokens
    >>> from regard.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=9, width=8, heads=4, feedforward_width=16, layers=2)).eval()
    >>> smaller = prune(model, {0: [1, 3]})
    >>> smaller.config.pruned_heads, smaller.layers[0].attention.query.weight.shape
    (((0, 1), (0, 3)), torch.Size([4, 8]))
    >>> smaller(Tokens.pad([[3, 4, 5]])).hidden.shape
    torch.Size([1, 3, 8])
    """
    if isinstance(model, Predictor):
        smaller = _pruned(model.model, heads)
        return cast(P, type(model)(smaller, model.task, recipe=model.recipe))
    return cast(P, _pruned(model, heads))


def _pruned(model: Any, heads: Mapping[int, Sequence[int]]) -> TextEncoder:
    if not isinstance(model, TextEncoder) or not hasattr(model.config, "pruned_heads"):
        raise InputError(
            f"heads cannot be pruned from a {type(model).__name__}; give an encoder of texts, such as a BERT"
        )
    gone = {(layer, head) for layer, chosen in heads.items() for head in chosen}
    config: Any = model.config
    smaller_config = dataclasses.replace(config, pruned_heads=tuple(gone | set(config.pruned_heads)))
    smaller = copy.deepcopy(model)
    smaller.config = smaller_config
    size = config.width // config.heads
    for number, layer in enumerate(smaller.layers):
        before, after = heads_left(config, number), heads_left(smaller_config, number)
        if before == after:
            continue
        kept = [before.index(head) for head in after]
        rows = torch.cat([torch.arange(head * size, (head + 1) * size) for head in kept])
        attention = cast(AttentionLayer, layer.attention)
        for name in ("query", "key", "value"):
            setattr(attention, name, _cut(getattr(attention, name), rows, axis=0))
        attention.output = _cut(cast(nn.Linear, attention.output), rows, axis=1)
        attention.heads = attention.key_heads = len(kept)
    return smaller


def _cut(linear: nn.Linear, kept: Tensor, *, axis: int) -> nn.Linear:
    """A linear map of which some rows (axis 0) or columns (axis 1) are kept; a bias goes with the rows."""
    weight = linear.weight.detach().index_select(axis, kept.to(linear.weight.device))
    # On the meta device nothing is drawn, so the caller's random numbers are what they would have been.
    cut = nn.Linear(weight.shape[1], weight.shape[0], bias=linear.bias is not None, device="meta")
    cut.weight = nn.Parameter(weight, requires_grad=linear.weight.requires_grad)
    if linear.bias is not None:
        bias = linear.bias.detach()
        bias = bias.index_select(0, kept.to(bias.device)) if axis == 0 else bias.clone()
        cut.bias = nn.Parameter(bias, requires_grad=linear.bias.requires_grad)
    return cut.train(linear.training)
