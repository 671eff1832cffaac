"""`regard.plan`: what a run will cost before it is run, and the table that shows a plan with its calculation."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from regard.errors import InputError
from regard.kernels import found_kernels
from regard.layers.blocks import Block
from regard.models import MODELS
from regard.planning.counting import Operations, Parameters, Work, count_operations, count_parameters
from regard.planning.devices import GIBIBYTE, Device, Memory, NumberFormat, Setup, count_memory, device_called, width_of
from regard.planning.exchange import Exchange, Network, exchange
from regard.planning.reading import Asked, Subject, number_format, subject_of
from regard.rendering import gibibytes, text_table
from regard.training.recipe import Recipe

HOURS_OF_A_YEAR = 24 * 365
RESERVE = GIBIBYTE
"""Bytes reserved on a GPU for CUDA's context and the allocator's losses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The time and the money of a run.

    Arguments:
        seconds: of the run.
        device_hours: of all devices together.
        money: at the given price, in its currency; None without one.
        kilowatt_hours: at the given watts, of the devices alone; None without.
    """

    seconds: float
    device_hours: float
    money: float | None
    kilowatt_hours: float | None

    @property
    def device_years(self) -> float:
        """Years that a single device would take."""
        return self.device_hours / HOURS_OF_A_YEAR


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run will cost, and the numbers behind it.

    Arguments:
        name: of the recipe or published model.
        config: of the model.
        work: the batches that it reads.
        parameters: by part.
        operations: of the forward passes.
        recomputed: whether activation checkpointing is on, with which time is counted.
        device, count: the device, and the number of devices.
        format: dtype of matrix products.
        utilisation: the fraction of peak FLOPS that is reached; None where tokens per second were given.
        cost: from the exact count of operations, or from tokens per second.
        rule_cost: from the rule of six operations per parameter and token.
        exchange: communication in an update, where the network was given; `cost` then includes it.
        memory: of one device: DDP and, on several, FSDP, each without and with activation checkpointing.
        notes: what these numbers leave out.
    """

    name: str
    config: Any
    work: Work
    parameters: Parameters
    operations: Operations
    recomputed: bool
    device: Device
    count: int
    format: NumberFormat
    utilisation: float | None
    cost: Cost
    rule_cost: Cost
    exchange: Exchange | None
    memory: tuple[Memory, ...]
    notes: tuple[str, ...]

    @property
    def rule(self) -> float:
        """6 N D: N parameters, D tokens (Kaplan et al. 2020, section 2.1; Brown et al. 2020, appendix D)."""
        return 6.0 * self.parameters.total * self.work.tokens

    @property
    def exact(self) -> float:
        """The exact number of operations, counted by matrix product."""
        return self.operations.recomputed if self.recomputed else self.operations.training

    @property
    def available(self) -> float:
        """Memory of one device, in bytes."""
        return self.device.memory

    @property
    def fitting(self) -> tuple[Memory, ...]:
        """The ways of training that fit into the device's memory."""
        return tuple(each for each in self.memory if each.known and each.total <= self.available)

    def __str__(self) -> str:

        return text_table(rows_of(self))

    def _repr_html_(self) -> str:

        from regard.web import html_table

        return html_table(rows_of(self))

    def to_mapping(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "name": self.name,
            "family": self.config.model_type,
            "parameters": {
                "total": self.parameters.total,
                "trained": self.parameters.trained,
                "parts": dict(self.parameters.parts),
            },
            "tokens": self.work.tokens,
            "updates": self.work.updates,
            "work_from": self.work.source,
            "operations": {
                "rule_6nd": self.rule,
                "forward": self.operations.forward,
                "parts": dict(self.operations.parts),
                "training": self.operations.training,
                "with_activation_checkpointing": self.operations.recomputed,
                "exact": self.operations.exact,
            },
            "device": {
                "name": self.device.name,
                "title": self.device.title,
                "count": self.count,
                "precision": self.format,
                "peak": self.device.peak[self.format],
                "memory": self.device.memory,
                "bandwidth": self.device.bandwidth,
                "source": self.device.source,
            },
            "utilisation": self.utilisation,
            "activation_checkpointing": self.recomputed,
            "exchange": None if self.exchange is None else self.exchange.to_mapping(),
            "cost": _cost_mapping(self.cost),
            "cost_by_rule": _cost_mapping(self.rule_cost),
            "memory": [self._memory_mapping(each) for each in self.memory],
            "notes": list(self.notes),
        }

    def _memory_mapping(self, memory: Memory) -> dict[str, Any]:
        return {
            "parallel": memory.setup.parallel,
            "activation_checkpointing": memory.setup.recomputed,
            "batch_tokens": memory.tokens,
            "parts": dict(memory.parts),
            "total": memory.total,
            "activations_known": memory.known,
            "fits": memory.total <= self.available if memory.known else None,
            "largest_batch_tokens": memory.largest_batch(self.available),
        }


def plan(
    what: str | os.PathLike[str] | Mapping[str, Any] | Recipe,
    overrides: Sequence[str] = (),
    *,
    device: str | Device = "a100-80",
    count: int = 1,
    utilisation: float = 0.3,
    tokens_per_second: float | None = None,
    price: float | None = None,
    watts: float | None = None,
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    tokens: float | None = None,
    batch_tokens: int | None = None,
    length: int | None = None,
    activation_checkpointing: bool | None = None,
    network: float | None = None,
    tensor: int = 1,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    read: bool = True,
) -> Plan:
    """What training a model will cost: parameters, operations, memory, time, money.

        time = operations / (count * utilisation * peak),   device hours = count * time,   money = price * device hours

    Arguments:
        what: a recipe, as a file, a mapping or a `Recipe`; or the name of a published model (`PUBLISHED`).
        overrides: `key=value` on top of a recipe.
        device: one of `DEVICES` by its name, `here` for this machine, measured, or a `Device`.
        count: number of devices.
        utilisation: fraction of peak FLOPS that is reached; 0.3 to 0.5 is usual for large models on one machine.
        tokens_per_second: measured throughput of all devices together, from which the time is computed.
        price: price of one device per hour, in any currency.
        watts: power of one device, for the energy.
        precision: dtype of matrix products. `auto` is the recipe's own (there, `auto` is bfloat16 if the device supports it,
            else float32); for a published model, the fastest 16-bit dtype.
        tokens: tokens of the whole run, padding included; by default as in the recipe or paper.
        batch_tokens: tokens per device and batch; for a published model one text by default.
        length: length of a text in tokens.
        activation_checkpointing: recompute blocks in the backward pass; None is as in the recipe.
        network: bandwidth per device between machines of eight, in GB/s each way. Communication between devices is then added
            (`regard.planning.exchange`), and `utilisation` is that of one device alone.
        tensor: with `network`, number of devices that each matrix is divided among.
        parallel: with `network`, data parallelism: `ddp` (all parameters on each device) or `fsdp` (sharded).
        read: read a recipe's data if present; otherwise the largest possible vocabulary is assumed.

    Raises:
        InputError: for an unknown name, with the nearest one; a number out of range; and a run of unknown length.

    >>> found = plan("gpt3-175b", device="v100-32", utilisation=28 / 125, price=1.5)
    >>> round(found.rule / 1e23, 2), round(found.rule_cost.device_years), round(found.rule_cost.money / 1e6, 1)
    (3.14, 356, 4.7)
    """
    _check_numbers(count, utilisation, tokens_per_second, price, watts)
    chosen = device_called(device) if isinstance(device, str) else device
    asked = Asked(tokens=tokens, batch_tokens=batch_tokens, length=length)
    subject = subject_of(what, overrides, asked, count=count, read=read)
    model = subject.model
    format_ = number_format(precision, subject.precision, chosen)
    recomputed = subject.recomputed if activation_checkpointing is None else activation_checkpointing
    operations = count_operations(model, subject.work.shapes)
    parameters = count_parameters(model)
    executed = operations.recomputed if recomputed else operations.training
    speed = count * utilisation * chosen.peak[format_]
    work = subject.work
    measured = None if tokens_per_second is None else work.tokens / tokens_per_second
    rule = 6.0 * parameters.total * work.tokens
    exchanged = None
    if network is not None or tensor > 1:
        joined = Network(between=(network or 0.0) * 1e9, tensor=tensor, parallel=parallel)
        _check_exchange(subject, count, tensor, measured)
        exchanged = _exchange(subject, joined, chosen, count, executed / speed, recomputed=recomputed)
        speed *= exchanged.share
    return Plan(
        name=subject.name,
        config=subject.config,
        work=work,
        parameters=parameters,
        operations=operations,
        recomputed=recomputed,
        device=chosen,
        count=count,
        format=format_,
        utilisation=utilisation if measured is None else None,
        cost=_cost(executed / speed if measured is None else measured, count, price, watts),
        rule_cost=_cost(rule / speed if measured is None else measured, count, price, watts),
        exchange=exchanged,
        memory=_memory(subject, format_, count, chosen),
        notes=_notes(model, operations, subject, tensor),
    )


def _check_exchange(subject: Subject, count: int, tensor: int, measured: float | None) -> None:
    work = subject.work
    if measured is not None:
        raise InputError("--tokens-per-second already includes communication; leave out --network and --tensor")
    if work.updates is None:
        raise InputError(
            f"{subject.name}: its number of updates is not known, so --network cannot be used; leave it out"
        )
    texts = work.tokens / work.updates / (work.largest.length + work.largest.target)
    if count / tensor > texts:
        raise InputError(
            f"--count is {count}: an update has about {texts:,.0f} texts, fewer than the {count / tensor:,.0f} groups of "
            "devices; give fewer devices, or a larger --tensor"
        )


def _exchange(
    subject: Subject, network: Network, device: Device, count: int, seconds: float, *, recomputed: bool
) -> Exchange:
    """The communication in an update.

    Arguments:
        seconds: of the run's computation.
    """
    work, blocks = subject.work, [each for each in subject.model.modules() if isinstance(each, Block)]
    updates = work.updates or 1.0
    tokens = work.tokens / updates
    return exchange(
        network,
        count=count,
        link=device.link,
        compute=seconds / updates,
        parameters=count_parameters(subject.model).trained,
        blocks=len(blocks),
        width=width_of(blocks[0]) if blocks else 0,
        tokens=tokens,
        batches=max(1.0, tokens * network.tensor / count / work.largest.tokens),
        recomputed=recomputed,
    )


def _cost(seconds: float, count: int, price: float | None, watts: float | None) -> Cost:
    hours = seconds / 3600 * count
    return Cost(
        seconds=seconds,
        device_hours=hours,
        money=None if price is None else hours * price,
        kilowatt_hours=None if watts is None else hours * watts / 1000,
    )


def _cost_mapping(cost: Cost) -> dict[str, Any]:
    return {**dataclasses.asdict(cost), "device_years": cost.device_years}


def _memory(subject: Subject, format_: NumberFormat, count: int, device: Device) -> tuple[Memory, ...]:
    model = subject.model
    # Adafactor's rows and columns are not sharded.
    sharded = count > 1 and subject.optimizer != "adafactor"
    kinds: list[Literal["ddp", "fsdp"]] = ["ddp", "fsdp"] if sharded else ["ddp"]
    choices = (False, True) if any(isinstance(module, Block) for module in model.modules()) else (False,)
    return tuple(
        count_memory(
            model,
            subject.work.largest,
            Setup(
                format=format_,
                parallel=parallel,
                count=count,
                recomputed=recomputed,
                optimizer=subject.optimizer,
                momentum=subject.momentum,
                on_processor=device.processor,
                stores_masks=found_kernels()["state"] == "none",
                reserve=0 if device.processor else RESERVE,
            ),
        )
        for parallel in kinds
        for recomputed in choices
    )


def _notes(model: nn.Module, operations: Operations, subject: Subject, tensor: int) -> tuple[str, ...]:
    notes = []
    if tensor > 1:
        notes.append("--tensor is an estimate only: this package trains with DDP and FSDP, for which memory is given")
    if not operations.exact:
        notes.append(
            f"a {type(model).__name__} has no blocks: its operations are counted as two per matrix entry and token, leaving out "
            "attention's products, and its activations are not known"
        )
    if MODELS[subject.config.model_type].interface == "encoder_decoder" and operations.exact:
        notes.append("6ND counts every token through both halves of the model; the exact count each through its own")
    if getattr(subject.config, "head", None) == "choice":
        notes.append("the choices of a question are counted as one long text, so attention's share is too high")
    return tuple(notes)


def _check_numbers(
    count: int, utilisation: float, speed: float | None, price: float | None, watts: float | None
) -> None:
    if count < 1:
        raise InputError(f"--count is {count}; give 1 or more devices")
    if not 0 < utilisation <= 1:
        raise InputError(
            f"--utilisation is {utilisation:g}; give a fraction of the peak above 0 and at most 1; 0.3 is usual"
        )
    if speed is not None and not (math.isfinite(speed) and speed > 0):
        raise InputError(f"--tokens-per-second is {speed:g}; give a number above 0")
    for name, value in (("--price", price), ("--watts", watts)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InputError(f"{name} is {value:g}; give 0 or more")


# A plan as a table.


def rows_of(plan: Plan) -> list[tuple[str, str]]:
    """The rows of a plan's table: parameters, operations, time and money, memory.

    >>> from regard.planning import plan
    >>> dict(rows_of(plan("bert-base", device="t4")))["parameters"]
    '110,106,428'
    """
    return [
        *_model(plan),
        *_operations(plan),
        *_time(plan),
        *_all_memory(plan),
        *(("note", each) for each in plan.notes),
    ]


def _model(plan: Plan) -> Iterator[tuple[str, str]]:
    counted, work = plan.parameters, plan.work
    yield "model", f"{plan.name} ({plan.config.model_type})"
    yield "parameters", f"{counted.total:,}"
    for part, count in sorted(counted.parts.items(), key=lambda each: -each[1]):
        yield f"  {part}", f"{count:,}"
    if counted.trained != counted.total:
        yield "  of these trained", f"{counted.trained:,}"
    yield "reads", f"{number(work.tokens)} tokens: {work.source}"
    if work.updates is not None:
        yield "  updates", f"{work.updates:,.0f}"


def _operations(plan: Plan) -> Iterator[tuple[str, str]]:
    found = plan.operations
    total, tokens = plan.parameters.total, plan.work.tokens
    yield "by the rule", f"6 N D = 6 x {number(total)} x {number(tokens)} = {number(plan.rule)} operations"
    name = "counted" if found.exact else "estimated"
    yield name, f"forward {number(found.forward)}"
    for part, operations in found.parts.items():
        yield f"  {part}", f"{number(operations)} ({operations / found.forward:.1%})"
    yield "  with backward", f"3 x {number(found.forward)} = {number(found.training)}"
    if found.exact:
        yield "  checkpointed", f"{number(found.recomputed)}, each block computed forward twice"


def _time(plan: Plan) -> Iterator[tuple[str, str]]:
    device, count = plan.device, plan.count
    peak = device.peak[plan.format]
    yield "on", f"{count:,} x {device.title} ({device.source})"
    executed = plan.exact
    if plan.utilisation is None:
        yield "time", f"{number(plan.work.tokens)} tokens at the speed given = {duration(plan.cost.seconds)}"
    else:
        share = "" if plan.exchange is None else f" x {plan.exchange.share:.3g}"
        speed = f"({count:,} x {plan.utilisation:.3g}{share} x {number(peak)}/s in {plan.format})"
        yield "time", f"{number(executed)} / {speed} = {duration(plan.cost.seconds)}"
        yield "  by the rule", duration(plan.rule_cost.seconds)
        yield "  tokens a second", f"{plan.work.tokens / plan.cost.seconds:,.0f} of all devices together"
    if plan.exchange is not None:
        yield from _exchanged(plan.exchange, device)
    yield "device hours", _hours(plan.cost)
    if plan.cost.money is not None:
        by_rule = f" (by the rule {plan.rule_cost.money:,.0f})" if plan.utilisation is not None else ""
        yield "money", f"{plan.cost.money:,.0f}{by_rule}"
    if plan.cost.kilowatt_hours is not None:
        yield "energy", f"{plan.cost.kilowatt_hours:,.4g} kWh, of the devices alone"


def _exchanged(found: Exchange, device: Device) -> Iterator[tuple[str, str]]:
    joined = found.network
    near = "the same" if device.link is None else f"{device.link / 1e9:g} GB/s"
    yield (
        "exchange",
        f"{joined.parallel.upper()}, matrices divided among {joined.tensor}; {near} in a machine of {joined.machine}, "
        f"{joined.between / 1e9:g} GB/s between machines (assumed)",
    )
    parts = (
        f"{duration(found.compute)} computing",
        f"{duration(found.inside)} exchanging inside the blocks",
        f"{duration(found.data)} gradients and parameters, {duration(found.hidden)} of them meanwhile",
    )
    yield "  an update", f"{' + '.join(parts)} = {duration(found.seconds)}, {found.share:.1%} computing"


def _hours(cost: Cost) -> str:
    years = f", {cost.device_years:,.4g} years of one device" if cost.device_years >= 1 else ""
    return f"{cost.device_hours:,.4g}{years}"


def _all_memory(plan: Plan) -> Iterator[tuple[str, str]]:
    largest = plan.work.largest
    texts = f"{largest.rows:,.0f} x {largest.length:,.0f}" + (f" + {largest.target:,.0f}" if largest.target else "")
    yield "memory", f"of one device, {gibibytes(plan.available)} of it; a batch of {texts} tokens"
    for memory in plan.memory:
        yield f"  {_way(memory)}", _one_memory(memory, plan.available)


def _way(memory: Memory) -> str:
    if memory.setup.count == 1:
        return "checkpointed" if memory.setup.recomputed else "plain"
    return memory.setup.parallel.upper() + (", checkpointed" if memory.setup.recomputed else "")


def _one_memory(memory: Memory, available: float) -> str:
    parts = " + ".join(f"{name} {gibibytes(size)}" for name, size in memory.parts.items() if size)
    if not memory.known:
        return f"{parts} = {gibibytes(memory.total)} and activations"
    largest = memory.largest_batch(available)
    fits = memory.total <= available
    verdict = (
        f"fits, up to {largest:,.0f} tokens"
        if fits
        else "does not fit" + (f", but {largest:,.0f} tokens do" if largest >= 1 else "")
    )
    return f"{parts} = {gibibytes(memory.total)}: {verdict}"


def number(value: float) -> str:
    """A number with three significant digits; small ones are written out.

    >>> number(3.1428e23), number(512), number(50_000)
    ('3.14e23', '512', '50,000')
    """
    if value < 1e6:
        return f"{value:,.0f}"
    exponent = math.floor(math.log10(value))
    mantissa = f"{value / 10**exponent:.3g}"
    return f"{mantissa}e{exponent}"


def duration(seconds: float) -> str:
    """A time in a suitable unit.

    >>> duration(90), duration(7200), duration(3e10)
    ('1.5 minutes', '2 hours', '951 years')
    """
    for unit, size in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= (2 * size if unit in ("years", "days") else size):
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:,.3g} seconds"
