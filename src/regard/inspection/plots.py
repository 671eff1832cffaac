"""Attention weights as figures: the alignment matrix of the papers, one panel for each layer and head."""

from __future__ import annotations

import io
import math
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from regard.errors import InputError
from regard.files import write_file
from regard.inspection.marks import Marks, spans
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import readable, shown_tokens, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".json")

# Inches. A lone matrix has room for its labels; in a grid of many the shape matters more than each word.
CELL_ALONE, CELL_OF_FEW, CELL_OF_MANY, SMALLEST_CELL = 0.26, 0.19, 0.12, 0.07
USUAL_SIDE, LARGEST_SIDE = 14.0, 60.0
GAP = 0.14
LINE = 0.15
MARGIN = 0.05  # around a figure that is fitted to its labels
DOTS_PER_INCH = 160
SMALLEST_FONT = 3.5  # points
LONGEST_TOKEN, LONGEST_NAME = 40, 60  # characters
STRIP = 0.7  # of a cell: how high a row of buckets is
CHOSEN = "#c2185b"
# Okabe and Ito's.
BUCKET_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")


def save_plot(view: AttentionView, path: str | os.PathLike[str]) -> None:
    """Write a view as an image (.png, .svg) or as its exact numbers (.json).

    The figure has the source on top and the output down the side. Several heads are small multiples, a row
    for each map where there are several. All panels share one scale.

    Arguments:
        view: what to draw, every example, map and head of it.
        path: where to; the suffix says what to write.

    Raises:
        InputError: the suffix is another one, matplotlib is not installed, or the file cannot be written. A
            file that was there before is then as it was.

    >>> import tempfile
    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "maison"], ["the", "house"], title="en-fr")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plot(view, Path(folder) / "weights.json")
    ...     AttentionView.from_json((Path(folder) / "weights.json").read_bytes()) == view
    True

    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: cannot write a plot as {suffix or 'a file without suffix'!r}; give a path "
                         f"that ends in {', '.join(SUFFIXES)}")  # fmt: skip
    if suffix == ".json":
        write_file(path, view.to_json().encode())
        return
    write_figure(figure(view), path, {"Title": view.title}, dots_per_inch=DOTS_PER_INCH)


def write_figure(
    drawn: Figure, path: str | os.PathLike[str], metadata: Mapping[str, str], *, dots_per_inch: float
) -> None:
    """Write a figure as what the path's suffix says, .png or .svg; without a date, so that it is the same file each time.

    Raises:
        InputError: it cannot be written. A file that was there before is then as it was.

    """
    suffix = Path(path).suffix.lower()
    dated = {} if suffix == ".png" else {"Date": None}
    buffer = io.BytesIO()
    drawn.savefig(
        buffer,
        format=suffix[1:],
        dpi=dots_per_inch,
        bbox_inches="tight",
        pad_inches=0.15,
        metadata={**metadata, **dated},  # pyright: ignore[reportArgumentType]  # SVG takes None to leave the date out
    )
    write_file(path, buffer.getvalue())


def figure(view: AttentionView) -> Figure:
    """The figure that `save_plot` writes, to be changed further; it is not known to pyplot.

    Raises:
        InputError: matplotlib is not installed.

    """
    try:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None

    panels, columns = _arrange(view)
    write = Writer.for_texts([view.title, view.note, *(panel.label for panel in panels), *_words(panels)])
    places = _Layout(panels, columns, write)
    drawing = Figure(figsize=(places.width, places.height))
    signed = any(bool((panel.weights < 0).any()) for panel in panels)
    largest = max(float(np.abs(panel.weights).max()) for panel in panels) or 1.0
    colours = colormaps["PuOr_r" if signed else "viridis"]
    scale = ScalarMappable(Normalize(-largest if signed else 0, largest), colours)
    for i, panel in enumerate(panels):
        axes = drawing.add_axes(places.of(i))
        # Coloured here, one pixel a cell: matplotlib would colour every pixel of the finished image.
        axes.imshow(scale.to_rgba(panel.weights, bytes=True), aspect="auto", interpolation="none")
        _label(axes, panel, places.cell, places.font, write)
        if panel.marks is not None:
            draw_marks(axes, panel.marks, panel.head, (panel.queries, panel.keys), named=panel.row_labels)
        if len(panels) > 1:
            label = "\n".join(map(write, panel.label.split("\n")))
            axes.set_title(label, pad=5, loc="left", **write.style(min(places.font + 1, 8.5)))
    bar = drawing.add_axes(places.bar())
    drawing.colorbar(scale, cax=bar, drawedges=False).outline.set_visible(False)  # pyright: ignore
    bar.tick_params(labelsize=7, length=2, width=0.5)
    title = _wrapped(write(view.title), places.width, 12)
    drawing.text(0, 1, title, ha="left", va="bottom", **write.style(12))
    notes = [write(view.note)] if view.note else []
    if write.unwritable:
        notes.append(f"Tokens shown as ‹position› have characters that no installed font has "
                     f"({write.unwritable_names()}); install one, such as Noto.")  # fmt: skip
    text = "\n".join(_wrapped(note, places.width, 7.5) for note in notes)
    drawing.text(0, -0.1 / places.height, text, ha="left", va="top", color="0.35", **write.style(7.5))
    return fitted(drawing)


def fitted(drawing: Figure) -> Figure:
    """The same figure as large as what is drawn in it: labels that stand outside its axes are inside it however it is saved.

    Axes are placed by hand; those that a layout engine places need no fitting.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    # Measured at the resolution of a file: letters are not of the same width at every size in pixels.
    canvas = FigureCanvasAgg(drawing)
    box = drawing.get_tightbbox(canvas.get_renderer())
    width, height = drawing.get_size_inches()
    left, bottom = min(box.x0, 0.0) - MARGIN, min(box.y0, 0.0) - MARGIN
    across, up = max(box.x1, width) + MARGIN - left, max(box.y1, height) + MARGIN - bottom
    for axes in drawing.axes:
        if axes.figure is drawing:
            place = axes.get_position(original=True)
            axes.set_position(
                (
                    (place.x0 * width - left) / across,
                    (place.y0 * height - bottom) / up,
                    place.width * width / across,
                    place.height * height / up,
                )
            )
    for text in drawing.texts:
        x, y = text.get_position()
        text.set_position(((x * width - left) / across, (y * height - bottom) / up))
    drawing.set_size_inches(across, up)
    return drawing


@dataclass(slots=True)
class _Panel:
    item: AttentionMap
    weights: np.ndarray
    label: str
    query_texts: tuple[str, ...]
    key_texts: tuple[str, ...]
    head: int = 0
    row_labels: bool = True
    column_labels: bool = True

    @property
    def queries(self) -> int:
        return len(self.item.query_tokens)

    @property
    def keys(self) -> int:
        return len(self.item.key_tokens)

    @property
    def marks(self) -> Marks | None:
        return self.item.marks

    @property
    def rounds(self) -> int:
        """Rows of buckets under the map, one for each round of hashing."""
        return len(self.marks.buckets[self.head]) if self.marks is not None and self.marks.buckets else 0


def _arrange(view: AttentionView) -> tuple[list[_Panel], int]:
    """The panels in reading order and how many stand side by side."""
    heads = {item.heads for item in view.maps}
    row_for_each_map = len(view.maps) > 1 and len(heads) == 1 and heads != {1}
    panels: list[_Panel] = []
    for item in view.maps:
        where = [view.examples[item.example]] if len(view.examples) > 1 else []
        where += [item.address] if len(view.addresses) > 1 else []
        name = " · ".join(_cut(readable(part), LONGEST_NAME) for part in where)
        queries, keys = shown_tokens(item.query_tokens), shown_tokens(item.key_tokens)
        for head in range(item.heads):
            label = name or readable(item.address)
            if row_for_each_map:
                label = f"{name}\nhead {head}" if head == 0 else f"head {head}"
            elif item.heads > 1:
                label = f"{name} · head {head}" if name else f"head {head}"
            panels.append(_Panel(item, item.weights[head], label, queries, keys, head))
    if row_for_each_map:
        columns = heads.pop()
    else:
        # About as wide as high, with few holes.
        widest = max(panel.keys / panel.queries for panel in panels)
        ideal = min(max(math.sqrt(len(panels) / widest), 1), len(panels))
        columns = min(
            range(1, len(panels) + 1),
            key=lambda n: 2 * (-len(panels) % n) / len(panels) + abs(math.log(n / ideal)),
        )
    # Where a panel's tokens are its neighbour's, one set of labels serves both and the panels stand close.
    for i, panel in enumerate(panels):
        panel.row_labels = i % columns == 0 or panels[i - 1].item.query_tokens != panel.item.query_tokens
        panel.column_labels = i < columns or panels[i - columns].item.key_tokens != panel.item.key_tokens
    return panels, columns


class _Layout:
    """Where each panel stands, in inches. Those of a column line up on their left, those of a row on top."""

    def __init__(self, panels: list[_Panel], columns: int, write: Writer) -> None:
        self.panels = panels
        self.columns = columns
        rows = math.ceil(len(panels) / columns)
        side = max(columns * max(p.keys for p in panels), rows * max(p.queries for p in panels))
        usual = CELL_ALONE if len(panels) == 1 else CELL_OF_FEW if len(panels) <= 9 else CELL_OF_MANY
        self.cell = min(max(min(usual, USUAL_SIDE / side), SMALLEST_CELL), LARGEST_SIDE / side)
        self.font = max(min(self.cell * 72 * 0.62, 10.5), SMALLEST_FONT)
        lines = max(p.label.count("\n") + 1 for p in panels) if len(panels) > 1 else 0
        heading = GAP + LINE * lines
        self.lefts, self.tops = [], []
        x = y = 0.0
        for column in range(columns):
            inside = panels[column::columns]
            x += max(p.row_labels * write.longest(p.query_texts, self.font) for p in inside)
            self.lefts.append(x)
            titles = [p.label.split("\n")[-1] for p in inside] if len(panels) > 1 else [""]
            title = max(map(_length, titles)) * min(self.font + 1, 8.5) / 72
            x += max(self.cell * max(p.keys for p in inside), title) + GAP
        for row in range(rows):
            inside = panels[row * columns : (row + 1) * columns]
            labels = max(p.column_labels * write.longest(p.key_texts, self.font) for p in inside)
            y += heading + labels
            self.tops.append(y)
            y += self.cell * max(p.queries + STRIP * p.rounds for p in inside)
        self.width, self.height = x, y

    def of(self, i: int) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel's matrix as shares of the figure."""
        row, column = divmod(i, self.columns)
        panel = self.panels[i]
        width, height = self.cell * panel.keys, self.cell * panel.queries
        bottom = self.height - self.tops[row] - height
        return self._shares(self.lefts[column], bottom, width, height)

    def bar(self) -> tuple[float, float, float, float]:
        """The same of the colour bar, next to the last row."""
        last = self.height - self.tops[-1]
        return self._shares(self.width, 0, 0.11, min(max(last, 0.8), 2.2))

    def _shares(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        return x / self.width, y / self.height, width / self.width, height / self.height


def _label(axes: Axes, panel: _Panel, cell: float, font: float, write: Writer) -> None:
    for side in axes.spines.values():
        side.set_visible(False)
    axes.xaxis.tick_top()
    # Cells smaller than the smallest readable letters: label every second, third, ... token.
    step = max(math.ceil(font / (cell * 72)), 1)
    for axis, tokens, shown in (
        (axes.xaxis, panel.key_texts, panel.column_labels),
        (axes.yaxis, panel.query_texts, panel.row_labels),
    ):
        places = list(range(0, len(tokens), step)) if shown else []
        words = [write.token(tokens[place], place) for place in places]
        # One-letter labels are easier to read upright.
        turn = 90 if axis is axes.xaxis and any(len(word) > 1 for word in words) else 0
        axis.set_ticks(places, words, rotation=turn, **write.style(font))
        axis.set_tick_params(length=0, pad=2.5)
        # Thin lines between the cells let the eye follow a row; between many small ones they would be a veil.
        if cell >= 0.15:
            axis.set_ticks(np.arange(1, len(tokens)) - 0.5, minor=True)
            axis.set_tick_params(which="minor", length=0)
            axis.grid(which="minor", color="white", linewidth=0.5)


def draw_marks(axes: Axes, marks: Marks, head: int, size: tuple[int, int], *, named: bool = True) -> None:
    """Over a map: the window of each query and its centre, borders of chunks of the text; under it each round's buckets."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    queries, keys = size
    halo = [withStroke(linewidth=2.8, foreground="white")]
    if marks.centres:
        spanned = spans(marks, head, keys)
        for row, ((first, end), centre) in enumerate(zip(spanned, marks.centres[head], strict=True)):
            if end > first:
                corner = (first - 0.5, row - 0.5)
                axes.add_patch(
                    Rectangle(corner, end - first, 1, fill=False, edgecolor=CHOSEN, linewidth=1.1, path_effects=halo)
                )
            middle = min(max(centre, -0.5), keys - 0.5)
            axes.plot([middle], [row], "o", color=CHOSEN, markersize=4, markeredgecolor="white", markeredgewidth=0.7)
    for border in marks.borders:
        axes.axvline(border - 0.5, color=CHOSEN, linewidth=0.9, path_effects=halo)
        axes.axhline(border - 0.5, color=CHOSEN, linewidth=0.9, path_effects=halo)
    for turn, row in enumerate(marks.buckets[head] if marks.buckets else ()):
        top = queries - 0.5 + STRIP * (turn + 0.15)
        for key, bucket in enumerate(row):
            strip = Rectangle((key - 0.5, top), 1, STRIP * 0.8, color=bucket_colour(bucket), linewidth=0, clip_on=False)
            axes.add_patch(strip)
        if named:
            axes.text(
                -0.7, top + STRIP * 0.4, f"buckets, round {turn}", ha="right", va="center", fontsize=6, clip_on=False
            )


def bucket_colour(bucket: int) -> str:
    """One of seven colours that people with any colour vision can distinguish; they come again."""
    return BUCKET_COLOURS[bucket % len(BUCKET_COLOURS)]


def _length(text: str) -> float:
    """About how long a text is, in units of its font size."""
    return cell_len(text) * 0.62


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _wrapped(text: str, width: float, font: float) -> str:
    return textwrap.fill(text, max(int(width * 72 / font / 0.55), 40))


def _words(panels: list[_Panel]) -> list[str]:
    return list(dict.fromkeys(text for panel in panels for text in (*panel.query_texts, *panel.key_texts)))


@dataclass(slots=True)
class Writer:
    """Writes texts in fonts that have their characters, and what no installed font has in another way."""

    families: list[str]
    unwritable: frozenset[str]

    @classmethod
    def for_texts(cls, texts: list[str]) -> Writer:
        """A writer for these texts, in as few installed fonts as have their characters."""
        from matplotlib import font_manager

        families = ["DejaVu Sans"]  # comes with matplotlib
        missing = {ord(c) for text in texts for c in visible(text)} - {0x200C, 0x200D, ord(" ")}
        missing -= font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap().keys()
        entries = [
            entry
            for entry in font_manager.fontManager.ttflist
            if entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
            # This font has a box for everything.
            and "last resort" not in entry.name.lower() and "lastresort" not in entry.name.lower()
        ]  # fmt: skip
        entries.sort(key=lambda entry: ("Sans" not in entry.name, "Mono" in entry.name, entry.name))
        for entry in entries:
            if not missing:
                break
            try:
                known = font_manager.get_font(entry.fname).get_charmap().keys() & missing
            except (OSError, RuntimeError):  # a damaged or vanished font file is no reason not to draw
                continue
            if known:
                families.append(entry.name)
                missing -= known
        return cls(families, frozenset(map(chr, missing)))

    def __call__(self, text: str) -> str:
        """Running text."""
        return "".join("?" if character in self.unwritable else character for character in readable(text))

    def token(self, text: str, place: int) -> str:
        """A token as `shown_tokens` gives it, or ‹its position› where no font has its characters."""
        text = _cut(text, LONGEST_TOKEN)
        return text if self.unwritable.isdisjoint(text) else f"‹{place}›"

    def style(self, font: float) -> dict[str, Any]:
        """The arguments of matplotlib for a text of this font size."""
        # Without parse_math=False a dollar sign would begin a formula.
        return {"family": self.families, "fontsize": font, "parse_math": False}

    def longest(self, texts: tuple[str, ...], font: float) -> float:
        """About how long the longest token is in inches."""
        return max(1.2, *(_length(self.token(text, 999)) for text in texts)) * font / 72 + 0.06

    def unwritable_names(self) -> str:
        """The first characters that no font has."""
        names = [f"U+{ord(character):04X}" for character in sorted(self.unwritable)]
        return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
