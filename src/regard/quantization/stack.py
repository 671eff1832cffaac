"""The fast path of decoding steps and of reading: tokens through all blocks in one call of the compiled kernel.

`StackKernel` holds the addresses of the weights of ordinary blocks; it is used while these blocks have no hooks and are unchanged
(`Untouched`). The keys and values of all blocks are in one tensor (`SharedRows`), of which `block_pasts` gives each block its
part. `unsupported_in` names the reason why a block has no fast path.

Blocks may be GPT's or Llama's, or in between: layer norms or RMS norms, before or after a sub-layer; feed-forward networks with a
gate or without; as many key heads as query heads, or fewer; norms of each head's queries and keys; rotary positions for all
channels or the first ones; biases or none; sub-layers in sequence or in parallel. Windows and padding are given as masks.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Self

import torch
import torch.nn.modules.module as global_hooks
from torch import Tensor, nn

from regard.attention import AttentionLayer, KeysValues, Mask, Rotary, ScoredAttention
from regard.kernels import Kernels
from regard.kernels.interface import (
    BlockStruct,
    CacheStruct,
    HeadStruct,
    LinearStruct,
    NormStruct,
    Pointer,
    RotaryStruct,
)
from regard.layers import CausalBlock, DecoderBlock, EncoderBlock, FeedForward, GatedFeedForward, Residual
from regard.layers.blocks import Block
from regard.layers.padding import has_hooks
from regard.quantization.linear import AFTER_LINEAR, GROUP, LINEARS, UNIT, AfterLinear, QuantizedLinear, activation_name

KERNEL_HEAD = 32
"""The width of heads must be a multiple of this for the kernel."""


# Keys and values of all blocks in one tensor.


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Keys and values of the tokens generated for R sources, in a buffer with room for P sources or more.

    When a source leaves the search, its row stays in the buffer, so that nothing is copied.

    Arguments:
        held: (P, blocks * G, C, E), those of the first block first.
        rows: (R,) int64, the row of `held` of each source, all different; None where they are in order.

    >>> import torch
    >>> written = SharedRows(KeysValues(torch.arange(3.0).view(3, 1, 1, 1), torch.zeros(3, 1, 1, 1)))
    >>> fewer = written.select(torch.tensor([2, 0]))
    >>> fewer.held is written.held, fewer.copied().key.flatten().tolist()
    (True, [2.0, 0.0])
    """

    held: KeysValues
    rows: Tensor | None = None

    def select(self, rows: Tensor) -> SharedRows:
        """Those of some sources, in that order; a source that is selected twice gets its own row each time."""
        own = rows if self.rows is None else self.rows.index_select(0, rows)
        if len(own.unique()) < len(own):
            return SharedRows(self.held.select(own))
        return SharedRows(self.held, own.contiguous())

    def lengthened(self, more: int) -> SharedRows:
        """With room for `more` further columns."""
        return SharedRows(self.held.lengthened(more), self.rows)

    def reserved(self, columns: int) -> SharedRows:
        """With room for `columns` columns in total."""
        return SharedRows(self.held.reserved(columns), self.rows)

    def crop(self, columns: int) -> SharedRows:
        """The first columns."""
        return SharedRows(self.held.crop(columns), self.rows)

    def rewound(self, columns: int) -> SharedRows:
        """As `crop`, and the later columns are released, as in `KeysValues.rewound`."""
        return SharedRows(self.held.rewound(columns), self.rows)

    def copied(self) -> KeysValues:
        """(R, blocks * G, C, E), each source in its own row."""
        return self.held if self.rows is None else self.held.select(self.rows)

    def struct(self) -> CacheStruct:
        """The kernel's description of the cache; it points into these tensors, which must be in a buffer."""
        room = self.held.buffer
        if room is None:
            raise RuntimeError("the kernel was called without a buffer")
        rows = None if self.rows is None else self.rows.data_ptr()
        count, columns = room.memory.shape[1], self.held.key.shape[2]
        bits = 8 * room.memory.element_size()
        return CacheStruct(room.memory.data_ptr(), rows, count, room.capacity, columns, bits)


@dataclass(frozen=True, slots=True, eq=False)
class BlockPast(KeysValues):
    """One block's keys and values of earlier tokens; new ones are written into the tensor of all blocks.

    Arguments:
        present: the same, with columns for the new tokens.
    """

    present: KeysValues = field(kw_only=True)

    def extended(self, later: KeysValues) -> KeysValues:
        """Earlier and new keys and values in float32, rounded to the cache's dtype, as the kernel sees them."""
        before = self.key.shape[2]
        self.present.key[:, :, before:] = later.key
        self.present.value[:, :, before:] = later.value
        return KeysValues(self.present.key.float(), self.present.value.float())


def block_pasts(past: KeysValues, present: KeysValues, count: int) -> tuple[BlockPast, ...]:
    """Each block's past, from the keys and values (B, blocks * G, C, E) of all `count` blocks."""
    parts = (part.chunk(count, dim=1) for part in (past.key, past.value, present.key, present.value))
    return tuple(
        BlockPast(key, value, present=KeysValues(new_key, new_value))
        for key, value, new_key, new_value in zip(*parts, strict=True)
    )


# Whether blocks have hooks or were changed.

OUTSIDE = ("forward", "_compiled_call_impl")
"""Attributes that a module has where its calls are wrapped or it is compiled."""

SETTINGS = ("eps", "activation", "power", "parallel", "neighbours")
"""Attributes of modules that the kernel has copies of, and that may be set to something else."""


@dataclass(frozen=True, slots=True, eq=False)
class Untouched:
    """Whether modules still have the same parts, and have no hooks, wrappers or compiled calls.

    It is checked at every step except those of `InferenceDecoder.undisturbed`, for some hundred modules, so all loops run in C.

    Arguments:
        namespaces: of each module.
        empty: mappings that must stay empty: the hooks before and after the forward pass of each module, global hooks, and
            the submodules, parameters or buffers of modules that have none.
        contents: live views of each module's submodules, parameters and buffers, where it has any.
        objects: the contents at first, with a mark at the end.
        tensors: the parameters and buffers among them.
        kept: detached tensors that keep their memory allocated while the kernel may read it.
        places: their addresses, since `parameter.data = other` changes these under the same parameter.
        settings: namespaces with an attribute of `SETTINGS`, its name in each, and its value at first.
    """

    namespaces: tuple[dict[str, Any], ...]
    empty: tuple[Mapping[Any, Any], ...]
    contents: tuple[ValuesView[Any], ...]
    objects: tuple[Any, ...]
    tensors: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    places: tuple[int, ...]
    settings: tuple[tuple[dict[str, Any], ...], tuple[str, ...], tuple[Any, ...]]

    @classmethod
    def of(cls, modules: Sequence[nn.Module]) -> Self:
        """For these modules and all that they contain, as they are now."""
        every = list(dict.fromkeys(part for module in modules for part in module.modules()))
        held = [own for part in every for own in (part._modules, part._parameters, part._buffers)]
        contents = tuple(own.values() for own in held if own)
        objects = tuple(chain.from_iterable(contents))
        tensors = tuple(part for part in objects if isinstance(part, Tensor))
        found = [(part.__dict__, name) for part in every for name in SETTINGS if name in part.__dict__]
        return cls(
            tuple(part.__dict__ for part in every),
            (
                global_hooks._global_forward_hooks,
                global_hooks._global_forward_pre_hooks,
                *(hooks for part in every for hooks in (part._forward_hooks, part._forward_pre_hooks)),
                *(own for own in held if not own),
            ),
            contents,
            (*objects, MARK),
            tensors,
            tuple(map(Tensor.detach, tensors)),
            tuple(map(Tensor.data_ptr, tensors)),
            (
                tuple(space for space, _ in found),
                tuple(name for _, name in found),
                tuple(space[name] for space, name in found),
            ),
        )

    def __bool__(self) -> bool:
        if any(self.empty) or any(any(map(operator.contains, self.namespaces, repeat(name))) for name in OUTSIDE):
            return False
        now = chain(chain.from_iterable(self.contents), (MARK,))
        if not all(map(operator.is_, now, self.objects)):
            return False
        spaces, names, values = self.settings
        return (
            all(map(operator.eq, map(Tensor.data_ptr, self.tensors), self.places))
            and all(map(Tensor.is_contiguous, self.tensors))
            and all(map(operator.is_, map(dict.get, spaces, names), values))
        )


MARK = object()
"""The end of a list of objects, so that lists of different lengths differ."""


def must_be_called(module: nn.Module) -> bool:
    """Whether the module has hooks, is wrapped or compiled, so that its parameters are not all there is to it."""
    return "forward" in module.__dict__ or module._compiled_call_impl is not None or has_hooks(module)


# The kernel, and its descriptions of blocks.


@dataclass(frozen=True, slots=True, eq=False)
class SourceRead:
    """The source that a decoding step attends to.

    Arguments:
        held: keys and values of the sources.
        visible: (R, S) bool, contiguous, True = may be attended to.
        block: the index of the block whose queries are returned.
        queries: (N, H, E) float32, where they are written.
    """

    held: SharedRows
    visible: Tensor
    block: int
    queries: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class StackKernel:
    """Tokens of each row through blocks of the same shape.

    Arguments:
        library: the compiled kernels.
        structs: the blocks, as the kernel describes them.
        held: tensors that exist only for the structs to point into; all others belong to the blocks.
        untouched: whether the blocks are unchanged and have no hooks.
        positions: the number of rotary positions; None without rotary positions.
        head: the last norm and output layer, for logits; None where the kernel does not support them.
    """

    library: ctypes.CDLL
    structs: ctypes.Array[BlockStruct]
    held: tuple[Tensor, ...]
    untouched: Untouched
    positions: int | None
    head: HeadStruct | None

    @classmethod
    def of(cls, blocks: Sequence[Block], norm: nn.Module, output: nn.Module, kernels: Kernels) -> Self | None:
        """The kernel for these blocks; None where there is no library, or it does not support the blocks.

        Arguments:
            blocks: of the decoder.
            norm, output: the layers from the blocks' output to logits.
            kernels: the library.
        """
        held: list[Tensor] = []
        found = [] if kernels.library is None else [_block_struct(block, held) for block in blocks]
        fitting = [struct for struct in found if struct is not None]
        shapes = {(s.width, s.heads, s.key_heads, s.head_width, s.inner.outputs, s.query.bits) for s in fitting}
        if kernels.library is None or len(fitting) < len(blocks) or len(shapes) != 1:
            return None
        turning = [block.attention.rotary.maximum for block in blocks if block.attention.rotary is not None]
        positions = min(turning, default=None)
        structs = (BlockStruct * len(fitting))(*fitting)
        head = _head_struct(norm, output, fitting[0], held)
        untouched = Untouched.of([*blocks, norm, output])
        return cls(kernels.library, structs, tuple(held), untouched, positions, head)

    def __call__(
        self,
        x: Tensor,
        past: SharedRows,
        visible: Sequence[Tensor | None],
        *,
        positions: Tensor,
        width: int = 1,
        source: SourceRead | None = None,
        logits: bool = False,
    ) -> Tensor:
        """Run the blocks on x (N, D) float32 and return (N, D).

        The keys and values of these tokens are written into the last columns of `past`.

        Arguments:
            x: the tokens, those of a row one after another.
            past: keys and values of earlier tokens, with `width` columns for these.
            visible: for each block the columns that each row may attend to: (N, C) bool, contiguous, True = may be attended to;
                or (N, 2) int32, the first column and the one after the last; None = all.
            positions: (N,) int64, contiguous: the position of each token in its text.
            width: the number of adjacent rows that belong to one text.
            source: a source to attend to besides; None without.
            logits: return logits (N, V) instead, where there is a `head`.

        Raises:
            IndexError: for a position beyond the rotary positions.
        """
        rows = x.shape[0]
        if self.positions is not None and rows and int(positions.max()) >= self.positions:
            raise IndexError(f"position {int(positions.max())} of a model with {self.positions} rotary positions")
        y = x.clone(memory_format=torch.contiguous_format)  # the kernel changes it in place
        own, read = past.struct(), None if source is None else source.held.struct()
        columns = own.columns if read is None else max(own.columns, read.columns)
        threads = torch.get_num_threads()
        scratch = torch.empty(
            self.library.regard_blocks_scratch(self.structs, rows, columns, threads), dtype=torch.uint8
        )
        about: tuple[Any, ...] = (None, None, -1, None)
        if source is not None:
            about = (read, source.visible.data_ptr(), source.block, source.queries.data_ptr())
        masks = [None if seen is None or seen.dtype != torch.bool else seen.data_ptr() for seen in visible]
        spans = [None if seen is None or seen.dtype == torch.bool else seen.data_ptr() for seen in visible]
        found = torch.empty(rows, self.head.real) if logits and self.head is not None else None
        last = (None, None) if found is None else (self.head, found.data_ptr())
        self.library.regard_blocks(
            self.structs,
            len(self.structs),
            y.data_ptr(),
            rows,
            width,
            positions.data_ptr(),
            own,
            (Pointer * len(masks))(*masks),
            (Pointer * len(spans))(*spans),
            *about,
            *last,
            threads,
            scratch.data_ptr(),
        )
        return y if found is None else found

    def read(self, x: Tensor, spans: Tensor, positions: Tensor) -> Tensor:
        """(T, D) float32 to (T, D): texts after one another, each token of which attends to all of its own text.

        The result for a text is the same to the bit whatever texts are read with it, and on any number of threads.

        Arguments:
            spans: (T, 2) int32, contiguous: for each token where its text begins and ends.
            positions: (T,) int64, contiguous: the position of each token in its text.
        """
        block, count = self.structs[0], len(self.structs)
        none = x.new_empty(1, count * block.key_heads, 0, block.head_width)
        room = SharedRows(KeysValues(none, none).lengthened(len(x)))
        return self(x, room, [spans] * count, positions=positions, width=len(x))

    def normalised(self, x: Tensor) -> Tensor:
        """(..., D) float32 by the norm of the `head`, with the same bits as before logits."""
        if self.head is None:
            raise RuntimeError("the norm was asked of a kernel without an output layer")
        given, width = x.contiguous(), x.shape[-1]
        found = torch.empty_like(given)
        self.library.regard_normalise(self.head.norm, given.data_ptr(), given.numel() // width, width, found.data_ptr())
        return found


def visible_columns(mask: Mask, x: Tensor, columns: int) -> Tensor:
    """(R * W, C) bool, True = may be attended to: a mask for the tokens x (R, W, D), in the kernel's layout."""
    texts, width = x.shape[:2]
    seen = mask.dense(batch=texts, heads=1, queries=width, keys=columns, device=x.device)
    return seen.expand(texts, 1, width, columns).reshape(texts * width, columns).contiguous()


def visible_ranges(mask: Mask, x: Tensor, columns: int) -> Tensor:
    """As `visible_columns`, but (R * W, 2) int32 where each token's columns are adjacent: the first, and the one after the last.

    >>> from regard.attention import Causal
    >>> visible_ranges(Causal(offset=1), torch.zeros(1, 2, 8), 3).tolist()
    [[0, 2], [0, 3]]
    """
    texts, width = x.shape[:2]
    seen = mask.dense(batch=texts, heads=1, queries=width, keys=columns, device=x.device)
    seen = seen.expand(-1, 1, width, columns)[:, 0]
    count, flags = seen.sum(dim=2), seen.byte()
    first = flags.argmax(dim=2)
    end = torch.where(count > 0, columns - flags.flip(2).argmax(dim=2), first)
    if not torch.equal(end - first, count):
        return visible_columns(mask, x, columns)
    return torch.stack([first, end], dim=2).int().expand(texts, width, 2).reshape(texts * width, 2).contiguous()


def _block_struct(block: Block, held: list[Tensor]) -> BlockStruct | None:
    """The kernel's description of a block; None where it does not support the block."""
    if unsupported_in(block):
        return None
    attention: Any = block.attention
    net: Any = block.feedforward
    across: Any = block.cross_attention if isinstance(block, DecoderBlock) else None
    gate = net.gate if isinstance(net, GatedFeedForward) else None
    maps = {"query": attention.query, "key": attention.key, "value": attention.value, "output": attention.output}
    maps |= {"inner": net.inner, "outer": net.outer} | ({} if gate is None else {"gate": gate})
    residuals = {"attention": block.attention_residual, "feedforward": block.feedforward_residual}
    if isinstance(block, DecoderBlock):
        maps |= {"source_query": across.query, "source_output": across.output}
        residuals["source"] = block.cross_residual
    activation = activation_name(net.activation) or "none"
    activated = net.inner if gate is None else gate
    linears = {
        name: _linear_struct(layer, activation if layer is activated else "none", held) for name, layer in maps.items()
    }
    width, head_width = attention.output.out_features, attention.query.out_features // attention.heads
    placed = {f"{name}_{slot}": getattr(part, slot) for name, part in residuals.items() for slot in ("before", "after")}
    norms = {name: _norm_struct(norm, width, held) for name, norm in placed.items()}
    norms |= {
        name: _norm_struct(norm, head_width, held)
        for name, norm in (("query_norm", attention.query_norm), ("key_norm", attention.key_norm))
    }
    rotary = _rotary_struct(attention.rotary, head_width)
    if None in (rotary, *linears.values(), *norms.values()) or head_width % KERNEL_HEAD:
        return None
    if len({struct.bits for struct in linears.values() if struct is not None}) != 1:
        return None
    struct = BlockStruct(
        **linears,
        **norms,
        rotary=rotary,
        width=width,
        heads=attention.heads,
        key_heads=attention.key_heads,
        head_width=head_width,
        scale=product_scale(attention, head_width),
        parallel=isinstance(block, CausalBlock) and block.parallel,
    )
    if struct.parallel and not isinstance(block.attention_residual.after, nn.Identity):
        return None
    if across is not None:
        if _has_placed_heads(across) or across.key_heads != attention.key_heads or across.heads != attention.heads:
            return None
        struct.source_scale = product_scale(across, head_width)
    return struct


def _head_struct(norm: nn.Module, output: nn.Module, block: BlockStruct, held: list[Tensor]) -> HeadStruct | None:
    """The kernel's description of the last norm and output layer; None where it does not support them."""
    if type(norm) not in NORMS or not _is_linear(output):
        return None
    norm_struct, linear = _norm_struct(norm, block.width, held), _map_struct(output, "none", held)
    if norm_struct is None or linear is None or linear.bits != block.query.bits:
        return None
    return HeadStruct(norm_struct, linear, output.out_features)  # type: ignore[arg-type]


def _linear_struct(layer: nn.Module, activation: AfterLinear, held: list[Tensor]) -> LinearStruct | None:
    """The kernel's description of a linear layer within a block; None where it does not support the layer."""
    if layer.out_features % UNIT:  # type: ignore[operator]
        return None
    return _map_struct(layer, activation, held)


def _map_struct(layer: nn.Module, activation: AfterLinear, held: list[Tensor]) -> LinearStruct | None:
    """The kernel's description of a linear layer with any number of outputs; None where it does not support the layer."""
    if not isinstance(layer, QuantizedLinear | nn.Linear) or layer.in_features % GROUP:
        return None
    if isinstance(layer, QuantizedLinear):
        return layer.struct(activation)
    bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
    held.append(bias)
    places = (layer.weight.data_ptr(), None, bias.data_ptr())
    return LinearStruct(layer.out_features, layer.in_features, 32, AFTER_LINEAR.index(activation), *places)


def _norm_struct(norm: nn.Module | None, width: int, held: list[Tensor]) -> NormStruct | None:
    """The kernel's description of a norm over a width, or of no norm; None where it does not support the norm."""
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        return NormStruct(None, None, 0.0)
    if tuple(norm.normalized_shape) != (width,):
        return None
    epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    weight = torch.ones(width) if norm.weight is None else norm.weight
    bias = None
    if isinstance(norm, nn.LayerNorm):
        bias = torch.zeros(width) if norm.bias is None else norm.bias
    held += [part for part in (weight, bias) if part is not None]
    return NormStruct(weight.data_ptr(), None if bias is None else bias.data_ptr(), epsilon)


def _rotary_struct(rotary: Rotary | None, head_width: int) -> RotaryStruct | None:
    """The kernel's description of rotary positions, or of none; None where it does not support them."""
    if rotary is None:
        return RotaryStruct(None, None, 0, 0)
    tables = (rotary.cosines, rotary.sines)
    if rotary.width > head_width or any(part.dtype != torch.float32 or not part.is_contiguous() for part in tables):
        return None
    return RotaryStruct(*(part.data_ptr() for part in tables), rotary.width, rotary.neighbours)


def product_scale(attention: AttentionLayer, width: int) -> float:
    """The factor of the products of queries and keys of a width."""
    return attention.attention.score.product_scale(width)  # type: ignore[union-attr, operator, return-value]


# Why a model cannot be prepared for inference, as half a sentence; empty where it can.


def unsupported_place(model: nn.Module) -> str:
    """Why a model cannot be prepared whatever its parts: hooks, or another device."""
    if any(map(must_be_called, model.modules())):
        return "it has hooks, which look at it or change it"
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        return "it is not on the CPU"
    return ""


NORMS = (nn.LayerNorm, nn.RMSNorm, nn.Identity)


def unsupported_in(block: nn.Module) -> str:
    """Why a block is not supported."""
    if type(block) not in (CausalBlock, EncoderBlock, DecoderBlock):
        return "its blocks are of another kind"
    attentions = [block.attention, *([block.cross_attention] if isinstance(block, DecoderBlock) else [])]
    residuals = [part for part in block.children() if isinstance(part, Residual)]
    norms = [norm for residual in residuals for norm in (residual.before, residual.after)]
    if any(type(part) is not Residual for part in residuals):
        return "its residual connections are of another kind"
    if not all(type(norm) in NORMS for norm in norms):
        return "its norms are neither layer norms nor RMS norms"
    return next(filter(None, map(unsupported_attention, attentions)), "") or _unsupported_net(block.feedforward)  # type: ignore[arg-type]


METHODS = ("forward", "keys_values", "queries", "placed", "inputs", "attend")
"""The methods of an `AttentionLayer` that the kernel replaces."""


def unsupported_attention(attention: nn.Module) -> str:
    """Why an attention layer is not supported."""
    if not isinstance(attention, AttentionLayer) or any(
        getattr(type(attention), name) is not getattr(AttentionLayer, name) for name in METHODS
    ):
        return "the attention of its blocks is of another kind"
    if not all(map(_is_linear, (attention.query, attention.key, attention.value, attention.output))):
        return "its linear layers are not plain ones"
    if type(attention.attention) is not ScoredAttention or not attention.attention.fuses_plainly:
        return "its attention is not the scaled dot product with a softmax"
    if attention.rotary is not None and type(attention.rotary) is not Rotary:
        return "its rotary positions are of another kind"
    if not all(norm is None or type(norm) in NORMS for norm in (attention.query_norm, attention.key_norm)):
        return "its norms of queries and keys are neither layer norms nor RMS norms"
    return ""


def _has_placed_heads(attention: AttentionLayer) -> bool:
    """Whether queries and keys are changed after their projection."""
    return any(part is not None for part in (attention.rotary, attention.query_norm, attention.key_norm))


def unsupported_plain_heads(attention: AttentionLayer) -> str:
    """Why an attention layer's heads are not plain projections of queries, keys and values."""
    if attention.key_heads != attention.heads:
        return "its heads share keys and values"
    return "its queries and keys are rotated or normalised" if _has_placed_heads(attention) else ""


def _unsupported_net(feedforward: nn.Module) -> str:
    if type(feedforward) not in (FeedForward, GatedFeedForward) or activation_name(feedforward.activation) is None:
        return "the feed-forward networks of its blocks are of another kind"
    gate = [feedforward.gate] if isinstance(feedforward, GatedFeedForward) else []
    if not all(map(_is_linear, (feedforward.inner, feedforward.outer, *gate))):  # type: ignore[arg-type]
        return "its linear layers are not plain ones"
    return ""


def _is_linear(layer: nn.Module) -> bool:
    return type(layer) in LINEARS
