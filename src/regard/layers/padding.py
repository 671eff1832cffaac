"""Training without padding on a processor: the real tokens of a batch in one row, and when that is faster.

Linear layers, norms and activations compute the row as it is; attention goes from text to text (`Unpadded`). Nothing
of the result depends on it but the last bits and, since fewer numbers are sampled, what dropout drops.
"""

from __future__ import annotations

from types import FunctionType

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer, Positions, positions_of
from regard.layers.tokens import Tokens

FULL = 7 / 8
"""The share of real tokens beyond which the few places of padding are computed with the others."""


def trains_without_padding(module: nn.Module, *batches: Tokens) -> bool:
    """Whether a module that can compute one row of tokens should, for these batches: in training, on a processor, with padding.

    Hooks inside the module would see the row instead of the batch, so with these the padding stays.
    """
    if not (module.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
        return False
    if any(batch.device.type != "cpu" for batch in batches):
        return False
    real, every = sum(int(batch.valid.sum()) for batch in batches), sum(batch.valid.numel() for batch in batches)
    return real <= FULL * every and not any(has_hooks(part) for part in module.modules() if part is not module)


def has_hooks(module: nn.Module) -> bool:
    """Whether somebody looks at what the module reads or writes, or changes it: by hooks, or a function around its `forward`.

    A recorder of attention reads rows too (`regard.inspection.hooks.around_forward`), and does not count.
    """
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    if any(map(len, hooks)):
        return True
    forward = module.__dict__.get("forward")  # a partial where activations are computed twice
    return isinstance(forward, FunctionType) and not getattr(forward, "reads_rows", bool)()


def lays_texts_out(*layers: AttentionLayer) -> bool:
    """Whether the attention of all these layers is the fused one, which lays out a row of texts as a batch."""
    return all(layer.attention.fuses_plainly for layer in layers)  # type: ignore[union-attr]


def in_row(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """The ids of the real tokens in one row, (1, T), and the position of each in its text, (1, T)."""
    real = tokens.valid
    return tokens.ids[real].unsqueeze(0), positions_of(real)[real].unsqueeze(0)


def positions_in_row(places: Tensor, of_keys: Tensor | None = None) -> Positions:
    """The positions (1, T) in their texts of tokens in one row, as queries; as keys too, or those of another sequence (1, S)."""
    keys = places if of_keys is None else of_keys
    return Positions(places.shape[1], keys.shape[1], of_queries=places, of_keys=keys, device=places.device)
