"""Figures that are no matrices: lines between tokens, weights over an image, and a piece of music as a piano roll."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.data.notes import Note, Piece
from regard.errors import InputError
from regard.inspection.plots import BUCKET_COLOURS, CHOSEN, DOTS_PER_INCH, Writer, fitted, write_figure
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import shown_tokens, visible
from regard.text.events import note_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = BUCKET_COLOURS  # dashed where they come again
LINE, WIDTH, IMAGE = 0.24, 4.6, 1.7  # inches
LEGEND_COLUMNS = 4
SPREAD = 0.6  # of the distance of two tokens: how far the lines of the first and the last head are apart, nearly
FAINTEST = 0.02  # of the largest weight: what is weaker is not drawn
SPACE = visible(" ")
DARKEST = 0.75  # of the light that is taken from where nothing is seen
GREYEST = 0.35  # how far black and white of an image are brought to grey under colours
OPAQUE = 0.9  # the colour of the largest weight


def lines_figure(item: AttentionMap, *, heads: Sequence[int] | None = None, query: int | None = None) -> Figure:
    """The figure of a map as lines: queries left, keys right, strength and width by weight, a colour for each head.

    Lines of several heads run side by side, so that two heads that attend alike are two lines. Under the lines a legend says
    which colour is which head.

    Arguments:
        item: what to draw.
        heads: which heads; all where None.
        query: only the lines of this query token, counted from 0; of all where None.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: there is no such head or query, or matplotlib is not installed.

    >>> item = AttentionView.of(np.eye(2), ["la", "maison"], ["the", "house"]).maps[0]
    >>> len(lines_figure(item).axes[0].lines)
    2
    """
    chosen = list(range(item.heads)) if heads is None else list(heads)
    if not chosen or any(not 0 <= head < item.heads for head in chosen):
        raise InputError(f"{item.address}: heads {chosen}; it has heads 0 to {item.heads - 1}")
    if query is not None and not 0 <= query < len(item.query_tokens):
        raise InputError(f"{item.address}: no query {query}; it has 0 to {len(item.query_tokens) - 1}")
    rows = range(len(item.query_tokens)) if query is None else [query]
    longest = max(len(item.query_tokens), len(item.key_tokens))
    drawing, axes = _figure(WIDTH, LINE * (longest + 1))
    from matplotlib.lines import Line2D

    queries, keys = shown_tokens(item.query_tokens), shown_tokens(item.key_tokens)
    write = Writer.for_texts([item.address, *queries, *keys])
    largest = float(np.abs(item.weights[chosen]).max()) or 1.0
    for number, head in enumerate(chosen):
        aside = SPREAD * ((number + 0.5) / len(chosen) - 0.5)
        for row in rows:
            for column in np.flatnonzero(np.abs(item.weights[head, row]) >= FAINTEST * largest):
                share = abs(float(item.weights[head, row, column])) / largest
                axes.plot([0, 1], [row + aside, column + aside], _dash(head), color=COLOURS[head % len(COLOURS)], alpha=share,
                          linewidth=0.4 + 1.8 * share, solid_capstyle="butt")  # fmt: skip
    for x, tokens, side in ((-0.02, queries, "right"), (1.02, keys, "left")):
        for place, token in enumerate(tokens):
            bold = "bold" if x < 0 and place == query else "normal"
            axes.text(x, place, write.token(token, place), ha=side, va="center", fontweight=bold, **write.style(9))
    axes.set_xlim(0, 1)
    axes.set_ylim(longest - 0.5, -0.5)
    axes.set_title(write(item.address), loc="left", **write.style(9))
    if item.heads > 1:
        # Below the last token: which colour is which head, counted from 0.
        samples = [Line2D([], [], color=COLOURS[head % len(COLOURS)], linestyle=_dash(head)) for head in chosen]
        axes.legend(
            samples,
            [f"head {head}" for head in chosen],
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            ncols=min(len(chosen), LEGEND_COLUMNS),
            frameon=False,
            fontsize=8,
        )
    return fitted(drawing)


def overlay_figure(
    view: AttentionView,
    address: str,
    *,
    example: int = 0,
    head: int | None = None,
    queries: Sequence[int] | None = None,
) -> Figure:
    """The figure of an image as each query token sees it: bright where its weights are, as in "Show, attend and tell".

    Weights that may be negative, such as those of a lambda layer, are colours over the image in grey: violet below zero, orange
    above it, with a line around what has more than half of the largest. A query that is a patch itself has a crimson frame.

    Arguments:
        view: has the image, and a map whose keys are patches of it.
        address: of that map.
        example: which of the view's examples.
        head: which head; their mean where None.
        queries: which query tokens, counted from 0; all where None.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: the map's keys are no patches, there is no image, head or query of that number, or matplotlib is
            not installed.

    """
    item = view.map(address, example)
    patches, image = item.key_patches, view.images[example] if view.images else None
    if patches is None or image is None:
        raise InputError(f"{address}: an overlay needs an image in the view and key_patches in the map; give both")
    if head is not None and not 0 <= head < item.heads:
        raise InputError(f"{address}: no head {head}; it has heads 0 to {item.heads - 1}")
    chosen = list(range(len(item.query_tokens)) if queries is None else queries)
    if not chosen or any(not 0 <= row < len(item.query_tokens) for row in chosen):
        raise InputError(f"{address}: queries {chosen}; it has 0 to {len(item.query_tokens) - 1}")
    weights = (item.mean() if head is None else item.weights[head])[:, patches.first : patches.last + 1]
    signed = bool((item.weights < 0).any())
    columns = math.ceil(math.sqrt(len(chosen)))
    lines = math.ceil(len(chosen) / columns)
    drawing, whole = _figure(IMAGE * columns, (IMAGE + 0.3) * lines)
    from matplotlib.image import imread

    texts = shown_tokens(item.query_tokens)
    write = Writer.for_texts(list(texts))
    pixels = imread(io.BytesIO(image), format="png")
    ends = (0, pixels.shape[1], pixels.shape[0], 0)
    for place, row in enumerate(chosen):
        line, column = divmod(place, columns)
        axes = whole.inset_axes((column / columns, 1 - (line + 1) / lines, 0.94 / columns, 0.84 / lines))
        seen = weights[row].reshape(patches.rows, patches.columns)
        if signed:
            _signed(axes, pixels, seen, ends)
        else:
            axes.imshow(pixels, extent=ends)
            shade = np.zeros((patches.rows, patches.columns, 4))
            shade[..., 3] = DARKEST * (1 - seen / (seen.max() or 1.0))
            axes.imshow(shade, extent=ends, interpolation="bilinear")
        if item.query_patches == patches and patches.first <= row <= patches.last:
            _asking(axes, patches, row - patches.first, ends)
        axes.set_axis_off()
        axes.set_title(write.token(texts[row], row).replace(SPACE, " "), loc="left", pad=2, **write.style(9))
    return fitted(drawing)


def _signed(axes: Axes, pixels: np.ndarray, seen: np.ndarray, ends: tuple[float, float, float, float]) -> None:
    """Weights of both signs over an image in grey, between dark and bright, so that both colours show on any."""
    from matplotlib import colormaps
    from matplotlib.patheffects import withStroke

    grey = pixels[..., :3] @ np.array([0.21, 0.72, 0.07])
    axes.imshow(GREYEST + (1 - 2 * GREYEST) * grey, extent=ends, cmap="gray", vmin=0, vmax=1)
    shares = seen / (float(np.abs(seen).max()) or 1.0)
    violet, orange = (colormaps["PuOr_r"](end) for end in (0.16, 0.8))
    shade = np.where(shares[..., None] < 0, violet, orange)
    shade[..., 3] = OPAQUE * np.abs(shares) ** 0.7
    axes.imshow(shade, extent=ends, interpolation="nearest")
    # Around cells, not smoothed between them: a weight belongs to a whole patch.
    rows, columns = seen.shape
    high, wide = (ends[2] - ends[3]) / rows, (ends[1] - ends[0]) / columns
    halo = [withStroke(linewidth=2.6, foreground="white")]
    for sign, colour in ((-1, violet), (1, orange)):
        inside = np.pad(sign * shares > 0.5, 1)
        edges = [([column - 1, column], [row, row]) for row, column in np.argwhere(inside[:-1] != inside[1:])]
        edges += [([column, column], [row - 1, row]) for row, column in np.argwhere(inside[:, :-1] != inside[:, 1:])]
        for x, y in edges:
            axes.plot(np.array(x) * wide, np.array(y) * high, color=colour, linewidth=1.2, path_effects=halo)
    axes.set_xlim(ends[0], ends[1])
    axes.set_ylim(ends[2], ends[3])


def _asking(axes: Axes, patches: Any, place: int, ends: tuple[float, float, float, float]) -> None:
    """A frame around the patch that looks."""
    from matplotlib.patches import Rectangle

    high, wide = ends[2] / patches.rows, ends[1] / patches.columns
    row, column = divmod(place, patches.columns)
    axes.add_patch(Rectangle((column * wide, row * high), wide, high, fill=False, edgecolor=CHOSEN, linewidth=1.6))


def _dash(head: int) -> Literal["-", "--"]:
    return "-" if head // len(COLOURS) % 2 == 0 else "--"


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    drawing = Figure(figsize=(width, height))
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return drawing, axes


# A piece of music as a figure: time to the right, pitch upwards, a bar for each note.


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
    """Write the piano roll of a piece as an image, .png or .svg.

    Arguments:
        border: where in time a prompt ends and its continuation begins: the two have colours of their own; None for one piece.
        title: to be above.

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
        raise InputError("a plot of music needs matplotlib: pip install 'regard[plot]'") from None
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
