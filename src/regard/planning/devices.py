"""Devices that models are trained on, as data or this machine, measured for a second; and the memory that training takes."""

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
"""What matrices are multiplied in; sums are kept in float32 whatever it is."""

GIBIBYTE = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """What one device can do at best.

    Arguments:
        name: what it is called here.
        title: what its maker calls it.
        peak: floating-point operations per second of matrix products by number format, a multiplication and an addition being
            two; without sparsity, sums in float32. float32 is that of PyTorch's default, which does not round to TF32.
        memory: bytes.
        bandwidth: of the memory, bytes per second.
        watts: the most that its maker lets it draw; None where unknown.
        source: where the numbers are from.
        link: bytes per second in each direction to the other devices of its machine, all links together; None where unknown.
        processor: whether it is a processor and no GPU.
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
        """The format of the highest peak, bfloat16 before float16 where they are alike."""
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
    """A GPU, with its peaks in 10^12 operations per second, and its links in 10^9 bytes per second each way."""
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
"""The devices that are known by name; `here` is this machine, measured (`regard.planning.here`)."""

HERE = "here"


def device_called(name: str) -> Device:
    """A device by its name, or this machine, measured, for `here`.

    Raises:
        InputError: where there is none of that name, with the nearest.

    >>> device_called("a100-80").fastest
    'bfloat16'
    """
    if name == HERE:
        return here()
    if name not in DEVICES:
        raise InputError(f"--device: there is no {name!r}; {nearest(name, [*DEVICES, HERE])}")
    return DEVICES[name]


# The machine that this runs on, by its matrix products.


SECONDS = 0.4
"""How long each number format is measured."""


def here(name: str = "auto", *, size: int | None = None, seconds: float = SECONDS) -> Device:
    """What this machine multiplies matrices at, with PyTorch and the threads it has now.

    The peak is the best of several products of square matrices: what a training run reaches is less. float16 is not measured on a
    processor, where nothing trains in it.

    Arguments:
        name: `cpu`, `cuda`, or `auto`.
        size: of the matrices; 1024 on a processor and 8192 on a GPU where None.
        seconds: for each number format.
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
    """Seconds of the quickest of the products that fit into the time."""
    left, right = (torch.ones(side, side, dtype=dtype, device=place) for _ in range(2))
    _timed(lambda: left @ right, place)  # the first one sets things up
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
    """Bytes per second read and written by copying 64 MiB."""
    block = torch.ones(2**24, dtype=torch.float32, device=place)
    return 2 * block.nbytes / min(_timed(block.clone, place) for _ in range(4))


def _memory(place: torch.device) -> float:
    if place.type == "cuda":
        return float(torch.cuda.get_device_properties(place).total_memory)
    return float(memory() or 0)


Parallel = Literal["ddp", "fsdp"]

WIDE = 4
"""Bytes of a parameter, its gradient, each of the optimiser's moments, and of what runs past the blocks: float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """How a model is trained, as far as memory goes.

    Arguments:
        format: of matrix products.
        parallel: `ddp` copies the model to every device, `fsdp` shards it.
        count: devices.
        optimizer, momentum: which, and whether it has one.
        recomputed: whether activations of blocks are computed again in the backward pass.
        on_processor: whether the device is a processor, where attention weights are laid out and dropout keeps whole numbers.
        reserve: bytes that the device keeps for itself, such as CUDA's context.
    """

    format: NumberFormat
    parallel: Parallel
    count: int
    recomputed: bool
    optimizer: OptimizerName = "adamw"
    momentum: bool = False
    on_processor: bool = False
    reserve: float = 0

    @property
    def narrow(self) -> int:
        """Bytes of a number in a matrix product."""
        return 4 if self.format == "float32" else 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """What one device holds at the peak of an update.

    Arguments:
        setup: how it is trained.
        parts: bytes: `weights`, `gradients`, `optimizer`, `weights in 16 bits`, `exchange` (DDP's buckets, or what FSDP gathers),
            `activations`, `logits`, `reserve`.
        tokens: those of the batch it is for.
        known: whether activations are among them; false for models without blocks.
    """

    setup: Setup
    parts: Mapping[str, float]
    tokens: float
    known: bool

    @property
    def total(self) -> float:
        """Bytes."""
        return sum(self.parts.values())

    def largest_batch(self, available: float) -> float:
        """Tokens of the largest batch of such texts that fits, perhaps none; NaN where activations are not known."""
        each = (self.parts["activations"] + self.parts["logits"]) / self.tokens
        fixed = self.total - self.parts["activations"] - self.parts["logits"]
        return max(0.0, available - fixed) / each if self.known and each else float("nan")


def count_memory(model: nn.Module, shape: Shape, setup: Setup) -> Memory:
    """The memory that training a model takes, on each device.

        weights 4 N, gradients 4 T, moments 8 T with Adam         T of the N parameters are trained; with FSDP a share of each
        2 bytes for each entry of a matrix under autocast         its 16-bit copy is kept for the backward pass, on every device
        activations                                               see `activations`

    Arguments:
        model: perhaps an outline without numbers; what is frozen in it is not trained.
        shape: the batch that a device holds at a time.
        setup: how it is trained.
    """
    counted = count_parameters(model)
    share = setup.count if setup.parallel == "fsdp" else 1
    blocks = sum(size_of(module) for module in model.modules() if isinstance(module, Block))
    exchange = 0.0
    if setup.count > 1 and setup.parallel == "ddp":
        exchange = WIDE * counted.trained
    elif setup.count > 1:  # a block in use and the next one, what stands outside them, and a block's gradients
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
    """What a forward pass keeps for the backward pass, and whether it is known; logits and parameters are counted elsewhere.

    For each token in each block, with c bytes a number in matrix products: the inputs of both norms (4 D each), the inputs of
    the matrices (under autocast a copy for each), queries, keys, values and their weighted sums (c D each), the inner vectors of
    the feed-forward net before and after its activation (c F each), and dropout's masks. Attention weights are kept where
    they are laid out, on processors. With recomputing the blocks' inputs and one block remain.
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
    """What the output keeps: logits and their gradient; of a GPT a block of logits at a time, and a gradient of its table."""
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
    """How many vectors run through a block."""
    return shape.rows * (shape.target if isinstance(block, DecoderBlock) else shape.length)


def width_of(block: nn.Module) -> int:
    """How many numbers a vector has that runs through a block."""
    linear = next(module for module in block.modules() if isinstance(module, nn.Linear))
    return linear.in_features


def _kept_in(block: nn.Module, shape: Shape, setup: Setup) -> float:
    vectors = _vectors(block, shape)
    kept = sum(
        _residual(part, width_of(block), vectors, setup) for part in block.modules() if isinstance(part, Residual)
    )
    if isinstance(block, CausalBlock) and block.parallel:
        kept -= WIDE * vectors * width_of(block)  # both norms read the same
    if isinstance(block, EncoderBlock | CausalBlock):
        kept += _attention(block.attention, vectors, vectors, shape.length, setup)
    elif isinstance(block, DecoderBlock):
        kept += _attention(block.attention, vectors, vectors, shape.target, setup)
        kept += _attention(block.cross_attention, vectors, shape.rows * shape.length, shape.length, setup)
    feedforward = getattr(block, "feedforward", None)
    return kept + (vectors * _feedforward(feedforward, setup) if isinstance(feedforward, nn.Module) else 0.0)


def _residual(residual: Residual, width: int, vectors: float, setup: Setup) -> float:
    """The norms' inputs with their statistics, and dropout's mask."""
    norms = sum(_norm(part, width) for part in (residual.before, residual.after))
    return vectors * (norms + _dropped(residual.dropout.p, width, setup))


def _norm(norm: nn.Module | None, width: int) -> float:
    """A norm's input and its statistics, of one vector of that width."""
    if not isinstance(norm, NORMS):
        return 0.0
    many = 2 if isinstance(norm, nn.RMSNorm) else 1  # computed in steps, of which one more is kept
    return many * WIDE * width + 2 * WIDE


def _dropped(p: float, width: float, setup: Setup) -> float:
    """Dropout's mask: whole numbers on a processor, a byte each elsewhere."""
    return (setup.narrow if setup.on_processor else 1) * width if p else 0.0


def _attention(layer: AttentionLayer, queries: float, keys: float, length: float, setup: Setup) -> float:
    """What one attention keeps.

    Arguments:
        queries, keys: how many there are in all rows.
        length: keys of one row.
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
    learnt = isinstance(layer.attention, ScoredAttention) and isinstance(layer.attention.score, by_distance)
    weights = WIDE * queries * layer.heads  # a fused kernel's sums
    if setup.on_processor and (dropout or c < WIDE):
        weights = c * queries * length * layer.heads * (3 if dropout else 1)
    elif (
        setup.on_processor and layer.rotary is not None
    ):  # turned queries lie head by head, and so does what they gather
        weights += c * merged
    if learnt:  # what is added by distance, laid out for its gradient
        weights += WIDE * queries * length * layer.heads
    return inputs + c * (made + merged) + weights + _placed(layer, queries, keys, length)


def _placed(layer: AttentionLayer, queries: float, keys: float, length: float) -> float:
    """What norms of queries and keys keep, and the cosines and sines of each that rotary positions turn them by."""
    width = sum(each.out_features for each in _linears(layer.query)) // layer.heads
    norms = queries * layer.heads * _norm(layer.query_norm, width) + keys * layer.key_heads * _norm(
        layer.key_norm, width
    )
    return norms + (0.0 if layer.rotary is None else 2 * WIDE * 2 * length * layer.rotary.width / 2)


def _linears(module: nn.Module) -> list[nn.Linear]:
    return [part for part in module.modules() if isinstance(part, nn.Linear)]


def _feedforward(net: nn.Module, setup: Setup) -> float:
    """For one vector: the input, and the inner vectors that an activation, a gate or dropout needs again."""
    inner, dropout = getattr(net, "inner", None), getattr(net, "dropout", None)
    if not isinstance(inner, nn.Linear):
        return 0.0
    width, gated = inner.out_features, isinstance(net, GatedFeedForward)
    shared = getattr(net, "activation", None) in (F.relu,)  # its output is all that it needs
    p = getattr(dropout, "p", 0.0)
    many = (4 if gated else 2) - shared + (1 if shared and p and not gated else 0)
    copies = 2 if gated and setup.narrow < WIDE else 1
    return setup.narrow * (copies * inner.in_features + many * width) + _dropped(p, width, setup)
