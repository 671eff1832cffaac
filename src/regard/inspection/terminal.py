"""Attention weights as a heatmap of characters, for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from regard.errors import InputError
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import readable, shown_tokens

CELL = 2  # columns of a cell: about square in most fonts, and room for one wide character above it
LABEL_HEIGHT = 12  # characters of a source token written downwards
LABEL_WIDTH = 20  # columns of an output token

SHADES = " ░▒▓█"
ASCII_SHADES = " .:+#"
HIDDEN, ASCII_HIDDEN = "·", "x"  # in a causal map: a later token, which cannot be attended

# A few colours along viridis, and along a purple-to-orange scale for weights that may be negative: both keep
# their order for colour-blind readers.
VIRIDIS = ("440154", "472c7a", "3b518b", "2c718e", "21918d", "27ad81", "5cc863", "aadc32", "fde725")
PURPLE_ORANGE = ("2d004b", "8073ac", "b2abd2", "d8daeb", "f7f7f7", "fee0b6", "fdb863", "e08214", "7f3b08")


def render(
    view: AttentionView | AttentionMap,
    *,
    heads: Sequence[int] | None = None,
    width: int | None = None,
    colour: bool = True,
) -> Heatmap:
    """The heatmap of every map in a view, for `rich.print` or `Console.print`.

    Rows are the query (output) tokens, columns the key (source) tokens, written downwards. A source too long
    for the width continues in a further block. In a causal map, tokens that cannot be attended have a dot.

    Arguments:
        view: what to show.
        heads: the heads to draw one after the other, counted from 0; by default their mean.
        width: columns to use; by default those of the console.
        colour: cells in colour where the console has it. Otherwise, and on a console without colour, cells
            are the characters " ░▒▓█"; a negative weight then has a minus sign.

    Raises:
        InputError: a map has no such head, or the width is below 1.

    >>> view = AttentionView.of([[1.0, 0.0], [0.5, 0.5]], ["la", "maison"], ["the", "house"])
    >>> Console(width=50).print(render(view, colour=False))
    attention
             h
             o
           t u
           h s
           e e
        la ██
    maison ▒▒▒▒
    0 ▕░▒▓█▏ 1  rows: output, columns: source

    """
    maps = (view,) if isinstance(view, AttentionMap) else view.maps
    for item in maps:
        for head in heads or ():
            if not 0 <= head < item.heads:
                raise InputError(f"{item.address}: no head {head}; it has heads 0 to {item.heads - 1}")
    if heads is not None and not len(heads):
        raise InputError("heads: the list is empty; name heads, or leave it out for their mean")
    if width is not None and width < 1:
        raise InputError(f"width: {width} columns; give at least 1, or leave it out")
    return Heatmap(view, heads=heads, width=width, colour=colour)


class Heatmap:
    """What `render` returns: prints itself as wide as the console that asks."""

    def __init__(
        self,
        view: AttentionView | AttentionMap,
        *,
        heads: Sequence[int] | None,
        width: int | None,
        colour: bool,
    ) -> None:
        self.view = view
        self.heads = heads
        self.width = width
        self.colour = colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of every map, headed by where it was seen."""
        width = min(self.width or options.max_width, options.max_width)
        coloured = self.colour and console.color_system is not None and not console.no_color
        paint = _Paint(coloured, ASCII_SHADES if options.ascii_only else SHADES)
        if isinstance(self.view, AttentionMap):
            yield from _map_lines(self.view, readable(self.view.address), self.heads, width, paint)
            return
        several = len(self.view.examples) > 1
        for i, item in enumerate(self.view.maps):
            if i:
                yield Segment.line()
            label = f"{self.view.examples[item.example]} · {item.address}" if several else item.address
            yield from _map_lines(item, readable(label), self.heads, width, paint)


class _Paint:
    """Turns weights into cells, in colour or in shades."""

    def __init__(self, coloured: bool, shades: str) -> None:
        self.coloured = coloured
        self.shades = shades
        self.hidden = ASCII_HIDDEN if shades.isascii() else HIDDEN

    def cell(self, weight: float, largest: float, signed: bool, hidden: bool) -> Segment:
        if hidden:
            return Segment(self.hidden + " " * (CELL - 1), Style(dim=True))
        share = weight / largest
        if not self.coloured:
            shade = self.shades[round(min(abs(share), 1) * 4)]
            return Segment(("-" if share <= -0.125 else shade) + shade * (CELL - 1))
        return Segment(" " * CELL, Style(bgcolor=colour_of(share, signed)))

    def legend(self, largest: float, signed: bool, width: int, item: AttentionMap) -> Iterator[Segment]:
        scale = [Segment(f"{-largest:.2g} " if signed else "0 ")]
        if self.coloured:
            shares = np.linspace(-1 if signed else 0, 1, 16).tolist()
            scale += [Segment(" ", Style(bgcolor=colour_of(share, signed))) for share in shares]
        else:
            left, right = ("|", "|") if self.shades.isascii() else ("▕", "▏")
            scale.append(Segment(left + ("-" if signed else "") + self.shades.strip() + right))
        scale.append(Segment(f" {largest:.2g}"))
        axes = "rows: queries, columns: keys" if item.kind == "self" else "rows: output, columns: source"
        axes += f", {self.hidden} cannot be attended" if item.is_causal else ""
        together = sum(cell_len(piece.text) for piece in scale) + 2 + len(axes) <= width
        yield from scale
        yield Segment(("  " if together else "\n") + axes + "\n")


def _map_lines(
    item: AttentionMap, title: str, heads: Sequence[int] | None, width: int, paint: _Paint
) -> Iterator[Segment]:
    if heads is None:
        panels = [(f"{title} · mean of {item.heads} heads" if item.heads > 1 else title, item.mean())]
    else:
        panels = [(f"{title} · head {head}", item.weights[head]) for head in heads]
    largest = max(float(np.abs(weights).max()) for _, weights in panels) or 1.0
    signed = any(bool((weights < 0).any()) for _, weights in panels)
    rows = shown_tokens(item.query_tokens)
    longest = max(map(cell_len, rows))
    label_width = min(longest, LABEL_WIDTH, max(width // 3, 1))
    labels = [_row_label(text, label_width) for text in rows]
    columns = [_graphemes(text) for text in shown_tokens(item.key_tokens)]
    per_block = max((width - label_width - 1) // CELL, 1)
    for panel_title, weights in panels:
        yield Segment(panel_title + "\n", Style(bold=True))
        for start in range(0, len(columns), per_block):
            stop = min(start + per_block, len(columns))
            if len(columns) > per_block:
                yield Segment(f"source {start} to {stop - 1} of 0 to {len(columns) - 1}\n", Style(dim=True))
            for line in _downwards(columns[start:stop]):
                yield Segment((" " * (label_width + 1) + line).rstrip() + "\n")
            for place, (label, row) in enumerate(zip(labels, weights[:, start:stop], strict=True)):
                yield Segment(label + " ")
                seen = len(columns) - len(rows) + place + 1 - start if item.is_causal else len(columns)
                cells = [paint.cell(float(weight), largest, signed, key >= seen) for key, weight in enumerate(row)]
                if not paint.coloured:  # one piece of text, without blanks at its end
                    cells = [Segment("".join(cell.text for cell in cells).rstrip())]
                yield from cells
                yield Segment.line()
    yield from paint.legend(largest, signed, width, item)


def _row_label(text: str, width: int) -> str:
    if cell_len(text) > width:
        text, pieces = "", _graphemes(text)
        while pieces and cell_len(text + pieces[0]) < width:
            text += pieces.pop(0)
        text += "…"
    padding = " " * (width - cell_len(text))
    # A mark without width keeps a right-to-left word from pulling the cells after it over to its other side.
    return padding + text + ("\u200e" if _right_to_left(text) else "")


def _downwards(columns: list[list[str]]) -> Iterator[str]:
    """The lines of labels written downwards, each ending just above its column."""
    columns = [pieces if len(pieces) <= LABEL_HEIGHT else [*pieces[: LABEL_HEIGHT - 1], "…"] for pieces in columns]
    height = max(len(pieces) for pieces in columns)
    for line in range(height):
        text = ""
        for pieces in columns:
            place = line - (height - len(pieces))
            piece = pieces[place] if place >= 0 else ""
            text += piece + " " * (CELL - cell_len(piece))
            if _right_to_left(piece):
                text += "\u200e"
        yield text


def _graphemes(text: str) -> list[str]:
    """The characters as a reader counts them: with their accents, none wider than a cell."""
    pieces: list[str] = []
    for character in text:
        joins = unicodedata.category(character) in ("Mn", "Me", "Mc") or character == "\u200d"
        if pieces and (joins or pieces[-1].endswith("\u200d")) and cell_len(pieces[-1] + character) <= CELL:
            pieces[-1] += character
        else:
            pieces.append(character)
    return [piece.strip("\u200c\u200d") for piece in pieces]


def _right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


def colour_of(share: float, signed: bool) -> str:
    """The colour of a share of the largest value, as `#rrggbb`: in [0, 1], or where values have signs in [-1, 1]."""
    stops = PURPLE_ORANGE if signed else VIRIDIS
    place = min(max((share + 1) / 2 if signed else share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    ends = zip(bytes.fromhex(stops[low]), bytes.fromhex(stops[low + 1]), strict=True)
    mixed = (round(a + (b - a) * (place - low)) for a, b in ends)
    return "#{:02x}{:02x}{:02x}".format(*mixed)
