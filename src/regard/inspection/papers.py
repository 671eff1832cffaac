"""Figures as the papers draw them, of models whose papers draw no matrix: shaded sentences, and what a reader remembers.

The figure of a memory over time is in `regard.inspection.memory`, images under weights in `regard.inspection.drawings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from regard.errors import InputError
from regard.inspection.drawings import overlay_figure
from regard.inspection.plots import CHOSEN, Writer, bucket_colour, fitted
from regard.inspection.text_reader import is_document
from regard.inspection.view import SENTENCES, WORDS, AttentionView
from regard.inspection.words import shown_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT, LINE, LETTER = 9.0, 0.23, 0.602 * 9.0 / 72
"""Points; inches of a line, and of a letter of the monospaced font."""
COLUMNS = 96
"""Letters of a line; longer ones are folded."""
BAR = 12
"""Letters that a bar and its number take."""


@dataclass(frozen=True, slots=True)
class ShadedWord:
    """A word of a line.

    Arguments:
        text: as it is printed.
        shade: from 0, white, to 1.
        chosen: whether it is the one that looks.
        glued: whether it continues the word before, without a space.
    """

    text: str
    shade: float
    chosen: bool = False
    glued: bool = False


@dataclass(frozen=True, slots=True)
class ShadedLine:
    """Words, and a bar at their left where `weight` is given."""

    words: tuple[ShadedWord, ...]
    weight: float | None = None


def document_figure(view: AttentionView, *, predicted: str = "", label: str = "", example: int = 0) -> Figure:
    """The figure of a hierarchical network's document (Yang et al. 2016, figures 5 and 6).

    Each sentence is a line. The bar at its left is the sentence's weight; a word is the darker the larger sqrt(p_s) p_w, with p_s
    the weight of its sentence and p_w its own: so words of an important sentence stand out, and those of others can be read.

    Arguments:
        view: has both attentions, as `TextReader.view` gives it.
        predicted: the class that the model predicts.
        label: the right one, where it is known.
        example: which of the view's examples.

    Raises:
        InputError: where the view is not of such a network, or matplotlib is not installed.
    """
    if not is_document(view):
        raise InputError("a document's figure needs the attention of words and of sentences: those of a han")
    words, sentences = view.map(WORDS, example), view.map(SENTENCES, example).weights[0, 0]
    shares = np.sqrt(sentences)[:, None] * words.weights[0][: len(sentences)]
    largest = float(shares.max()) or 1.0
    texts, numbers = shown_tokens(words.key_tokens), words.key_words
    lines = []
    for number, weight in enumerate(sentences[: len(words.query_tokens)]):
        own = np.flatnonzero(words.weights[0, number]).tolist()
        glued = [numbers is not None and place - 1 in own and numbers[place] == numbers[place - 1] for place in own]
        lines.append(
            ShadedLine(
                tuple(
                    ShadedWord(_bare(texts[place], goes_on), float(shares[number, place]) / largest, glued=goes_on)
                    for place, goes_on in zip(own, glued, strict=True)
                ),
                float(weight),
            )
        )
    told = [f"{name}: {value}" for name, value in (("predicted class", predicted), ("label", label)) if value]
    return shaded_figure(lines, title=", ".join(told))


def reading_figure(view: AttentionView, address: str | None = None, *, head: int = 0, example: int = 0) -> Figure:
    """The figure of a text as it is read (Cheng et al. 2016, figure 1): a line for each word, with the words before it.

    The word that is read is crimson; those before it are the darker the more it attends to them, each line up to its largest.

    Arguments:
        view: of a model that reads from the left.
        address: of the layer; the last where None.
        head: which of its heads.
        example: which of the view's examples.

    Raises:
        InputError: for a layer or head that is not there, a map that is not causal, or matplotlib not installed.
    """
    item = view.map(address or view.addresses[-1], example)
    # The queries are the last tokens; a memory network's last word is no key, for nothing looks at it yet.
    tokens = item.key_tokens if len(item.key_tokens) >= len(item.query_tokens) else item.query_tokens
    first = len(tokens) - len(item.query_tokens)
    if item.kind != "self" or np.triu(item.weights, first + 1).any():
        raise InputError(
            f"{item.address}: later words are looked at too; this figure is of models that read from the left"
        )
    if not 0 <= head < item.heads:
        raise InputError(f"{item.address}: no head {head}; it has heads 0 to {item.heads - 1}")
    texts = shown_tokens(tokens)
    lines = []
    for row, weights in enumerate(item.weights[head]):
        largest = float(weights.max()) or 1.0
        seen = range(first + row + 1)
        lines.append(
            ShadedLine(
                tuple(
                    ShadedWord(
                        _bare(texts[place], False),
                        float(weights[place]) / largest if place < len(weights) else 0.0,
                        chosen=place == first + row,
                    )
                    for place in seen
                )
            )
        )
    return shaded_figure(lines, title=f"{view.title}\n{item.address}")


def signed_figure(view: AttentionView) -> Figure:
    """The last layer of an image's classifier over the image, for the places in the middle of a 3 x 3 grid over it.

    Raises:
        InputError: where the view has no image, or matplotlib is not installed.
    """
    item = view.map(view.addresses[-1])
    patches = item.query_patches
    if patches is None:
        raise InputError(f"{item.address}: its queries are not patches of an image")
    rows, columns = ([int(n * (share + 0.5) / 3) for share in range(3)] for n in (patches.rows, patches.columns))
    asked = dict.fromkeys(patches.first + row * patches.columns + column for row in rows for column in columns)
    return overlay_figure(view, item.address, queries=list(asked))


def buckets_figure(view: AttentionView, address: str | None = None, *, head: int = 0, example: int = 0) -> Figure:
    """The figure of one head's hashing (Kitaev et al. 2020, figure 2): each round's map with its places in the order of buckets.

    In addition to rows and columns stands the bucket of each place by colour; lines are the borders of chunks. Weights then lie
    in the chunks on the diagonal and in those before them.

    Arguments:
        view: of a Reformer.
        address: of a layer that hashes; the last where None.
        head: which of its heads.
        example: which of the view's examples.

    Raises:
        InputError: where no layer hashes (no text up to a chunk is), there is no such head, or matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    hashed = [name for name in view.addresses if (marks := view.map(name, example).marks) is not None and marks.buckets]
    if not hashed:
        raise InputError(
            "no layer hashes here: a text that is no longer than a chunk is looked at as a whole; give a longer one"
        )
    item = view.map(address or hashed[-1], example)
    marks = item.marks
    if marks is None or not marks.buckets or not 0 <= head < item.heads:
        raise InputError(f"{item.address}, head {head}: hashed are heads 0 to {item.heads - 1} of {', '.join(hashed)}")
    texts = shown_tokens(item.key_tokens)
    write = Writer.for_texts([view.title, item.address, *texts])
    count, rounds = len(texts), len(marks.buckets[head])
    side = min(max(0.15 * count, 2.0), 7.0)
    wide = side + 0.75
    drawing = Figure(figsize=(wide * rounds, side))
    font = min(7.0, side / count * 72 * 0.75)
    for turn in range(rounds):
        order = marks.order(head, turn)
        chunks, row = marks.chunks(head, turn), marks.buckets[head][turn]
        axes = drawing.add_axes((turn / rounds + 0.5 / (wide * rounds), 0, side / (wide * rounds), 1))
        axes.imshow(
            item.weights[head][np.ix_(order, order)], cmap="viridis", vmin=0, aspect="auto", interpolation="nearest"
        )
        names = [write.token(texts[key], key) for key in order]
        axes.set_xticks(range(count), names, rotation=90, **write.style(font))
        axes.set_yticks(range(count), names, **write.style(font))
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=3 + 72 * 0.03 * side)
        thick = count * 0.025
        for place, key in enumerate(order):
            colour = bucket_colour(row[key])
            for corner, width, height in (
                ((place - 0.5, -0.5 - thick), 1, thick),
                ((-0.5 - thick, place - 0.5), thick, 1),
            ):
                axes.add_patch(Rectangle(corner, width, height, color=colour, linewidth=0, clip_on=False))
            if place and chunks[key] != chunks[order[place - 1]]:
                axes.axvline(place - 0.5, color="white", linewidth=0.9)
                axes.axhline(place - 0.5, color="white", linewidth=0.9)
        axes.set_xlabel(f"round {turn}: places in the order of their buckets, chunks of {marks.chunk}", fontsize=8)
    drawing.text(0, 1 + 0.9 / side, write(f"{item.address}, head {head}"), va="bottom", **write.style(10))
    return fitted(drawing)


FIGURES: Mapping[str, Callable[[AttentionView], Figure]] = {
    "han": document_figure,
    "lstmn": reading_figure,
    "lambda_network": signed_figure,
    "reformer": buckets_figure,
}
"""By the model's family: what its paper draws of a view. That of `ntm` needs more than a view."""


def shaded_figure(lines: Sequence[ShadedLine], *, title: str = "") -> Figure:
    """Lines of words with shades behind them, and bars at their left where lines have weights.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: matplotlib is not installed.

    >>> line = ShadedLine((ShadedWord("so", 0.1), ShadedWord("good", 1.0)), weight=0.7)
    >>> [text.get_text() for text in shaded_figure([line]).axes[0].texts]
    ['0.70', 'so', 'good']
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs matplotlib: pip install 'regard[plot]'") from None
    barred = any(line.weight is not None for line in lines)
    start = BAR if barred else 0
    folded = [list(_folded(line.words, COLUMNS - start)) for line in lines]
    height = max(1, sum(map(len, folded)))
    widest = max(
        (column + cell_len(word.text) for parts in folded for part in parts for column, word in part), default=1
    )
    drawing = Figure(figsize=(LETTER * (start + widest), LINE * height))
    axes = drawing.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, start + widest)
    axes.set_ylim(height, 0)
    write = Writer.for_texts([title, *(word.text for line in lines for word in line.words)])
    strongest = max((line.weight or 0.0 for line in lines), default=1.0) or 1.0
    place = 0
    for line, parts in zip(lines, folded, strict=True):
        if line.weight is not None:
            _bar(axes, place, line.weight, strongest)
        for part in parts:
            _line(axes, place, start, part, write)
            place += 1
    if title:
        axes.set_title(
            write(title) if "\n" not in title else "\n".join(map(write, title.split("\n"))),
            loc="left",
            pad=8,
            **write.style(10),
        )
    return fitted(drawing)


def _bar(axes: Axes, place: int, weight: float, strongest: float) -> None:
    axes.barh(place + 0.5, 6 * weight / strongest, height=0.7, left=0, color="#08519c", linewidth=0)
    axes.text(10.5, place + 0.5, f"{weight:.2f}", ha="right", va="center", fontsize=FONT - 1, color="#444444")


def _line(axes: Axes, place: int, start: int, part: Sequence[tuple[int, ShadedWord]], write: Writer) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = write.style(FONT) | {"family": ["DejaVu Sans Mono", *write.families]}
    for column, word in part:
        width = cell_len(word.text)
        shade = float(np.clip(word.shade, 0, 1)) * 0.8  # the darkest still lets letters be read
        colour = colormaps["Blues"](shade) if shade else "none"
        axes.add_patch(Rectangle((start + column - 0.2, place + 0.06), width + 0.4, 0.88, color=colour, linewidth=0))
        ink = CHOSEN if word.chosen else "white" if shade > 0.55 else "black"
        weight = "bold" if word.chosen else "normal"
        axes.text(start + column, place + 0.5, write(word.text), va="center", color=ink, fontweight=weight, **style)


def _folded(words: Sequence[ShadedWord], width: int) -> list[list[tuple[int, ShadedWord]]]:
    """The words of each line of so many letters, with the letter at which each begins."""
    lines: list[list[tuple[int, ShadedWord]]] = [[]]
    column = 0
    for word in words:
        space = 0 if word.glued or not lines[-1] else 1
        if lines[-1] and column + space + cell_len(word.text) > width:
            lines.append([])
            column = space = 0
        lines[-1].append((column + space, word))
        column += space + cell_len(word.text)
    return lines


def _bare(text: str, glued: bool) -> str:
    """A token without the mark of a space before it, or of going on."""
    return text.removeprefix("##" if glued else "␣") or text
