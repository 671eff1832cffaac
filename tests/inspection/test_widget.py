"""A record as a notebook's widget: traits that are checked, and a page that stays where there is no kernel."""

from __future__ import annotations

import sys
import zlib

import numpy as np
import pytest

import regard
from regard.errors import InputError
from regard.inspection.view import AttentionView
from regard.inspection.viewer import SCALES, restore, store

CELL = """
import numpy as np
from regard.inspection.view import AttentionView
from regard.inspection.widget import AttentionWidget
w = AttentionWidget(AttentionView.of(np.full((2, 2, 3), 1 / 3), ["la", "casa"], ["the", "big", "house"]))
w
"""


@pytest.fixture
def widget():
    pytest.importorskip("anywidget")
    from regard.inspection.widget import AttentionWidget

    weights = np.random.default_rng(0).dirichlet(np.ones(3), (2, 2))
    return AttentionWidget(AttentionView.of(weights, ["la", "casa"], ["the", "big", "house"]))


def test_the_weights_travel_as_the_levels_of_a_page(widget):
    (item,) = widget.seen.maps
    levels = zlib.decompress(widget.levels[0])
    assert len(levels) == item.weights.size * widget.data["maps"][0]["size"]
    weights, errors = restore(store(item, SCALES[0]))
    assert (abs(weights - item.weights) <= errors).all()
    assert 'id="data"' not in widget.page  # or they would travel twice
    assert 'id="weights-0"' not in widget.page


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("view", "heads", "cells"),
        ("layer", "attention", "attentoin"),
        ("head", 1, 2),
        ("head", "mean", "most"),
        ("query", 1, 2),
        ("key", 2, -1),
    ],
)
def test_a_trait_takes_what_the_view_has_and_nothing_else(widget, name, right, wrong):
    import traitlets

    setattr(widget, name, right)
    with pytest.raises(traitlets.TraitError):
        setattr(widget, name, wrong)
    assert getattr(widget, name) == right


def test_what_the_page_tells_is_observed(widget):
    seen = []
    widget.observe(lambda change: seen.append((change.name, change.new)), ["query", "key"])
    widget.set_state({"query": 1, "key": 2})  # as a message of the page's does
    assert sorted(seen) == [("key", 2), ("query", 1)]


def test_without_anywidget_a_record_is_a_page(translator, monkeypatch):
    looked_at = translator("bahdanau")
    with regard.look(looked_at) as seen:
        looked_at.translate("abc")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "regard.inspection.widget", raising=False)
    with pytest.raises(InputError, match=r"regard\[notebook\]"):
        seen.widget()
    with pytest.raises(NotImplementedError):  # IPython then asks for `_repr_html_`
        seen._ipython_display_()
    assert seen._display_()._repr_html_().lstrip().startswith("<iframe")


def test_a_run_notebook_holds_the_widget_and_the_page_that_needs_no_kernel():
    pytest.importorskip("anywidget")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    nbconvert = pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(CELL), nbformat.v4.new_code_cell("w.query = 1; w.query, w.layer")]
    notebook = nbclient.NotebookClient(
        nbformat.v4.new_notebook(cells=cells), timeout=300, kernel_name="python3"
    ).execute()
    outputs = notebook.cells[0].outputs
    kinds = [set(output.data) for output in outputs]
    assert "text/html" in kinds[0]
    assert "application/vnd.jupyter.widget-view+json" not in kinds[0]
    assert "application/vnd.jupyter.widget-view+json" in kinds[1]
    assert notebook.cells[1].outputs[0].data["text/plain"] == "(1, None)"
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert "<iframe" in html
    assert "srcdoc" in html
