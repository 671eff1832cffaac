"""What `regard evaluate` reports: values for programs, a table for people."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from regard.cli.console import say
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured.

    Arguments:
        values: of the JSON object, beside the model and the data.
        rows: of the table.
        below: lines that follow it.
    """

    values: Mapping[str, Any]
    rows: Sequence[tuple[str, str]]
    below: Sequence[str] = ()


def timed(measure: Callable[[], T]) -> tuple[T, float]:
    """What a measurement finds, and the seconds it took."""
    started = time.monotonic()
    found = measure()
    return found, round(time.monotonic() - started, 3)


def counted(name: str, count: int, seconds: float) -> tuple[str, str]:
    """The first row of a table.

    >>> counted("pairs", 2000, 1.25)
    ('pairs', '2,000 in 1.2 seconds')
    """
    return name, f"{count:,} in {seconds:.1f} seconds"


def metric_rows(metrics: Mapping[str, float], signatures: Mapping[str, str]) -> list[tuple[str, str]]:
    """A row for each metric, with the signature of the tool that gave it where there is one."""
    rows = []
    for name, value in metrics.items():
        words, number = metric_text(name, value)
        rows.append((words, f"{number}  {signatures.get(name, '')}".rstrip()))
    return rows


def say_malformed(malformed: MalformedRows) -> None:
    """Say which columns were read where not all were named, and what was left out, if anything was."""
    for note in malformed.notes:
        say(note)
