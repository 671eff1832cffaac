"""Activation checkpointing: less memory for a second forward pass."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import InputError
from regard.layers.blocks import Block


def recompute_blocks(model: nn.Module) -> int:
    """Make each block keep its input alone for the backward pass, and compute the rest there again; in place.

    Memory for activations falls from all that is inside n blocks to n inputs and the inside of one; each block is computed
    forward twice (Chen et al. 2016, section 4). What is random inside is drawn again from the same state of the generators, and
    autocast is as it was, so loss and gradients are the same bit for bit. Without gradients nothing is different. As
    with `torch.compile`, names of parameters and what is saved stay as they are. To be called before a model is sharded, so
    that a block is gathered once for both.

    Returns:
        How many blocks there are.

    Raises:
        InputError: where the model has none.

    >>> from regard.models import GPT2, GPT2Config
    >>> recompute_blocks(GPT2(GPT2Config(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=3)))
    3
    """
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        raise InputError(
            f"training.activation_checkpointing: a {type(model).__name__} has no blocks that could be computed again; "
            "leave it out"
        )
    for block in blocks:
        # A partial of a bound method, not a closure: a copy of the model then calls the copy's blocks.
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return len(blocks)
