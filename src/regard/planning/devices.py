"""Devices that models are trained on: a table, or this machine, measured for a second; and the memory that training takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import AttentionLayer, RelativeDot, RelativeKeys, ScoredAttention
from regard.errors import InputError, nearest
from regard.layers import CausalBlock, CausalTransformer, DecoderBlock, EncoderBlock, GatedFeedForward, Residual
from regard.layers.blocks import Block
from regard.layers.heads import MaskedHead
from regard.machine import device_named, memory
from regard.machine import machine as described
from regard.planning.counting import NORMS, Shape, count_parameters, size_of
from regard.tasks.losses import AT_A_TIME
from regard.training.optimizers import numbers_kept
from regard.training.settings import OptimizerName

NumberFormat = Literal["float32", "bfloat16", "float16"]
"""The dtype of matrix products; sums are always float32."""

GIBIBYTE = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """The peak performance of a device.

    Arguments:
        name: as in `DEVICES`.
        title: the maker's name.
        peak: floating-point operations per second of matrix products by dtype (a multiplication and an addition are two), without
            sparsity, with float32 sums. float32 means PyTorch's default, without TF32.
        memory: in bytes.
        bandwidth: of the memory, in bytes per second.
        watts: the maker's limit; None where unknown.
        source: where the numbers are from.
        link: bandwidth to the other devices of its machine, all links together, in bytes per second each way; None where unknown.
        processor: whether it is a CPU.
    """

    name: str
    title: str
    peak: Mapping[NumberFormat, float]
    memory: float
    bandwidth: float
    watts: float | None
    source: str
    link: float | None = None
    processor: bool = False

    @property
    def fastest(self) -> NumberFormat:
        """The dtype with the highest peak; bfloat16 before float16 where both are equal."""
        order: tuple[NumberFormat, ...] = ("bfloat16", "float16", "float32")
        return max((each for each in order if each in self.peak), key=lambda each: self.peak[each])


def _card(
    name: str,
    title: str,
    *,
    float32: float,
    float16: float,
    bfloat16: float | None,
    gibibytes: float,
    gigabytes_per_second: float,
    link: float,
    watts: float,
    source: str,
) -> Device:
    """A GPU; peaks in 10^12 operations per second, links in 10^9 bytes per second each way."""
    peak: dict[NumberFormat, float] = {"float32": float32 * 1e12, "float16": float16 * 1e12}
    if bfloat16 is not None:
        peak["bfloat16"] = bfloat16 * 1e12
    return Device(
        name=name,
        title=title,
        peak=MappingProxyType(peak),
        memory=gibibytes * GIBIBYTE,
        bandwidth=gigabytes_per_second * 1e9,
        watts=watts,
        source=source,
        link=link * 1e9,
    )


_VOLTA = "NVIDIA Tesla V100 data sheet (SXM2)"
_AMPERE = "NVIDIA A100 data sheet (SXM4)"
_CARDS = (
    _card(
        "p100-16",
        "NVIDIA Tesla P100, SXM2",
        float32=10.6,
        float16=21.2,
        bfloat16=None,
        gibibytes=16,
        gigabytes_per_second=732,
        link=80,
        watts=300,
        source="NVIDIA Tesla P100 data sheet (SXM2)",
    ),
    *(
        _card(
            f"v100-{size}",
            f"NVIDIA Tesla V100, SXM2, {size} GB",
            float32=15.7,
            float16=125,
            bfloat16=None,
            gibibytes=size,
            gigabytes_per_second=900,
            link=150,
            watts=300,
            source=_VOLTA,
        )
        for size in (16, 32)
    ),
    *(
        _card(
            f"a100-{size}",
            f"NVIDIA A100, SXM4, {size} GB",
            float32=19.5,
            float16=312,
            bfloat16=312,
            gibibytes=size,
            gigabytes_per_second=bandwidth,
            link=300,
            watts=400,
            source=_AMPERE,
        )
        for size, bandwidth in ((40, 1555), (80, 2039))
    ),
    _card(
        "h100-80",
        "NVIDIA H100, SXM5, 80 GB",
        float32=67,
        float16=989,
        bfloat16=989,
        gibibytes=80,
        gigabytes_per_second=3350,
        link=450,
        watts=700,
        source="NVIDIA H100 data sheet (SXM), its figures with sparsity halved",
    ),
    _card(
        "rtx-3090",
        "NVIDIA GeForce RTX 3090",
        float32=35.6,
        float16=71,
        bfloat16=71,
        gibibytes=24,
        gigabytes_per_second=936,
        link=32,
        watts=350,
        source="NVIDIA Ampere GA102 architecture paper, sums in float32",
    ),
    _card(
        "rtx-4090",
        "NVIDIA GeForce RTX 4090",
        float32=82.6,
        float16=165.2,
        bfloat16=165.2,
        gibibytes=24,
        gigabytes_per_second=1008,
        link=32,
        watts=450,
        source="NVIDIA Ada architecture paper, sums in float32",
    ),
    _card(
        "t4",
        "NVIDIA T4",
        float32=8.1,
        float16=65,
        bfloat16=None,
        gibibytes=16,
        gigabytes_per_second=320,
        link=16,
        watts=70,
        source="NVIDIA T4 data sheet",
    ),
)

DEVICES: Mapping[str, Device] = MappingProxyType({device.name: device for device in _CARDS})
"""The devices known by name; `here` is this machine, measured (`regard.planning.here`)."""

HERE = "here"


def device_called(name: str) -> Device:
    """A device by name; `here` measures this machine.

    Raises:
        InputError: for an unknown name; the message has the nearest one.

    >>> device_called("a100-80").fastest
    'bfloat16'
    """
    if name == HERE:
        return here()
    if name not in DEVICES:
        raise InputError(f"--device: there is no {name!r}; {nearest(name, [*DEVICES, HERE])}")
    return DEVICES[name]


# This machine, measured by its matrix products.


SECONDS = 0.4
"""How long each number format is measured."""


def here(name: str = "auto", *, size: int | None = None, seconds: float = SECONDS) -> Device:
    """Measure this machine's matrix products, with PyTorch's present number of threads.

    The peak is the best of several products of square matrices; a training run reaches less. float16 is not measured on a CPU,
    where it is not used for training.

    Arguments:
        name: `cpu`, `cuda`, or `auto`.
        size: of the matrices; None for 1024 on a CPU and 8192 on a GPU.
        seconds: for each dtype.
    """
    place = device_named(name, "--device")
    machine = described()
    side = size if size is not None else (8192 if place.type == "cuda" else 1024)
    formats: tuple[NumberFormat, ...] = ("float32", "bfloat16")
    peak: dict[NumberFormat, float] = {
        each: 2 * side**3 / _quickest(getattr(torch, each), side, place, seconds) for each in formats
    }
    return Device(
        name=HERE,
        title=str(
            machine["gpu"] if place.type == "cuda" else f"{machine['processor']}, {torch.get_num_threads()} threads"
        ),
        peak=MappingProxyType(peak),
        memory=_memory(place),
        bandwidth=_bandwidth(place),
        watts=None,
        source=f"measured here: products of {side} by {side} matrices, PyTorch {torch.__version__}",
        processor=place.type == "cpu",
    )


def _quickest(dtype: torch.dtype, side: int, place: torch.device, seconds: float) -> float:
    """Seconds of the fastest of the products that fit into the time."""
    left, right = (torch.ones(side, side, dtype=dtype, device=place) for _ in range(2))
    _timed(lambda: left @ right, place)  # warm-up
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until or best == float("inf"):
        best = min(best, _timed(lambda: left @ right, place))
    return best


def _timed(work: object, place: torch.device) -> float:
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    before = time.perf_counter()
    made: Tensor = work()  # type: ignore[operator]
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    del made
    return max(1e-9, time.perf_counter() - before)


def _bandwidth(place: torch.device) -> float:
    """Memory bandwidth in bytes per second, reads and writes together, measured by copying 64 MiB."""
    block = torch.ones(2**24, dtype=torch.float32, device=place)
    return 2 * block.nbytes / min(_timed(block.clone, place) for _ in range(4))


def _memory(place: torch.device) -> float:
    if place.type == "cuda":
        return float(torch.cuda.get_device_properties(place).total_memory)
    return float(memory() or 0)


Parallel = Literal["ddp", "fsdp"]

WIDE = 4
"""Bytes of a float32: of a parameter, its gradient, each moment of the optimizer, and each number between the blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The settings of training that its memory depends on.

    Arguments:
        format: dtype of matrix products.
        parallel: `ddp` copies the model to every device, `fsdp` shards it.
        count: number of devices.
        recomputed: whether activations of blocks are recomputed in the backward pass (activation checkpointing).
        optimizer, momentum: the optimizer's name, and whether it uses momentum.
        on_processor: whether the device is a CPU, where attention weights are stored.
        stores_masks: whether dropout on a CPU stores its masks, as it does without the compiled kernels.
        reserve: bytes that the device keeps for itself, such as CUDA's context.
    """

    format: NumberFormat
    parallel: Parallel
    count: int
    recomputed: bool
    optimizer: OptimizerName = "adamw"
    momentum: bool = False
    on_processor: bool = False
    stores_masks: bool = False
    reserve: float = 0

    @property
    def narrow(self) -> int:
        """Bytes of a number in a matrix product."""
        return 4 if self.format == "float32" else 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """The memory of one device at the peak of an update.

    Arguments:
        setup: of training.
        parts: in bytes: `weights`, `gradients`, `optimizer`, `weights in 16 bits`, `exchange` (DDP's buckets, or what FSDP
            gathers), `activations`, `logits`, `reserve`.
        tokens: of the batch.
        known: whether activations are included; false for models without blocks.
    """

    setup: Setup
    parts: Mapping[str, float]
    tokens: float
    known: bool

    @property
    def total(self) -> float:
        """In bytes."""
        return sum(self.parts.values())

    def largest_batch(self, available: float) -> float:
        """Tokens of the largest batch of such texts that fits, 0 where none does; NaN where activations are not known."""
        each = (self.parts["activations"] + self.parts["logits"]) / self.tokens
        fixed = self.total - self.parts["activations"] - self.parts["logits"]
        return max(0.0, available - fixed) / each if self.known and each else float("nan")


def count_memory(model: nn.Module, shape: Shape, setup: Setup) -> Memory:
    """The memory that training a model takes on each device.

        weights 4 N, gradients 4 T, moments 8 T with Adam         T of the N parameters are trained; FSDP divides these by devices
        2 bytes for each entry of a matrix under autocast         its 16-bit copy is kept for the backward pass, on every device
        activations                                               see `activations`

    Arguments:
        model: may be an outline without weights; frozen parameters are not trained.
        shape: the batch of one device.
        setup: of training.
    """
    counted = count_parameters(model)
    share = setup.count if setup.parallel == "fsdp" else 1
    blocks = sum(size_of(module) for module in model.modules() if isinstance(module, Block))
    exchange = 0.0
    if setup.count > 1 and setup.parallel == "ddp":
        exchange = WIDE * counted.trained
    elif setup.count > 1:  # the current block and the next, parameters outside blocks, and a block's gradients
        exchange = WIDE * (3 * counted.block + counted.total - blocks)
    activated, known = activations(model, shape, setup)
    kept = sum(
        numbers_kept(parameter.shape, setup.optimizer, momentum=setup.momentum)
        for parameter in model.parameters()
        if parameter.requires_grad
    )
    return Memory(
        setup=setup,
        parts={
            "weights": WIDE * counted.total / share,
            "gradients": WIDE * counted.trained / share,
            "optimizer": WIDE * kept / share,
            "weights in 16 bits": 0.0 if setup.narrow == WIDE else float(setup.narrow * counted.products),
            "exchange": exchange,
            "activations": activated,
            "logits": logits(model, shape, setup),
            "reserve": setup.reserve,
        },
        tokens=shape.tokens,
        known=known,
    )


def activations(model: nn.Module, shape: Shape, setup: Setup) -> tuple[float, bool]:
    """Bytes that a forward pass keeps for the backward pass, and whether they are known; without logits and parameters.

    For each token in each block, with c bytes per number in matrix products: the inputs of both norms (4 D each), the inputs of
        the
    linear layers (under autocast a copy for each), queries, keys, values and weighted sums (c D each), the inner vectors of the
    feed-forward network before and after its activation (c F each), and dropout masks. Attention weights are kept where they are
    stored, on CPUs. With activation checkpointing, only the blocks' inputs and one block's activations are kept.
    """
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        return 0.0, False
    inside = [_kept_in(block, shape, setup) for block in blocks]
    around = WIDE * shape.rows * (shape.length + shape.target) * width_of(blocks[0])
    if setup.recomputed:
        inputs = sum(WIDE * _vectors(block, shape) * width_of(block) for block in blocks)
        return inputs + max(inside) + around, True
    return sum(inside) + around, True


def logits(model: nn.Module, shape: Shape, setup: Setup) -> float:
    """Bytes of logits and their gradient; for a GPT of a part of the logits at a time, and the output matrix's gradient."""
    if isinstance(model, CausalTransformer):
        vocabulary, width = model.embedding.tokens.weight.shape
        at_once = min(shape.logits * vocabulary, max(AT_A_TIME, vocabulary))
        return setup.narrow * (at_once + shape.logits * width) + WIDE * vocabulary * width
    head = next((module for module in model.modules() if isinstance(module, MaskedHead)), None)
    output = getattr(model, "output", None) if head is None else head.output
    if not isinstance(output, nn.Linear):
        return 0.0
    return shape.logits * (2 * setup.narrow * output.out_features + (WIDE + 2 * setup.narrow) * output.in_features)


def _vectors(block: nn.Module, shape: Shape) -> float:
    """The number of token vectors that go through a block."""
    return shape.rows * (shape.target if isinstance(block, DecoderBlock) else shape.length)


def width_of(block: nn.Module) -> int:
    """The width of the vectors that go through a block."""
    linear = next(module for module in block.modules() if isinstance(module, nn.Linear))
    return linear.in_features


def _kept_in(block: nn.Module, shape: Shape, setup: Setup) -> float:
    vectors = _vectors(block, shape)
    kept = sum(
        _residual(part, width_of(block), vectors, setup) for part in block.modules() if isinstance(part, Residual)
    )
    if isinstance(block, CausalBlock) and block.parallel:
        kept -= WIDE * vectors * width_of(block)  # both norms have the same input
    if isinstance(block, EncoderBlock | CausalBlock):
        kept += _attention(block.attention, vectors, vectors, shape.length, setup)
    elif isinstance(block, DecoderBlock):
        kept += _attention(block.attention, vectors, vectors, shape.target, setup)
        kept += _attention(block.cross_attention, vectors, shape.rows * shape.length, shape.length, setup)
    feedforward = getattr(block, "feedforward", None)
    return kept + (vectors * _feedforward(feedforward, setup) if isinstance(feedforward, nn.Module) else 0.0)


def _residual(residual: Residual, width: int, vectors: float, setup: Setup) -> float:
    """Bytes of the norms' inputs with their statistics, and of dropout masks."""
    norms = sum(_norm(part, width) for part in (residual.before, residual.after))
    return vectors * (norms + _dropped(residual.dropout.p, width, setup))


def _norm(norm: nn.Module | None, width: int) -> float:
    """Bytes of a norm's input and its statistics, for one vector of that width."""
    if not isinstance(norm, NORMS):
        return 0.0
    many = 2 if isinstance(norm, nn.RMSNorm) else 1  # computed in several operations, which keep one more vector
    return many * WIDE * width + 2 * WIDE


def _dropped(p: float, width: float, setup: Setup) -> float:
    """Bytes of a dropout mask: nothing or numbers on a CPU, one byte per entry elsewhere."""
    each = setup.narrow * setup.stores_masks if setup.on_processor else 1
    return each * width if p else 0.0


def _attention(layer: AttentionLayer, queries: float, keys: float, length: float, setup: Setup) -> float:
    """Bytes that one attention keeps.

    Arguments:
        layer: the attention layer.
        queries, keys: their numbers over all rows.
        length: the number of keys in one row.
        setup: of training.
    """
    c = setup.narrow
    query, key, value, output = (_linears(each) for each in (layer.query, layer.key, layer.value, layer.output))
    into = sum(each.in_features for each in query)
    inputs = c * queries * into
    if c < WIDE:  # autocast makes a copy for each matrix
        inputs += c * keys * sum(each.in_features for each in [*key, *value])
    made = queries * sum(each.out_features for each in query) + keys * sum(each.out_features for each in [*key, *value])
    merged = queries * sum(each.in_features for each in output)
    dropout = layer.attention.dropout
    by_distance = RelativeDot | RelativeKeys
    distance_scores = isinstance(layer.attention, ScoredAttention) and isinstance(layer.attention.score, by_distance)
    weights = WIDE * queries * layer.heads  # a fused kernel's sums
    if setup.on_processor and (dropout or c < WIDE):
        weights = c * queries * length * layer.heads * (2 + setup.stores_masks if dropout else 1)
        shared = sum(each.out_features for each in [*key, *value]) * (layer.heads // layer.key_heads - 1)
        weights += c * keys * shared  # keys and values that several heads of queries share are stored for each
    elif (
        setup.on_processor and layer.rotary is not None
    ):  # rotated queries are stored head by head, and so are the weighted sums
        weights += c * merged
    if distance_scores:  # scores by distance are stored for their gradient
        weights += WIDE * queries * length * layer.heads
    return inputs + c * (made + merged) + weights + _placed(layer, queries, keys, length)


def _placed(layer: AttentionLayer, queries: float, keys: float, length: float) -> float:
    """Bytes that norms of queries and keys keep, and the cosines and sines of rotary positions."""
    width = sum(each.out_features for each in _linears(layer.query)) // layer.heads
    norms = queries * layer.heads * _norm(layer.query_norm, width) + keys * layer.key_heads * _norm(
        layer.key_norm, width
    )
    return norms + (0.0 if layer.rotary is None else 2 * WIDE * 2 * length * layer.rotary.width / 2)


def _linears(module: nn.Module) -> list[nn.Linear]:
    return [part for part in module.modules() if isinstance(part, nn.Linear)]


def _feedforward(net: nn.Module, setup: Setup) -> float:
    """Bytes per vector: the input, and the inner vectors that an activation, a gate or dropout needs in the backward pass."""
    inner, dropout = getattr(net, "inner", None), getattr(net, "dropout", None)
    if not isinstance(inner, nn.Linear):
        return 0.0
    width, gated = inner.out_features, isinstance(net, GatedFeedForward)
    shared = getattr(net, "activation", None) in (F.relu,)  # the backward pass needs its output alone
    p = getattr(dropout, "p", 0.0)
    many = (4 if gated else 2) - shared + (1 if shared and p and not gated else 0)
    copies = 2 if gated and setup.narrow < WIDE else 1
    return setup.narrow * (copies * inner.in_features + many * width) + _dropped(p, width, setup)
