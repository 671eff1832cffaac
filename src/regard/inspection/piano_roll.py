"""A piece of music as a figure: time to the right, pitch upwards, a bar for each note."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.music import Note, Piece
from regard.errors import InputError
from regard.inspection.plots import DOTS_PER_INCH, fitted, write_figure
from regard.text.events import note_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

BEFORE = ("#2f6db0", "#8ab8e6", "#5b93c9", "#17324d")
AFTER = ("#e2590c", "#fdae6b", "#f08a3c", "#7f2704")
"""Colours of the prompt's notes and of the continuation's, for each of four voices."""
BLACK_KEYS = (1, 3, 6, 8, 10)

# Inches.
A_SECOND, A_SEMITONE = 0.45, 0.13
NARROWEST, WIDEST, LOWEST, TALLEST = 6.0, 24.0, 1.8, 8.0
MARGIN = 3
"""Semitones shown above and below what sounds."""


def save_roll(piece: Piece, path: str | os.PathLike[str], *, border: float | None = None, title: str = "") -> None:
    """Write the piano roll of a piece as a picture, .png or .svg.

    Arguments:
        border: where in time a prompt ends and its continuation begins: the two have colours of their own; None for one piece.
        title: to stand above.

    Raises:
        InputError: for another suffix, a piece without notes, matplotlib not installed, or a place that cannot be written to. A
            file that was there before is then as it was.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: cannot draw music as {suffix or 'a file without suffix'!r}; give a .png or .svg")
    write_figure(roll(piece, border=border, title=title), path, {"Title": title}, dots_per_inch=DOTS_PER_INCH)


def roll(piece: Piece, *, border: float | None = None, title: str = "") -> Figure:
    """The figure that `save_roll` writes, to be changed further; it is not known to pyplot.

    Raises:
        InputError: for a piece without notes, or matplotlib not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a picture of music needs matplotlib: pip install 'regard[plot]'") from None
    if not piece.notes:
        raise InputError("there is no note to draw; give a longer prompt, or let more be written")
    low = min(note.pitch for note in piece.notes) - MARGIN
    high = max(note.pitch for note in piece.notes) + MARGIN
    size = (
        min(max(A_SECOND * piece.length, NARROWEST), WIDEST),
        min(max(A_SEMITONE * (high - low + 1), LOWEST), TALLEST),
    )
    drawing = Figure(figsize=size)
    axes = drawing.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, piece.length)
    axes.set_ylim(low - 0.5, high + 0.5)
    _keys(axes, low, high)
    _notes(axes, piece, border)
    if border is not None and 0 < border < piece.length:
        _border(axes, border)
    if title:
        axes.set_title(title, fontsize=10, loc="left", pad=20 if border is not None else 8)
    return fitted(drawing)


def _keys(axes: Axes, low: int, high: int) -> None:
    """Rows for the black keys, lines between octaves, names at every C."""
    for pitch in range(low, high + 1):
        if pitch % 12 in BLACK_KEYS:
            axes.axhspan(pitch - 0.5, pitch + 0.5, color="#f1f1f4", linewidth=0, zorder=0)
        elif pitch % 12 == 0:
            axes.axhline(pitch - 0.5, color="#c9c9d2", linewidth=0.7, zorder=1)
    named = [pitch for pitch in range(low, high + 1) if pitch % 12 == 0]
    if len(named) < 2:
        named = [pitch for pitch in range(low, high + 1) if pitch % 12 in (0, 4, 7)]
    axes.set_yticks(named, [note_name(pitch) if 0 <= pitch < 128 else "" for pitch in named], fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="both", length=0)
    axes.set_xlabel("seconds", fontsize=8)
    for side in axes.spines.values():
        side.set_visible(False)


def _notes(axes: Axes, piece: Piece, border: float | None) -> None:
    from matplotlib.collections import PolyCollection

    parts = list(_parts(piece, border))
    axes.add_collection(
        PolyCollection(
            [_corners(note) for note, _ in parts],
            facecolors=[_colour(note, after) for note, after in parts],
            edgecolors="white",
            linewidths=0.6,
            zorder=3,
        )
    )


def _parts(piece: Piece, border: float | None) -> Iterator[tuple[Note, bool]]:
    """Each note and whether it is the continuation's; one that sounds across the border as two parts."""
    for note in piece.notes:
        if border is None or note.end <= border:
            yield note, False
        elif note.start >= border:
            yield note, True
        else:
            yield Note(note.start, border, note.pitch, note.velocity, note.voice), False
            yield Note(border, note.end, note.pitch, note.velocity, note.voice), True


def _corners(note: Note) -> list[tuple[float, float]]:
    bottom, top = note.pitch - 0.42, note.pitch + 0.42
    return [(note.start, bottom), (note.start, top), (note.end, top), (note.end, bottom)]


def _colour(note: Note, after: bool) -> tuple[float, float, float, float]:
    """By what it is of and by its voice; fainter where it is struck softly."""
    from matplotlib.colors import to_rgba

    shades = AFTER if after else BEFORE
    return to_rgba(shades[note.voice % len(shades)], 0.45 + 0.55 * min(note.velocity / 100, 1.0))


def _border(axes: Axes, border: float) -> None:
    """A line where the continuation begins, and above it what is on either side."""
    axes.axvline(border, color="#333333", linewidth=1.0, linestyle=(0, (4, 3)), zorder=4)
    above = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "fontsize": 9,
        "annotation_clip": False,
    }
    axes.annotate("prompt ", (border, 1.0), (-4, 4), ha="right", color=BEFORE[0], **above)
    axes.annotate(" continuation", (border, 1.0), (4, 4), ha="left", color=AFTER[0], **above)
