"""What models for inference share: weights that are not trained, an embedding, and which models can become one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention import (
    AttentionLayer,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
)
from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.layers import (
    PositionedEmbedding,
)
from regard.quantization.linear import (
    BITS,
    INFERENCE_ONLY,
    Precision,
    QuantizedLinear,
)
from regard.quantization.memory import LargePages
from regard.quantization.stack import (
    StackKernel,
    must_be_called,
)

POSITIONS = (SinusoidalPositions, LearnedPositions, NoPositions)
"""Position embeddings that are added to token embeddings."""


class InferenceOnly(nn.Module, ABC):
    """A model laid out for inference, which refuses training, saving and moving to a device."""

    precision: Precision
    slow: str
    """Why it is no faster than bfloat16, as a sentence; empty where it is faster."""
    kernel: StackKernel | None
    """The fast path of decoding steps; None where there is none."""
    step: Callable[[Tensor, Any], tuple[Tensor, Any]]

    def _prepare(self, precision: Precision, built: Kernels) -> None:
        """Set up the fast path; called when all modules are in place."""
        self.precision = precision
        self.slow = built.slowness(BITS[precision]) if precision in BITS else ""
        self.eval()
        self._find_kernel(built)

    def _find_kernel(self, built: Kernels) -> None:
        self.kernel = StackKernel.of(*self._parts(), built)

    @abstractmethod
    def _parts(self) -> tuple[Sequence[Any], nn.Module, nn.Module]:
        """What a decoding step goes through: the blocks, the norm after them, and the output layer."""

    @property
    def cache_dtype(self) -> torch.dtype:
        """The dtype of the KV cache: bfloat16 unless the weights are float32, since all of it is read again for every token."""
        return torch.float32 if self.precision == "float32" else torch.bfloat16

    def _fast(self) -> StackKernel | None:
        """The kernel; None without one, and where the blocks have hooks or were changed."""
        return self.kernel if self.kernel is not None and self.kernel.untouched else None

    def _ready(self) -> StackKernel | None:
        """The kernel that computes decoding steps; None where `step` does without."""
        return self._fast()

    @abstractmethod
    def _entry(self) -> nn.Module:
        """The embedding of the tokens of a decoding step."""

    def undisturbed(self) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
        """As `LeftToRight.undisturbed`: whether the blocks are as they were is asked here, and not before each step.

        Hooks are seen from the next step on, whoever registers them: each takes a number, of which there is one count.
        """
        kernel, hooks = self._ready(), RemovableHandle.next_id
        if kernel is None or "step" in self.__dict__ or any(map(must_be_called, self._entry().modules())):
            return self.step

        def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            if RemovableHandle.next_id != hooks:
                return self.step(tokens, state)
            return self._step_by_kernel(kernel, tokens, state)

        return step

    @abstractmethod
    def _step_by_kernel(self, kernel: StackKernel, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """As `step`, by a kernel that `_ready` returned."""

    def __getstate__(self) -> dict[str, Any]:
        """Copy the tensors: multiprocessing moves those that it sends, and the kernel holds their addresses.

        Each weight is copied separately: a tensor is pickled with the whole memory block that it is a view of, which holds many
        weights here.
        """
        memo: dict[int, Any] = {}
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.untyped_storage().nbytes() > tensor.nbytes:
                own = tensor.detach().clone()
                memo[id(tensor)] = nn.Parameter(own, requires_grad=False) if isinstance(tensor, nn.Parameter) else own
        return copy.deepcopy(
            {name: part for name, part in self.__dict__.items() if not isinstance(part, StackKernel)}, memo
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Another process loads its own kernels, or has none.
        built = Kernels(None) if self.slow else kernels()
        self.slow = self.slow or (built.slowness(BITS[self.precision]) if self.precision in BITS else "")
        memory = LargePages()
        for part in self.modules():
            if isinstance(part, QuantizedLinear):
                part.values = memory.keep(part.values)
                part.scales = None if part.scales is None else memory.keep(part.scales)
            elif isinstance(part, nn.Linear):
                part.weight.data = memory.keep(part.weight)
        self._find_kernel(built)

    def state_dict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: the weights before rounding are not kept.

        Raises:
            InputError: always.
        """
        self._refuse()

    def train(self, mode: bool = True) -> Self:
        """Refused, except for `train(False)`.

        Raises:
            InputError: where `mode` is true.
        """
        if mode:
            self._refuse()
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> NoReturn:
        raise InputError("a model with quantized weights cannot be moved or converted; it stays on the CPU")

    def _refuse(self) -> NoReturn:
        rounded = (
            f"rounded to {BITS[self.precision]} bits" if self.precision in BITS else f"laid out in {self.precision}"
        )
        raise InputError(INFERENCE_ONLY.format(weights=rounded))


class InferenceEmbedding(nn.Module):
    """Token embeddings plus position embeddings: learned ones are kept in a dtype, and the sum is float32.

    Arguments:
        embedding: the embedding to copy.
        dtype: bfloat16 or float32.
    """

    def __init__(self, embedding: PositionedEmbedding, dtype: torch.dtype) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(embedding.tokens.weight.detach().to(dtype, copy=True))
        positions = copy.deepcopy(embedding.positions).requires_grad_(False)
        self.positions = positions.to(dtype if isinstance(positions, LearnedPositions) else torch.float32)
        self.scale = embedding.scale

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, L) ids and (B, L) positions to (B, L, D) float32."""
        vectors = self.tokens(ids).float()
        scaled = vectors if self.scale == 1 else vectors * self.scale
        return scaled + self.positions(positions).float()


def table_dtype(precision: Precision) -> torch.dtype:
    """The dtype of embedding tables: float32 with float32 weights, else bfloat16."""
    return torch.float32 if precision == "float32" else torch.bfloat16


def unlike_heads(blocks: Iterable[Any]) -> str:
    """Why blocks cannot share one tensor for their keys and values, as half a sentence; empty where they can."""
    attentions = [layer for block in blocks for layer in block.children() if isinstance(layer, AttentionLayer)]
    shapes = {(layer.key_heads, layer.key.out_features, layer.value.out_features) for layer in attentions}
    alike = len(shapes) == 1 and all(keys == values for _, keys, values in shapes)
    return "" if alike else "its keys and values are not of one shape"
