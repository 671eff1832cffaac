"""A language model of GPT's family for inference: a decoding step, or the reading of a text, is one call of a compiled kernel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import BatchInvariant, KeysValues, KVCache, Packed
from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.layers import CausalTransformer, GreedySteps, PositionedEmbedding, Reduction, Tokens
from regard.layers.causal import CausalState, Entered
from regard.quantization.greedy import greedy, most_steps
from regard.quantization.inference import POSITIONS, InferenceEmbedding, InferenceOnly, table_dtype, unlike_heads
from regard.quantization.invariance import set_batch_invariant
from regard.quantization.linear import Precision, check_precision, inference_copy, linear_for
from regard.quantization.memory import LargePages
from regard.quantization.stack import (
    SharedRows,
    StackKernel,
    block_pasts,
    must_be_called,
    unsupported_in,
    unsupported_place,
    visible_columns,
    visible_ranges,
)

COMPUTED = (
    "forward",
    "hidden",
    "read",
    "prefill",
    "step",
    "logits",
    "_entered",
    "_through",
    "_normed",
    "_mask",
    "_rule",
)
"""Methods in which `InferenceDecoder` replaces a model or agrees with `CausalTransformer`; `output_map` may differ."""


class InferenceDecoder(InferenceOnly, CausalTransformer):
    """A decoder of ordinary blocks for inference; its outputs are those of the model it was made from, up to rounding.

    Weights are rounded as in `QuantizedWeights`; before an int8 or int4 product the kernel rounds activations to int8 in groups
    of 32, before one in bfloat16 to bfloat16 where the processor multiplies it (AVX512-BF16). The KV cache is bfloat16, or
    float32 with float32 weights. With a C++ compiler, kernels are built for this machine's processor at the first use
    (`regard.kernels`), and a row's outputs are bit for bit the same alone and in any batch, also while the prompt
    is read, and where `reads_by_kernel` also read at once or in parts. Modules with hooks are called themselves, block by block,
    and then numbers agree up to rounding. Without a compiler, `slow` says so, and PyTorch computes the same in bfloat16, with no
    gain in speed.

    Arguments:
        model: of GPT's family, on the CPU; it is not kept.
        precision: `int8`, `int4`, `bfloat16` or `float32`.
        compiled: the kernels; None to build them.

    Raises:
        InputError: for a model that `unsupported_decoder` names a reason against.

    >>> from regard.models import GPT2, GPT2Config
    >>> model = GPT2(GPT2Config(vocabulary=9, width=32, heads=1, feedforward_width=64, layers=1, maximum_positions=6)).eval()
    >>> decoder = InferenceDecoder(model, "int8")
    >>> (decoder(Tokens.pad([[0, 4, 5]])) - model(Tokens.pad([[0, 4, 5]]))).abs().max().item() < 0.05
    True
    """

    all_attention_in_layers: bool = True

    reads_by_kernel: bool
    """Whether texts are read by the kernel of decoding steps: where it is as fast as PyTorch. Then a text has the same bits read
    at once, in parts or token by token."""

    def __init__(self, model: CausalTransformer, precision: Precision, *, compiled: Kernels | None = None) -> None:
        precision = check_precision(precision)
        why = unsupported_decoder(model)
        if why:
            raise InputError(f"{precision}: the model cannot be prepared: {why}; use float32 or bfloat16")
        built, memory = kernels() if compiled is None else compiled, LargePages()
        super().__init__(
            model.config,
            embedding=InferenceEmbedding(model.embedding, table_dtype(precision)),  # type: ignore[arg-type]
            layers=list(inference_copy(model.layers, precision, built, memory=memory)),
            norm=inference_copy(model.norm, precision, built),
            sliding_windows=model.sliding_windows,
        )
        self.output = linear_for(*model.output_map(), precision, built, memory)
        self._prepare(precision, built)

    def _find_kernel(self, built: Kernels) -> None:
        super()._find_kernel(built)
        fast = {32: built.reads_float32, 16: built.reads_bfloat16}
        self.reads_by_kernel = self.kernel is not None and fast.get(self.kernel.structs[0].query.bits, True)
        set_batch_invariant(self, self.batch_invariant_steps)
        super()._find_kernel(built)  # which remembers the parts as they are now

    def _parts(self) -> tuple[Sequence[Any], nn.Module, nn.Module]:
        return list(self.layers), self.norm, self.output  # type: ignore[return-value]

    def forward(self, tokens: Tokens, *, reduce: Reduction | None = None) -> Any:
        """As `CausalTransformer`, but without `reduce`, which is for training.

        Raises:
            InputError: with `reduce`, and for a text longer than the model's maximum.
        """
        if reduce is not None:
            self._refuse()
        return super().forward(tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) to (..., V) float32."""
        with self._by_rows():
            return self.output(hidden)

    @property
    def batch_invariant_steps(self) -> bool:
        """Whether a step's logits are bit for bit the same alone and in any batch: true where a kernel computes them."""
        return self.kernel is not None and self.kernel.head is not None

    def _by_rows(self) -> AbstractContextManager[object]:
        """Makes reading block by block batch-invariant where decoding steps are.

        The modules do so themselves (`set_batch_invariant`); where some may have been replaced, a mode around all of them does.
        """
        kernel = self.kernel
        by_parts = kernel is None or kernel.head is None or kernel.untouched
        return nullcontext() if by_parts else BatchInvariant()

    def step(self, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """As `CausalTransformer`; in one call of the kernel unless the blocks have hooks."""
        kernel = self._ready()
        return super().step(tokens, state) if kernel is None else self._step_by_kernel(kernel, tokens, state)

    def step_through(self, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """As `LeftToRight`; in one call of the kernel, and the same to the bit as one `step` after another."""
        kernel, (rows, count) = self._ready(), tokens.shape
        if kernel is None or count > self._steps_left(kernel, state):
            return super().step_through(tokens, state)
        present = state.cache.layers[0].lengthened(count)
        places = torch.arange(state.length, state.length + count).expand(rows, -1)
        x = self.embedding(tokens, places)
        seen = torch.stack([torch.zeros_like(places), places + 1], dim=-1).flatten(0, 1).int()
        found = kernel(
            x.flatten(0, 1),
            SharedRows(present),
            (seen,) * len(kernel.structs),
            positions=places.flatten(),
            width=count,
            logits=True,
        )
        return found.unflatten(0, (rows, count)), _grown(state, present, count)

    def _entry(self) -> nn.Module:
        return self.embedding

    def greedy_steps(
        self, tokens: Tensor, state: CausalState, *, most: int, forbidden: Sequence[int], ends: Sequence[int]
    ) -> GreedySteps[CausalState] | None:
        """As `LeftToRight`: all in one call of the kernel, so that nothing is asked of Python between two tokens.

        Texts of different lengths, and steps beyond a sliding window, are made one by one.
        """
        kernel, table = self._ready(), self.embedding
        if kernel is None or kernel.head is None or "step" in self.__dict__:
            return None
        if not isinstance(table, InferenceEmbedding) or any(map(must_be_called, table.modules())):
            return None
        steps = min(most, most_steps(kernel, len(tokens)), self._steps_left(kernel, state))
        known = all(0 <= token < len(table.tokens.weight) for token in tokens.tolist())
        if steps < 1 or not known or not all(0 <= token < kernel.head.real for token in forbidden):
            return None  # the step says what is wrong
        present = state.cache.layers[0].lengthened(steps)
        made, logits = greedy(kernel, tokens, present, table, steps, forbidden=forbidden, ends=ends)
        return GreedySteps(made, logits, _grown(state, present.rewound(state.length + len(made)), len(made)))

    def _ready(self) -> StackKernel | None:
        """The kernel that computes decoding steps up to their logits; None where there is none, or blocks have changed since."""
        kernel = self.kernel
        return kernel if kernel is not None and kernel.head is not None and kernel.untouched else None

    def _step_by_kernel(self, kernel: StackKernel, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        if self._steps_left(kernel, state):
            return self._plain_step(kernel, tokens, state)
        ids = tokens.unsqueeze(1)
        entered = self._entered(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), state)
        present = self._lengthened(entered, state.cache.layers)
        found, after = self._by_kernel(kernel, entered, present, logits=True), entered.after
        return found, replace(after, cache=after.cache.filled((present,)))

    def _steps_left(self, kernel: StackKernel, state: CausalState) -> int:
        """The number of next tokens that attend to all before them in their text; 0 where texts have different lengths."""
        if state.width != 1 or state.lengths is not None or state.cache.seen is not None or not state.cache.layers:
            return 0
        limits = (*self.sliding_windows, self.maximum_length, kernel.positions)
        return max(0, min((limit - state.length for limit in limits if limit is not None), default=sys.maxsize))

    def _plain_step(self, kernel: StackKernel, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """The same as `_entered` and `_by_kernel` for such texts, without masks and tables of positions."""
        positions = torch.full(tokens.shape, state.length)
        x = self.embedding(tokens.unsqueeze(1), positions.unsqueeze(1))
        present = state.cache.layers[0].lengthened(1)
        visible = (None,) * len(kernel.structs)
        found = kernel(x.flatten(0, 1), SharedRows(present), visible, positions=positions, logits=True)
        return found, _grown(state, present, 1)

    def _through(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """As `CausalStack`, with the keys and values of all blocks in one tensor; by the kernel unless the blocks have hooks."""
        x = entered.x
        if x.requires_grad and torch.is_grad_enabled():
            return self._followed(entered, past)
        present = self._lengthened(entered, past)
        by_step = x.shape[1] == entered.after.width and not any(isinstance(mask, Packed) for mask in entered.masks)
        kernel = self._fast() if by_step or self.reads_by_kernel else None
        if kernel is not None and x.shape[1]:
            return self._by_kernel(kernel, entered, present, logits=False).view_as(x), (present,)
        before = present.crop(present.key.shape[2] - x.shape[1])
        with self._by_rows():
            return super()._through(entered, block_pasts(before, present, len(self.layers)))[0], (present,)

    def _normed(self, x: Tensor) -> Tensor:
        kernel = self._ready()
        if kernel is None or (x.requires_grad and torch.is_grad_enabled()):
            return self.norm(x)
        return kernel.normalised(x)

    def _followed(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """As `_through`, block by block without writing in place, so that gradients flow back to the tokens' vectors."""
        before = None
        if past:
            parts = (part.float().chunk(len(self.layers), dim=1) for part in (past[0].key, past[0].value))
            before = tuple(KeysValues(key, value) for key, value in zip(*parts, strict=True))
        x, layers = super()._through(entered, before)
        keys, values = (
            torch.cat(part, dim=1).detach().to(self.cache_dtype)
            for part in ([layer.key for layer in layers], [layer.value for layer in layers])
        )
        return x, (KeysValues(keys, values),)

    def _lengthened(self, entered: Entered, past: Sequence[KeysValues] | None) -> KeysValues:
        """Keys and values of all blocks, with columns for the new tokens."""
        rows, slots = entered.x.shape[:2]
        return (past[0] if past else self._nothing(rows)).lengthened(slots)

    def _by_kernel(self, kernel: StackKernel, entered: Entered, present: KeysValues, *, logits: bool) -> Tensor:
        """The output (N, D) of all blocks for the new tokens, or their logits (N, V)."""
        x, columns = entered.x, present.key.shape[2]
        layout = visible_columns if x.shape[1] == entered.after.width else visible_ranges
        seen = {id(mask): layout(mask, x, columns) for mask in entered.masks if mask is not None}
        visible = [None if mask is None else seen[id(mask)] for mask in entered.masks]
        positions = entered.positions.queries.expand(len(x), -1).flatten().contiguous()
        held = SharedRows(present)
        return kernel(x.flatten(0, 1), held, visible, positions=positions, width=x.shape[1], logits=logits)

    def _nothing(self, rows: int) -> KeysValues:
        """Keys and values of all blocks before the first token."""
        attention: Any = self.layers[0].attention
        width = attention.key.out_features // attention.key_heads
        none = torch.empty(rows, len(self.layers) * attention.key_heads, 0, width, dtype=self.cache_dtype)
        return KeysValues(none, none)


def _grown(state: CausalState, present: KeysValues, steps: int) -> CausalState:
    """The state after so many steps, of which `present` has the keys and values."""
    cache = state.cache
    grown = KVCache((present,), (*cache.widths, *(1,) * steps), capacity=cache.capacity)
    return state.advanced(steps=steps, cache=grown)


def unsupported_decoder(model: nn.Module) -> str:
    """Why a model cannot become an `InferenceDecoder`, as half a sentence; empty where it can."""
    if not isinstance(model, CausalTransformer) or isinstance(model, InferenceDecoder):
        return f"a {type(model).__name__} is no decoder of GPT's family"
    own = next((name for name in COMPUTED if getattr(type(model), name) is not getattr(CausalTransformer, name)), None)
    if own is not None:
        return f"a {type(model).__name__} has a `{own}` of its own"
    if type(model.embedding) is not PositionedEmbedding or type(model.embedding.positions) not in POSITIONS:
        return "its positions are not added to its tokens"
    if type(model.embedding.norm) is not nn.Identity:
        return "its embeddings are normed"
    return (
        unsupported_place(model)
        or next(filter(None, map(unsupported_in, model.layers)), "")
        or unlike_heads(model.layers)
    )
