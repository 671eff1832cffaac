"""Torch's own attention layers, which run as one fused function where nothing asks them for more."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from regard.attention.layer import merge_heads, split_heads
from regard.inspection.hooks.calls import Attended, Norm, Projected, projected
from regard.inspection.hooks.interception import Around, Interception, Place, around_forward

ATTENTION = "torch.nn.MultiheadAttention"
LAYER = "torch.nn.TransformerEncoderLayer"


class FusedLayers:
    """Tells of the attention in `torch.nn.MultiheadAttention` and the layers of `torch.nn.TransformerEncoder`.

    These take a fused path in evaluation that a function mode would close, and inside of which no query and no key can be
    seen. So they run without the mode, and what their attention reads is recorded from outside; its weights are a function of
    that and of the layer's parameters.

    Arguments:
        interception: of whose module the layers are, and whose listener is called.
    """

    def __init__(self, interception: Interception) -> None:
        self._interception = interception
        self._thread = threading.get_ident()
        self._mechanisms: dict[int, Projected] = {}
        self._told = 0
        self._length: int | None = None

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Inside the block, the listener is called for the layers' attention in this thread."""
        readers = self._interception.module_readers
        readers.update({ATTENTION: self._traced_attention, LAYER: self._traced_layer})
        with contextlib.ExitStack() as stack:
            # They lead back here: what was recorded would be freed late.
            stack.callback(readers.clear)
            for address, part in self._interception.modules.items():
                around, traced = None, None
                if _stock(part, nn.MultiheadAttention):
                    around, traced = self._attention, _tracing_attention(self._interception, address)
                elif self._interception.fused and _stock(part, nn.TransformerEncoderLayer) and _stock_attention(part):
                    around, traced = self._layer, _tracing_layer(self._interception, address)
                elif self._interception.fused and _stock(part, nn.TransformerEncoder):
                    around = self._encoder
                if around is not None:
                    here = functools.partial(self._here, around, part)
                    stack.enter_context(around_forward(part, here, traced))
            yield

    def _here(
        self,
        around: Callable[..., Any],
        module: nn.Module,
        original: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        if threading.get_ident() != self._thread:
            return original(*arguments, **named)
        return around(module, _given(module, arguments, named), functools.partial(original, *arguments, **named))

    def _attention(self, module: nn.MultiheadAttention, given: dict[str, Any], run: Callable[[], Any]) -> Any:
        self._told += 1
        return self._tell(module, self._of_attention(module, given), run)

    def _of_attention(self, module: nn.MultiheadAttention, given: dict[str, Any]) -> Attended:
        query, key, value = given["query"], given["key"], given["value"]
        target, source = (_batch_first(module, tensor) for tensor in (query, key))
        same = target if query is key else source
        mechanism = self._mechanism(module, None)

        def finish(heads: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
            output = module.out_proj(merge_heads(heads))
            if query.dim() == 2:
                output = output[0]
            elif not module.batch_first:
                output = output.transpose(0, 1)
            if not given["need_weights"]:
                return output, None
            if weights is None:
                raise RuntimeError("weights are wanted that were not computed")
            shown = weights.mean(dim=1) if given["average_attn_weights"] else weights
            return output, shown[0] if query.dim() == 2 else shown

        attended = projected(mechanism, target, same, given["key_padding_mask"], given["attn_mask"])
        return replace(attended, value=lambda: _values(module, _batch_first(module, value)), finish=finish)

    def _layer(self, module: nn.TransformerEncoderLayer, given: dict[str, Any], run: Callable[[], Any]) -> Any:
        before = self._told
        with without_interceptions():
            output = run()
        if self._told == before:
            # The attention was not called, so the layer ran as one function.
            self._tell(module.self_attn, self._of_layer(module, given), lambda: None)
        return output

    def _of_layer(self, module: nn.TransformerEncoderLayer, given: dict[str, Any]) -> Attended:
        source, padding, mask = given["src"], given["src_key_padding_mask"], given["src_mask"]
        if source.is_nested:
            source, padding = _laid_side_by_side(source, self._length)
        norm = module.norm1 if module.norm_first else None
        attended = projected(self._mechanism(module.self_attn, norm), source, source, padding, mask)
        return replace(attended, value=lambda: _values(module.self_attn, source if norm is None else norm(source)))

    def _traced_attention(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, Attended]:
        module: Any = self._interception.modules[name]
        return name, self._of_attention(module, _given(module, arguments, named))

    def _traced_layer(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, Attended]:
        module: Any = self._interception.modules[name]
        return f"{name}.self_attn", self._of_layer(module, _given(module, arguments, named))

    def _encoder(self, module: nn.TransformerEncoder, given: dict[str, Any], run: Callable[[], Any]) -> Any:
        source = given["src"]
        if not all(_stock(layer, nn.TransformerEncoderLayer) and _stock_attention(layer) for layer in module.layers):
            return run()
        self._length = None if source.is_nested else source.shape[1]
        try:
            with without_interceptions():
                return run()
        finally:
            self._length = None

    def _tell(self, module: nn.Module, attended: Attended, run: Callable[[], Any]) -> Any:
        place = Place(self._interception.names[id(module)], module, (), attended.crossed)

        def unseen() -> Any:
            with without_interceptions():
                return run()

        return self._interception.listener.attended(place, attended, unseen)

    def _mechanism(self, module: nn.MultiheadAttention, norm: nn.LayerNorm | None) -> Projected:
        if id(module) not in self._mechanisms:
            self._mechanisms[id(module)] = Projected(
                module.num_heads,
                packed_weight=module.in_proj_weight,
                query_weight=module.q_proj_weight,
                key_weight=module.k_proj_weight,
                bias=module.in_proj_bias,
                key_bias=module.bias_k,
                zero_key=module.add_zero_attn,
                norm=None if norm is None else Norm(norm.weight, norm.bias, norm.eps),
            )
        return self._mechanisms[id(module)]


def _batch_first(module: nn.MultiheadAttention, tensor: Tensor) -> Tensor:
    if tensor.dim() == 2:
        return tensor[None]
    return tensor if module.batch_first else tensor.transpose(0, 1)


def _values(module: nn.MultiheadAttention, source: Tensor) -> Tensor:
    """The projected values of a layer, (B, H, S, E), with those that it appends."""
    packed = module.in_proj_weight
    weight = module.v_proj_weight if packed is None else packed.chunk(3)[2]
    bias = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[2]
    value = F.linear(source, weight, bias)
    if module.bias_v is not None:
        value = torch.cat((value, module.bias_v.expand(len(value), -1, -1)), dim=1)
    if module.add_zero_attn:
        value = F.pad(value, (0, 0, 0, 1))
    return split_heads(value, module.num_heads)


def _given(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    given = inspect.signature(type(module).forward).bind(module, *arguments, **named)
    given.apply_defaults()
    return given.arguments


def _tracing_attention(interception: Interception, address: str) -> Around:
    def around(forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        interception.traced.append((address, ATTENTION, arguments, named))
        interception.running.append(None)  # the listener has been called for what it calls
        try:
            return forward(*arguments, **named)
        finally:
            interception.running.pop()

    return around


def _tracing_layer(interception: Interception, address: str) -> Around:
    def around(forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        before = len(interception.traced)
        output = forward(*arguments, **named)
        if len(interception.traced) == before:
            interception.traced.append((address, LAYER, arguments, named))
        return output

    return around


@contextlib.contextmanager
def without_interceptions() -> Iterator[None]:
    """Inside the block no interception is among this thread's function modes but those that close the fused paths."""
    before: list[TorchFunctionMode] = _get_current_function_mode_stack()
    kept = [mode for mode in before if not (isinstance(mode, Interception) and mode.fused)]
    _exchange(before, kept)
    try:
        yield
    finally:
        _exchange(kept, before)


def _exchange(old: list[TorchFunctionMode], new: list[TorchFunctionMode]) -> None:
    for _ in old:
        _pop_mode()
    for mode in new:
        _push_mode(mode)


def _stock(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module runs the very forward pass of one of torch's own layers."""
    return isinstance(module, kind) and type(module).forward is kind.forward


def _stock_attention(layer: Any) -> bool:
    block = nn.TransformerEncoderLayer._sa_block
    return type(layer)._sa_block is block and _stock(layer.self_attn, nn.MultiheadAttention)


def _laid_side_by_side(nested: Tensor, length: int | None) -> tuple[Tensor, Tensor]:
    """A nested batch as (B, S, D), and which places are padding, (B, S)."""
    sizes = [row.shape[0] for row in nested.unbind()]
    longest = max(sizes) if length is None else length
    padded = nested.to_padded_tensor(0.0, (len(sizes), longest, nested.size(2)))
    places = torch.arange(longest, device=padded.device)
    return padded, places[None] >= torch.tensor(sizes, device=padded.device)[:, None]
