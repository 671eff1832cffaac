"""The fast path of a decoder's steps: a token of each row through all blocks in one call of the compiled kernel.

`StackKernel` is told where the weights of ordinary blocks are, and is taken without recording at these blocks or changes them
(`Untouched`). The keys and values of all blocks are in one tensor (`SharedRows`), of which `block_pasts` shows each block its
own part. `unsupported_in` says why a block has no fast path.

Blocks are GPT's or Llama's, and what lies between: layer norms or RMS norms, before or after; feed-forward nets with a gate or
without; as many heads of keys as of queries or fewer; norms of each head's queries and keys; rotary positions of all its channels
or the first; biases or none; sub-layers one after another or in parallel. Windows and padding come as masks.
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
from regard.layers import CausalBlock, DecoderBlock, EncoderBlock, FeedForward, GatedFeedForward, Residual
from regard.layers.blocks import Block
from regard.quantization.interface import (
    BlockStruct,
    CacheStruct,
    HeadStruct,
    LinearStruct,
    NormStruct,
    Pointer,
    RotaryStruct,
)
from regard.quantization.linear import AFTER_LINEAR, GROUP, LINEARS, UNIT, AfterLinear, QuantizedLinear, activation_name
from regard.quantization.native import Kernels

KERNEL_HEAD = 32
"""The kernel takes heads whose width is a multiple of this."""


# Keys and values of all blocks in one tensor.


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Keys and values of what was written about R sources, in a memory of perhaps more.

    A source that leaves a search leaves its row behind, and nothing is copied for it.

    Arguments:
        held: (P, blocks * G, C, E), those of the first block first.
        rows: (R,) int64, the row of `held` that is each source's, no two alike; None where they are in order.

    >>> import torch
    >>> written = SharedRows(KeysValues(torch.arange(3.0).view(3, 1, 1, 1), torch.zeros(3, 1, 1, 1)))
    >>> fewer = written.select(torch.tensor([2, 0]))
    >>> fewer.held is written.held, fewer.copied().key.flatten().tolist()
    (True, [2.0, 0.0])
    """

    held: KeysValues
    rows: Tensor | None = None

    def select(self, rows: Tensor) -> SharedRows:
        """Of these sources, in that order; one that is wanted twice gets a row of its own each time."""
        own = rows if self.rows is None else self.rows.index_select(0, rows)
        if len(own.unique()) < len(own):
            return SharedRows(self.held.select(own))
        return SharedRows(self.held, own.contiguous())

    def lengthened(self, more: int) -> SharedRows:
        """With room for `more` columns that are still to be written."""
        return SharedRows(self.held.lengthened(more), self.rows)

    def reserved(self, columns: int) -> SharedRows:
        """With room for so many columns in all."""
        return SharedRows(self.held.reserved(columns), self.rows)

    def crop(self, columns: int) -> SharedRows:
        """The first columns."""
        return SharedRows(self.held.crop(columns), self.rows)

    def rewound(self, columns: int) -> SharedRows:
        """As `crop`, and the later columns are given up, as `KeysValues.rewound` does."""
        return SharedRows(self.held.rewound(columns), self.rows)

    def copied(self) -> KeysValues:
        """(R, blocks * G, C, E), each source in its own row."""
        return self.held if self.rows is None else self.held.select(self.rows)

    def struct(self) -> CacheStruct:
        """What the kernel is given; it points into the tensors here, which have to be in a room."""
        room = self.held.buffer
        if room is None:
            raise RuntimeError("the kernel was called without a room")
        rows = None if self.rows is None else self.rows.data_ptr()
        count, columns = room.memory.shape[1], self.held.key.shape[2]
        bits = 8 * room.memory.element_size()
        return CacheStruct(room.memory.data_ptr(), rows, count, room.capacity, columns, bits)


@dataclass(frozen=True, slots=True, eq=False)
class BlockPast(KeysValues):
    """One block's keys and values of the tokens before, to which it appends in the tensor of all blocks.

    Arguments:
        present: the same, with columns for the tokens that are still to be written.
    """

    present: KeysValues = field(kw_only=True)

    def extended(self, later: KeysValues) -> KeysValues:
        """Past and present in float32, rounded as the cache keeps them, so that a token read by the kernel sees the same."""
        before = self.key.shape[2]
        self.present.key[:, :, before:] = later.key
        self.present.value[:, :, before:] = later.value
        return KeysValues(self.present.key.float(), self.present.value.float())


def block_pasts(past: KeysValues, present: KeysValues, count: int) -> tuple[BlockPast, ...]:
    """What each of so many blocks is given as its past, of keys and values (B, blocks * G, C, E)."""
    parts = (part.chunk(count, dim=1) for part in (past.key, past.value, present.key, present.value))
    return tuple(
        BlockPast(key, value, present=KeysValues(new_key, new_value))
        for key, value, new_key, new_value in zip(*parts, strict=True)
    )


# Whether somebody looks.

OUTSIDE = ("forward", "_compiled_call_impl")
"""Names that an object of a module has where somebody stands around its calls, or compiled it."""

SETTINGS = ("eps", "activation", "power", "parallel", "neighbours")
"""Of modules, what the kernel was told and what may be set to something else."""


@dataclass(frozen=True, slots=True, eq=False)
class Untouched:
    """Whether modules still consist of what they consisted of, and nobody looks at them, changes or compiled them.

    It is asked at every step but those of `InferenceDecoder.undisturbed`, of some hundred modules, so all loops are the
    interpreter's own.

    Arguments:
        namespaces: of each module.
        empty: what has to stay empty: the hooks of each module, before and after its forward pass, those of all modules, and
            where a module has no modules, parameters or buffers.
        contents: what each has for modules, parameters and buffers, where it has any: what is there when it is read.
        objects: what that was, with a mark at its end.
        tensors: the parameters and buffers among them.
        kept: what holds their memory while the kernel may read it, whatever becomes of them.
        places: where their numbers stand, for `parameter.data = other` puts others under the same parameter.
        settings: namespaces that have one of `SETTINGS`, the name in each, and what it was.
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
        """Of these modules and all that is in them, as they are now."""
        every = list(dict.fromkeys(part for module in modules for part in module.modules()))
        held = [own for part in every for own in (part._modules, part._parameters, part._buffers)]
        contents = tuple(own.values() for own in held if own)
        objects = tuple(chain.from_iterable(contents))
        tensors = tuple(part for part in objects if isinstance(part, Tensor))
        said = [(part.__dict__, name) for part in every for name in SETTINGS if name in part.__dict__]
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
                tuple(space for space, _ in said),
                tuple(name for _, name in said),
                tuple(space[name] for space, name in said),
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
"""What ends a list of objects, so that a list which is shorter or longer than another differs from it."""


def has_hooks(module: nn.Module) -> bool:
    """Whether the module is looked at, changed or compiled from outside, so that it must be called itself."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return "forward" in module.__dict__ or module._compiled_call_impl is not None or any(hooks)


# The kernel, and what it is given of blocks.


@dataclass(frozen=True, slots=True, eq=False)
class SourceRead:
    """What a step attends to besides its own past.

    Arguments:
        held: keys and values of the sources.
        visible: (R, S) bool, contiguous, True = may be attended to.
        block: the number of the block whose queries are wanted.
        queries: (N, H, E) float32, where they are written.
    """

    held: SharedRows
    visible: Tensor
    block: int
    queries: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class StackKernel:
    """One token of each row through blocks of one shape.

    Arguments:
        library: the compiled kernels.
        structs: the blocks, as the kernel is given them.
        held: tensors of its own that the structs point into; all others are the blocks'.
        untouched: whether the blocks are as they were and nobody looks at them.
        positions: how many positions queries and keys are turned to; None where no block turns them.
        head: the last norm and map, for logits; None where the kernel does not take them.
    """

    library: ctypes.CDLL
    structs: ctypes.Array[BlockStruct]
    held: tuple[Tensor, ...]
    untouched: Untouched
    positions: int | None
    head: HeadStruct | None

    @classmethod
    def of(cls, blocks: Sequence[Block], norm: nn.Module, output: nn.Module, kernels: Kernels) -> Self | None:
        """The kernel for these blocks; None where there is none, or it takes no such blocks.

        Arguments:
            norm, output: what makes logits of what the blocks give.
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
        """(N, D) float32 to the same; the keys and values of these tokens are written into the last columns of `past`.

        Arguments:
            past: of the tokens before and these, `width` columns for these.
            visible: of each block (N, C) bool, contiguous, True = may be attended to; None = all.
            positions: (N,) int64, contiguous: where each token is in its text.
            width: how many rows there are about each text, next to one another.
            source: what is attended to besides.
            logits: whether the logits (N, V) are wanted instead, where there is a `head`.

        Raises:
            IndexError: for a position that the blocks have no rotation for.
        """
        rows = x.shape[0]
        if self.positions is not None and rows and int(positions.max()) >= self.positions:
            raise IndexError(f"position {int(positions.max())} of a model with {self.positions} rotary positions")
        y = x.clone(memory_format=torch.contiguous_format)  # which the kernel changes in place
        own, read = past.struct(), None if source is None else source.held.struct()
        columns = own.columns if read is None else max(own.columns, read.columns)
        scratch = torch.empty(self.library.regard_blocks_scratch(self.structs, rows, columns), dtype=torch.uint8)
        about: tuple[Any, ...] = (None, None, -1, None)
        if source is not None:
            about = (read, source.visible.data_ptr(), source.block, source.queries.data_ptr())
        places = [None if seen is None else seen.data_ptr() for seen in visible]
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
            (Pointer * len(places))(*places),
            *about,
            *last,
            scratch.data_ptr(),
        )
        return y if found is None else found


def visible_columns(mask: Mask, x: Tensor, columns: int) -> Tensor:
    """(R * W, C) bool: what a mask lets the tokens x (R, W, D) attend to, as the kernel reads it."""
    texts, width = x.shape[:2]
    seen = mask.dense(batch=texts, heads=1, queries=width, keys=columns, device=x.device)
    return seen.expand(texts, 1, width, columns).reshape(texts * width, columns).contiguous()


def _block_struct(block: Block, held: list[Tensor]) -> BlockStruct | None:
    """What the kernel is given of a block; None where it takes no such block."""
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
    """What the kernel is given of the last norm and map; None where it does not take them."""
    if type(norm) not in NORMS or not _is_linear(output):
        return None
    norm_struct, linear = _norm_struct(norm, block.width, held), _map_struct(output, "none", held)
    if norm_struct is None or linear is None or linear.bits != block.query.bits:
        return None
    return HeadStruct(norm_struct, linear, output.out_features)  # type: ignore[arg-type]


def _linear_struct(layer: nn.Module, activation: AfterLinear, held: list[Tensor]) -> LinearStruct | None:
    """What the kernel is given of a linear layer within a block; None where it does not take it."""
    if layer.out_features % UNIT:  # type: ignore[operator]
        return None
    return _map_struct(layer, activation, held)


def _map_struct(layer: nn.Module, activation: AfterLinear, held: list[Tensor]) -> LinearStruct | None:
    """What the kernel is given of a linear layer with any number of outputs; None where it does not take it."""
    if not isinstance(layer, QuantizedLinear | nn.Linear) or layer.in_features % GROUP:
        return None
    if isinstance(layer, QuantizedLinear):
        return layer.struct(activation)
    bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
    held.append(bias)
    places = (layer.weight.data_ptr(), None, bias.data_ptr())
    return LinearStruct(layer.out_features, layer.in_features, 32, AFTER_LINEAR.index(activation), *places)


def _norm_struct(norm: nn.Module | None, width: int, held: list[Tensor]) -> NormStruct | None:
    """What the kernel is given of a norm over a width, or of none; None where it does not take it."""
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
    """What the kernel is given of rotary positions, or of none; None where it does not take them."""
    if rotary is None:
        return RotaryStruct(None, None, 0, 0)
    tables = (rotary.cosines, rotary.sines)
    if rotary.width > head_width or any(part.dtype != torch.float32 or not part.is_contiguous() for part in tables):
        return None
    return RotaryStruct(*(part.data_ptr() for part in tables), rotary.width, rotary.neighbours)


def product_scale(attention: AttentionLayer, width: int) -> float:
    """What the products of queries and keys of a width are multiplied by."""
    return attention.attention.score.product_scale(width)  # type: ignore[union-attr, operator, return-value]


# Why a model is not prepared for inference, as half a sentence; empty where it can be.


def unsupported_place(model: nn.Module) -> str:
    """What it is about the place or the use of a model, whatever it is made of."""
    if any(map(has_hooks, model.modules())):
        return "somebody looks at it, or has changed it"
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        return "it is not on a processor"
    return ""


NORMS = (nn.LayerNorm, nn.RMSNorm, nn.Identity)


def unsupported_in(block: nn.Module) -> str:
    """What it is about a block."""
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
"""Of an `AttentionLayer`, what the kernel computes in their place."""


def unsupported_attention(attention: nn.Module) -> str:
    """What it is about an attention layer."""
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
    """Whether something is done to queries and keys after they are projected."""
    return any(part is not None for part in (attention.rotary, attention.query_norm, attention.key_norm))


def unsupported_plain_heads(attention: AttentionLayer) -> str:
    """What it is about an attention layer's heads, for whoever projects them and does nothing else to them."""
    if attention.key_heads != attention.heads:
        return "its heads share keys and values"
    return "its queries and keys are turned or normalised" if _has_placed_heads(attention) else ""


def _unsupported_net(feedforward: nn.Module) -> str:
    if type(feedforward) not in (FeedForward, GatedFeedForward) or activation_name(feedforward.activation) is None:
        return "the feed-forward nets of its blocks are of another kind"
    gate = [feedforward.gate] if isinstance(feedforward, GatedFeedForward) else []
    if not all(map(_is_linear, (feedforward.inner, feedforward.outer, *gate))):  # type: ignore[arg-type]
        return "its linear layers are not plain ones"
    return ""


def _is_linear(layer: nn.Module) -> bool:
    return type(layer) in LINEARS
