"""Models with parts taken out of all their blocks: the skip connections, or the feed-forward nets."""

from __future__ import annotations

import copy
from typing import TypeVar, get_args

from torch import nn

from regard.errors import InputError
from regard.layers import Residual, Straight
from regard.layers.blocks import Block

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
    'Straight'
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
        block.feedforward_residual = Straight(before=nn.Identity(), after=nn.Identity())
    return copied


def _straight(residual: Residual) -> Straight:
    straight = Straight(before=residual.before, after=residual.after, dropout=residual.dropout.p)
    return straight.train(residual.training)
