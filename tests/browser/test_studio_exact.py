"""What the studio shows is what Python gives: random cells of every view, changes, and a link opened in another browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.browser.conftest import served, wait_for
from tests.browser.test_views import at_cell, number_in, point_at, says, tip
from tests.serving.test_attention import InProcess, language_model, read_tokens
from tests.serving.test_tasks import classifier, png, viewer

import regard
from regard.inspection import ScaleHeads, change

TEXT = "a cat sat on a mat"
CELLS = 200


@pytest.fixture
def models(randomize: Any) -> dict[str, Any]:
    return {"lm": language_model(randomize), "yesno": classifier(randomize), "sees": viewer(randomize)}


@pytest.fixture
def address(models: dict[str, Any]) -> Iterator[str]:
    with served(link=InProcess(**models)) as url:
        yield f"{url}/studio#token=secret"


@pytest.fixture
def weights(models: dict[str, Any]) -> dict[str, np.ndarray]:
    """Of the language model on the text, as `Record.weights` has them: (H, L, L) by address."""
    model = models["lm"].model
    with torch.no_grad(), regard.look(model) as seen:
        model(read_tokens(models["lm"], TEXT))
    return {each: seen.weights(each)[0].numpy() for each in seen.addresses}


@pytest.fixture
def page(opened: Any, address: str, weights: dict[str, np.ndarray]) -> Any:
    page = opened(address)
    page.select_option("#model", "lm")
    page.fill("#reads", TEXT)
    length = next(iter(weights.values())).shape[-1]
    wait_for(page, f"regard.data.maps[0].query.tokens.length === {length}")
    evaluate = page.evaluate
    page.evaluate = lambda what, *given: evaluate(
        what if what.startswith(("(", "async")) else f"() => {{ with (regard) {{ return {what}; }} }}", *given
    )
    return page


def cells(weights: dict[str, np.ndarray], seed: int) -> Iterator[tuple[str, int, int, int]]:
    """Random cells that may be attended to, a few of each head so that heads are not changed for each."""
    rng = np.random.default_rng(seed)
    for _ in range(CELLS // 5):
        address = str(rng.choice(list(weights)))
        head = int(rng.integers(len(weights[address])))
        for _ in range(5):
            row = int(rng.integers(weights[address].shape[1]))
            yield address, head, row, int(rng.integers(row + 1))


def choose(page: Any, address: str, head: int) -> None:
    page.evaluate(
        "([address, head]) => regard.choose('address', address).then(() => regard.choose('head', String(head)))",
        [address, head],
    )


def agrees(text: str, exact: float) -> None:
    value, error = number_in(text)
    assert abs(value - exact) <= error * 1.1 + 1e-9, (text, exact)
    assert error <= 0.002 * max(exact, 1e-3) + 1e-6  # so few weights are kept to a thousandth of themselves


def test_the_heat_map_shows_the_weights_of_python(page, weights):
    for address, head, row, column in cells(weights, 0):
        choose(page, address, head)
        point_at(page, *at_cell(page, row, column))
        assert f"query {row}, key {column}" in tip(page)
        agrees(tip(page).split(": ", 1)[1], weights[address][head, row, column])


def test_the_text_shows_the_weights_of_python(page, weights):
    page.click("#tab-text")
    for address, head, row, column in cells(weights, 1):
        choose(page, address, head)
        page.evaluate("([row]) => regard.move(row, 0)", [row])
        page.locator("#words span").nth(column).hover()
        assert f"query {row}, key {column}" in tip(page)
        agrees(tip(page).split(": ", 1)[1], weights[address][head, row, column])


def test_lines_and_the_table_show_the_weights_of_python(page, weights):
    page.click("#tab-heads")
    shown = 0
    for address, head, row, _ in cells(weights, 2):
        choose(page, address, head)
        page.evaluate(
            "([head, row]) => { if (![...regard.state.on].every((one) => one === head) || !regard.state.on.size) "
            "regard.switchHead(head, true); regard.VIEWS.heads.choose('query', row); }",
            [head, row],
        )
        exact = weights[address][head, row]
        for place, line in zip(
            np.argsort(-exact, kind="stable"), page.locator("#strongest-body tr").all()[:4], strict=False
        ):
            texts = [cell.get_attribute("title") or cell.inner_text() for cell in line.locator("td").all()]
            assert texts[1] == str(head)
            agrees(texts[2], exact[place])
            shown += 1
    assert shown >= CELLS


def test_the_overview_names_the_strongest_weight_of_each_head(page, weights):
    page.click("#tab-model")
    page.locator("#figure").focus()
    page.keyboard.press("Control+Home")
    for layer, exact in enumerate(weights.values()):
        for head in range(len(exact)):
            wait_for(page, f"state.map === data.maps[{layer}] && state.head === {head}")
            wait_for(page, "document.querySelector('#readout').textContent.includes('strongest')")
            agrees(
                says(page).rpartition(" ")[0].rpartition("±")[0].split()[-1] + " ± " + says(page).split()[-1],
                exact[head].max(),
            )
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")


def test_an_image_shows_the_weights_of_python(page, models, tmp_path):
    image = tmp_path / "image.png"
    image.write_bytes(png(8, 8))
    page.select_option("#model", "sees")
    page.set_input_files("#file", image)
    wait_for(page, "regard.data.maps[0].query.patches !== null")
    with torch.no_grad(), regard.look(models["sees"].model) as seen:
        models["sees"].classify(np.asarray(Image.open(image)))
    exact = seen.weights(seen.addresses[0])[0].numpy()
    page.click("#tab-image")
    for head, row, column in np.ndindex(exact.shape):
        choose(page, seen.addresses[0], head)
        page.evaluate("([row, column]) => regard.move(row, column)", [row, column])
        assert f"(query {row}, key {column})" in says(page)
        agrees(says(page).rpartition("(")[0].split(": ")[-1], exact[head, row, column])


@pytest.mark.parametrize("factor", ["0", "-1.5"])
def test_a_scaled_head_answers_as_it_does_in_python(page, models, factor):
    choose(page, "layers.1.attention", 2)
    page.click("#switch-off")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    if factor != "0":
        page.evaluate("() => { window.before = studio.seen; }")
        page.fill("#changed input", factor)
        page.keyboard.press("Tab")
        wait_for(page, "studio.seen !== before")
    shown = page.evaluate("studio.seen.answer.bars.map((bar) => bar.log_probability)")
    edit = ScaleHeads(address="layers.1.attention", heads=[2], factor=float(factor))
    model = models["lm"].model
    with torch.no_grad(), change(model, edit):
        exact = model(read_tokens(models["lm"], TEXT))[0, -1].log_softmax(dim=-1).sort(descending=True).values
    np.testing.assert_allclose(shown, exact[: len(shown)].numpy(), atol=1e-6, rtol=1e-6)


STATE = """async () => {
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);  // what was asked for is painted
  const { regard, studio } = window, numbers = [];
  for (const map of regard.data.maps) for (let head = 0; head < map.heads; head++) {
    const matrix = regard.matrixOf(map, head, false);
    for (let row = 0; row < matrix.rows; row++) numbers.push(...matrix.row(row));
  }
  const words = (id) => document.getElementById(id).innerText;
  return {
    numbers, figure: regard.canvas.toDataURL(), head: studio.seen.packed.head, wanted: studio.seen.wanted,
    answer: words("answer-bars"), changed: words("changed"), strongest: words("strongest-body"),
    cell: [regard.state.row, regard.state.column, regard.state.head, regard.state.view, regard.state.map.address],
  };
}"""


def test_a_link_opens_to_the_same_bits_in_another_browser(page, opened):
    choose(page, "layers.1.attention", 1)
    page.click("#switch-off")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    choose(page, "layers.2.attention", 3)
    page.focus("#figure")
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.evaluate("async () => { for (const map of regard.data.maps) await regard.load(map); }")
    state = page.evaluate(STATE)
    wait_for(page, "location.hash.includes('changes') && location.hash.includes('layers.2.')")
    wait_for(page, f"location.hash.includes('query={state['cell'][0]}&key={state['cell'][1]}&')")
    again = opened(page.url)
    wait_for(again, f"regard.state.row === {state['cell'][0]} && regard.state.column === {state['cell'][1]}")
    again.evaluate("async () => { for (const map of regard.data.maps) await regard.load(map); }")
    other = again.evaluate(STATE)
    assert [name for name in state if other[name] != state[name]] == []
    assert len(state["numbers"]) > 1000


REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, [tabindex='0']")]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0)
  .filter((one) => !one.closest("[inert]"))
  .map((one) => one.id || one.className || one.textContent.trim().slice(0, 30))"""
FOCUSED = "() => ((one) => one.id || one.className || one.textContent.trim().slice(0, 30))(document.activeElement)"


def test_every_control_is_reached_by_the_keyboard_and_every_view_opened(page):
    for view in ("heatmap", "heads", "model", "text"):
        page.locator("[role=tab][tabindex='0']").focus()
        for _ in range(5):
            if page.evaluate("state.view") == view:
                break
            page.keyboard.press("ArrowRight")
        wait_for(page, f"regard.state.view === '{view}'")
        page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
        wanted, reached = set(page.evaluate(REACHABLE)), set()
        for _ in range(3 * len(wanted)):
            page.keyboard.press("Tab")
            reached.add(page.evaluate(FOCUSED))
        assert wanted <= reached, wanted - reached
