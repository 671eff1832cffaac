"""Each way to look: what it draws, what it says, and what its controls do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from regard.inspection.naming import head_kinds, telling
from regard.inspection.view import AttentionMap, AttentionView, Patches

TOKENS = ["[CLS]", "the", "animal", "was", "tire", "##d", "[SEP]"]
WORDS = ["[CLS]", "the", "animal", "was", "tired", "[SEP]"]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def a_sentence(layers: int = 2, heads: int = 3) -> AttentionView:
    rng = np.random.default_rng(0)
    maps = [
        AttentionMap(
            address=f"layers.{i}",
            kind="self",
            query_tokens=TOKENS,
            key_tokens=TOKENS,
            weights=softmax(2 * rng.normal(size=(heads, 7, 7))),
        )
        for i in range(layers)
    ]
    return AttentionView(title="A sentence", maps=tuple(maps))


def a_translation() -> AttentionView:
    weights = np.array([[[0.9, 0.1, 0.0], [0.05, 0.15, 0.8]]])
    return AttentionView.of(weights, ["la", "maison"], ["the", "white", "house"], title="en-fr")


def a_caption() -> AttentionView:
    weights = np.zeros((2, 2, 6))
    weights[:, 0, 1], weights[:, 1, 4], weights[0, 1, 5] = 1, 0.75, 0.25
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    image[:, 30:] = 255
    patches = Patches(rows=2, columns=3)
    return AttentionView.of(weights, ["a", "dog"], list("pppppp"), title="caption", image=image, key_patches=patches)


def a_vision_transformer() -> AttentionView:
    tokens = ["[CLS]", *"pppppp"]
    weights = softmax(np.random.default_rng(1).normal(size=(2, 7, 7)))
    patches = Patches(rows=2, columns=3, first=1)
    image = np.full((40, 60, 3), 200, dtype=np.uint8)
    return AttentionView.of(
        weights, tokens, tokens, title="vit", image=image, query_patches=patches, key_patches=patches
    )


def number_in(text: str) -> tuple[float, float]:
    found = re.search(r"(-?[\d.]+(?:e-?\d+)?)(?: ± ([\d.]+(?:e-?\d+)?))?", text)
    assert found, text
    return float(found[1]), float(found[2] or 0)


def says(page: Any) -> str:
    return re.sub("[\u2068\u2069]", "", page.inner_text("#readout"))


def tip(page: Any) -> str:
    return page.inner_text("#tip")


def table(page: Any) -> list[list[str]]:
    """Its texts; a weight as it stands beside the pointer, with its error."""
    rows = page.locator("#strongest-body tr").all()
    return [[cell.get_attribute("title") or cell.inner_text() for cell in row.locator("td").all()] for row in rows]


def point_at(page: Any, x: float, y: float, *, click: bool = False) -> None:
    box = page.locator("#figure").bounding_box()
    (page.mouse.click if click else page.mouse.move)(box["x"] + x, box["y"] + y)


def at_cell(page: Any, row: int, column: int) -> tuple[float, float]:
    side, top, cell = page.evaluate("[VIEWS.heatmap.side, VIEWS.heatmap.top, VIEWS.heatmap.cell]")
    return side + (column + 0.5) * cell, top + (row + 0.5) * cell


def colours_drawn(page: Any) -> int:
    return page.evaluate("""() => {
      const copy = new OffscreenCanvas(figure.width, figure.height).getContext("2d", {willReadFrequently: true});
      copy.drawImage(figure, 0, 0);
      const data = copy.getImageData(0, 0, figure.width, figure.height).data;
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return seen.size;
    }""")


@pytest.mark.parametrize("view", ["heatmap", "heads", "model"])
def test_every_view_draws_a_figure_and_names_it(visit, view):
    page = visit(a_sentence(), f"view={view}")
    page.wait_for_timeout(100)
    assert colours_drawn(page) > 20
    assert page.get_attribute(f"#tab-{view}", "aria-selected") == "true"
    assert "layer" in page.get_attribute("#figure", "aria-label").lower()
    assert page.get_attribute("#figure", "role") == "application"


def test_pointing_at_a_cell_shows_its_weight_with_its_error(visit):
    view = a_sentence()
    page = visit(view, "view=heatmap&layer=layers.1&head=2")
    for row, column in [(0, 0), (3, 5), (6, 2)]:
        point_at(page, *at_cell(page, row, column))
        value, error = number_in(tip(page).split(": ", 1)[1])
        exact = view.map("layers.1").weights[2, row, column]
        assert abs(value - exact) <= error * 1.1
        assert 0 < error < 0.002 * exact + 1e-6
        assert f"{TOKENS[row]} → {TOKENS[column]}" in tip(page)
        assert f"query {row}, key {column}" in tip(page)


def test_a_weight_of_zero_is_shown_as_exactly_zero(visit):
    page = visit(a_translation())
    point_at(page, *at_cell(page, 0, 2))
    assert "la → house: 0\n" in tip(page)


def test_arrow_keys_move_over_the_cells_and_say_them(visit):
    page = visit(a_translation())
    page.focus("#figure")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert says(page).startswith("maison → house: ")
    assert number_in(says(page).split(": ")[1])[0] == pytest.approx(0.8, rel=2e-3)
    assert "(query 1, key 2)" in says(page)
    page.keyboard.press("Enter")
    assert says(page).startswith("maison: strongest house ")
    assert [row[0] for row in table(page)] == ["house", "white", "the"]


def test_an_alignment_names_output_and_source(visit, until):
    page = visit(a_translation(), "view=heads")
    assert "output tokens on the left, source tokens on the right" in page.get_attribute("#figure", "aria-label")
    page.keyboard.press("1")
    until(page, "document.body.dataset.view === 'heatmap'")
    assert "2 output tokens by 3 source tokens" in page.get_attribute("#figure", "aria-label")
    page.keyboard.press("3")
    page.wait_for_selector("#words span")
    assert page.inner_text("#asking-title") == "output"
    assert page.locator("#queries span").all_inner_texts() == ["la", "maison"]
    assert page.locator("#words span").all_inner_texts() == ["the", "white", "house"]


def test_layers_heads_and_scales_are_chosen(visit):
    view = a_sentence()
    page = visit(view, "layer=layers.0")
    page.select_option("#address", "layers.1")
    page.select_option("#head", "1")
    assert "Layer 1 · self-attention · head 1" in page.inner_text("#where")
    value, error = number_in(table(page)[0][2])
    row = page.evaluate("state.row")
    assert abs(value - view.map("layers.1").weights[1, row].max()) <= error * 1.1
    assert page.locator("#strongest-body td:nth-child(3)").first.inner_text() == f"{value:#.3g}"
    page.select_option("#scale", "unit")
    assert page.inner_text("#high") == "1"
    page.select_option("#scale", "row")
    assert page.inner_text("#high") == "the row's largest"
    page.select_option("#head", "mean")
    mean = view.map("layers.1").weights.mean(axis=0)[row].max()
    value, error = number_in(table(page)[0][2])
    assert abs(value - mean) <= error * 1.1


def test_examples_are_chosen(visit, until):
    maps = [
        AttentionMap(
            address="a", kind="cross", query_tokens=[q], key_tokens=["k", "l"], weights=[[[0.5, 0.5]]], example=i
        )
        for i, q in enumerate("xy")
    ]
    page = visit(AttentionView(title="", maps=tuple(maps), examples=("first", "second")))
    page.select_option("#example", label="second")
    until(page, "state.map.example === 1")
    assert "y sees" in re.sub("[\u2068\u2069]", "", page.inner_text("#strongest-title"))
    page.keyboard.press("{")
    until(page, "state.map.example === 0")


def test_heads_are_switched_and_lines_follow_the_token(visit):
    view = a_sentence()
    page = visit(view, "view=heads&layer=layers.0")
    switches = page.locator("#switches button")
    assert switches.count() == 3
    switches.nth(1).click()
    assert switches.nth(1).get_attribute("aria-pressed") == "false"
    assert "2 of 3 heads" in page.inner_text("#where")
    switches.nth(2).click(modifiers=["Shift"])
    assert [switches.nth(i).get_attribute("aria-pressed") for i in range(3)] == ["false", "false", "true"]
    drawn = (
        "VIEWS.heads.lines([...state.on].map((h) => matrixOf(state.map, h, state.merge)), "
        "frameNow(), state.hover || (state.side ? state : null), state.limit)"
    )
    assert len(page.evaluate(f"[...new Set({drawn}.map((line) => line.row))]")) == 7
    line, start = page.evaluate("[VIEWS.heads.line, VIEWS.heads.from]")
    point_at(page, start - 20, 30 + 2.5 * line)
    assert page.evaluate(f"[...new Set({drawn}.map((line) => line.row))]") == [2]
    expected = view.map("layers.0").weights[2, 2]
    value, error = number_in(tip(page).split(": ", 1)[1])
    assert abs(value - expected.max()) <= error * 1.1
    assert f"animal → {TOKENS[expected.argmax()]}" in tip(page)
    page.mouse.move(5, 5)
    assert len(page.evaluate(f"[...new Set({drawn}.map((line) => line.row))]")) == 7
    page.click("#all-heads")
    assert "3 of 3 heads" in page.inner_text("#where")


def test_a_token_of_the_keys_shows_who_sees_it(visit):
    view = a_sentence(heads=1)
    page = visit(view, "view=heads&layer=layers.0")
    line, end = page.evaluate("[VIEWS.heads.line, VIEWS.heads.to]")
    point_at(page, end + 20, 30 + 4.5 * line, click=True)
    page.mouse.move(5, 5)
    assert "tire is seen by" in re.sub("[\u2068\u2069]", "", page.inner_text("#strongest-title"))
    order = np.argsort(-view.map("layers.0").weights[0, :, 4])
    assert [row[0] for row in table(page)] == [TOKENS[i] for i in order]
    page.focus("#figure")
    page.keyboard.press("Escape")
    assert table(page) == []


def test_the_grid_of_heads_opens_one(visit, until):
    view = a_sentence(layers=3, heads=4)
    page = visit(view, "view=model&layer=layers.0&head=0")
    page.focus("#figure")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    until(page, "state.map.address === 'layers.1' && state.head === 2")
    page.wait_for_timeout(100)
    assert says(page).startswith("Layer 1, head 2, strongest")
    page.keyboard.press("Enter")
    until(page, "document.body.dataset.view === 'heatmap'")
    assert "Layer 1 · self-attention · head 2" in page.inner_text("#where")
    page.keyboard.press("3")
    until(page, "document.body.dataset.view === 'model'")
    left, step = page.evaluate("[VIEWS.model.left, VIEWS.model.step]")
    point_at(page, left + 3.4 * step, 28 + 0.4 * step)
    assert "strongest of Layer 0, head 3" in tip(page)
    point_at(page, left + 3.4 * step, 28 + 0.4 * step, click=True)
    until(page, "document.body.dataset.view === 'heatmap'")
    assert "Layer 0 · self-attention · head 3" in page.inner_text("#where")


@pytest.mark.parametrize(("layers", "heads"), [(12, 12), (48, 16)])
def test_the_grid_of_a_large_model_is_drawn_as_far_as_it_is_seen(visit, until, layers, heads):
    page = visit(a_sentence(layers, heads), "view=model&layer=layers.0&head=0")
    page.wait_for_timeout(400)
    first = page.evaluate("thumbs.size")
    assert 0 < first <= layers * heads
    assert colours_drawn(page) > 50
    page.focus("#figure")
    page.keyboard.press("Control+End")
    until(page, f"state.map.address === 'layers.{layers - 1}' && state.head === {heads - 1}")
    until(page, f"thumbs.has('{layers - 1},{heads - 1},light')")


def shades(page: Any, holder: str = "#words") -> list[str]:
    return page.locator(f"{holder} span").evaluate_all("all => all.map((one) => one.style.background)")


def test_the_text_is_coloured_as_one_token_sees_it(visit):
    view = a_sentence(heads=1)
    page = visit(view, "view=text&layer=layers.0&query=3")
    weights = view.map("layers.0").weights[0]
    darkest = [sum(map(int, re.findall(r"\d+", shade))) for shade in shades(page)]
    assert int(np.argmin(darkest)) == int(weights[3].argmax())
    page.locator("#words span").nth(5).click()
    assert "##d: strongest" in says(page)
    darkest = [sum(map(int, re.findall(r"\d+", shade))) for shade in shades(page)]
    assert int(np.argmin(darkest)) == int(weights[5].argmax())
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("state.row") == 4
    assert page.locator("#words [aria-selected=true]").inner_text() == "tire"
    page.select_option("#text-mode", "mean")
    darkest = [sum(map(int, re.findall(r"\d+", shade))) for shade in shades(page)]
    assert int(np.argmin(darkest)) == int(weights.mean(axis=0).argmax())
    assert table(page)[0][0] == TOKENS[int(weights.mean(axis=0).argmax())]
    value, error = number_in(table(page)[0][2])
    assert 0 < abs(value - weights.mean(axis=0).max()) <= error * 1.1


def test_a_line_for_each_token_shows_what_was_read_so_far(visit):
    words = ["The", "FBI", "is", "chasing", "a", "criminal"]
    weights = np.tril(np.ones((6, 6)), -1) + np.eye(6)
    weights /= weights.sum(-1, keepdims=True)
    page = visit(AttentionView.of(weights, words, words), "view=text&text=lines")
    lines = page.locator("#lines > div")
    assert lines.count() == 6
    third = lines.nth(2).locator("span")
    assert third.evaluate_all("all => all.map((one) => one.className)") == ["", "", "now", "later", "later", "later"]
    assert all(third.evaluate_all("all => all.slice(0, 3).map((one) => Boolean(one.style.background))"))
    assert not any(third.evaluate_all("all => all.slice(3).map((one) => Boolean(one.style.background))"))


def pixel(page: Any, x: float, y: float) -> int:
    """The brightness of the canvas at a place."""
    return page.evaluate(
        """([x, y]) => {
      const copy = new OffscreenCanvas(figure.width, figure.height).getContext("2d", {willReadFrequently: true});
      copy.drawImage(figure, 0, 0);
      return copy.getImageData(x, y, 1, 1).data.slice(0, 3).reduce((a, b) => a + b);
    }""",
        [x, y],
    )


def patch_middle(page: Any, row: int, column: int) -> tuple[float, float]:
    width, height = page.evaluate("[VIEWS.image.width, VIEWS.image.height]")
    return 2 + (column + 0.5) * width / 3, 28 + (row + 0.5) * height / 2


def test_a_caption_lights_the_patches_that_a_word_sees(visit):
    page = visit(a_caption(), "view=image&head=0")
    page.click("#smooth")
    page.wait_for_timeout(200)
    page.locator("#queries span").nth(1).click()
    page.wait_for_timeout(100)
    page.mouse.move(5, 5)
    # The image is white on the right: bright where "dog" looks, nearly dark elsewhere.
    seen, unseen = pixel(page, *patch_middle(page, 1, 2)), pixel(page, *patch_middle(page, 0, 2))
    assert seen > unseen > 0
    point_at(page, *patch_middle(page, 1, 1))
    assert tip(page).startswith("dog → patch 2,2: ")
    assert number_in(tip(page).split(": ")[1])[0] == pytest.approx(0.75, rel=2e-3)
    assert table(page)[0][0] == "patch 2,2"
    page.select_option("#image-mode", "every")
    page.wait_for_timeout(100)
    assert page.is_hidden("#asking")
    assert colours_drawn(page) > 5
    page.select_option("#overlay", "colour")
    page.wait_for_timeout(100)
    assert colours_drawn(page) > 5


def test_a_patch_asks_in_a_vision_transformer(visit):
    view = a_vision_transformer()
    page = visit(view, "view=image&head=1")
    assert page.locator("#queries span").all_inner_texts() == ["[CLS]"]
    weights = view.map("attention").weights[1]
    value, error = number_in(table(page)[0][2])
    assert abs(value - weights[0].max()) <= error * 1.1
    point_at(page, *patch_middle(page, 1, 1), click=True)
    assert page.evaluate("state.row") == 5
    value, error = number_in(table(page)[0][2])
    assert abs(value - weights[5].max()) <= error * 1.1
    page.focus("#figure")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate("[state.row, state.column]") == [4, 4]


def test_word_pieces_are_summed_over_keys_and_averaged_over_queries(visit, until):
    view = a_sentence()
    page = visit(view, "view=heatmap&layer=layers.0&head=0")
    page.check("#merge")
    weights = view.map("layers.0").weights[0].astype(np.float64)
    merged = np.stack([weights[0], weights[1], weights[2], weights[3], weights[4:6].mean(0), weights[6]])
    merged = np.stack([*merged.T[:4], merged.T[4:6].sum(0), merged.T[6]], axis=1)
    assert page.evaluate("state.matrix.query") == WORDS
    for row, column in [(4, 4), (0, 4), (4, 1)]:
        point_at(page, *at_cell(page, row, column))
        value, error = number_in(tip(page).split(": ", 1)[1])
        assert abs(value - merged[row, column]) <= error * 1.1
        assert f"{WORDS[row]} → {WORDS[column]}" in tip(page)
    assert "summed over a word's keys and averaged over its queries" in page.inner_text("#merge-note")
    page.keyboard.press("4")
    page.wait_for_selector("#words span")
    assert page.locator("#words span").all_inner_texts() == WORDS
    page.keyboard.press("m")
    until(page, "!state.merge")
    assert page.locator("#words span").all_inner_texts() == TOKENS
    page.keyboard.press("2")
    page.keyboard.press("m")
    until(page, "state.merge && document.body.dataset.view === 'heads'")
    page.keyboard.press("3")
    until(page, "document.body.dataset.view === 'model'")


def test_negative_weights_have_a_scale_with_both_ends(visit):
    page = visit(AttentionView.of([[-1.0, 0.5, 0.0]], ["q"], ["a", "b", "c"]))
    assert page.inner_text("#low") == "-1"
    point_at(page, *at_cell(page, 0, 0))
    assert number_in(tip(page).split(": ", 1)[1])[0] == pytest.approx(-1)
    for key in ("2", "3", "4"):
        page.keyboard.press(key)
        page.wait_for_timeout(80)


def a_language_model() -> AttentionView:
    """Four heads over six tokens: the token before, the first token, a far word of each query's own, and no choice."""
    tokens = ["the", "cat", "saw", "a", "small", "dog"]
    far = [0, 1, 0, 1, 1, 2]
    heads = np.stack([np.eye(6)[[0, 0, 1, 2, 3, 4]], np.eye(6)[[0] * 6], np.eye(6)[far], np.tril(np.ones((6, 6)))])
    heads = 0.9 * heads + 0.1 * np.tril(np.ones((6, 6)))
    heads /= heads.sum(-1, keepdims=True)
    maps = [
        AttentionMap(
            address=f"layers.{i}.attention", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights
        )
        for i, weights in enumerate((heads[[0, 1]], heads))
    ]
    return AttentionView(title="a language model", maps=tuple(maps))


def test_a_page_opens_on_the_head_that_tells_most_and_says_what_heads_do(visit):
    page = visit(a_language_model())
    assert page.inner_text("#where") == "Layer 1 · self-attention · head 2"
    assert page.get_attribute("#where", "title") == "layers.1.attention"  # for who wants to know
    assert page.locator("#head option").all_inner_texts() == [
        "mean of heads", "head 0 · previous token", "head 1 · first token", "head 2", "head 3 · broad",
    ]  # fmt: skip
    assert page.locator("#address option").all_inner_texts() == ["Layer 0", "Layer 1"]


def test_a_page_does_not_open_on_a_sink_but_on_a_cell_that_tells(visit):
    n = np.eye(6)
    sink = 0.4 * n[[0] * 6] + 0.6 * n[[3, 4, 5, 1, 2, 3]]
    quiet = np.full((6, 6), 0.12)
    quiet[4, 1] = 0.5
    for row, key in enumerate((3, 5, 0, 1, 2, 3)):
        quiet[row, key] += 0.1
    quiet /= quiet.sum(axis=1, keepdims=True)
    tokens = tuple("abcdef")
    item = AttentionMap(
        address="a", kind="self", query_tokens=tokens, key_tokens=tokens, weights=np.stack([sink, quiet])
    )
    assert head_kinds(item)[0] == "sink"
    assert telling(item)[0] > telling(item)[1]  # what it does beside resting does not count
    page = visit(AttentionView(title="", maps=(item,)))
    assert page.evaluate("[state.head, state.row, state.column]") == [1, 4, 1]


def test_lines_begin_with_three_heads_named_in_their_colours(visit, until):
    page = visit(a_language_model(), "view=heads")
    assert page.evaluate("[...state.on][0]") == 2
    assert page.evaluate("state.on.size") == 3
    chips = page.locator("#line-heads > span")
    assert chips.count() == 3
    assert "head 0 · previous token" in chips.all_inner_texts() or "head 1 · first token" in chips.all_inner_texts()
    colours = page.locator("#line-heads i").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).borderTopColor)"
    )
    assert len(set(colours)) == 3
    assert page.is_hidden("#ramp")
    page.select_option("#address", "layers.0.attention")
    until(page, "state.on.size === 2")


def test_rows_of_a_causal_map_have_scales_of_their_own_and_later_tokens_are_hatched(visit):
    page = visit(a_language_model())
    assert page.input_value("#scale") == "row"
    assert page.evaluate("state.row") == 5  # the last token has seen all others
    assert page.inner_text("#hidden-text") == "a later token, which cannot be attended"
    assert page.evaluate("[isHidden(0, 1), isHidden(1, 1), isHidden(5, 5), isHidden(4, 5)]") == [
        True,
        False,
        False,
        True,
    ]
    page.select_option("#scale", "fit")
    assert page.inner_text("#high") != "the row's largest"
    other = visit(a_sentence())
    assert other.input_value("#scale") == "fit"
    assert other.is_hidden("#hidden-cells")


def test_the_figure_fills_the_screen(visit, until):
    page = visit(a_sentence())
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_timeout(100)
    usual = page.evaluate("canvas.clientHeight")
    assert usual > 0.6 * 1080
    page.keyboard.press("f")
    until(page, "document.body.classList.contains('present')")
    page.wait_for_timeout(200)
    assert page.is_hidden("#theme")
    assert page.is_visible("#head")
    assert page.evaluate("canvas.clientHeight") > usual
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    page.keyboard.press("+")
    page.keyboard.press("0")
    assert page.evaluate("state.zoom") == 1
    page.keyboard.press("f")
    until(page, "!document.body.classList.contains('present')")
    assert page.is_visible("#theme")
    page.click("#full")
    until(page, "document.body.classList.contains('present')")
    page.keyboard.press("Escape")
    until(page, "!document.body.classList.contains('present')")


def test_lines_below_zero_are_violet(visit):
    page = visit(AttentionView.of([[-1.0, 0.5, 0.25]], ["q"], ["a", "b", "c"]), "view=heads")
    page.wait_for_timeout(100)
    found = page.evaluate("""() => {
      const copy = new OffscreenCanvas(figure.width, figure.height).getContext("2d");
      copy.drawImage(figure, 0, 0);
      const data = copy.getImageData(0, 0, figure.width, figure.height).data, has = (r, g, b) => {
        for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) return true;
        return false;
      };
      return [has(0x6a, 0x4f, 0xc4), has(0x00, 0x72, 0xb2)];
    }""")
    assert found == [True, False]


def test_what_was_decided_before_scores_is_said_and_drawn(visit):
    """Windows and buckets: in the words beside a cell, and in a room of their own above the map."""
    from dataclasses import replace

    from regard.inspection.marks import Marks

    view = AttentionView.of(np.full((1, 3, 4), 0.25), list("abc"), list("wxyz"))
    windows = Marks(centres=[[0.4, 2.6, 9.0]], window=1)
    page = visit(replace(view, maps=(replace(view.maps[0], marks=windows),)), "view=heatmap&query=1&key=2")
    page.locator("#figure").focus()
    page.keyboard.press("ArrowLeft")
    assert "query 1, key 1; looks around 2.60, 1 to either side" in page.locator("#readout").text_content()
    plain = visit(view, "view=heatmap").evaluate("VIEWS.heatmap.top")
    hashed = replace(view, maps=(replace(view.maps[0], marks=Marks(buckets=[[[1, 0, 1, 0], [2, 2, 0, 0]]], chunk=2)),))
    page = visit(hashed, "view=heatmap&query=1&key=2")
    assert page.evaluate("VIEWS.heatmap.top") == plain + 18
    page.locator("#figure").focus()
    page.keyboard.press("ArrowRight")
    said = page.locator("#readout").text_content()
    assert "round 0: query in bucket 0, key in bucket 0; round 1: query in bucket 2, key in bucket 0" in said
