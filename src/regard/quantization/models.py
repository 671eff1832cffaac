"""Models for inference on a CPU, with ordinary blocks and int8, int4, bfloat16 or float32 weights.

`quantized` makes an `InferenceDecoder` from a language model of GPT's family, an `InferenceTransformer` from an encoder-decoder
Transformer, and from an encoder or a recurrent encoder-decoder a model of the same class. Inspection, ablation and patching work
as in any model. Without hooks, the first two compute a decoding step in one call of a compiled kernel (`StackKernel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.attention import (
    AttentionInputs,
    KeysValues,
    KVBuffer,
    KVCache,
    Padding,
)
from regard.attention.positions import check_length
from regard.errors import InputError
from regard.kernels import Kernels, kernels
from regard.layers import (
    CACHE,
    LAST_STEP,
    SOURCE,
    CausalTransformer,
    DecoderState,
    PositionedEmbedding,
    TextEncoder,
    Tokens,
)
from regard.layers.padding import in_row
from regard.layers.state import side_by_side
from regard.models.encoder_decoder import RecurrentEncoderDecoder, TransformerState
from regard.models.transformer import Transformer, TransformerDecoder, TransformerEncoder
from regard.quantization.decoder import InferenceDecoder, unsupported_decoder
from regard.quantization.encoder import quantized_encoder
from regard.quantization.inference import POSITIONS, InferenceEmbedding, InferenceOnly, table_dtype, unlike_heads
from regard.quantization.linear import (
    Precision,
    QuantizedPrecision,
    check_precision,
    inference_copy,
    linear_for,
)
from regard.quantization.memory import LargePages
from regard.quantization.recurrent import quantized_recurrent
from regard.quantization.stack import (
    SharedRows,
    SourceRead,
    StackKernel,
    block_pasts,
    must_be_called,
    unsupported_in,
    unsupported_place,
)

M = TypeVar("M", bound=nn.Module)


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

    def _find_kernel(self, built: Kernels) -> None:
        super()._find_kernel(built)
        self.reader = StackKernel.of(list(self.encoder.layers), self.encoder.norm, nn.Identity(), built)  # type: ignore[arg-type]

    def encoded(self, source: Tokens) -> Tensor:
        """As `Transformer`; by the kernel, and with zeros at padding, where the encoder has no hooks and was not changed."""
        reader = self.reader
        if reader is None or not reader.untouched or any(map(must_be_called, self.encoder.modules())):
            return super().encoded(source)
        check_length(source.ids.shape[1], self.config.maximum_positions, "source")
        ids, places = in_row(source)
        lengths = source.valid.sum(dim=1)
        ends = lengths.cumsum(dim=0)
        spans = torch.stack([ends - lengths, ends], dim=1).repeat_interleave(lengths, dim=0).int()
        x = self.encoder.embedding(ids, places)[0]
        y = x.new_zeros(*source.ids.shape, x.shape[1])
        y[source.valid] = self.encoder.norm(reader.read(x, spans, places[0].contiguous()))
        return y

    def _entry(self) -> nn.Module:
        return self.decoder.embedding  # type: ignore[return-value]

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
        kernel = self._fast()
        return self._step_by_blocks(tokens, state) if kernel is None else self._step_by_kernel(kernel, tokens, state)

    def _step_by_kernel(
        self, kernel: StackKernel, tokens: Tensor, state: InferenceState
    ) -> tuple[Tensor, InferenceState]:
        check_length(state.longest + 1, self.config.maximum_positions, "target")
        past = state.cache.layers[0] if state.cache.layers else self._nothing(state)
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

    def _step_by_blocks(self, tokens: Tensor, state: InferenceState) -> tuple[Tensor, InferenceState]:
        """The same step through the ordinary blocks, whose hooks then run."""
        check_length(state.longest + 1, self.config.maximum_positions, "target")
        past = state.cache.layers[0] if state.cache.layers else self._nothing(state)
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
    embedding = InferenceEmbedding(stack.embedding, table_dtype(precision))
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
        unsupported_place(model)
        or next(filter(None, map(unsupported_in, blocks)), "")
        or unlike_heads(model.decoder.layers)
    )


def quantized(model: M, precision: QuantizedPrecision, *, compiled: Kernels | None = None) -> M:
    """A model with int8 or int4 weights, for inference on a CPU; the given model is not changed.

    Arguments:
        model: a language model of GPT's family, a `Transformer`, a recurrent encoder-decoder, or a text encoder.
        precision: `int8` or `int4`.
        compiled: the kernels; None to build them.

    Returns:
        An `InferenceDecoder`, an `InferenceTransformer`, or a model of the same class.

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
    elif isinstance(model, RecurrentEncoderDecoder):
        made = quantized_recurrent(model, precision, compiled=compiled)
    elif isinstance(model, CausalTransformer):
        made = InferenceDecoder(model, precision, compiled=compiled)
    else:
        made = InferenceTransformer(model, precision, compiled=compiled)  # type: ignore[arg-type]
    return made


def for_inference(model: nn.Module, precision: Literal["float32", "bfloat16"]) -> nn.Module | None:
    """The model in compiled kernels, without quantization, where these are faster on this processor; else None.

    The result is an `InferenceDecoder` or an `InferenceTransformer`, whose outputs are those of the model up to rounding.

    Arguments:
        model: any; it does not change.
        precision: of the weights.
    """
    built = kernels()
    made: InferenceOnly | None = None
    if isinstance(model, CausalTransformer) and not unsupported_decoder(model):
        made = InferenceDecoder(model, precision, compiled=built)
    # A step of a beam has a row for each hypothesis, so products of many rows decide.
    many_rows = built.reads_float32 if precision == "float32" else built.reads_bfloat16
    if many_rows and isinstance(model, Transformer) and not unsupported_transformer(model):
        made = InferenceTransformer(model, precision, compiled=built)
    return made if made is not None and made.kernel is not None else None
