"""axe-core finds nothing wrong on any page, light or dark, on a wide screen or a telephone's; and keys reach everything.

axe-core comes from npm (`npm ci`, see package.json); without it these tests are skipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.browser.contrast import low_contrast
from tests.browser.test_papers_views import TEXT, reader
from tests.browser.test_studio import studio  # noqa: F401  # a fixture

import regard
from regard.attention import AttentionInputs, ScaledDot, ScoredAttention
from regard.embeddings.map_page import html_page as map_page
from regard.embeddings.vector_map import map_vectors
from regard.inspection import walk, walk_attention
from regard.inspection.memory import copied_view
from regard.inspection.text_reader import TextReader
from regard.inspection.view import AttentionMap, AttentionView, Patches
from regard.inspection.viewer import save_page
from regard.word_embeddings import WordVectors
from regard.word_embeddings.bias import GENDER_PAIRS, audit
from regard.word_embeddings.evaluation.battery import Battery, evaluate
from regard.word_embeddings.evaluation.categories import CATEGORIES
from regard.word_embeddings.report import Subject
from regard.word_embeddings.report import html_page as report
from regard.word_embeddings.survey import Item, Questionnaire
from regard.word_embeddings.survey import html_page as questionnaire

FOLDERS = Path(__file__).parents[1] / "golden" / "folders"
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
READY = {
    "walk": "nav a[aria-current]",
    "report": "main",
    "questionnaire": "main:not([hidden])",
    "map": "body[data-ready]",
}
WORDS = ["the", "animal", "was", "tire", "##d", "</script><b>", "."]
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="no node_modules/axe-core: run npm ci")


def sentences() -> AttentionView:
    """A causal layer, one that sees both ways, one with weights below zero, and a second example."""
    rng = np.random.default_rng(0)
    both = rng.dirichlet(np.ones(7), (4, 7))
    causal = np.tril(both) / np.tril(both).sum(-1, keepdims=True)
    maps = [
        AttentionMap(address=f"layers.{i}", kind="self", query_tokens=WORDS, key_tokens=WORDS, weights=w, example=n)
        for n in range(2)
        for i, w in enumerate((causal, both, both - 0.1))
    ]
    return AttentionView(title="Sentences", maps=tuple(maps), examples=("first", "second"))


def image() -> AttentionView:
    image = np.full((20, 20, 3), 200, dtype=np.uint8)
    patches = Patches(rows=2, columns=2, first=1)
    weights = np.random.default_rng(1).dirichlet(np.ones(5), (2, 3))
    return AttentionView.of(weights, ["a", "red", "car"], ["c", *"pppp"], image=image, key_patches=patches)


def written(name: str, path: Path) -> Path:
    """One of the pages that are not the viewer's."""
    if name == "walk":
        generator = torch.Generator().manual_seed(2)
        query, key = (torch.randn(1, 1, 7, 16, generator=generator) for _ in range(2))
        value = torch.randn(1, 1, 7, 8, generator=generator)
        inputs = AttentionInputs(query=query, key=key)
        walk_attention(ScoredAttention(ScaledDot()), inputs, value, position=1, queries=WORDS, keys=WORDS).show(path)
    elif name == "report":
        words = list(dict.fromkeys([*sum(CATEGORIES.values(), ()), *sum(GENDER_PAIRS, ())]))
        matrix = np.random.default_rng(2).normal(size=(len(words), 12)).astype(np.float32)
        vectors = WordVectors(words=words, matrix=matrix, name="</script>")
        found = audit(vectors, pairs=GENDER_PAIRS, occupations=CATEGORIES["professions"])
        path.write_text(report([Subject(vectors=vectors, report=evaluate(vectors, Battery()), audit=found)]))
    elif name == "map":
        matrix = np.random.default_rng(3).normal(size=(len(WORDS), 5)).astype(np.float32)
        columns = {"kind": list("abcabca"), "size": np.linspace(-1, 1, len(WORDS))}
        path.write_text(map_page(map_vectors(matrix, WORDS, neighbours=2, columns=columns, title="</script>")))
    else:
        item = Item(
            name="1a", kind="neighbour", query="king", options=("b", "c"), owners=(("x",), ("y",)), tables=("x", "y")
        )
        path.write_text(questionnaire(Questionnaire(tables=("x", "y"), items=(item,), seed=0)))
    return path


def violations(page: Any) -> list[str]:
    """What axe finds, in words: the rule, and the first elements that break it; and texts that do not stand out."""
    # Past what `visit` puts around `evaluate`: a script of this size is no expression.
    type(page).evaluate(page, f"() => {{ {AXE.read_text(encoding='utf-8')} }}")
    found = type(page).evaluate(page, "async () => (await axe.run(document)).violations")
    return [f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found] + low_contrast(page)


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_viewer_has_no_violation_in_any_view(visit, until, scheme, width):
    page = visit(sentences(), color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    found = []
    for layer in ("layers.0", "layers.2"):
        page.select_option("#address", layer)
        for view in ("heatmap", "heads", "model", "text"):
            page.click(f"#tab-{view}")
            until(page, f"document.body.dataset.view === '{view}' && !document.body.classList.contains('busy')")
            found += violations(page)
    page.select_option("#text-mode", "lines")
    found += violations(page)
    page.select_option("#address", "layers.0")  # a causal one, with later tokens
    found += violations(page)
    page.keyboard.press("?")
    found += violations(page)
    page.keyboard.press("Escape")
    assert found == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_viewer_of_an_image_has_no_violation(visit, until, scheme):
    page = visit(image(), color_scheme=scheme)
    found = violations(page)
    page.select_option("#image-mode", "every")
    found += violations(page)
    page.keyboard.press("f")
    until(page, "document.body.classList.contains('present')")
    assert found + violations(page) == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_document_and_a_memory_have_no_violation(visit, scheme):
    found = []
    model = reader()
    document = TextReader(model.model, model.task.tokenizer).view(TEXT)
    for view in (document, copied_view(regard.load(FOLDERS / "ntm"), "10 01 11")):
        page = visit(view, color_scheme=scheme)
        found += violations(page)
        page.set_viewport_size({"width": 390, "height": 800})
        found += violations(page)
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_heads_marks_and_hatching_stand_out_by_three_to_one(visit, module, scheme):
    """WCAG 1.4.11, of what is no text: on the paper, on what is chosen, and the hatching on bare cells."""
    page = visit(sentences(), color_scheme=scheme)
    module(page, "colours.js")
    colours = page.evaluate("({ ...inks(), heads: HEADS[document.documentElement.dataset.theme] })")
    drawn = {name: colours[name] for name in ("mark", "negative", "positive", "hatch", "faint")}
    drawn |= {f"head {head}": colour for head, colour in enumerate(colours["heads"])}
    low = {
        (name, ground): round(contrast(colour, colours[ground]), 2)
        for name, colour in drawn.items()
        for ground in ("paper", "band")
        if contrast(colour, colours[ground]) < 3 and (name, ground) != ("hatch", "band")  # nothing is hatched there
    }
    assert low == {}


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance([int(each[at : at + 2], 16) for at in (1, 3, 5)]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(rgb: list[int]) -> float:
    linear = [v / 255 / 12.92 if v / 255 <= 0.04045 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", READY)
def test_the_other_pages_have_no_violation(visit, tmp_path, name, scheme):
    page = visit(written(name, tmp_path / f"{name}.html"), ready=READY[name], color_scheme=scheme)
    found = violations(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.keyboard.press("?")
    assert found + violations(page) == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_map_with_a_point_a_search_and_a_selection_has_no_violation(visit, until, tmp_path, scheme):
    page = visit(written("map", tmp_path / "map.html"), color_scheme=scheme)
    page.fill("#search", "a")
    until(page, "state.hits.length > 1")
    page.keyboard.press("Enter")
    found = violations(page)
    page.click("#take-hits")
    page.select_option("#colour", "1")
    assert found + violations(page) == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_slides_of_a_models_walk_have_no_violation(visit, tmp_path, scheme):
    model = regard.load(FOLDERS / "gpt2")
    seen = walk(model, "a b c", position=2)
    seen.show(tmp_path / "walk.html")
    page = visit(tmp_path / "walk.html", ready=READY["walk"], color_scheme=scheme)
    page.click("button[data-position='1']")
    page.keyboard.press("f")
    found = []
    for _ in seen.steps:
        page.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished))")
        found += violations(page)
        page.keyboard.press("PageDown")
    assert found == []


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_studio_has_no_violation(browser, studio, scheme):  # noqa: F811
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(studio)
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("regard.canvas.clientHeight") > 400  # the map has the room that the window has
    found = violations(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.click("#switch-off")
    page.wait_for_selector("#changed li")
    found += violations(page)
    for summary in page.query_selector_all("details:not([hidden]) > summary"):
        summary.click()
    page.click("#write")
    page.wait_for_selector("#lens tbody tr")
    page.click("#effects-start")
    page.wait_for_selector("#effects-table tbody tr")
    page.wait_for_selector("#compared canvas")
    found += violations(page)
    context.close()
    assert found == []


@pytest.mark.parametrize("name", ["viewer", *READY])
def test_the_key_that_tabs_reaches_all_that_can_be_used(visit, tmp_path, name):
    if name == "viewer":
        save_page(sentences(), tmp_path / "viewer.html")
        page = visit(tmp_path / "viewer.html")
    else:
        page = visit(written(name, tmp_path / f"{name}.html"), ready=READY[name])
    # Of tabs, switches and tokens one has the focus and arrows go on from there.
    wanted = page.evaluate("""() => [...document.querySelectorAll("a[href], button, select, input, summary, [tabindex]")]
      .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility() && !one.closest("dialog")).length""")
    page.keyboard.press("Tab")
    reached = set()
    for number in range(wanted):
        place = page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
        if page.evaluate("document.activeElement !== document.body"):
            reached.add(place)
        page.keyboard.press("Tab")
        assert number < 200
    assert len(reached) == wanted


@pytest.mark.parametrize("name", ["viewer", *READY])
def test_a_page_names_no_other_address(tmp_path, name):
    """Beside the browser's refusal, which every test here relies on: nothing in the file could be fetched."""
    path = tmp_path / "page.html"
    save_page(sentences(), path) if name == "viewer" else written(name, path)
    text = path.read_text()
    assert not re.findall(
        r"""(?:\bsrc|\bhref)=["']?(?!#|data:)[\w/.]""", re.sub(r"<script.*?</script>", "", text, flags=re.S)
    )
    assert re.search(r"""content="default-src (&#39;|')none""", text)
