"""A comparison as one figure: learning curves with their spread over seeds, and every measure by arm."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.claims.compared import Compared, Run, median
from regard.claims.measure import FALLING, Measure
from regard.errors import InputError
from regard.inspection.plots import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

# Okabe and Ito's colours, which people with any colour vision can tell apart; then the same again with other lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
PANEL_WIDTH, CURVE_HEIGHT, ROW_HEIGHT, HEADING, TITLE_LINE = 5.2, 3.4, 0.3, 1.0, 0.22  # inches
LETTERS_PER_INCH = 11.0  # of a title
COLUMNS = 2
DOTS_PER_INCH = 130
# Without parse_math=False a dollar sign in an arm's name would begin a formula.
PLAIN: dict[str, Any] = {"parse_math": False}
SHARES = ("token_accuracy", "position_accuracy", "exact_match")


def save_plot(compared: Compared, path: str | os.PathLike[str], title: str = "") -> None:
    """Write the figure as .png or .svg.

    Raises:
        InputError: for another suffix, without matplotlib, or a place that cannot be written to.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: cannot write a plot as {suffix or 'a file without suffix'!r}; give .png or .svg")
    write_figure(figure(compared, title), path, {}, dots_per_inch=DOTS_PER_INCH)


def figure(compared: Compared, title: str = "") -> Figure:
    """The figure that `save_plot` writes, to be changed further; it is not known to pyplot.

    A panel for each validation metric that is measured or reached for, where it was evaluated more than once (lines are
    medians over seeds, bands their range), then one for each measure: a point for each seed, a bar at the median; against
    length, or against what they are measured along, for measures of several numbers.

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
    told = sum(math.ceil(len(line) / (LETTERS_PER_INCH * width)) for line in title.splitlines())
    drawing = Figure(figsize=(width, sum(heights) + TITLE_LINE * told), layout="constrained")
    grid = drawing.add_gridspec(len(rows), min(COLUMNS, len(panels)), height_ratios=heights)
    styles = _styles(compared)
    for number, (kind, what, _) in enumerate(panels):
        axes = drawing.add_subplot(grid[number // COLUMNS, number % COLUMNS])
        if kind == "curve":
            _curve(axes, compared, what, styles)
        elif kind == "bins":
            _by_length(axes, compared, what, styles)
        else:
            _dots(axes, compared, what, styles)
        axes.spines[["top", "right"]].set_visible(False)
    lines: dict[str, Any] = {}
    for axes in drawing.axes:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    if lines:
        legend = drawing.legend(
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
        drawing.supxlabel(why, fontsize=8, x=0.01, ha="left", wrap=True, **PLAIN)
    if title:
        drawing.suptitle(title, fontsize=11, x=0.01, ha="left", wrap=True, **PLAIN)
    return drawing


def why_no_curves(compared: Compared) -> str:
    """A sentence where the figure has no learning curves though models were trained; empty where it has some."""
    if not any(run.curves for run in compared.runs) or _metrics(compared):
        return ""
    steps = max(run.steps for run in compared.runs)
    return (
        "no learning curves, for each run was evaluated once; a training.evaluate_every below its "
        f"{steps:,} updates evaluates more often"
    )


def _metrics(compared: Compared) -> list[str]:
    """The validation metrics to draw over steps, where there are several: those that the measures speak of, else the loss."""
    asked = [m.metric for m in compared.comparison.measures if m.kind in ("validation", "steps_to") and m.metric]
    drawn = {metric for run in compared.runs for metric, points in run.curves.items() if len(points) > 1}
    there = [metric for metric in dict.fromkeys(asked) if metric in drawn]
    if "perplexity" in there and "loss" in there:  # one is the other's exponential
        there.remove("perplexity")
    return there or ["loss"] * bool(drawn)


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
        if arm.trains is not None:  # its curve is the other's
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
    """Steps, medians, lowest and highest over the seeds that were evaluated at each step."""
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
            # In the middle of an empty row, else above its end.
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
