"""`regard doctor`: the machine, what is installed, and what is slow here and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.cli.console import envelope, print_json, print_table
from regard.cli.settings import Json

if TYPE_CHECKING:
    from collections.abc import Iterator


def doctor(as_json: Json = False) -> None:
    """Report the hardware, the installed software, and what is slow on this machine and why.

    It measures for about a second and changes nothing. The exit code is always 0.

    \b
    Example:
      regard doctor
      regard doctor --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    say_machine("doctor", as_json=as_json)


def say_machine(command: str, *, as_json: bool) -> None:
    """Print the facts and remarks of `regard.checking.machine`."""
    from regard.checking.machine import examine, remarks

    found = examine()
    notes = remarks(found)
    if as_json:
        print_json(envelope(command) | found | {"remarks": notes})
        return
    print_table(_rows(found))
    print("\n" + ("What is slow here, and why:" if notes else "Nothing was found that makes regard slow here."))
    for note in notes:
        print(f"- {note}.")


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from regard.checking.machine import spins
    from regard.rendering import gibibytes

    yield from ((name, version or "not installed") for name, version in found["versions"].items())
    yield "system", found["system"]
    limits = [f"{found['allowed']} allowed"] if found["allowed"] not in (None, found["processors"]) else []
    limits += [f"the container's limit is {found['quota']:g}"] if found["quota"] is not None else []
    limits += [f"load {found['load']:.1f}"] if found["load"] is not None else []
    yield "processors", ", ".join([f"{found['processors']} x {found['processor']}", *limits])
    yield "instructions", ", ".join(found["instructions"]) or "not known"
    waiting = (
        "occupy their cores"
        if spins(found["environment"])
        else "sleep soon (in your own programs, set GOMP_SPINCOUNT=1000)"
    )
    yield "threads", f"{found['threads']}; waiting ones {waiting}"
    yield "GPUs", ", ".join(found["gpus"]) or "none"
    yield "precision", f"auto means {found['precision']['reason']}"
    speeds = ", ".join(f"{speed:,.0f} GFLOP/s in {name}" for name, speed in found["speed"].items())
    yield "matrix product", f"{speeds}, on the CPU"
    kernels = found["kernels"]
    yield "kernels", f"{kernels['variant']}: {kernels['state']}" + (f", {kernels['why']}" if kernels["why"] else "")
    yield "compiler", kernels["compiler"] or "none"
    sizes = {name: size for name, size in found["memory"].items() if size is not None}
    yield "memory", ", ".join(f"{gibibytes(size)} {name}" for name, size in sizes.items()) or "not known"
    for name, place in found["disk"].items():
        free = "not known" if place["free"] is None else f"{gibibytes(place['free'])} free"
        yield "disk", f"{free} for {name} ({place['path']})"
    cache = found["cache"]
    yield "cache", "none" if cache["path"] is None else f"{cache['path']}, {gibibytes(cache['bytes'])}"
    for name, parts in found["extras"].items():
        there = ", ".join(f"{part} {version}" for part, version in parts.items() if version)
        missing = ", ".join(part for part, version in parts.items() if not version)
        text = f"not installed ({missing}): pip install 'regard[{name}]'" if missing else there
        yield f"[{name}]", text
    if not found["extras"]:
        yield "extras", "not known: regard is run from source, not installed"
