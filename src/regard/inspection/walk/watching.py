"""What one attention layer was given and gave in a run of its model, kept by hooks that return nothing.

Tensors are copied: what the model does to them afterwards is no part of the walk, and they are few.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, AttentionInputs, AttentionLayer
from regard.attention.layer import Side
from regard.errors import InputError, nearest
from regard.inspection.view import is_layer
from regard.layers import PositionedEmbedding

Walked = AttentionLayer | Attention
"""What a walk goes through: a layer, or a mechanism that its model uses without one."""


def mechanism_of(part: Walked) -> Attention:
    """The mechanism of a layer, or the mechanism itself."""
    return part.attention if isinstance(part, AttentionLayer) else part


def sequences_of(part: Walked) -> tuple[Side, Side]:
    """What asks and what is looked at; a mechanism alone does not say, and both are what was read."""
    return part.sequences if isinstance(part, AttentionLayer) else ("source", "source")


@dataclass(slots=True, eq=False)
class Summed:
    """One call of an embedding with positions: its two terms and their sum, each (B, L, D)."""

    address: str
    content: Tensor
    position: Tensor
    total: Tensor


@dataclass(slots=True, eq=False)
class Seen:
    """What went through one attention layer while its model ran.

    Arguments:
        calls: inputs, values and output of the mechanism, one for each call: a recurrent decoder makes one for each step.
        queries: what `layer.query` read, one for each call, (B, L, D).
        keys: what `layer.key` read last, (B, S, D); None where it was not called.
        outputs: what `layer.output` gave, one for each call.
        embeddings: of the model, where they add positions.
        norms: what each norm of the model read and gave last, by address.
    """

    calls: list[tuple[AttentionInputs, Tensor, Tensor]] = field(default_factory=list)
    queries: list[Tensor] = field(default_factory=list)
    keys: Tensor | None = None
    outputs: list[Tensor] = field(default_factory=list)
    embeddings: list[Summed] = field(default_factory=list)
    norms: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the layer's projections were used once for each call, so that what they read belongs to it."""
        return len(self.queries) == len(self.calls) == len(self.outputs) and self.keys is not None

    def find(self, place: int) -> tuple[int, int]:
        """In which call the query at `place` was made, and its place there."""
        before = 0
        for number, (inputs, _, _) in enumerate(self.calls):
            count = inputs.shape[2]
            if place < before + count:
                return number, place - before
            before += count
        raise InputError(f"there is no query {place}; the layer was asked {before} times")


def layers_of(model: nn.Module) -> dict[str, Walked]:
    """Every attention layer of a model by its address, and every mechanism that is in none."""
    found: dict[str, Walked] = {}
    for name, part in model.named_modules():
        if isinstance(part, AttentionLayer | Attention) and not any(name.startswith(f"{other}.") for other in found):
            found[name] = part
    return found


def chosen_layer(model: nn.Module, address: str | None, within: str = "") -> tuple[str, Walked]:
    """The layer at an address; where None, the last in which what is written looks at what was read, else the last.

    Arguments:
        model: which has it.
        address: its name; of all layers where None.
        within: only of layers of this number or name, as in `--head 5.11`.

    Raises:
        InputError: for a model without attention, or an address that no layer has.
    """
    layers = layers_of(model)
    if not layers:
        raise InputError(
            "there is no attention in this model to walk through: no layer of regard.attention; choose a model that has some "
            "(regard look shows attention of torch's functions too)"
        )
    if within and not any(is_layer(name, within) for name in layers):
        raise InputError(f"there is no layer {within!r} among {', '.join(layers)}")
    if address is None:
        fitting = {name: layer for name, layer in layers.items() if is_layer(name, within)}
        between = [name for name, layer in fitting.items() if sequences_of(layer) == ("target", "source")]
        address = (between or list(fitting))[-1]
    if address not in layers:
        raise InputError(
            f"no attention layer is called {address!r}: {nearest(address, list(layers))} (there are {', '.join(layers)})"
        )
    if not is_layer(address, within):
        raise InputError(f"{address} is not of layer {within!r}; name the layer once, or name the same one")
    return address, layers[address]


@contextlib.contextmanager
def watching(model: nn.Module, layer: Walked) -> Iterator[Seen]:
    """Inside the block, what goes through one layer of a model is kept; the model runs as it would without."""
    seen = Seen()

    def called(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        inputs, value = arguments[0], arguments[1]
        record = {name: tensor.clone() for name, tensor in inputs.record.items()}
        inputs = replace(inputs, query=inputs.query.clone(), key=inputs.key.clone(), record=record)
        seen.calls.append((inputs, value.clone(), output.clone()))

    def asked(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.queries.append(arguments[0].clone())

    def held(_: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.keys = arguments[0].clone()

    def gave(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.outputs.append(output.clone())

    handles = [mechanism_of(layer).register_forward_hook(called)]
    if isinstance(layer, AttentionLayer):
        handles += [
            layer.query.register_forward_pre_hook(asked),
            layer.key.register_forward_pre_hook(held),
            layer.output.register_forward_hook(gave),
        ]
    for name, part in model.named_modules():
        # Under a norm what the embedding gives is no sum of the two.
        if isinstance(part, PositionedEmbedding) and type(part.norm) is nn.Identity:
            handles.append(part.register_forward_hook(_embedding(seen, name)))
        elif isinstance(part, nn.LayerNorm):
            handles.append(part.register_forward_hook(_norm(seen, name)))
    try:
        with torch.no_grad():
            yield seen
    finally:
        for handle in handles:
            handle.remove()


def _embedding(seen: Seen, address: str) -> Any:
    def hook(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        if isinstance(module, PositionedEmbedding):
            ids, positions = arguments
            content = module.tokens(ids) * module.scale
            position = module.positions(positions).to(content.dtype).expand_as(content)
            seen.embeddings.append(Summed(address, content, position, output.clone()))

    return hook


def _norm(seen: Seen, address: str) -> Any:
    def hook(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.norms[address] = (arguments[0].clone(), output.clone())

    return hook
