"""Maps and bars as SVG: pictures that lie in the page itself, print, and follow its colours."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.vectors.report.maps import WordMap

LINE = 12.0
"""How high a line is at the size of the labels, in the units of the drawing."""

NARROW, USUAL, LARGE, WIDE = 4.6, 7.0, 8.6, 11.0
"""How wide a letter is at most, in a wide font such as DejaVu Sans: an i, an o, an O, and an M or one of Chinese."""

MARGIN = 14.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A number to draw.

    Arguments:
        name: beside it.
        value: how long it is; None where there is none.
        low, high: an interval around it; None for none.
        note: read with the pointer, and aloud.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


def drawn_map(
    shown: WordMap, groups: Mapping[str, int], *, width: float = 560.0, height: float = 460.0, title: str = ""
) -> str:
    """A map as SVG: a dot for every word, its name beside it where there is room; the pointer has the others.

    Arguments:
        groups: the colour of each word, from 0; words without one are grey.
        width, height: in CSS pixels.
        title: what a screen reader says of it.
    """
    places = _fitted(shown.places, width, height)
    taken: list[tuple[float, float, float, float]] = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    dots, names = [], []
    for word, (x, y) in zip(shown.words, places, strict=True):
        colour = f"g{groups[word] % 10}" if word in groups else "g"
        dots.append(
            f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{html.escape(word)}</title></circle>'
        )
        spot = _room(word, x, y, taken, width, height)
        if spot is not None:
            taken.append(spot)
            names.append(f'<text class="{colour}" x="{spot[0]:.1f}" y="{spot[3] - 3:.1f}">{html.escape(word)}</text>')
    return (
        f'<svg class="map" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{html.escape(title)}">'
        f"{''.join(dots)}{''.join(names)}</svg>"
    )


def drawn_bars(bars: Sequence[Bar], *, low: float, high: float, title: str, width: float = 560.0) -> str:
    """Horizontal bars from zero as SVG, orange above it and violet below, with their numbers and, where there are, intervals.

    Arguments:
        low, high: the numbers at both ends of the scale; zero lies among them.
    """
    rows = 20.0
    names = min(max((label_width(bar.name) for bar in bars), default=USUAL) + 8, width * 0.42)
    left, right = names, width - 52.0
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / span * (right - left)

    drawn = [f'<line class="axis" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{rows * len(bars):.1f}"/>']
    for place, bar in enumerate(bars):
        middle = rows * (place + 0.5)
        note = html.escape(bar.note or bar.name)
        drawn.append(
            f'<text class="name" x="{names - 6:.1f}" y="{middle + 4:.1f}">{html.escape(_cut(bar.name, names))}'
            f"<title>{note}</title></text>"
        )
        if bar.value is None:
            drawn.append(f'<text class="none" x="{at(0) + 4:.1f}" y="{middle + 4:.1f}">none</text>')
            continue
        start, end = sorted((at(0), at(bar.value)))
        sign = "positive" if bar.value > 0 else "negative"
        drawn.append(
            f'<rect class="{sign}" x="{start:.1f}" y="{middle - 6:.1f}" width="{max(end - start, 0.5):.1f}" '
            f'height="12"><title>{note}</title></rect>'
        )
        if bar.low is not None and bar.high is not None:
            drawn.append(
                f'<path class="interval" d="M{at(bar.low):.1f} {middle:.1f}H{at(bar.high):.1f}'
                f"M{at(bar.low):.1f} {middle - 4:.1f}v8M{at(bar.high):.1f} {middle - 4:.1f}v8"
                '"/>'
            )
        drawn.append(f'<text x="{right + 6:.1f}" y="{middle + 4:.1f}">{bar.value:.3f}</text>')
    return (
        f'<svg class="bars" viewBox="0 0 {width:.0f} {rows * max(len(bars), 1):.0f}" role="img" '
        f'aria-label="{html.escape(title)}">{"".join(drawn)}</svg>'
    )


def _fitted(places: np.ndarray, width: float, height: float) -> list[tuple[float, float]]:
    """Places in the drawing, y upwards, both axes on one scale so that no direction is stretched."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.maximum(high - low, 1e-12)
    scale = min((width - 2 * MARGIN - 50) / span[0], (height - 2 * MARGIN) / span[1])
    middle = (low + high) / 2
    x = (width - 50) / 2 + (places[:, 0] - middle[0]) * scale
    y = height / 2 - (places[:, 1] - middle[1]) * scale
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _room(
    word: str, x: float, y: float, taken: Sequence[tuple[float, float, float, float]], width: float, height: float
) -> tuple[float, float, float, float] | None:
    """Left, top, right and bottom of a free place for a name beside its dot; None where there is none."""
    long = label_width(word)
    for left, top in ((x + 5, y - 7), (x - 5 - long, y - 7), (x - long / 2, y - 17), (x - long / 2, y + 4)):
        spot = (left, top, left + long, top + LINE)
        inside = left >= 0 and top >= 0 and spot[2] <= width and spot[3] <= height
        if inside and not any(
            spot[0] < other[2] and other[0] < spot[2] and spot[1] < other[3] and other[1] < spot[3] for other in taken
        ):
            return spot
    return None


def _cut(name: str, room: float) -> str:
    if label_width(name) <= room - 8:
        return name
    while len(name) > 1 and label_width(name) + WIDE > room - 8:
        name = name[:-1]
    return name + "…"


def label_width(text: str) -> float:
    """How long a label is at most.

    >>> label_width("it") < label_width("on") < label_width("ON") < label_width("日本")
    True
    """
    return sum(map(_width, text))


def _width(letter: str) -> float:
    if letter in "mwMW@%…" or unicodedata.east_asian_width(letter) in "WF":
        return WIDE
    if letter in "fijlrt.,:;'|! ":
        return NARROW
    return LARGE if letter.isupper() else USUAL
