"""A view of attention as a live widget of a notebook: Jupyter, VS Code, marimo. Needs the extra `notebook` (anywidget)."""

from __future__ import annotations

import uuid
from typing import Any

import anywidget
import traitlets

from regard.inspection.view import AttentionView
from regard.inspection.viewer import framed_page, html_fragment
from regard.web.pages import asset

VIEWS = ("heatmap", "heads", "model", "text", "image", "document", "memory")


class AttentionWidget(anywidget.AnyWidget):
    """The viewer's page in a notebook; what it shows is read and set in Python.

    The weights travel once, as the levels that a page holds, next to the page. `view`, `layer`, `head`, `query` and `key` have
    the values of the page's address (docs/looking.md): `view` one of `VIEWS`; `layer`
    an address; `head` a number or `"mean"`; `query` and `key` the chosen row and column. They are None until the page is
    shown, which begins where there is something to see, or at what was set before. `observe` calls a function when somebody
    chooses another.

    Arguments:
        view: what to show.
        height: of the frame, in CSS pixels.

    Raises:
        traitlets.TraitError: when a trait is set to what the view does not have.

    >>> shown = AttentionWidget(AttentionView.of([[0.9, 0.1], [0.2, 0.8]], ["la", "casa"], ["the", "house"]))
    >>> shown.query, shown.key = 1, 0
    >>> float(shown.seen.maps[0].weights[0, shown.query, shown.key])
    0.20000000298023224
    """

    _esm = asset("static/widget.js")
    page = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    levels = traitlets.List(traitlets.Bytes()).tag(sync=True)
    height = traitlets.Int(680).tag(sync=True)
    saved = traitlets.Unicode().tag(sync=True)
    view = traitlets.Enum(VIEWS, default_value=None, allow_none=True).tag(sync=True)
    layer = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    head = traitlets.Union([traitlets.Int(), traitlets.Enum(["mean"])], default_value=None, allow_none=True).tag(
        sync=True
    )
    query = traitlets.Int(None, allow_none=True).tag(sync=True)
    key = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, view: AttentionView, *, height: int = 680) -> None:
        self.seen = view
        page, data, levels = framed_page(view)
        super().__init__(page=page, data=data, levels=levels, height=height, saved=f"regard-{uuid.uuid4().hex}")

    @traitlets.validate("layer")
    def _known_layer(self, proposal: Any) -> str | None:
        layers = list(dict.fromkeys(item["address"] for item in self.data["maps"]))
        if proposal.value is not None and proposal.value not in layers:
            raise traitlets.TraitError(f"no layer {proposal.value!r} is shown; choose from {', '.join(layers)}")
        return proposal.value

    @traitlets.validate("head", "query", "key")
    def _known_number(self, proposal: Any) -> int | str | None:
        name, value = proposal.trait.name, proposal.value
        if value is None or value == "mean":
            return value
        maps = [item for item in self.data["maps"] if self.layer in (None, item["address"])]
        counts = {
            "head": [item["heads"] for item in maps],
            "query": [len(self.data["sides"][item["query"]]["tokens"]) for item in maps],
            "key": [len(self.data["sides"][item["key"]]["tokens"]) for item in maps],
        }[name]
        if not 0 <= value < max(counts):
            raise traitlets.TraitError(f"{name} {value} of {max(counts)}: count from 0")
        return value

    def _ipython_display_(self) -> None:
        """Two outputs: a page that a saved notebook shows without a kernel, and the live one, which hides it."""
        from IPython.display import display

        page = html_fragment(self.seen, height=self.height)
        fallback = {"text/html": f'<div id="{self.saved}">{page}</div>', "text/plain": f"attention: {self.seen.title}"}
        display(fallback, raw=True)
        live = self._repr_mimebundle_()
        if live is not None:  # as anywidget answers where no notebook listens
            display(live[0], raw=True)
