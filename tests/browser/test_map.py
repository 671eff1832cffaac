"""The page of a map of vectors in a real browser: what it shows is what Python has, by pointer and by key alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from regard.embeddings.map_page import html_page
from regard.embeddings.vector_map import VectorMap, map_vectors

WORDS = ["king", "</script><img src=x onerror=alert(1)>", "kingdom", 'a, "b"', "the Viking", "\u202eback"]

DRAWN = """() => {
  const copy = document.createElement("canvas"), from = regard.$("points"), { space } = regard;
  regard.painter.draw(space, 6);  // in the same turn, or there is nothing left to copy
  Object.assign(copy, { width: from.width, height: from.height });
  const context = copy.getContext("2d", { willReadFrequently: true }), ratio = from.width / space.width;
  context.drawImage(from, 0, 0);
  const cover = (x, y) => context.getImageData(x * ratio, y * ratio, 1, 1).data[3];
  return Array.from(regard.data.xs, (_, i) => cover(space.toX(i), space.toY(i)));
}"""
"""How much of the pixel where each point lies is covered, of 255."""
WITHOUT_WEBGL = """
const real = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind === "webgl2" ? null : real.call(this, kind, ...rest);
};
"""


def made(count: int = 60, **more) -> VectorMap:
    draw = np.random.default_rng(5)
    vectors = draw.normal(size=(count, 6)).astype(np.float32)
    vectors[7] = 0
    labels = [*WORDS, *(f"word {number}" for number in range(count - len(WORDS)))]
    columns = {"kind": ["red", "blue", "<i>"] * (count // 3), "size": np.linspace(-1, 2, count)}
    return map_vectors(vectors, labels, neighbours=4, columns=columns, title="words", **more)


@pytest.fixture
def found() -> VectorMap:
    return made()


@pytest.fixture
def page(found, visit, tmp_path: Path):
    (tmp_path / "map.html").write_text(html_page(found))
    return visit(tmp_path / "map.html")


def at(page, point: int) -> tuple[float, float]:
    """Where a point is on the screen."""
    box = page.locator("#over").bounding_box()
    x, y = page.evaluate(f"[regard.space.toX({point}), regard.space.toY({point})]")
    return box["x"] + x, box["y"] + y


def test_the_numbers_are_pythons(page, found):
    assert page.evaluate("painter.kind") == "webgl"
    points = page.evaluate("[...data.xs].map((x, i) => [x, data.ys[i]])")
    assert np.array(points, dtype=np.float32).tolist() == found.points.tolist()
    assert page.evaluate("data.labels") == list(found.labels)
    assert page.evaluate("[...data.rows]") == found.neighbours.rows.reshape(-1).tolist()
    np.testing.assert_allclose(page.evaluate("[...data.cosines]"), found.neighbours.cosines.reshape(-1), atol=1.6e-5)
    assert page.evaluate("[...data.columns[1].of]") == found.columns["size"].astype(np.float32).tolist()
    assert page.evaluate("[...data.columns[0].of].map((one) => data.columns[0].values[one])") == found.columns["kind"]
    x, y = found.shares
    assert f"{x:.1%} on the x axis, {y:.1%} on the y axis" in page.inner_text("#about")


def test_all_points_are_drawn_where_they_are(page):
    assert min(page.evaluate(DRAWN)) > 100


def test_pan_zoom_and_all_again(page):
    before = page.evaluate("[space.x, space.y, space.scale]")
    box = page.locator("#over").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    scale = page.evaluate("space.scale")
    assert scale > before[2] * 1.3
    page.mouse.down()
    page.mouse.move(middle[0] + 50, middle[1] + 30, steps=4)
    page.mouse.up()
    moved = page.evaluate("[space.x, space.y]")
    assert moved[0] == pytest.approx(before[0] - 50 / scale, abs=1 / scale)
    assert moved[1] == pytest.approx(before[1] + 30 / scale, abs=1 / scale)
    assert page.evaluate("state.chosen") == -1  # a drag chooses nothing
    page.click("#whole")
    assert page.evaluate("[space.x, space.y, space.scale]") == before


def test_pointing_tells_and_a_click_chooses_with_neighbours_of_the_space(page, found):
    x, y = at(page, 1)
    page.mouse.move(x, y)
    assert page.inner_text("#tip") == f"{WORDS[1]}\nkind: blue"
    page.mouse.click(x, y)
    assert page.text_content("#chosen-title") == WORDS[1]
    assert page.locator("img").count() == 0
    listed = page.locator("#chosen ol button")
    assert (
        listed.evaluate_all("all => all.map((one) => Number(one.dataset.point))") == found.neighbours.rows[1].tolist()
    )
    told = [float(text) for text in page.locator("#chosen ol b:last-child").all_text_contents()]
    np.testing.assert_allclose(told, found.neighbours.cosines[1], atol=6e-4)
    facts = page.locator("#chosen dd").all_text_contents()
    assert facts[0] == "2"
    assert facts[2] == "blue"
    listed.first.click()
    assert page.evaluate("state.chosen") == found.neighbours.rows[1][0]
    assert page.evaluate("[space.x, space.y]") == pytest.approx(found.points[found.neighbours.rows[1][0]].tolist())
    page.evaluate("regard.choose(7)")
    assert "vector of zeros" in page.inner_text("#chosen")


def test_search_puts_whole_texts_first_and_selects(page, until):
    page.keyboard.press("/")
    page.keyboard.type("KING")
    until(page, "state.hits.length === 3")
    assert page.evaluate("[...state.hits]") == [0, 2, 4]
    page.keyboard.press("Enter")
    assert page.evaluate("state.chosen") == 0
    page.keyboard.press("Enter")
    assert page.evaluate("state.chosen") == 2
    assert page.inner_text("#hits") == "2 of 3 hits"
    page.keyboard.press("Shift+Enter")
    assert page.evaluate("state.chosen") == 0
    page.click("#take-hits")
    assert page.evaluate("[...state.selected]") == [0, 2, 4]
    assert page.inner_text("#selected-title") == "3 points selected"
    page.fill("#search", "nowhere")
    until(page, "document.getElementById('hits').textContent === 'nothing found'")
    assert page.locator("#next").is_disabled()


def test_a_lasso_selects_what_is_in_it_and_saves_it(page, found):
    box = page.locator("#over").bounding_box()
    page.click("#lasso")
    half = box["x"] + box["width"] / 2
    corners = [(half, box["y"] + 2), (box["x"] + box["width"] - 2, box["y"] + 2)]
    corners += [(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2), (half, box["y"] + box["height"] - 2)]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=3)
    page.mouse.up()
    middle = (found.points[:, 0].min() + found.points[:, 0].max()) / 2
    wanted = np.flatnonzero(found.points[:, 0] > middle).tolist()
    assert 5 < len(wanted) < 55
    assert page.evaluate("[...state.selected]") == wanted
    assert page.get_attribute("#lasso", "aria-pressed") == "false"
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "words-selection.csv"
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(), newline="")))
    assert [int(row["row"]) - 1 for row in rows] == wanted
    assert [row["text"] for row in rows] == [found.labels[place] for place in wanted]
    assert [np.float32(row["x"]) for row in rows] == found.points[wanted, 0].tolist()
    assert [row["kind"] for row in rows] == [found.columns["kind"][place] for place in wanted]
    page.click("#clear")
    assert page.locator("#selected-part").is_hidden()


def test_keys_alone(page, found, until):
    page.locator("#over").focus()
    x, scale = page.evaluate("[space.x, space.scale]")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("space.scale") > scale
    assert page.evaluate("space.x") > x
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    middle = [(ends.min() + ends.max()) / 2 for ends in found.points.T]
    assert page.evaluate("state.chosen") == int(np.linalg.norm(found.points - middle, axis=1).argmin())
    page.keyboard.press("v")
    assert page.evaluate("state.selected.length") == 60
    page.keyboard.press("/")
    page.keyboard.type("viking")
    page.keyboard.press("Enter")
    page.locator("#over").focus()
    page.keyboard.press("s")
    assert page.evaluate("[...state.selected]") == [4]
    page.keyboard.press("l")
    assert page.evaluate("state.lasso")
    for left in ("!state.lasso", "state.chosen === -1", "!state.selected.length"):
        page.keyboard.press("Escape")
        until(page, left)
    page.locator("#legend button").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("state.selected.length") == 20


def test_colours_by_classes_and_by_numbers(page):
    assert page.locator("#legend button span").all_text_contents() == ["<i>", "blue", "red"]
    page.select_option("#colour", "1")
    assert page.inner_text("#legend-title") == "size"
    assert page.locator("#legend b").all_text_contents() == ["-2", "2"]  # as far on both sides of zero
    page.keyboard.press("t")
    page.select_option("#colour", "-1")
    assert page.locator("#legend-part").is_hidden()


def test_without_webgl_it_says_so_and_draws_all_the_same(found, visit, tmp_path):
    text = html_page(found)
    path = tmp_path / "map.html"
    path.write_text(text)

    page = visit(path)
    page.add_init_script(WITHOUT_WEBGL)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("painter.kind") == "canvas"
    assert "no WebGL 2" in page.inner_text("#fallback")
    assert min(page.evaluate(DRAWN)) > 100
    x, y = at(page, 3)
    page.mouse.click(x, y)
    assert page.evaluate("state.chosen") == 3


def test_the_nearest_and_the_surrounded_are_those_of_looking_at_all(page):
    """The grid that points are found by, against every point, at many places and zooms."""
    assert (
        page.evaluate(
            """() => {
      let number = 7;
      const next = () => (number = (number * 16807) % 2147483647) / 2147483647;
      for (let round = 0; round < 300; round++) {
        regard.space.showAll();
        regard.space.zoom(1 + 20 * next(), regard.space.width * next(), regard.space.height * next());
        const x = regard.space.width * next(), y = regard.space.height * next(), within = 200 * next();
        let best = -1, least = within;
        for (let i = 0; i < regard.data.count; i++) {
          const far = Math.hypot(regard.space.toX(i) - x, regard.space.toY(i) - y);
          if (far < least) [best, least] = [i, far];
        }
        if (regard.space.nearest(x, y, within) !== best) return `${x} ${y} ${within}: ${best}`;
      }
      return "";
    }"""
        )
        == ""
    )


def test_a_long_text_is_told_whole_and_scrolls(visit, tmp_path):
    labels = ["a long text " * 80, "short", "third"]
    made = map_vectors(np.eye(3, dtype=np.float32), labels, neighbours=0, title="long")
    (tmp_path / "map.html").write_text(html_page(made))
    page = visit(tmp_path / "map.html")
    page.evaluate("regard.choose(0)")
    assert page.text_content("#chosen .text") == labels[0]
    assert len(page.text_content("#chosen-title")) < 40
    assert page.evaluate("document.querySelector('#chosen .text').scrollHeight > 300")
    assert "No neighbours are on this page" in page.inner_text("#chosen")
    page.evaluate("regard.choose(1)")
    assert page.locator("#chosen .text").count() == 0


def test_a_telephone(found, visit, tmp_path):
    (tmp_path / "map.html").write_text(html_page(found))
    page = visit(tmp_path / "map.html", has_touch=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    x, y = at(page, 2)
    page.touchscreen.tap(x, y)
    assert page.evaluate("state.chosen") == 2
