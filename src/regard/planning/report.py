"""A plan as people read it, with the working shown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from regard.planning.devices import GIBIBYTE
from regard.planning.memory import Memory
from regard.planning.plan import Cost, Plan


def rows_of(plan: Plan) -> list[tuple[str, str]]:
    """Names and what they are, in the order of the working: parameters, operations, time and money, memory.

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
        speed = f"({count:,} x {plan.utilisation:.3g} x {number(peak)}/s in {plan.format})"
        yield "time", f"{number(executed)} / {speed} = {duration(plan.cost.seconds)}"
        yield "  by the rule", duration(plan.rule_cost.seconds)
        yield "  tokens a second", f"{plan.work.tokens / plan.cost.seconds:,.0f} of all devices together"
    yield "device hours", _hours(plan.cost)
    if plan.cost.money is not None:
        by_rule = f" (by the rule {plan.rule_cost.money:,.0f})" if plan.utilisation is not None else ""
        yield "money", f"{plan.cost.money:,.0f}{by_rule}"
    if plan.cost.kilowatt_hours is not None:
        yield "energy", f"{plan.cost.kilowatt_hours:,.4g} kWh, of the devices alone"


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
    """A number to three digits, plainly where that is short.

    >>> number(3.1428e23), number(512), number(50_000)
    ('3.14e23', '512', '50,000')
    """
    if value < 1e6:
        return f"{value:,.0f}"
    exponent = math.floor(math.log10(value))
    mantissa = f"{value / 10**exponent:.3g}"
    return f"{mantissa}e{exponent}"


def gibibytes(size: float) -> str:
    """Bytes in GiB, or MiB, to three digits.

    >>> gibibytes(3 * 2**29), gibibytes(2**24)
    ('1.5 GiB', '16 MiB')
    """
    if size < GIBIBYTE / 10:
        return f"{1024 * size / GIBIBYTE:,.3g} MiB"
    return f"{size / GIBIBYTE:,.3g} GiB" if size < 1000 * GIBIBYTE else f"{size / GIBIBYTE:,.0f} GiB"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(90), duration(7200), duration(3e10)
    ('1.5 minutes', '2 hours', '951 years')
    """
    for unit, size in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= (2 * size if unit in ("years", "days") else size):
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:,.3g} seconds"
