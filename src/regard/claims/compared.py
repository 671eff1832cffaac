"""The results of a comparison: numbers of every run, medians and ranges, a table, JSON, a plot."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.claims.comparison import Comparison
from regard.claims.measure import FALLING, Measure
from regard.claims.measuring import Bin, Value
from regard.errors import InputError, nearest
from regard.inspection.plots import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

    from regard.claims.catalogue import Computation


Seeds = dict[int, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One arm with one seed, trained and measured.

    Arguments:
        folder: the folder of the trained run; that of another arm for an arm that uses its runs.
        parameters: the number of the model's parameters.
        steps, reason: the number of updates, and why the run ended.
        training_seconds, measuring_seconds: the duration, with time before a resume; 0 for the training of an arm that uses the
            runs of another one.
        values: the value of each measure.
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
        comparison: the comparison.
        folder: the folder of the runs.
        runs: the runs, arm by arm, in the order of the seeds.
    """

    comparison: Comparison | Computation
    folder: Path
    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """The duration of training and measuring of all runs."""
        return sum(run.training_seconds + run.measuring_seconds for run in self.runs)

    def of(self, arm: str) -> tuple[Run, ...]:
        """The runs of an arm.

        Raises:
            InputError: for an unknown arm, with the nearest one.
        """
        return tuple(run for run in self.runs if run.arm == self.comparison.arm(arm).name)

    def measure(self, name: str) -> Measure:
        """The measure of that name.

        Raises:
            InputError: for an unknown name, with the nearest one.
        """
        names = [measure.name for measure in self.comparison.measures]
        if name not in names:
            raise InputError(f"there is no measure {name!r}; {nearest(name, names)}")
        return self.comparison.measures[names.index(name)]

    def values(self, arm: str, measure: str, length: int | None = None) -> Seeds:
        """The number of each seed; infinity for a threshold that was never reached, None for no number or NaN.

        Arguments:
            length: for a measure with bins, the number of source words whose bin is used; for a measure along an axis, the
                position on it.

        Raises:
            InputError: for an unknown arm or measure, or a length for a measure without bins.
        """
        name = self.measure(measure).name
        if length is None:
            return {run.seed: _known(run.values[name].number) for run in self.of(arm)}
        return {run.seed: _known(_bin_of(run.values[name], length, name).value) for run in self.of(arm)}

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values, and for every arm and measure the value of each seed with median and range."""
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
        """A table of arms by measures: the median over seeds, and the range."""
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
        """For each measure with bins a table of arms by lengths; for measures along an axis of positions by arms."""
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
        """Write the comparison as an image, .png or .svg.

        Raises:
            InputError: for another suffix, or without matplotlib.
        """
        save_plot(self, path, title)


def median(values: Seeds) -> float | None:
    """The median over seeds; None if a seed has no number."""
    known = [value for value in values.values() if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None


def spread_json(values: Seeds) -> dict[str, Any]:
    """Median, range and each seed's value as JSON; null for no number and for a threshold that was not reached."""
    known = [value for value in values.values() if value is not None]
    return {
        "median": _finite(median(values)),
        "smallest": _finite(min(known, default=None)),
        "largest": _finite(max(known, default=None)),
        "seeds": {str(seed): _finite(value) for seed, value in values.items()},
    }


def spoken(measure: Measure, values: Seeds) -> str:
    """The median, and the range if seeds differ, as text.

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
    """A number as text in the usual form: shares in percent, BLEU with one digit."""
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
    """The number, or None for NaN, as for a run that diverged."""
    return None if value is None or math.isnan(value) else value


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


# A comparison as one figure: learning curves with their spread over seeds, and every measure by arm.


SUFFIXES = (".png", ".svg")

# The colours of Okabe and Ito, which are distinguishable with any colour vision; then again with other line styles.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
PANEL_WIDTH, CURVE_HEIGHT, ROW_HEIGHT, HEADING, TITLE_LINE = 5.2, 3.4, 0.3, 1.0, 0.22  # inches
LETTERS_PER_INCH = 11.0  # in titles
COLUMNS = 2
DOTS_PER_INCH = 130
# Without parse_math=False a dollar sign in an arm's name would start a formula.
PLAIN: dict[str, Any] = {"parse_math": False}
SHARES = ("token_accuracy", "position_accuracy", "exact_match")


def save_plot(compared: Compared, path: str | os.PathLike[str], title: str = "") -> None:
    """Write the figure as .png or .svg.

    Raises:
        InputError: for another suffix, without matplotlib, or a path that cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: cannot write a plot as {suffix or 'a file without suffix'!r}; give .png or .svg")
    write_figure(figure(compared, title), path, {}, dots_per_inch=DOTS_PER_INCH)


def figure(compared: Compared, title: str = "") -> Figure:
    """The figure of `save_plot`, for further changes; it is not registered with pyplot.

    There is a panel for each validation metric that a measure uses, if it was evaluated more than once (lines are medians over
    seeds, bands their range); then a panel for each measure, with a point for each seed and a bar at the median. Measures with
    several numbers are plotted against length or their axis.

    Raises:
        InputError: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None

    comparison = compared.comparison
    metrics = _metrics(compared)
    measures = [measure for measure in comparison.measures if measure.kind not in ("parameters", "validation")]
    measures += [
        measure for measure in comparison.measures if measure.kind == "validation" and not (measures and metrics)
    ]
    if not measures and not metrics:
        metrics = ["loss"] * any(run.curves for run in compared.runs)
    panels: list[tuple[str, Any, float]] = [("curve", metric, CURVE_HEIGHT) for metric in metrics]
    for measure in measures:
        height = CURVE_HEIGHT if measure.parted else max(1.6, HEADING + ROW_HEIGHT * len(comparison.arms))
        panels.append(("bins" if measure.parted else "dots", measure, height))
    rows = [panels[start : start + COLUMNS] for start in range(0, len(panels), COLUMNS)]
    heights = [max(height for _, _, height in row) for row in rows]
    width = PANEL_WIDTH * min(COLUMNS, len(panels))
    title_lines = sum(math.ceil(len(line) / (LETTERS_PER_INCH * width)) for line in title.splitlines())
    plot = Figure(figsize=(width, sum(heights) + TITLE_LINE * title_lines), layout="constrained")
    grid = plot.add_gridspec(len(rows), min(COLUMNS, len(panels)), height_ratios=heights)
    styles = _styles(compared)
    for number, (kind, what, _) in enumerate(panels):
        axes = plot.add_subplot(grid[number // COLUMNS, number % COLUMNS])
        if kind == "curve":
            _curve(axes, compared, what, styles)
        elif kind == "bins":
            _by_length(axes, compared, what, styles)
        else:
            _dots(axes, compared, what, styles)
        axes.spines[["top", "right"]].set_visible(False)
    lines: dict[str, Any] = {}
    for axes in plot.axes:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    if lines:
        legend = plot.legend(
            list(lines.values()),
            list(lines),
            loc="outside lower center",
            ncols=max(1, min(4, int(110 / (6 + max(map(len, lines)))))),
            frameon=False,
            fontsize=8,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    if why := why_no_curves(compared):
        plot.supxlabel(why, fontsize=8, x=0.01, ha="left", wrap=True, **PLAIN)
    if title:
        plot.suptitle(title, fontsize=11, x=0.01, ha="left", wrap=True, **PLAIN)
    return plot


def why_no_curves(compared: Compared) -> str:
    """Why the figure has no learning curves although models were trained; empty if it has some."""
    if not any(run.curves for run in compared.runs) or _metrics(compared):
        return ""
    steps = max(run.steps for run in compared.runs)
    return (
        "no learning curves, because each run was evaluated once; a training.evaluate_every below its "
        f"{steps:,} updates evaluates more often"
    )


def _metrics(compared: Compared) -> list[str]:
    """The validation metrics to plot over steps, if evaluated more than once: those of the measures, else the loss."""
    asked = [m.metric for m in compared.comparison.measures if m.kind in ("validation", "steps_to") and m.metric]
    known = {metric for run in compared.runs for metric, points in run.curves.items() if len(points) > 1}
    there = [metric for metric in dict.fromkeys(asked) if metric in known]
    if "perplexity" in there and "loss" in there:  # perplexity is the exponential of the loss
        there.remove("perplexity")
    return there or ["loss"] * bool(known)


def _styles(compared: Compared) -> dict[str, dict[str, Any]]:
    names = [arm.name for arm in compared.comparison.arms]
    return {
        name: {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        for number, name in enumerate(names)
    }


def _curve(axes: Axes, compared: Compared, metric: str, styles: dict[str, dict[str, Any]]) -> None:
    for arm in compared.comparison.arms:
        if arm.trains is not None:  # its curve is that of the other arm
            continue
        steps, middles, lows, highs = _band(compared.of(arm.name), metric)
        style = styles[arm.name]
        axes.plot(steps, middles, label=arm.name, linewidth=1.6, marker="o" if len(steps) == 1 else "", **style)
        if len(compared.comparison.seeds) > 1:
            axes.fill_between(steps, lows, highs, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_title(f"validation {_called(metric)}", fontsize=9, loc="left", **PLAIN)
    axes.set_xlabel("updates", fontsize=8)
    axes.tick_params(labelsize=7)
    if metric in SHARES:
        axes.set_ylim(-0.02, 1.02)
    elif metric in FALLING and _spans_decades(axes):
        axes.set_yscale("log")


def _band(runs: Sequence[Run], metric: str) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps, medians, minima and maxima over the seeds that were evaluated at each step."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for step, value in run.curves.get(metric, ()):
            if math.isfinite(value):
                found.setdefault(step, []).append(value)
    steps = sorted(found)
    return (
        steps,
        [statistics.median(found[step]) for step in steps],
        [min(found[step]) for step in steps],
        [max(found[step]) for step in steps],
    )


def _dots(axes: Axes, compared: Compared, measure: Measure, styles: dict[str, dict[str, Any]]) -> None:
    arms = compared.comparison.arms
    shown: list[float] = []
    for place, arm in enumerate(arms):
        values = compared.values(arm.name, measure.name)
        known = [value for value in values.values() if value is not None and math.isfinite(value)]
        shown += known
        colour = styles[arm.name]["color"]
        axes.plot(known, [place] * len(known), "o", color=colour, alpha=0.6, markersize=5, gid=f"seeds:{arm.name}")
        middle = median(values)
        if middle is not None and math.isfinite(middle):
            axes.plot(
                [middle], [place], "|", color=colour, markersize=16, markeredgewidth=2.5, gid=f"median:{arm.name}"
            )
        lost = len(values) - len(known)
        if lost:
            text = "not reached" if measure.kind == "steps_to" else "no number"
            note = text if lost == len(values) else f"{text}: {lost} of {len(values)}"
            # The note is in the middle of an empty row, else above its end.
            where, above, side = (0.5, 0.0, "center") if not known else (1.0, 0.3, "right")
            place_of = axes.get_yaxis_transform()
            axes.text(where, place - above, note, transform=place_of, fontsize=7, ha=side, va="center", color="0.4")
    if not shown:
        axes.set_xticks([])
    axes.set_yticks(range(len(arms)), [arm.name for arm in arms], fontsize=8, **PLAIN)
    axes.set_ylim(len(arms) - 0.5, -0.6)
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    if measure.metric in SHARES and measure.kind != "steps_to":
        axes.set_xlim(-0.02, 1.02)
    elif shown and min(shown) >= 0 and max(shown) > 3 * max(min(shown), 1e-9):
        axes.set_xlim(left=0)
    axes.set_title(_heading(measure), fontsize=9, loc="left", **PLAIN)


def _by_length(axes: Axes, compared: Compared, measure: Measure, styles: dict[str, dict[str, Any]]) -> None:
    parts = compared.runs[0].values[measure.name].bins
    for arm in compared.comparison.arms:
        places, middles, lows, highs = [], [], [], []
        for place, part in enumerate(parts):
            values = compared.values(arm.name, measure.name, part.shortest)
            middle = median(values)
            known = [value for value in values.values() if value is not None]
            if middle is not None:
                places.append(place)
                middles.append(middle)
                lows.append(min(known))
                highs.append(max(known))
        style = styles[arm.name]
        axes.plot(places, middles, label=arm.name, marker="o", markersize=4, linewidth=1.6, **style)
        if len(compared.comparison.seeds) > 1:
            axes.fill_between(places, lows, highs, color=style["color"], alpha=0.18, linewidth=0)
    axes.set_xticks(range(len(parts)), [part.label for part in parts], fontsize=7)
    axes.set_xlabel(measure.along or "words of the source", fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    if measure.along and _spans_decades(axes):
        axes.set_yscale("log")
    if measure.metric in SHARES:
        axes.set_ylim(-0.02, 1.02)
    axes.set_title(_heading(measure), fontsize=9, loc="left", **PLAIN)


def _heading(measure: Measure) -> str:
    name, what = _called(measure.name), _called(measure.metric or measure.kind)
    return name if what.casefold() in name.casefold() or measure.kind == "computed" else f"{name} ({what})"


def _called(name: str) -> str:
    return name.replace("_", " ").replace("bleu", "BLEU").replace("chrf", "chrF")


def _spans_decades(axes: Axes) -> bool:
    values = [float(value) for line in axes.get_lines() for value in line.get_ydata() if value > 0]  # type: ignore[union-attr]
    return bool(values) and max(values) > 20 * min(values)
