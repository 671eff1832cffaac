"""Where words lie: neighbours side by side, maps on a plane, and the drawing of maps and bars as SVG."""

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
    """The neighbours of some words in every embedding, those alone that one of them has."""
    rows = []
    for word in words:
        if any(subject.vectors.has(word) for subject in subjects):
            rows.append(Row(name=word, cells=tuple(_near(subject, word, count) for subject in subjects)))
    return Table(columns=names(subjects), rows=tuple(rows), corner="word")


def drawn_maps(subjects: Sequence[Subject], groups: Mapping[str, Sequence[str]], *, seed: int) -> str:
    """A map for each embedding of words in groups, by PCA and by t-SNE, the buttons above choosing.

    Arguments:
        groups: words by the name of their group.
        seed: of t-SNE.
    """
    colours = {word: number for number, words in enumerate(groups.values()) for word in words}
    drawn = [_maps_of(subject, colours, seed) for subject in subjects]
    if not any(drawn):
        return ""
    key = "".join(f'<li><i class="g{number % 10}"></i>{html.escape(name)}</li>' for number, name in enumerate(groups))
    buttons = "".join(f'<button type="button" value="{way}">{TITLES[way]}</button>' for way in METHODS)
    return (
        f'<ul class="key">{key}</ul><div><div class="choice" hidden>{buttons}</div>'
        f'<div class="side">{"".join(drawn)}</div></div>'
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
        except InputError as error:  # too few of the words, or no scikit-learn: the page says so in place of the image
            plots.append(f'<p class="quiet" data-shows="{way}">{html.escape(str(error))}</p>')
            continue
        kept = "" if shown.kept is None else f"; the plane holds {100 * shown.kept:.0f} % of their variance"
        title = f"{subject.name} by {TITLES[way]}: {len(shown.words)} words{kept}"
        plot = drawn_map(shown, colours, title=title)
        plots.append(f'<figure data-shows="{way}"><h3>{html.escape(title)}</h3>{plot}</figure>')
    return f"<div>{''.join(plots)}</div>"


# Words on a plane.

MapMethod = Literal["pca", "tsne"]
METHODS: tuple[MapMethod, ...] = get_args(MapMethod)

SMALLEST = 5
"""Words that a map is worth drawing for."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WordMap:
    """Places of words on a plane.

    Arguments:
        words: those that have a vector, in the order asked for.
        places: (n, 2) float64, centred.
        method: how they were found.
        kept: the share of the vectors' variance that the plane holds; None where the method has no such thing.
    """

    words: tuple[str, ...]
    places: NDArray[np.float64]
    method: MapMethod
    kept: float | None


def word_map(vectors: WordVectors, words: Sequence[str], method: MapMethod = "pca", *, seed: int = 1) -> WordMap:
    """A map of some words by their unit vectors.

    `pca` is a shadow: distances on it are never larger than they are, and what lies along other axes is lost. `tsne` (van der
    Maaten and Hinton 2008) keeps who is near to whom and little
    else: distances between groups, and their sizes, mean nothing.

    Arguments:
        words: those without a vector are left out, as is a word given again.
        method: `pca` or `tsne`.
        seed: of t-SNE, which begins with the PCA.

    Raises:
        InputError: for a method that does not exist, fewer than five words with a vector, or a missing scikit-learn.

    >>> axes = WordVectors(words=tuple("abcdef"), matrix=np.eye(6, dtype=np.float32))
    >>> drawn = word_map(axes, list("abcdef"))
    >>> drawn.places.shape, round(drawn.kept, 2)
    ((6, 2), 0.4)
    """
    if method not in METHODS:
        raise InputError(f"there is no map by {method!r}; {nearest(method, METHODS)}")
    here = tuple(word for word in dict.fromkeys(words) if vectors.has(word))
    if len(here) < SMALLEST:
        raise InputError(f"{vectors.name}: has vectors of {len(here)} of the words; a map needs {SMALLEST} at least")
    units = unit(vectors.of(here)).astype(np.float64)
    if method == "pca":
        places, kept = _principal(units)
        return WordMap(words=here, places=places, method=method, kept=kept)
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError("a map by t-SNE needs scikit-learn: pip install 'regard[eval]'; or take pca") from None
    perplexity = min(30.0, (len(here) - 1) / 3)
    drawn = TSNE(metric="cosine", init="random", perplexity=perplexity, random_state=seed).fit_transform(units)
    return WordMap(words=here, places=_steady(np.asarray(drawn, dtype=np.float64)), method=method, kept=None)


def _principal(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Places along the first two principal components, and the share of the variance that is there."""
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    total = float((sizes**2).sum())
    return _steady(left[:, :2] * sizes[:2]), float((sizes[:2] ** 2).sum()) / total if total else 0.0


def _steady(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred, and turned over where the farthest place of an axis is negative: the sign of an axis is nobody's choice."""
    places = places - places.mean(axis=0)
    farthest = places[np.abs(places).argmax(axis=0), np.arange(places.shape[1])]
    return places * np.where(farthest < 0, -1.0, 1.0)


# Maps and bars as SVG: images that lie in the page itself, print, and follow its colours.

LINE = 12.0
"""How high a line is at the size of the labels, in the units of the drawing."""

NARROW, USUAL, LARGE, WIDE = 4.6, 7.0, 8.6, 11.0
"""How wide a letter is at most, in a wide font such as DejaVu Sans: an i, an o, an O, and an M or one of Chinese."""

MARGIN = 14.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A number to draw.

    Arguments:
        name: next to it.
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
    """A map as SVG: a dot for every word, its name next to it where there is room; the pointer has the others.

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
    """Left, top, right and bottom of a free place for a name next to its dot; None where there is none."""
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
