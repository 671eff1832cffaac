"""Neighbours of words in several embeddings, two-dimensional maps of words, and maps and bar charts as SVG."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError, nearest
from regard.word_embeddings.neighbours import neighbours
from regard.word_embeddings.report.figures import NOTHING, Cell, Row, Subject, Table, names
from regard.word_embeddings.store import WordVectors

TITLES: Mapping[MapMethod, str] = {"pca": "PCA", "tsne": "t-SNE"}


def nearest_words(subjects: Sequence[Subject], words: Sequence[str], count: int = 8) -> Table:
    """A table of the neighbours of words in each of the embeddings; words that none of them has are left out."""
    rows = []
    for word in words:
        if any(subject.vectors.has(word) for subject in subjects):
            rows.append(Row(name=word, cells=tuple(_near(subject, word, count) for subject in subjects)))
    return Table(columns=names(subjects), rows=tuple(rows), corner="word")


def maps_html(subjects: Sequence[Subject], groups: Mapping[str, Sequence[str]], *, seed: int) -> str:
    """HTML with a PCA map and a t-SNE map of words for each of the embeddings; buttons switch between the methods.

    Arguments:
        subjects: the embeddings.
        groups: the words of each group, by group name.
        seed: seed of t-SNE.
    """
    colours = {word: number for number, words in enumerate(groups.values()) for word in words}
    maps = [_maps_of(subject, colours, seed) for subject in subjects]
    if not any(maps):
        return ""
    key = "".join(f'<li><i class="g{number % 10}"></i>{html.escape(name)}</li>' for number, name in enumerate(groups))
    buttons = "".join(f'<button type="button" value="{way}">{TITLES[way]}</button>' for way in METHODS)
    return (
        f'<ul class="key">{key}</ul><div><div class="choice" hidden>{buttons}</div>'
        f'<div class="side">{"".join(maps)}</div></div>'
    )


def _near(subject: Subject, word: str, count: int) -> Cell:
    if not subject.vectors.has(word):
        return NOTHING
    return Cell(text=", ".join(each.word for each in neighbours(subject.vectors, word, count)))


def _maps_of(subject: Subject, colours: Mapping[str, int], seed: int) -> str:
    plots = []
    for way in METHODS:
        try:
            shown = word_map(subject.vectors, tuple(colours), way, seed=seed)
        except InputError as error:  # too few words, or no scikit-learn: show the reason instead of the map
            plots.append(f'<p class="quiet" data-shows="{way}">{html.escape(str(error))}</p>')
            continue
        kept = "" if shown.kept is None else f"; the plane explains {100 * shown.kept:.0f} % of their variance"
        title = f"{subject.name} by {TITLES[way]}: {len(shown.words)} words{kept}"
        plot = map_svg(shown, colours, title=title)
        plots.append(f'<figure data-shows="{way}"><h3>{html.escape(title)}</h3>{plot}</figure>')
    return f"<div>{''.join(plots)}</div>"


# Two-dimensional maps of words.

MapMethod = Literal["pca", "tsne"]
METHODS: tuple[MapMethod, ...] = get_args(MapMethod)

SMALLEST = 5
"""The fewest words for a map."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WordMap:
    """Positions of words on a plane.

    Arguments:
        words: the words that have a vector.
        places: (n, 2) float64, the centred coordinates.
        method: the method of the map.
        kept: the share of variance explained by the plane; None for t-SNE.
    """

    words: tuple[str, ...]
    places: NDArray[np.float64]
    method: MapMethod
    kept: float | None


def word_map(vectors: WordVectors, words: Sequence[str], method: MapMethod = "pca", *, seed: int = 1) -> WordMap:
    """A two-dimensional map of words by their unit vectors.

    `pca` is a linear projection: distances on the map are at most the real ones. `tsne` (van der Maaten and Hinton 2008)
    preserves which words are close; distances between groups and the sizes of groups have no meaning.

    Arguments:
        vectors: the word embeddings.
        words: the words; words without a vector and duplicates are left out.
        method: `pca` or `tsne`.
        seed: seed of t-SNE.

    Raises:
        InputError: for an unknown method, fewer than five words with a vector, or if scikit-learn is not installed (t-SNE).

    >>> axes = WordVectors(words=tuple("abcdef"), matrix=np.eye(6, dtype=np.float32))
    >>> found = word_map(axes, list("abcdef"))
    >>> found.places.shape, round(found.kept, 2)
    ((6, 2), 0.4)
    """
    if method not in METHODS:
        raise InputError(f"map method {method!r} is not known; {nearest(method, METHODS)}")
    here = tuple(word for word in dict.fromkeys(words) if vectors.has(word))
    if len(here) < SMALLEST:
        raise InputError(f"{vectors.name}: has vectors for {len(here)} of the words; a map needs at least {SMALLEST}")
    units = unit(vectors.of(here)).astype(np.float64)
    if method == "pca":
        places, kept = _principal(units)
        return WordMap(words=here, places=places, method=method, kept=kept)
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError("t-SNE needs scikit-learn: pip install 'regard[eval]'; or choose pca") from None
    perplexity = min(30.0, (len(here) - 1) / 3)
    found = TSNE(metric="cosine", init="random", perplexity=perplexity, random_state=seed).fit_transform(units)
    return WordMap(words=here, places=_oriented(np.asarray(found, dtype=np.float64)), method=method, kept=None)


def _principal(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The coordinates on the first two principal components, and the share of variance they explain."""
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    total = float((sizes**2).sum())
    return _oriented(left[:, :2] * sizes[:2]), float((sizes[:2] ** 2).sum()) / total if total else 0.0


def _oriented(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred coordinates with a fixed sign for each axis (which is arbitrary): the largest absolute value is positive."""
    places = places - places.mean(axis=0)
    farthest = places[np.abs(places).argmax(axis=0), np.arange(places.shape[1])]
    return places * np.where(farthest < 0, -1.0, 1.0)


# Maps and bar charts as inline SVG, which can be printed and follows the colours of the page.

LINE = 12.0
"""The height of a line of labels, in SVG units."""

NARROW, USUAL, LARGE, WIDE = 4.6, 7.0, 8.6, 11.0
"""The largest width of letters such as i, o, O, and M (or a Chinese character), in a wide font such as DejaVu Sans."""

MARGIN = 14.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One bar of a bar chart.

    Arguments:
        name: the label.
        value: the length; None for no bar.
        low, high: the ends of an interval; None for no interval.
        note: the text of the tooltip, also for screen readers.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


def map_svg(
    shown: WordMap, groups: Mapping[str, int], *, width: float = 560.0, height: float = 460.0, title: str = ""
) -> str:
    """A map as SVG: a dot for each word, with a label where there is room; the other words are shown as tooltips.

    Arguments:
        shown: the map.
        groups: the colour number of each word, from 0; words without one are grey.
        width, height: the size in CSS pixels.
        title: the description for screen readers.
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


def bars_svg(bars: Sequence[Bar], *, low: float, high: float, title: str, width: float = 560.0) -> str:
    """A horizontal bar chart as SVG with numbers and intervals; positive bars are orange, negative ones violet.

    Arguments:
        bars: the bars, from top to bottom.
        low, high: the ends of the scale; it is extended to include 0.
        title: the description for screen readers.
        width: the width in CSS pixels.
    """
    rows = 20.0
    names = min(max((label_width(bar.name) for bar in bars), default=USUAL) + 8, width * 0.42)
    left, right = names, width - 52.0
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return left + (min(max(value, low), high) - low) / span * (right - left)

    parts = [f'<line class="axis" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="{rows * len(bars):.1f}"/>']
    for place, bar in enumerate(bars):
        middle = rows * (place + 0.5)
        note = html.escape(bar.note or bar.name)
        parts.append(
            f'<text class="name" x="{names - 6:.1f}" y="{middle + 4:.1f}">{html.escape(_cut(bar.name, names))}'
            f"<title>{note}</title></text>"
        )
        if bar.value is None:
            parts.append(f'<text class="none" x="{at(0) + 4:.1f}" y="{middle + 4:.1f}">none</text>')
            continue
        start, end = sorted((at(0), at(bar.value)))
        sign = "positive" if bar.value > 0 else "negative"
        parts.append(
            f'<rect class="{sign}" x="{start:.1f}" y="{middle - 6:.1f}" width="{max(end - start, 0.5):.1f}" '
            f'height="12"><title>{note}</title></rect>'
        )
        if bar.low is not None and bar.high is not None:
            parts.append(
                f'<path class="interval" d="M{at(bar.low):.1f} {middle:.1f}H{at(bar.high):.1f}'
                f"M{at(bar.low):.1f} {middle - 4:.1f}v8M{at(bar.high):.1f} {middle - 4:.1f}v8"
                '"/>'
            )
        parts.append(f'<text x="{right + 6:.1f}" y="{middle + 4:.1f}">{bar.value:.3f}</text>')
    return (
        f'<svg class="bars" viewBox="0 0 {width:.0f} {rows * max(len(bars), 1):.0f}" role="img" '
        f'aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
    )


def _fitted(places: np.ndarray, width: float, height: float) -> list[tuple[float, float]]:
    """SVG coordinates of the positions, with the same scale on both axes and y pointing up."""
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
    """(left, top, right, bottom) of a free area for a label next to its dot; None if there is none."""
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
    """An upper bound of the width of a label, in SVG units.

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
