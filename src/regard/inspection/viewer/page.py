"""A view of attention as one HTML page that needs nothing beside itself."""

from __future__ import annotations

import base64
import os
from typing import Any

from regard.files import write_file
from regard.inspection.patches import Patches
from regard.inspection.view import AttentionMap, AttentionView, readable, visible
from regard.inspection.viewer.storage import Scale, StoredWeights, scale_for, store
from regard.inspection.words import shown_tokens, word_numbers, word_texts
from regard.web import framed, page


def html_page(view: AttentionView) -> str:
    """The page that shows a view: a heatmap, lines between tokens, all layers and heads, coloured text, a picture's patches.

    It is one file without any link to another, opens from a disk without a network, and says so to the
    browser (a content security policy that allows nothing else). Weights are stored on a logarithmic scale
    that is the finer the fewer there are (see `regard.inspection.viewer.storage`); the page shows the error of
    each value beside it, and zero stays zero. The exact numbers are in `AttentionView.to_json`.

    Where the tokens are pieces of words, the page can merge them: a map's own `query_words` and `key_words`
    say how, else the marks of the common tokenizers do.

    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "<b>"], ["the", "house"], title="en-fr")
    >>> page = html_page(view)
    >>> "<title>en-fr</title>" in page, "<b>" in page
    (True, False)
    """
    scale = scale_for(view.maps)
    sides: dict[tuple[Any, ...], int] = {}
    maps, weights = [], []
    for item in view.maps:
        stored = store(item, scale)
        maps.append(_described(item, stored, sides))
        weights.append(stored.text)
    data = {
        "title": readable(view.title),
        "examples": [readable(label) for label in view.examples],
        "images": [image and base64.b64encode(image).decode("ascii") for image in view.images],
        "sides": [_side(*side) for side in sides],
        "maps": maps,
    }
    parts = {
        "title": readable(view.title),
        "note": readable(view.note),
        "footer": _rounding(scale),
        "weights": weights,
    }
    return page("viewer", parts, data=data, styles=("viewer.css",))


def save_page(view: AttentionView, path: str | os.PathLike[str]) -> None:
    """Write the page of a view to a file.

    Raises:
        InputError: it cannot be written; a file that was there before is then as it was.

    """
    write_file(path, html_page(view).encode())


def html_fragment(view: AttentionView, *, height: int = 680) -> str:
    """The page inside a frame, for a notebook's `_repr_html_`; nothing in it can touch what is around it.

    Arguments:
        view: what to show.
        height: of the frame, in CSS pixels.

    """
    return framed(html_page(view), readable(view.title), height=height, allowed="allow-scripts allow-downloads")


def _described(item: AttentionMap, stored: StoredWeights, sides: dict[tuple[Any, ...], int]) -> dict[str, Any]:
    """A map without its weights; its tokens are a place in `sides`, where layers share them."""
    query = (item.query_tokens, item.query_words, item.query_patches)
    key = (item.key_tokens, item.key_words, item.key_patches)
    return {
        "address": readable(item.address),
        "kind": item.kind,
        "example": item.example,
        "heads": item.heads,
        "query": sides.setdefault(query, len(sides)),
        "key": sides.setdefault(key, len(sides)),
        "zero": stored.zero,
        "knee": stored.knee,
        "step": stored.step,
        "size": stored.size,
    }


def _side(tokens: tuple[str, ...], words: tuple[int, ...] | None, patches: Patches | None) -> dict[str, Any]:
    # A patch is a whole; its number in a grid would be lost in a word.
    words = None if patches else words or word_numbers(tokens)
    shown, raw = shown_tokens(tokens), tuple(map(visible, tokens))
    return {
        "tokens": shown,
        # What the tokenizer itself calls them, for the box beside the pointer.
        **({} if shown == raw else {"raw": raw}),
        "words": words,
        "texts": None if words is None else [visible(word) for word in word_texts(tokens, words)],
        "patches": None if patches is None else [patches.rows, patches.columns, patches.first],
    }


def _rounding(scale: Scale) -> str:
    return (
        f"Weights are kept on this page to about {scale.step / 2:.1%} of themselves and {scale.knee * scale.step / 2:.0e} of "
        "their layer's largest; the error of each is beside its value. Zero is exact."
    )
