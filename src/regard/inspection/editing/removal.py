"""Models with parts taken out for good: attention heads, skip connections or feed-forward nets."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast, get_args

import torch
from torch import Tensor, nn

from regard.attention import AttentionLayer
from regard.errors import InputError
from regard.layers import NoSkip, Residual, TextEncoder
from regard.layers.blocks import Block
from regard.models.bert import heads_left
from regard.tasks.predictor import Predictor

M = TypeVar("M", bound=nn.Module)


def without_skips(module: M) -> M:
    """A copy whose sub-layers give their own output alone, and not their input with it (Dong et al. 2021, section 4).

    The parameters are those of the model, norms included; what it learnt, it learnt with the skip connections.

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
                setattr(part, name, _straight(child))
                found = True
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
    return copied


def _straight(residual: Residual) -> NoSkip:
    straight = NoSkip(before=residual.before, after=residual.after, dropout=residual.dropout.p)
    return straight.train(residual.training)


P = TypeVar("P", bound="Predictor[Any] | TextEncoder")


def prune(model: P, heads: Mapping[int, Sequence[int]]) -> P:
    """A model without some of its attention heads (Michel et al. 2019), smaller and faster by them; the one given stays as it is.

    It answers as the model does while `change` scales those heads by zero: a head's query, key and value are rows of three
    matrices, and what the layer makes of it columns of a fourth, and these are cut out. Which are gone stands in the config,
    `pruned_heads`, and is saved with it.

    Arguments:
        model: what `regard.load` gives of an encoder of texts, or such a model; of a pruned one more may be taken.
        heads: by layer, which of its heads, both from 0 and counted as before any was taken out.

    Returns:
        A predictor of the same task, or a model. A predictor's metrics are left out, for they were those of all heads.

    Raises:
        InputError: for a model that is no BERT or DistilBERT, a layer or head that it never had, or the last head of a layer.

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
    if not isinstance(model, TextEncoder):
        raise InputError(f"heads cannot be pruned from a {type(model).__name__}; give a BERT or a DistilBERT")
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
