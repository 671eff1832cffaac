"""What a comparison found: numbers for every run, medians and ranges, a table, JSON, a plot."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.claims.comparison import Comparison
from regard.claims.measure import Measure
from regard.claims.measuring import Bin, Value
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from regard.claims.computation import Computation

Seeds = dict[int, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One arm with one seed, trained and measured.

    Arguments:
        folder: of the trained run; another arm's for an arm that takes its runs.
        parameters: of the model.
        steps, reason: updates made, and why no more.
        training_seconds, measuring_seconds: over all sittings; no training for an arm that takes another's runs.
        values: by measure.
        curves: by metric, (step, value) of every evaluation during training.
    """

    arm: str
    seed: int
    folder: Path
    parameters: int
    steps: int
    reason: str
    training_seconds: float
    measuring_seconds: float
    values: Mapping[str, Value]
    curves: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A finished comparison.

    Arguments:
        comparison: what was compared.
        folder: where the runs are.
        runs: arm by arm, in the order of the seeds.
    """

    comparison: Comparison | Computation
    folder: Path
    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """Training and measuring of all runs, over all sittings."""
        return sum(run.training_seconds + run.measuring_seconds for run in self.runs)

    def of(self, arm: str) -> tuple[Run, ...]:
        """The runs of an arm.

        Raises:
            InputError: where there is no such arm, with the nearest.
        """
        return tuple(run for run in self.runs if run.arm == self.comparison.arm(arm).name)

    def measure(self, name: str) -> Measure:
        """The measure of that name.

        Raises:
            InputError: where there is none, with the nearest.
        """
        names = [measure.name for measure in self.comparison.measures]
        if name not in names:
            raise InputError(f"there is no measure {name!r}; {nearest(name, names)}")
        return self.comparison.measures[names.index(name)]

    def values(self, arm: str, measure: str, length: int | None = None) -> Seeds:
        """The number of each seed; infinity for a threshold that was never reached, None where there is none (or NaN).

        Arguments:
            length: for a measure with bins: only pairs with sources of so many words; for one along something, the place there.

        Raises:
            InputError: for an arm or measure that does not exist, or a length given of a measure without bins.
        """
        name = self.measure(measure).name
        if length is None:
            return {run.seed: _known(run.values[name].number) for run in self.of(arm)}
        return {run.seed: _known(_bin_of(run.values[name], length, name).value) for run in self.of(arm)}

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values: what was compared, and for every arm and measure each seed's value with median and range."""
        return {
            "format_version": 1,
            "comparison": self.comparison.to_mapping(),
            "arms": [self._arm_json(arm.name) for arm in self.comparison.arms],
            "seconds": round(self.seconds, 3),
        }

    def _arm_json(self, name: str) -> dict[str, Any]:
        runs = self.of(name)
        return {
            "name": name,
            "settings": self.comparison.arm(name).to_mapping(),
            "parameters": runs[0].parameters,
            "runs": [
                {
                    "seed": run.seed,
                    "folder": str(run.folder),
                    "steps": run.steps,
                    "reason": run.reason,
                    "seconds": round(run.training_seconds + run.measuring_seconds, 3),
                }
                for run in runs
            ],
            "measures": {measure.name: self._measure_json(name, measure) for measure in self.comparison.measures},
        }

    def _measure_json(self, arm: str, measure: Measure) -> dict[str, Any]:
        found = spread_json(self.values(arm, measure.name))
        if not measure.parted:
            return found
        parts = self.of(arm)[0].values[measure.name].bins
        return found | {
            "bins": [
                {"shortest": part.shortest, "longest": part.longest, "count": part.count}
                | spread_json(self.values(arm, measure.name, part.shortest))
                for part in parts
            ]
        }

    def table(self) -> Table:
        """Arms by measures: the median over seeds, and the range behind it."""
        from rich.table import Table

        table = Table(header_style="bold")
        table.add_column("arm")
        trained = any(run.parameters for run in self.runs)
        if trained:
            table.add_column("parameters", justify="right")
        measures = [measure for measure in self.comparison.measures if measure.kind != "parameters"]
        for measure in measures:
            table.add_column(measure.name, justify="right")
        for arm in self.comparison.arms:
            cells = [spoken(measure, self.values(arm.name, measure.name)) for measure in measures]
            size = [f"{self.of(arm.name)[0].parameters:,}"] if trained else []
            table.add_row(arm.name, *size, *cells)
        return table

    def bin_tables(self) -> dict[str, Table]:
        """For each measure with bins arms by lengths; for those along something a row for each place, arms beside."""
        return {
            measure.name: self._along_table(measure) if measure.along else self._bin_table(measure)
            for measure in self.comparison.measures
            if measure.parted
        }

    def _bin_table(self, measure: Measure) -> Table:
        from rich.table import Table

        table = Table(header_style="bold")
        table.add_column("arm")
        for part in self.runs[0].values[measure.name].bins:
            table.add_column(f"{part.label} words", justify="right")
        for arm in self.comparison.arms:
            parts = self.of(arm.name)[0].values[measure.name].bins
            found = [self.values(arm.name, measure.name, part.shortest) for part in parts]
            table.add_row(arm.name, *(spoken(measure, values) for values in found))
        return table

    def _along_table(self, measure: Measure) -> Table:
        from rich.table import Table

        table = Table(header_style="bold")
        table.add_column(measure.along)
        for arm in self.comparison.arms:
            table.add_column(arm.name, justify="right")
        for part in self.runs[0].values[measure.name].bins:
            found = [self.values(arm.name, measure.name, part.shortest) for arm in self.comparison.arms]
            table.add_row(part.label, *(spoken(measure, values) for values in found))
        return table

    def save_plot(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write the comparison as a picture, .png or .svg.

        Raises:
            InputError: for another suffix, or without matplotlib.
        """
        from regard.claims.figures import save_plot

        save_plot(self, path, title)


def median(values: Seeds) -> float | None:
    """The median over seeds; None where a seed has no number."""
    known = [value for value in values.values() if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def spread_json(values: Seeds) -> dict[str, Any]:
    """Median, range and each seed's value; null for no number and for a threshold that was not reached."""
    known = [value for value in values.values() if value is not None]
    return {
        "median": _finite(median(values)),
        "smallest": _finite(min(known, default=None)),
        "largest": _finite(max(known, default=None)),
        "seeds": {str(seed): _finite(value) for seed, value in values.items()},
    }


def spoken(measure: Measure, values: Seeds) -> str:
    """The median and, where seeds differ, the range.

    >>> spoken(Measure(name="b", kind="decoded", metric="bleu"), {1: 30.0, 2: 31.25, 3: 33.0})
    '31.2 (30.0-33.0)'
    """
    middle = median(values)
    known = [value for value in values.values() if value is not None]
    if middle is None:
        return "-" if not known else f"? ({', '.join(number_text(measure, value) for value in known)})"
    low, high = (number_text(measure, end(known)) for end in (min, max))
    text = number_text(measure, middle)
    return text if low == high else f"{text} ({low.removesuffix(' %')}-{high.removesuffix(' %')})"


def number_text(measure: Measure, value: float) -> str:
    """A number as people write it: shares in per cent, BLEU with one digit."""
    if math.isinf(value):
        return "never" if measure.kind == "steps_to" else "infinite"
    if measure.kind in ("steps_to", "steps", "parameters", "tokens_per_second"):
        return f"{value:,.0f}"
    if measure.kind in ("seconds", "seconds_per_epoch"):
        return f"{value:.1f}"
    if measure.metric in ("exact_match", "token_accuracy", "position_accuracy") or measure.kind in (
        "in_context",
        "repeated",
    ):
        return f"{100 * value:.1f} %"
    return f"{value:.1f}" if measure.metric in ("bleu", "chrf") else f"{value:.4g}"


def _bin_of(value: Value, length: int, measure: str) -> Bin:
    for part in value.bins:
        if part.shortest <= length and (part.longest is None or length <= part.longest):
            return part
    raise InputError(f"measure {measure!r} has no bin for a length of {length}; give bins, such as [10, 20]")


def _known(value: float | None) -> float | None:
    """A run that diverged has no number."""
    return None if value is None or math.isnan(value) else value


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
