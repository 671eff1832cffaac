"""How the steps of training are computed: the number format, `torch.compile`, activation checkpointing, denormal numbers."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.errors import InputError
from regard.kernels import kernels
from regard.kernels.building import has_bfloat16_products, has_matrix_tiles
from regard.layers.blocks import Block

Precision = Literal["auto", "float32", "bfloat16"]

SLOW_BFLOAT16 = ", but this processor has no products in bfloat16: float32 is several times as fast"


def resolve(precision: Precision, device: torch.device) -> tuple[torch.dtype, str]:
    """The dtype of matrix products, and a sentence about the choice.

    `auto` is bfloat16 where the device multiplies it natively: on a processor with AVX512-BF16 or AMX, on a GPU from Ampere
    on. Parameters, optimiser state, losses and norms stay in float32 either way.
    """
    if precision == "bfloat16":
        slow = device.type == "cpu" and not has_bfloat16_products()
        return torch.bfloat16, f"bfloat16, as asked{SLOW_BFLOAT16 if slow else ''}"
    if precision == "float32":
        return torch.float32, "float32, as asked"
    if native_bfloat16(device):
        return torch.bfloat16, f"bfloat16, native on this {_called(device)}"
    return torch.float32, f"float32, this {_called(device)} has no native bfloat16"


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        capability = torch.backends.cpu.get_cpu_capability()
        supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        return capability.startswith("AVX512") and bool(supported is not None and supported())
    return False


def better_precision(precision: str, device: torch.device) -> str:
    """What to take instead of a precision for vectors of texts, as a sentence; empty where it has its use.

    >>> better_precision("bfloat16", torch.device("cpu"))
    ''
    """
    if precision != "int8" or not native_bfloat16(device):
        return ""
    if device.type == "cpu" and kernels().library is not None and not has_matrix_tiles():
        return ""
    return (
        "int8 is slower here than bfloat16, which this processor computes natively, and farther from float32: "
        "take bfloat16"
    )


def _called(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "processor"


def compiled(model: nn.Module, device: torch.device) -> str:
    """Compile a model in place, with dynamic shapes from the first step; returns a sentence for the user.

    On a processor PyTorch needs a C++ compiler for it. Without one the model stays as it is, and the sentence says so.
    """
    if device.type == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        return "training.compile needs a C++ compiler (g++ or clang++), and there is none: continuing without, slower"
    model.compile(dynamic=True)
    return "compiled by torch.compile, dynamic shapes; the first steps are slow"


def recompute_blocks(model: nn.Module) -> int:
    """Make each block keep its input alone for the backward pass, and compute the rest there again; in place.

    Memory for activations falls from all that is inside n blocks to n inputs and the inside of one; each block is computed
    forward twice (Chen et al. 2016, section 4). What is random inside is sampled again from the same state of the generators,
    and autocast is as it was, so loss and gradients are the same bit for bit. Without gradients nothing is different. As
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


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    """Inside, results smaller than 1.2e-38 in size are zero, where the processor can do that; afterwards all is as before.

    Where attention is sharp, its weights and their gradients underflow, and a processor takes many times as long for numbers that
    are neither zero nor normal: a step of a Transformer whose scores were not scaled took 1.12 s, and 0.22 s with them flushed.
    The setting is that of the calling thread, and of those that it starts.
    """
    before = _flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _flushed() -> bool:
    return bool(torch.full((1,), 1e-38).mul(0.1) == 0)
