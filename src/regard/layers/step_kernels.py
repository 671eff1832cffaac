"""Kernels that run all steps of a recurrent layer in training: when one can be called, and the call.

Step by step PyTorch computes dozens of small operations, forwards and backwards, and a product of few rows for the gradient of
each matrix. A kernel takes each row of the batch through all steps; the gradient of a matrix is then one product over all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, Score, ScoredAttention, Soft
from regard.kernels import kernels
from regard.kernels.building import has_matrix_tiles
from regard.kernels.interface import LinearStruct
from regard.layers.padding import has_hooks

GROUP = 32
"""The kernels' widths are multiples of it; others are filled up with zeros, at which a state stays zero."""

LEAST_ROWS = 8
"""Rows for each thread: with fewer, products wait for their weights."""


def fits(module: nn.Module, x: Tensor) -> bool:
    """Whether a kernel computes the steps of a module: in training on a processor, where nobody changes a part of it.

    Arguments:
        module: whose steps they are.
        x: what it reads.
    """
    if not module.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if x.device.type != "cpu" or not x.numel() or kernels().library is None:
        return False
    if any(parameter.dtype != torch.float32 for parameter in module.parameters()):
        return False
    if torch.is_autocast_enabled("cpu") and (torch.get_autocast_dtype("cpu") != torch.bfloat16 or has_matrix_tiles()):
        return False
    return not any(map(has_hooks, module.modules()))


def in_bfloat16() -> bool:
    """Whether autocast has products of bfloat16."""
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


def steps_shown(module: nn.Module, steps: Callable[[], object]) -> Callable[[], None]:
    """A function to call after the kernel: it runs the steps one by one for a recorder of attention, if there is one.

    The results of training are those of the kernel, recorded or not. This is called before the kernel, so that the steps sample
    the same random numbers.

    Arguments:
        module: whose steps they are.
        steps: runs them.
    """
    if not any("forward" in part.__dict__ for part in module.modules()):
        return lambda: None
    random = torch.get_rng_state()

    def again() -> None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.set_rng_state(random)
            steps()

    return again


def attends_by(layer: AttentionLayer, score: type[Score]) -> bool:
    """Whether a layer attends by such scores and their softmax to values as they are, and does nothing else."""
    mechanism = layer.attention
    return (
        type(layer) is AttentionLayer
        and type(mechanism) is ScoredAttention
        and type(mechanism.score) is score
        and type(mechanism.alignment) is Soft
        and not mechanism.dropout
        and layer.heads == layer.key_heads == 1
        and all(type(part) is nn.Identity for part in (layer.value, layer.output))
        and layer.rotary is layer.query_norm is layer.key_norm is None
    )


def are_plain(*layers: nn.Module) -> bool:
    """Whether all are linear layers as PyTorch makes them."""
    return all(type(layer) is nn.Linear for layer in layers)


def filled(x: Tensor, dim: int) -> Tensor:
    """With zeros behind, to a multiple of `GROUP`."""
    missing = -x.shape[dim] % GROUP
    return x if not missing else F.pad(x, (0, 0) * (-dim - 1) + (0, missing))


class Call:
    """A call of a kernel; it holds the tensors in memory to which its structs point.

    Arguments:
        low: whether products are in bfloat16.
        rows: of the batch.
    """

    def __init__(self, low: bool, rows: int) -> None:
        self.low = low
        self.threads = max(1, min(torch.get_num_threads(), rows // LEAST_ROWS))
        self._held: list[Any] = []

    @overload
    def place(self, x: Tensor) -> int: ...
    @overload
    def place(self, x: Tensor | None) -> int | None: ...
    def place(self, x: Tensor | None) -> int | None:
        """Where the numbers of a tensor are, one after another; None for None."""
        if x is None:
            return None
        self._held.append(x.contiguous())
        return self._held[-1].data_ptr()

    def linear(self, weight: Tensor | None, bias: Tensor | None = None) -> LinearStruct:
        """A matrix (outputs, inputs) with a bias, or zeros; no matrix for None."""
        if weight is None:
            return LinearStruct()
        (outputs, inputs), bits = weight.shape, 16 if self.low else 32
        bias = torch.zeros(outputs) if bias is None else bias
        return LinearStruct(outputs, inputs, bits, 0, self.place(self.rounded(weight)), None, self.place(bias))

    def both(
        self, weight: Tensor | None, bias: Tensor | None = None, *, back: bool
    ) -> tuple[LinearStruct, LinearStruct]:
        """A matrix, and transposed for the way back; of the one that a direction does not use, the sizes alone."""
        if weight is None:
            return LinearStruct(), LinearStruct()
        sizes = (*weight.shape, 0, 0, None, None, None)
        if back:
            return LinearStruct(*sizes), self.linear(weight.t())
        return self.linear(weight, bias), LinearStruct()

    def structs(self, structs: Sequence[ctypes.Structure]) -> int:
        """Where structs are, one after another."""
        self._held.append((type(structs[0]) * len(structs))(*structs))
        return ctypes.addressof(self._held[-1])

    def run(self, name: str, struct: Any, *more: Any) -> None:
        """Call a function of the library with its structs: of inputs, of intermediate results, of gradients."""
        library: Any = kernels().library
        scratch = torch.empty(
            getattr(library, f"{name.removesuffix('_gradient')}_scratch")(struct, self.threads), dtype=torch.uint8
        )
        getattr(library, name)(struct, *more, self.threads, scratch.data_ptr())

    def rounded(self, x: Tensor) -> Tensor:
        """In the dtype of products."""
        return x.bfloat16() if self.low else x

    def gradient(self, upstream: Tensor, x: Tensor) -> Tensor:
        """The gradient (outputs, inputs) of a matrix, of (L, B, outputs) and (L, B, inputs), in float32."""
        return (self.rounded(upstream).flatten(0, 1).t() @ self.rounded(x).flatten(0, 1)).float()


def places_of(struct: type[Any], *tensors: Tensor) -> Any:
    """A struct of where the numbers of contiguous tensors are."""
    return struct(*(x.data_ptr() for x in tensors))
