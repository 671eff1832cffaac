"""Attention weights as one HTML page that needs nothing beside itself."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from importlib import resources
from typing import Any

import numpy as np

from regard.files import write_file
from regard.inspection.view import AttentionMap, AttentionView, readable, visible

LEVELS = 65535


def html_page(view: AttentionView) -> str:
    """The page that shows a view: heatmaps to point at, by head and layer, and the source as coloured text.

    It is one file without any link to another, opens from a disk without a network, and says so to the
    browser (a content security policy that allows nothing else). Weights are stored in 16 bits with a step
    for each map; the page states the largest error, and zero stays zero. The exact numbers are in
    `AttentionView.to_json`.

    >>> view = AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "<b>"], ["the", "house"], title="en-fr")
    >>> page = html_page(view)
    >>> "<title>en-fr</title>" in page, "<b>" in page
    (True, False)
    """
    maps = [_stored(item) for item in view.maps]
    # Half a step, and a little for the rounding to float32 after it.
    error = float(f"{max(item['step'] for item in maps) * 0.55:.1e}")
    examples = [readable(label) for label in view.examples]
    parts = {
        "title": html.escape(readable(view.title)),
        "note": html.escape(readable(view.note)),
        "footer": f"Weights are rounded to 16 bits on this page: each is within {error} of the recorded one.",
        "style": _asset("page.css"),
        "script": "\n".join(map(_asset, ("page_weights.js", "page.js", "page_keys.js"))),
        "data": _json({"examples": examples, "error": error, "maps": maps}),
    }
    # In one pass, so that a token which reads like a place in the template stays a token.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


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
    page = html.escape(html_page(view))
    title = html.escape(readable(view.title))
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{page}" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8884; border-radius: 8px"></iframe>'
    )


def _stored(item: AttentionMap) -> dict[str, Any]:
    # A stored whole number q stands for (q - zero) * step. Negative weights need half of the numbers.
    largest = float(np.abs(item.weights).max()) or 1.0
    zero = LEVELS // 2 if (item.weights < 0).any() else 0
    step = largest / (LEVELS - zero - (zero > 0))
    whole = np.rint(item.weights.astype(np.float64) / step) + zero
    return {
        "address": readable(item.address),
        "kind": item.kind,
        "example": item.example,
        "query": [visible(token) for token in item.query_tokens],
        "key": [visible(token) for token in item.key_tokens],
        "heads": item.heads,
        "zero": zero,
        "step": step,
        "weights": base64.b64encode(whole.astype("<u2").tobytes()).decode("ascii"),
    }


def _json(value: Any) -> str:
    # Inside a script element only "<" could end it; the others keep careless readers of HTML from mistakes.
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return resources.files("regard.inspection").joinpath(name).read_text(encoding="utf-8")
