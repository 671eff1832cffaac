"""Models for inference on a CPU, with ordinary blocks and int8, int4, bfloat16 or float32 weights.

`quantized` makes an `InferenceDecoder` from a language model of GPT's family, an `InferenceTransformer` from an encoder-decoder
Transformer, and from an encoder a model of the same class. Inspection, ablation and patching work as in any model. Without hooks,
the first two compute a decoding step in one call of a compiled kernel (`StackKernel`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention import (
    AttentionInputs,
    AttentionLayer,
    BatchInvariant,
    KeysValues,
    KVBuffer,
    KVCache,
    LearnedPositions,
    NoPositions,
    Packed,
    Padding,
    SinusoidalPositions,
)
from regard.attention.positions import check_length
from regard.errors import InputError
from regard.layers import (
    CACHE,
    LAST_STEP,
    SOURCE,
    CausalTransformer,
    DecoderState,
    PositionedEmbedding,
    Reduction,
    TextEncoder,
    Tokens,
)
from regard.layers.causal import CausalState, Entered
from regard.layers.state import side_by_side
from regard.models.encoder_decoder import TransformerState
from regard.models.transformer import Transformer, TransformerDecoder, TransformerEncoder
from regard.quantization.encoder import quantized_encoder
from regard.quantization.invariance import set_batch_invariant
from regard.quantization.linear import (
    BITS,
    INFERENCE_ONLY,
    Precision,
    QuantizedLinear,
    QuantizedPrecision,
    check_precision,
    inference_copy,
    linear_for,
)
from regard.quantization.memory import LargePages
from regard.quantization.native import Kernels, kernels
from regard.quantization.stack import (
    SharedRows,
    SourceRead,
    StackKernel,
    block_pasts,
    has_hooks,
    unsupported_in,
    unsupported_place,
    visible_columns,
)

M = TypeVar("M", bound=nn.Module)


class InferenceOnly(nn.Module, ABC):
    """A model laid out for inference, which refuses training, saving and moving to a device."""

    precision: Precision
    slow: str
    """Why it is no faster than bfloat16, as a sentence; empty where it is faster."""
    kernel: StackKernel | None
    """The fast path of decoding steps; None where there is none."""

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
        return copy.deepcopy({name: part for name, part in self.__dict__.items() if name != "kernel"}, memo)

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


COMPUTED = ("forward", "hidden", "read", "prefill", "step", "logits", "_entered", "_through", "_mask", "_rule")
"""Methods in which `InferenceDecoder` replaces a model or agrees with `CausalTransformer`; `output_map` may differ."""


class InferenceDecoder(InferenceOnly, CausalTransformer):
    """A decoder of ordinary blocks for inference; its outputs are those of the model it was made from, up to rounding.

    Weights are rounded as in `QuantizedWeights`; before an int8 or int4 product the kernel rounds activations to int8 in groups
    of 32. The KV cache is bfloat16, or float32 with float32 weights. With a C++ compiler, kernels are built for this machine's
    processor at the first use (`regard.quantization.native`), and a row's outputs are bit for bit the same alone and in any
    batch, also while the prompt is read. Without one, `slow` says so, and PyTorch computes the same in bfloat16, without a gain
    in speed.

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

    def __init__(self, model: CausalTransformer, precision: Precision, *, compiled: Kernels | None = None) -> None:
        precision = check_precision(precision)
        why = unsupported_decoder(model)
        if why:
            raise InputError(f"{precision}: the model cannot be prepared: {why}; use float32 or bfloat16")
        built, memory = kernels() if compiled is None else compiled, LargePages()
        super().__init__(
            model.config,
            embedding=InferenceEmbedding(model.embedding, _table_dtype(precision)),  # type: ignore[arg-type]
            layers=list(inference_copy(model.layers, precision, built, memory=memory)),
            norm=inference_copy(model.norm, precision, built),
            sliding_windows=model.sliding_windows,
        )
        self.output = linear_for(*model.output_map(), precision, built, memory)
        self._prepare(precision, built)

    def _find_kernel(self, built: Kernels) -> None:
        super()._find_kernel(built)
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
        kernel = self.kernel
        if kernel is None or kernel.head is None or not kernel.untouched:
            return super().step(tokens, state)
        return self._step_by_kernel(kernel, tokens, state)

    def undisturbed(self) -> Callable[[Tensor, CausalState], tuple[Tensor, CausalState]]:
        """As `LeftToRight.undisturbed`: whether the blocks are as they were is asked here, and not before each step.

        Hooks are seen from the next step on, whoever registers them: each takes a number, of which there is one count.
        """
        kernel, hooks = self.kernel, RemovableHandle.next_id
        own = "step" in self.__dict__ or any(map(has_hooks, self.embedding.modules()))
        if own or kernel is None or kernel.head is None or not kernel.untouched:
            return self.step

        def step(tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
            if RemovableHandle.next_id != hooks:
                return self.step(tokens, state)
            return self._step_by_kernel(kernel, tokens, state)

        return step

    def _step_by_kernel(self, kernel: StackKernel, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        if self._reads_all(state):
            return self._plain_step(kernel, tokens, state)
        ids = tokens.unsqueeze(1)
        entered = self._entered(Tokens(ids, torch.ones_like(ids, dtype=torch.bool), "nowhere"), state)
        present = self._lengthened(entered, state.cache.layers)
        found, after = self._by_kernel(kernel, entered, present, logits=True), entered.after
        return found, replace(after, cache=after.cache.filled((present,)))

    def _reads_all(self, state: CausalState) -> bool:
        """Whether all texts have the same length, and the next token of each attends to all tokens before it."""
        cache, slots, windows = state.cache, state.length + 1, self.sliding_windows
        return (
            state.width == 1
            and state.lengths is None
            and cache.seen is None
            and bool(cache.layers)
            and (not any(windows) or all(window is None or slots <= window for window in windows))
        )

    def _plain_step(self, kernel: StackKernel, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """The same as `_entered` and `_by_kernel` for such texts, without masks and tables of positions."""
        cache, slots = state.cache, state.length + 1
        if self.maximum_length is not None and slots > self.maximum_length:
            check_length(slots, self.maximum_length, "text")
        positions = torch.full(tokens.shape, state.length)
        x = self.embedding(tokens.unsqueeze(1), positions.unsqueeze(1))
        present = cache.layers[0].lengthened(1)
        visible = (None,) * len(kernel.structs)
        found = kernel(x.flatten(0, 1), SharedRows(present), visible, positions=positions, logits=True)
        grown = KVCache((present,), (*cache.widths, 1), capacity=cache.capacity)
        return found, state.advanced(cache=grown)

    def _through(self, entered: Entered, past: tuple[KeysValues, ...] | None) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """As `CausalStack`, with the keys and values of all blocks in one tensor; by the kernel unless the blocks have hooks."""
        x = entered.x
        present = self._lengthened(entered, past)
        # Packed texts go block by block whatever their lengths, so that a text of one token is no exception.
        by_token = x.shape[1] == entered.after.width and not any(isinstance(mask, Packed) for mask in entered.masks)
        kernel = self._fast() if by_token else None
        if kernel is not None:
            return self._by_kernel(kernel, entered, present, logits=False).view_as(x), (present,)
        before = present.crop(present.key.shape[2] - x.shape[1])
        with self._by_rows():
            return super()._through(entered, block_pasts(before, present, len(self.layers)))[0], (present,)

    def _lengthened(self, entered: Entered, past: Sequence[KeysValues] | None) -> KeysValues:
        """Keys and values of all blocks, with columns for the new tokens."""
        rows, slots = entered.x.shape[:2]
        return (past[0] if past else self._nothing(rows)).lengthened(slots)

    def _by_kernel(self, kernel: StackKernel, entered: Entered, present: KeysValues, *, logits: bool) -> Tensor:
        """The output (N, D) of all blocks for the new tokens, or their logits (N, V)."""
        x, columns = entered.x, present.key.shape[2]
        seen = {id(mask): visible_columns(mask, x, columns) for mask in entered.masks if mask is not None}
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


def _table_dtype(precision: Precision) -> torch.dtype:
    return torch.float32 if precision == "float32" else torch.bfloat16


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
        unsupported_place(model) or next(filter(None, map(unsupported_in, model.layers)), "") or _unlike(model.layers)
    )


def _unlike(blocks: Iterable[Any]) -> str:
    """Why blocks cannot share one tensor for their keys and values, as half a sentence; empty where they can."""
    attentions = [layer for block in blocks for layer in block.children() if isinstance(layer, AttentionLayer)]
    shapes = {(layer.key_heads, layer.key.out_features, layer.value.out_features) for layer in attentions}
    alike = len(shapes) == 1 and all(keys == values for _, keys, values in shapes)
    return "" if alike else "its keys and values are not of one shape"


POSITIONS = (SinusoidalPositions, LearnedPositions, NoPositions)


@dataclass(frozen=True, kw_only=True, eq=False)
class InferenceState(DecoderState):
    """N hypotheses for R of P sources that were read together, like `TransformerState`.

    Arguments:
        memory: keys and values of all P sources (P, blocks * H, S, E), those of the first block first. They are never moved.
        source_rows: (R,) int64, the index among the P of each source.
        cache: the generated tokens' keys and values, for each source those of all its hypotheses: one `SharedRows` of all blocks,
            (P, blocks * H, C, E).
        query: (N, H, E), the alignment block's last query over the source; None before the first step.
    """

    memory: KeysValues
    source_rows: Tensor = field(metadata=SOURCE)
    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        """As `DecoderState`, with each source's keys and values in its own row."""
        apart = [
            replace(state, cache=replace(state.cache, layers=tuple(part.copied() for part in state.cache.layers)))
            for state in states
        ]
        joined = super()._joined(apart)
        cache = replace(joined.cache, layers=tuple(SharedRows(part) for part in joined.cache.layers))
        memory = side_by_side([state.memory.select(state.source_rows) for state in states])
        return replace(
            joined,
            cache=cache,
            source_rows=torch.arange(len(joined.source_valid)),
            memory=memory.reserved(memory.key.shape[2]),  # the kernel needs a buffer
        )


class InferenceTransformer(InferenceOnly, Transformer):
    """A `Transformer` of ordinary blocks for inference; its outputs are those of the model it was made from, up to rounding.

    Weights, activations, keys and values are rounded as in `InferenceDecoder`, and kernels are built in the same way. All
    hypotheses take a step in one call, each over its own past; the keys and values of the source are never moved.

    Arguments:
        model: on the CPU; it is not kept.
        precision: `int8`, `int4`, `bfloat16` or `float32`.
        compiled: the kernels; None to build them.

    Raises:
        InputError: for a model that `unsupported_transformer` names a reason against.

    >>> from regard.models import TransformerConfig
    >>> sizes = {"width": 32, "heads": 1, "feedforward_width": 64, "encoder_layers": 1, "decoder_layers": 1}
    >>> model = Transformer(TransformerConfig(source_vocabulary=9, target_vocabulary=9, **sizes)).eval()
    >>> quantized = InferenceTransformer(model, "int8")
    >>> source, start = Tokens.pad([[3, 4, 5, 2]]), torch.tensor([1])
    >>> found, wanted = (each.step(start, each.start(source))[0] for each in (quantized, model))
    >>> (found - wanted).abs().max().item() < 0.1
    True
    """

    all_attention_in_layers: bool = True

    def __init__(self, model: Transformer, precision: Precision, *, compiled: Kernels | None = None) -> None:
        nn.Module.__init__(self)
        precision = check_precision(precision)
        why = unsupported_transformer(model)
        if why:
            raise InputError(f"{precision}: the model cannot be prepared: {why}; use float32 or bfloat16")
        built, memory = kernels() if compiled is None else compiled, LargePages()
        self.config = model.config
        self.encoder = TransformerEncoder(*_stack_parts(model.encoder, precision, built, memory))
        self.decoder = TransformerDecoder(*_stack_parts(model.decoder, precision, built, memory))
        bias = model.output.bias if model.output.ruled_out is None else model.output.ruled_out
        self.output = linear_for(model.output.weight, bias, precision, built, memory)  # type: ignore[assignment]
        self._prepare(precision, built)

    def _parts(self) -> tuple[Sequence[Any], nn.Module, nn.Module]:
        return list(self.decoder.layers), self.decoder.norm, self.output  # type: ignore[return-value]

    def start(self, source: Tokens) -> InferenceState:  # type: ignore[override]
        """Encode the source (B, S); returns the state before the first token."""
        layers = self.decoder.memory(self.encoded(source), source.places)
        rows, heads, length, width = layers[0].key.shape
        memory = torch.empty(2, rows, len(layers) * heads, length, width, dtype=self.cache_dtype)
        for index, layer in enumerate(layers):
            own = slice(index * heads, (index + 1) * heads)
            memory[0, :, own], memory[1, :, own] = layer.key, layer.value
        held = KeysValues(memory[0], memory[1], KVBuffer(memory, length))
        return InferenceState(source_valid=source.valid, memory=held, source_rows=torch.arange(rows))

    def step(self, tokens: Tensor, state: InferenceState) -> tuple[Tensor, InferenceState]:  # type: ignore[override]
        """Read the tokens (N,); return the logits (N, V) float32 of the next ones and the state after them.

        Raises:
            InputError: where no position is left.
        """
        check_length(state.longest + 1, self.config.maximum_positions, "target")
        past = state.cache.layers[0] if state.cache.layers else self._nothing(state)
        kernel = self._fast()
        if kernel is None:
            return self._step_by_blocks(tokens, state, past)
        places = state.places().flatten()
        x = self.decoder.embedded(tokens, places)
        cache = state.cache.extended(rows=state.rows, width=state.width, lengths=state.lengths)
        present = past.lengthened(state.width)
        block, attention = self._alignment_block()
        query = torch.empty(len(x), attention.heads, state.memory.key.shape[3])
        held = SharedRows(state.memory, state.source_rows)
        source = SourceRead(held, state.source_valid.contiguous(), block, query)
        seen = None if cache.seen is None else cache.seen.contiguous()
        visible = [seen] * len(self.decoder.layers)
        ends = kernel.head is not None
        y = kernel(x, present, visible, positions=places, width=state.width, source=source, logits=ends)
        after = state.advanced(cache=cache.filled([present]), query=query)
        return y if ends else self.logits(self.decoder.finished(y)), after

    def _step_by_blocks(self, tokens: Tensor, state: InferenceState, past: SharedRows) -> tuple[Tensor, InferenceState]:
        """The same step through the ordinary blocks, whose hooks then run."""
        count = len(self.decoder.layers)
        before = past.copied()
        present = before.lengthened(state.width)
        memory = state.memory.select(state.source_rows)
        parts = (part.float().chunk(count, dim=1) for part in (memory.key, memory.value))
        ordinary = TransformerState(
            length=state.length,
            width=state.width,
            lengths=state.lengths,
            source_valid=state.source_valid,
            memory=tuple(KeysValues(key, value) for key, value in zip(*parts, strict=True)),
            cache=replace(state.cache, layers=block_pasts(before, present, count)),
        )
        x, after, queries = self.decoder.step(tokens, ordinary)
        cache = replace(after.cache, layers=()).filled([SharedRows(present)])
        query = queries[self.config.alignment_layer].transpose(1, 2).flatten(0, 1)
        return self.logits(x), state.advanced(cache=cache, query=query)

    def alignment(self, state: InferenceState) -> Tensor:  # type: ignore[override]
        """The alignment block's last weights over the source, averaged over heads: (N, S) float32; zeros before a step."""
        if state.query is None:
            return state.no_alignment()
        block, attention = self._alignment_block()
        first = block * attention.key_heads
        keys = state.memory.key[state.source_rows, first : first + attention.key_heads].float()
        query = state.by_source(state.query).transpose(1, 2)
        inputs = AttentionInputs(query=query, key=keys, mask=Padding(state.source_valid))
        return attention.attention.weights(inputs).mean(dim=1).flatten(0, 1)

    def _alignment_block(self) -> tuple[int, Any]:
        """The index of the block whose cross-attention is the alignment, and that attention."""
        number = self.config.alignment_layer % len(self.decoder.layers)
        return number, self.decoder.layers[number].cross_attention

    def _nothing(self, state: InferenceState) -> SharedRows:
        """Keys and values of all blocks before the first token."""
        _, heads, _, width = state.memory.key.shape
        none = torch.empty(len(state.source_rows), heads, 0, width, dtype=self.cache_dtype)
        return SharedRows(KeysValues(none, none))


def _stack_parts(
    stack: Any, precision: Precision, built: Kernels, memory: LargePages
) -> tuple[Any, list[Any], nn.Module]:
    """Embedding, blocks and last norm of an encoder or decoder, copied for inference."""
    embedding = InferenceEmbedding(stack.embedding, _table_dtype(precision))
    layers = inference_copy(stack.layers, precision, built, memory=memory)
    return embedding, list(layers), inference_copy(stack.norm, precision, built)


def unsupported_transformer(model: nn.Module) -> str:
    """Why an encoder-decoder cannot become an `InferenceTransformer`, as half a sentence; empty where it can."""
    if type(model) is not Transformer:
        return f"a {type(model).__name__} is no Transformer with encoder and decoder"
    embeddings = (model.encoder.embedding, model.decoder.embedding)
    if any(type(part) is not PositionedEmbedding or type(part.positions) not in POSITIONS for part in embeddings):
        return "its positions are not added to its tokens"
    if any(type(part.norm) is not nn.Identity for part in embeddings):
        return "its embeddings are normed"
    blocks = (*model.encoder.layers, *model.decoder.layers)
    return (
        unsupported_place(model) or next(filter(None, map(unsupported_in, blocks)), "") or _unlike(model.decoder.layers)
    )


def quantized(model: M, precision: QuantizedPrecision, *, compiled: Kernels | None = None) -> M:
    """A model with int8 or int4 weights, for inference on a CPU; the given model is not changed.

    Arguments:
        model: a language model of GPT's family, a `Transformer`, or a text encoder.
        precision: `int8` or `int4`.
        compiled: the kernels; None to build them.

    Returns:
        An `InferenceDecoder`, an `InferenceTransformer`, or an encoder of the same class.

    Raises:
        InputError: for a model of another kind, on another device, or with hooks.

    >>> from regard.models import Bert, BertConfig
    >>> model = quantized(Bert(BertConfig(vocabulary=9, width=8, heads=2, feedforward_width=16, layers=1)), "int4")
    >>> model.layers[0].attention.query
    QuantizedLinear(in_features=8, out_features=8, bias=True, bits=4)
    """
    made: Any
    if isinstance(model, TextEncoder):
        made = quantized_encoder(model, precision, compiled=compiled)
    elif isinstance(model, CausalTransformer):
        made = InferenceDecoder(model, precision, compiled=compiled)
    else:
        made = InferenceTransformer(model, precision, compiled=compiled)  # type: ignore[arg-type]
    return made
