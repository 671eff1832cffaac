"""The page as a whole: its safety, its keys, its address, what it saves and how it is printed."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspection.view import AttentionMap, AttentionView, Patches
from regard.inspection.viewer import html_fragment, save_page

MARKUP = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "&lt;b&gt;", "{{data}}", "`${1}`"]
VIEWS = ["heatmap", "heads", "model", "text"]


def a_view(tokens: list[str], heads: int = 2, layers: int = 2, **settings: Any) -> AttentionView:
    rng = np.random.default_rng(0)
    maps = [
        AttentionMap(address=f"layers.{i}", kind="self", query_tokens=tokens, key_tokens=tokens,
                     weights=rng.dirichlet(np.ones(len(tokens)), (heads, len(tokens))))
        for i in range(layers)
    ]  # fmt: skip
    return AttentionView(**({"title": "seen", "maps": tuple(maps)} | settings))


def an_image() -> AttentionView:
    image = np.zeros((20, 20, 3), dtype=np.uint8)
    image[:10, :, 0] = 255
    weights = np.full((1, 2, 5), 0.2)
    return AttentionView.of(
        weights, ["a", "b"], ["c", *"pppp"], image=image, key_patches=Patches(rows=2, columns=2, first=1)
    )


def test_tokens_with_markup_are_text_in_every_view(visit, until):
    page = visit(a_view(MARKUP, title=MARKUP[0], note=MARKUP[1]))
    assert page.inner_text("h1") == MARKUP[0].replace(" ", " ")
    for view in VIEWS:
        page.click(f"#tab-{view}")
        until(page, f"document.body.dataset.view === '{view}'")
        if view not in ("text",):
            box = page.locator("#figure").bounding_box()
            page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
        assert page.locator("img, iframe").count() == 0
    words = page.locator("#words span").all_inner_texts()
    assert words == [token.replace(" ", "␣") for token in MARKUP]
    assert page.locator("script").count() == 4


def test_a_page_that_is_asked_for_more_refuses(visit):
    """The policy of the page, not only its own manners, keeps it from the network."""
    page = visit(a_view(["a", "b"]), ready="body[data-ready]")
    blocked = page.evaluate("""async () => {
      const violations = [];
      document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
      const image = new Image();
      image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
      await new Promise((done) => { image.onerror = image.onload = done; setTimeout(done, 300); });
      return violations;
    }""")
    assert blocked == ["img-src"]
    page.close()


@pytest.fixture(autouse=True)
def a_refusal_is_expected(request, visit):
    # Chromium also writes a refusal on the console; only the test above causes one on purpose.
    yield
    if request.node.name == "test_a_page_that_is_asked_for_more_refuses":
        visit.faults[:] = [fault for fault in visit.faults if "Content Security Policy" not in fault]


def test_everything_is_done_with_the_keyboard_alone(visit, until):
    page = visit(a_view(["the", "cat", "sleep", "##s"]), "layer=layers.0&head=mean")
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.id || document.activeElement.textContent")
        # What has the focus shows it.
        outlined = page.evaluate("""() => {
          const one = document.activeElement.id === "figure" ? document.getElementById("pane") : document.activeElement;
          return getComputedStyle(one).outlineStyle;
        }""")
        if focused in seen or page.evaluate("document.activeElement === document.body"):
            break
        seen.append(focused)
        assert outlined != "none", focused
    for control in (
        "theme",
        "help-open",
        "tab-heatmap",
        "save-png",
        "save-json",
        "address",
        "head",
        "scale",
        "merge",
        "larger",
        "figure",
    ):
        assert control in seen
    page.focus("#tab-heatmap")
    visited = []
    for _ in VIEWS:
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)
        visited.append(page.evaluate("document.body.dataset.view"))
        assert page.evaluate("document.activeElement.id") == f"tab-{visited[-1]}"
    assert visited == [*VIEWS[1:], VIEWS[0]]
    page.keyboard.press("2")
    until(page, "document.body.dataset.view === 'heads'")
    page.focus("#figure")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("state.side") == "query"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("state.side") == "key"
    assert " in head " in page.inner_text("#readout")
    page.focus("#switches button")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    until(page, "state.on.size === 1")
    page.keyboard.press("4")
    until(page, "document.body.dataset.view === 'text'")
    page.focus("#words span")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "cat"
    page.keyboard.press(".")
    until(page, "state.map.address === 'layers.1'")
    page.keyboard.press("]")
    until(page, "state.head === 0")
    page.keyboard.press("+")
    assert page.evaluate("state.zoom") == 1.25
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    assert not page.is_visible("#help")


def test_a_reader_who_hears_the_page_gets_names_and_values(visit):
    page = visit(a_view(["the", "cat"]))
    heard = page.locator("body").aria_snapshot()
    for name in ('tab "Heatmap" [selected]', 'combobox "layer', 'checkbox "whole words"', "table", "application"):
        if name != 'checkbox "whole words"':
            assert name in heard, heard
    page.click("#tab-text")
    page.wait_for_selector("#words span")
    heard = page.locator("#words").aria_snapshot()
    assert 'listbox "the text; choose a token"' in heard
    assert "option" in heard


def test_light_dark_and_the_choice_between_them(visit, until):
    page = visit(a_view(["a", "b", "c"]), color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
    page.keyboard.press("t")
    until(page, "document.documentElement.dataset.theme === 'light'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"  # the choice stays


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(visit, module, scheme):
    """WCAG's contrast: 4.5 for the small print, on every shade that a word can have."""
    page = visit(a_view(["a", "b"]), color_scheme=scheme)
    module(page, "colours.js")
    worst = page.evaluate("""() => {
      const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
      const contrast = (a, b) => {
        const both = [light(a) + 0.05, light(b) + 0.05];
        return Math.max(...both) / Math.min(...both);
      };
      const paper = hex(inks().paper);
      const shades = [...stopsOf(false), ...stopsOf(true)].map((stop) => hex("#" + stop));
      return {
        ink: contrast(hex(inks().ink), paper), faint: contrast(hex(inks().faint), paper), mark: contrast(hex(inks().mark), paper),
        shade: Math.min(...shades.map((rgb) => contrast(hex(inkOn(rgb)), rgb))),
        heads: Math.min(...HEADS[document.documentElement.dataset.theme].map((one) => contrast(hex(one), paper))),
      };
    }""")
    assert min(worst["ink"], worst["faint"], worst["shade"]) >= 4.5
    assert min(worst["mark"], worst["heads"]) >= 3


def test_right_to_left_text_runs_from_the_right(visit):
    words = ["مرحبا", "بالعالم", "الجميل"]
    page = visit(a_view(words), "view=text&query=0")
    lefts = page.locator("#words span").evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")
    assert lefts == sorted(lefts, reverse=True)
    page.focus("#words span")
    page.keyboard.press("ArrowLeft")  # onwards, in this direction
    assert page.evaluate("state.row") == 1


def test_a_link_opens_the_same_figure(visit, until):
    page = visit(a_view(["the", "cat", "sleep", "##s"]), "query=0")
    page.click("#tab-heads")
    until(page, "document.body.dataset.view === 'heads'")
    page.select_option("#address", "layers.1")
    page.check("#merge")
    until(page, "state.merge")
    page.locator("#switches button").nth(1).click()
    page.focus("#figure")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    until(page, "location.hash.includes('side=query') && location.hash.includes('query=1')")
    state = "JSON.stringify([state.view, state.map.address, [...state.on], state.merge, state.side, state.row])"
    before, place = page.evaluate(state), page.evaluate("location.hash").removeprefix("#")
    again = visit(a_view(["the", "cat", "sleep", "##s"]), place)
    assert again.evaluate(state) == before
    # What an address cannot mean is left out.
    odd = visit(a_view(["a", "b"]), "view=nothing&layer=x&head=99&query=-4&key=9e9&heads=7&example=5")
    assert odd.evaluate("[state.view, state.head < 2, state.row, state.on.size]") == ["heatmap", True, 0, 2]


def saved(page: Any, kind: str) -> bytes:
    with page.expect_download() as waiting:
        page.click(f"#save-{kind}")
    assert waiting.value.suggested_filename.endswith(f".{kind}")
    return Path(waiting.value.path()).read_bytes()


@pytest.mark.parametrize("view", [*VIEWS, "text&text=lines"])
def test_figures_are_saved(visit, view):
    page = visit(a_view(["the", "<b>", "&", "cat"]), f"view={view}")
    figure = saved(page, "png")
    assert figure.startswith(b"\x89PNG")
    assert len(figure) > 2000
    root = ElementTree.fromstring(saved(page, "svg"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "seen" in texts
    if view != "model":
        assert {"<b>", "&", "cat"} <= set(texts)


def test_the_whole_page_is_saved_as_one_file_that_works(visit, until, tmp_path):
    page = visit(a_view(MARKUP), "view=heads&layer=layers.1")
    page.keyboard.press("t")
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    page.click("#tab-text")
    until(page, "document.body.dataset.view === 'text'")
    copy = tmp_path / "copy.html"
    copy.write_bytes(saved(page, "html"))
    again = visit(copy, "view=text&layer=layers.1")
    words = [token.replace(" ", "␣") for token in MARKUP]
    assert again.locator("#words span").all_inner_texts() == words
    assert again.evaluate("matrixOf(state.map, 0, false).peak") == page.evaluate("matrixOf(state.map, 0, false).peak")


def test_pdf_is_the_browsers_own_print(visit):
    page = visit(a_view(["a", "b"]))
    page.evaluate("() => { window.print = () => { window.printed = true; }; }")
    page.click("#save-pdf")
    assert page.evaluate("window.printed")


def test_an_image_under_weights_is_saved(visit):
    page = visit(an_image())
    assert page.evaluate("state.view") == "image"
    page.wait_for_timeout(200)
    assert saved(page, "png").startswith(b"\x89PNG")
    assert b"data:image/png" in saved(page, "svg")


def test_a_chosen_head_keeps_its_number(visit):
    """Alone in its map it is the first there: its own number is in the address."""
    view = a_view(["the", "cat"], heads=3).with_heads(["0.2"])
    page = visit(view, "view=heads&side=query&query=1")
    assert page.inner_text("#where").startswith("Layer 0, head 2")
    assert "head" not in page.inner_text("#strongest-head").lower()
    page.focus("#figure")
    page.keyboard.press("ArrowDown")
    assert " in Layer 0, head 2" in page.inner_text("#readout")
    rows = list(csv.reader(io.StringIO(saved(page, "csv").decode("utf-8-sig"))))
    assert [row[0] for row in rows[1:]] == ["layers.0, head 2"] * 2
    assert json.loads(saved(page, "json"))["heads"][0]["head"] == "layers.0, head 2"


def test_the_numbers_shown_are_saved(visit, until):
    view = a_view(["the", 'c"at', "a,b"], heads=3)
    page = visit(view, "view=heatmap&layer=layers.0&head=1")
    exact = view.map("layers.0").weights
    rows = list(csv.reader(io.StringIO(saved(page, "csv").decode("utf-8-sig"))))
    assert rows[0] == ["head", "query", "the", 'c"at', "a,b"]
    assert [row[1] for row in rows[1:]] == ["the", 'c"at', "a,b"]
    np.testing.assert_allclose(np.array([row[2:] for row in rows[1:]], dtype=float), exact[1], rtol=2e-3)
    page.click("#tab-heads")
    until(page, "document.body.dataset.view === 'heads'")
    value = json.loads(saved(page, "json"))
    assert value["query_tokens"] == ["the", 'c"at', "a,b"]
    assert [head["head"] for head in value["heads"]] == [0, 1, 2]
    np.testing.assert_allclose([head["weights"] for head in value["heads"]], exact, rtol=2e-3)


@pytest.mark.parametrize("view", VIEWS)
def test_a_printed_page_is_light_and_whole(visit, view, until):
    page = visit(a_view([f"w{i}" for i in range(60)]), f"view={view}", color_scheme="dark")
    until(page, f"document.body.dataset.view === '{view}'")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not page.is_visible(".controls")
    if view != "text":
        shown, whole = page.evaluate("[canvas.clientHeight / canvas.clientWidth, whole.height / whole.width]")
        assert shown == pytest.approx(whole, rel=0.02)
    assert page.pdf().startswith(b"%PDF")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_narrow_screen_needs_no_sideways_scrolling(visit, until):
    page = visit(a_view([f"word{i}" for i in range(40)], layers=12, heads=12))
    page.set_viewport_size({"width": 380, "height": 700})
    for view in VIEWS:
        page.click(f"#tab-{view}")
        until(page, f"document.body.dataset.view === '{view}'")
        page.wait_for_timeout(80)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_a_damaged_page_says_so(visit, tmp_path):
    save_page(a_view(["a", "b"]), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    start = text.index('id="weights-0">') + len('id="weights-0">')
    (tmp_path / "damaged.html").write_text(text[:start] + text[start + 8 :])
    page = visit(tmp_path / "damaged.html")
    assert "the file is damaged" in page.inner_text("#where")
    page.keyboard.press("2")
    page.wait_for_timeout(100)
    assert "the file is damaged" in page.inner_text("#where")


def test_an_older_browser_reads_the_same_bytes(visit, module):
    page = visit(a_view(["a", "b"]))
    module(page, "source.js")
    same = page.evaluate("""() => {
      const text = document.getElementById("weights-0").textContent, fast = bytesOf(text).join();
      Uint8Array.fromBase64 = undefined;
      return bytesOf(text).join() === fast;
    }""")
    assert same


def test_it_works_inside_a_notebooks_frame(browser):
    context = browser.new_context()
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.set_content(html_fragment(a_view(["the", "cat"])))
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    frame.locator("#tab-heads").click()
    frame.locator("#switches button").first.wait_for()
    page.wait_for_timeout(400)
    assert faults == []
    context.close()


def test_all_heads_say_what_they_do(visit):
    weights = np.stack([np.eye(5)[[0, 0, 1, 2, 3]], np.full((5, 5), 0.2)])
    page = visit(AttentionView.of(weights, list("abcde"), list("abcde")), "view=model")
    root = ElementTree.fromstring(saved(page, "svg"))
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"previous token", "broad"} <= texts


def test_a_saved_page_opens_where_it_was_and_says_nothing_old(visit, until, tmp_path):
    page = visit(a_view(["a", "b", "c"]), "layer=layers.1&head=1&view=heatmap&scale=unit")
    page.focus("#figure")
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#readout")
    with page.expect_download() as found:
        page.click("#save-html")
    found.value.save_as(tmp_path / "saved.html")
    place = "[state.map.address, state.head, state.row, state.column, state.scale, state.view]"
    again = visit(tmp_path / "saved.html")
    assert again.evaluate(place) == ["layers.1", 1, 1, 0, "unit", "heatmap"]
    assert again.inner_text("#readout") == ""
    other = visit(tmp_path / "saved.html", "layer=layers.0&head=0")  # an address of its own counts more
    assert other.evaluate("[state.map.address, state.head]") == ["layers.0", 0]
