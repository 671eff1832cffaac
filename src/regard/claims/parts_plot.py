"""The parts of a verdict as one figure: all seeds, the interval, the threshold, and the paper's number."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.claims.compared import COLOURS, DOTS_PER_INCH, PLAIN, SUFFIXES
from regard.errors import InputError
from regard.inspection.plots import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, ROW_HEIGHT, FOOT, TITLE_LINE = 8.0, 1.05, 0.5, 0.22  # inches
LETTERS = 92
"""The maximum number of letters in a line of a title."""

VERDICT_COLOURS: Mapping[str, str] = {
    "supported": COLOURS[2],
    "contradicted": COLOURS[1],
    "met": COLOURS[0],
    "not met": COLOURS[4],
}
"""The colours of verdicts; others are grey."""


def save_parts_plot(parts: Sequence[Mapping[str, Any]], path: str | os.PathLike[str], title: str = "") -> None:
    """Write the figure as .png or .svg.

    Arguments:
        parts: the parts, as from `PartVerdict.to_json`.

    Raises:
        InputError: for another suffix, without matplotlib, or a path that cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: cannot write a plot as {suffix or 'a file without suffix'!r}; give .png or .svg")
    write_figure(parts_figure(parts, title), path, {}, dots_per_inch=DOTS_PER_INCH)


def parts_figure(parts: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """A panel for each part: a point for each seed, a bar over the interval with the median, and the predicted side shaded.

    The paper's number is a diamond. For a part without numbers the panel has the reason.

    Raises:
        InputError: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    lines = [line for text in title.splitlines() for line in textwrap.wrap(text, LETTERS) or [""]]
    height = ROW_HEIGHT * max(1, len(parts)) + FOOT + TITLE_LINE * len(lines)
    plot = Figure(figsize=(WIDTH, height), layout="constrained")
    for number, part in enumerate(parts, start=1):
        _panel(plot.add_subplot(max(1, len(parts)), 1, number), part)
    plot.supxlabel(
        "dots: seeds; bar: median and interval; shaded: what was predicted; diamond: the paper's own number",
        fontsize=7, x=0.01, ha="left", **PLAIN,
    )  # fmt: skip
    if lines:
        plot.suptitle("\n".join(lines), fontsize=11, x=0.01, ha="left", **PLAIN)
    return plot


def _panel(axes: Axes, part: Mapping[str, Any]) -> None:
    colour = VERDICT_COLOURS.get(part["verdict"], "0.45")
    known = [value for value in part["seeds"].values() if value is not None]
    axes.set_title(part["says"], fontsize=8, loc="left", color="0.1", **PLAIN)
    axes.set_title(part["verdict"], fontsize=8, loc="right", color=colour, weight="bold", **PLAIN)
    axes.set_yticks([])
    axes.set_ylim(-1, 1)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.xaxis.get_offset_text().set_fontsize(7)
    if not known:
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.text(0.0, 0.5, part["reason"] or "no number", transform=axes.transAxes, fontsize=7, va="center", **PLAIN)
        return
    bounds, paper = part["bounds"], part["paper"]
    _limits(axes, [*known, *bounds.values(), *([paper["value"]] if paper else [])])
    low, high = axes.get_xlim()
    start = max((value for name, value in bounds.items() if name in ("above", "at_least")), default=low)
    end = min((value for name, value in bounds.items() if name in ("below", "at_most")), default=high)
    axes.axvspan(start, end, color=colour, alpha=0.12, linewidth=0, gid="predicted")
    for value in bounds.values():
        axes.axvline(value, color="0.2", linewidth=1.0, linestyle="--", gid="threshold")
    ends = part["interval"]
    if ends is not None and part["kind"] != "condition":
        left, right = (edge if end is None else end for end, edge in zip(ends, (low, high), strict=True))
        axes.plot([left, right], [-0.35, -0.35], color=colour, linewidth=3, solid_capstyle="butt", gid="interval")
    if part["estimate"] is not None:
        axes.plot([part["estimate"]], [-0.35], "|", color=colour, markersize=14, markeredgewidth=2.5, gid="median")
    axes.plot(known, [0.3] * len(known), "o", color=colour, alpha=0.6, markersize=5, gid="seeds")
    if paper:
        axes.plot([paper["value"]], [0.3], "D", color="black", markersize=6, fillstyle="none", gid="paper")
        axes.annotate(
            paper["place"], (paper["value"], 0.3), (0, 6), textcoords="offset points", fontsize=6, ha="center", **PLAIN
        )


def _limits(axes: Axes, values: Sequence[float]) -> None:
    """Set the limits of the axis around all values; with a symmetric log scale if the values span decades."""
    largest = max(map(abs, values))
    nonzero = [abs(value) for value in values if value]
    if nonzero and largest > 1_000 * min(nonzero):
        axes.set_xscale("symlog", linthresh=min(nonzero))
        signed = (min(0.0, *values), max(0.0, *values))
        axes.set_xlim(3 * signed[0], 3 * signed[1])
        return
    room = 0.08 * (max(values) - min(values)) or 0.1 * largest or 1.0
    axes.set_xlim(min(values) - room, max(values) + room)
    if not math.isfinite(room):
        axes.set_xlim(-1, 1)
