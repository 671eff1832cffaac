"""Attention as figures that are no matrices: lines between tokens, and weights over a picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.errors import InputError
from regard.inspection.plots import Writer, fitted
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.words import shown_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with any colour vision can tell apart; dashed where they come again.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
LINE, WIDTH, PICTURE = 0.24, 4.6, 1.7  # inches
LEGEND_COLUMNS = 4
FAINTEST = 0.02  # of the largest weight: what is weaker is not drawn
DARKEST = 0.75  # of the light that is taken from where nothing is seen


def lines_figure(item: AttentionMap, *, heads: Sequence[int] | None = None, query: int | None = None) -> Figure:
    """The figure of a map as lines: queries left, keys right, strength and width by weight, a colour for each head.

    Under the lines a legend says which colour is which head.

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
    for head in chosen:
        for row in rows:
            for column in np.flatnonzero(np.abs(item.weights[head, row]) >= FAINTEST * largest):
                share = abs(float(item.weights[head, row, column])) / largest
                axes.plot([0, 1], [row, column], _dash(head), color=COLOURS[head % len(COLOURS)], alpha=share,
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
    """The figure of a picture as each query token sees it: bright where its weights are, as in "Show, attend and tell".

    Arguments:
        view: has the picture, and a map whose keys are patches of it.
        address: of that map.
        example: which of the view's examples.
        head: which head; their mean where None.
        queries: which query tokens, counted from 0; all where None.

    Returns:
        A figure that is not known to pyplot; write it with `regard.inspection.plots.write_figure`.

    Raises:
        InputError: the map's keys are no patches, there is no picture, head or query of that number, or matplotlib is
            not installed.

    """
    item = view.map(address, example)
    patches, image = item.key_patches, view.images[example] if view.images else None
    if patches is None or image is None:
        raise InputError(f"{address}: an overlay needs a picture in the view and key_patches in the map; give both")
    if head is not None and not 0 <= head < item.heads:
        raise InputError(f"{address}: no head {head}; it has heads 0 to {item.heads - 1}")
    chosen = list(range(len(item.query_tokens)) if queries is None else queries)
    if not chosen or any(not 0 <= row < len(item.query_tokens) for row in chosen):
        raise InputError(f"{address}: queries {chosen}; it has 0 to {len(item.query_tokens) - 1}")
    weights = np.abs(item.mean() if head is None else item.weights[head])[:, patches.first : patches.last + 1]
    columns = math.ceil(math.sqrt(len(chosen)))
    lines = math.ceil(len(chosen) / columns)
    drawing, whole = _figure(PICTURE * columns, (PICTURE + 0.3) * lines)
    from matplotlib.image import imread

    texts = shown_tokens(item.query_tokens)
    write = Writer.for_texts(list(texts))
    picture = imread(io.BytesIO(image), format="png")
    ends = (0, picture.shape[1], picture.shape[0], 0)
    for place, row in enumerate(chosen):
        line, column = divmod(place, columns)
        axes = whole.inset_axes((column / columns, 1 - (line + 1) / lines, 0.94 / columns, 0.84 / lines))
        axes.imshow(picture, extent=ends)
        seen = weights[row].reshape(patches.rows, patches.columns)
        shade = np.zeros((patches.rows, patches.columns, 4))
        shade[..., 3] = DARKEST * (1 - seen / (seen.max() or 1.0))
        axes.imshow(shade, extent=ends, interpolation="bilinear")
        axes.set_axis_off()
        axes.set_title(write.token(texts[row], row), loc="left", pad=2, **write.style(9))
    return fitted(drawing)


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
