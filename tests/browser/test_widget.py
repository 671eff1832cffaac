"""The notebook's widget in a browser: its frame on the same modules, driven by a model as anywidget gives one."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from regard.inspection.view import AttentionMap, AttentionView
from regard.web.pages import asset

pytest.importorskip("anywidget")

from regard.inspection.widget import AttentionWidget

MODEL = """
const listeners = {};
const model = {
  values: GIVEN, sent: [],
  get(name) { return this.values[name]; },
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    for (const one of listeners["change:" + name] ?? []) one();
  },
  save_changes() { this.sent.push(["view", "layer", "head", "query", "key"].map((name) => this.values[name])); },
  on(name, one) { (listeners[name] ??= []).push(one); },
  off(name, one) { listeners[name] = (listeners[name] ?? []).filter((other) => other !== one); },
};
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
model.values.levels = model.values.levels.map(bytes);
window.model = model;
window.listeners = listeners;
window.end = widget.render({ model, el: document.querySelector("#here") });
"""


def a_view() -> AttentionView:
    rng = np.random.default_rng(0)
    tokens = ["the", "cat", "sat", "down"]
    maps = [
        AttentionMap(
            address=f"layers.{i}",
            kind="self",
            query_tokens=tokens,
            key_tokens=tokens,
            weights=rng.dirichlet(np.ones(4), (2, 4)),
        )
        for i in range(2)
    ]
    return AttentionView(title="the cat", maps=tuple(maps))


@pytest.fixture
def shown(browser):
    """`shown(widget)` is a page that draws it, with the model as `model`."""
    contexts, faults = [], []

    def open_page(widget: AttentionWidget):
        context = browser.new_context(viewport={"width": 1100, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: message.type == "error" and faults.append(message.text))
        page.on("request", lambda request: request.url.startswith("http") and faults.append(request.url))
        page.set_content(f'<div id="{widget.saved}">saved</div><div id="here"></div>')
        given = {name: getattr(widget, name) for name in ("page", "data", "height", "saved")}
        given |= {name: getattr(widget, name) for name in ("view", "layer", "head", "query", "key")}
        given["levels"] = [base64.b64encode(one).decode() for one in widget.levels]
        script = asset("static/widget.js").replace("export default", "const widget =")
        page.add_script_tag(content=f"{{ {script}\n{MODEL.replace('GIVEN', json.dumps(given))} }}")
        page.frame_locator("iframe").locator("body[data-ready]").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def wait(page, condition: str) -> None:
    page.wait_for_function(condition, timeout=5000)


def test_the_page_tells_python_which_cell_it_shows(shown):
    page = shown(AttentionWidget(a_view()))
    wait(page, "model.values.query !== null")
    assert page.evaluate("model.values.view") == "heatmap"
    frame = page.frame_locator("iframe")
    frame.locator("#figure").focus()
    for key in ("Control+Home", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    wait(page, "model.values.query === 1 && model.values.key === 2")
    frame.locator("#address").select_option("layers.1")
    frame.locator("#head").select_option("mean")
    wait(page, "model.values.layer === 'layers.1' && model.values.head === 'mean'")
    assert page.evaluate("model.sent.at(-1)") == ["heatmap", "layers.1", "mean", 1, 2]


def test_python_sets_the_cell_that_the_page_shows(shown):
    widget = AttentionWidget(a_view())
    widget.layer, widget.head, widget.query, widget.key = "layers.1", 1, 3, 0
    page = shown(widget)
    expected = float(widget.seen.maps[1].weights[1, 3, 0])
    readout = page.frames[1].evaluate
    wait(page, "model.values.view === 'heatmap'")
    assert readout("[regard.state.map.address, regard.state.head, regard.state.row, regard.state.column]") == [
        "layers.1",
        1,
        3,
        0,
    ]
    assert readout("regard.state.matrix.at(3, 0)") == pytest.approx(expected, rel=2e-3)
    page.frame_locator("iframe").locator("#scale").select_option("unit")
    page.evaluate("model.set('layer', 'layers.0'); model.set('head', 0); model.set('query', 2)")
    wait(
        page,
        "JSON.stringify(model.sent.at(-1)) === JSON.stringify(['heatmap', 'layers.0', 0, 2, 0])",
    )
    assert readout("regard.state.scale") == "unit"  # what is not named stays as it was
    page.evaluate("model.set('view', 'heads')")
    wait(page, "model.sent.at(-1)[0] === 'heads'")


def test_the_saved_page_gives_way_to_the_live_one_and_comes_back(shown):
    page = shown(AttentionWidget(a_view()))
    assert page.locator("text=saved").is_hidden()
    page.evaluate("end()")
    assert page.locator("text=saved").is_visible()
    assert page.evaluate("Object.values(listeners).every((one) => !one.length)")
