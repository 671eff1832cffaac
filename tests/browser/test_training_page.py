"""The curves of a training in a browser: they grow with the log, tell its numbers exactly, and are saved as they are."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import served, wait_for
from tests.browser.test_accessibility import needs_axe, violations
from tests.serving.test_attention import InProcess

from regard.files import replace_file
from regard.inspection.view import AttentionView
from regard.inspection.viewer import packed

EVENTS = [
    {"event": "train", "step": 10, "loss": 2.302585092994046, "learning_rate": 0.0003, "tokens": 500, "seconds": 2.0},
    {"event": "validation", "step": 10, "loss": 2.1, "bleu": 0.0},
    {"event": "train", "step": 20, "loss": 1.7, "learning_rate": 0.0006, "tokens": 1500, "seconds": 4.5},
]
LATER = {"event": "validation", "step": 20, "loss": 1.55, "bleu": 31.25}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text("")
    write(tmp_path, *EVENTS)
    return tmp_path


def write(folder: Path, *events: Any) -> None:
    with (folder / "log.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


@pytest.fixture
def training(run: Path) -> Iterator[str]:
    """The address of the page of a run that has no model yet."""
    with served(link=InProcess(), runs={"tiny": str(run)}) as address:
        yield f"{address}/studio/training#token=secret"


def captions(page: Any) -> list[str]:
    return [" ".join(text.split()) for text in page.locator("figcaption").all_inner_texts()]


def test_curves_grow_with_the_log_and_tell_its_numbers(opened, training, run):
    page = opened(training)
    assert captions(page) == [
        "loss train 1.7 validation 2.1",
        "learning rate train 0.0006",
        "tokens per second train 400",
        "bleu validation 0",
    ]
    assert "last line, of step 20" in page.inner_text("#state")
    page.keyboard.press("ArrowLeft")
    assert captions(page)[0] == "loss train 2.302585092994046 validation 2.1"
    assert captions(page)[2] == "tokens per second train 250"
    page.keyboard.press("Escape")
    write(run, LATER)
    wait_for(page, "document.querySelector('figcaption').innerText.includes('1.55')")
    assert captions(page)[3] == "bleu validation 31.25"
    page.keyboard.press("l")
    assert captions(page)[3] == "bleu validation 31.25 1 not above 0, which have no place on this scale"
    labels = page.locator(".plot").first.locator("text[text-anchor=end]:not(:text('best'))").all_text_contents()
    assert labels == ["1.6", "1.8", "2", "2.2"]  # from 1.55 to 2.30: no power of ten lies between them
    box = page.locator(".plot svg").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + box["height"] / 2)
    assert page.locator(".tip").first.inner_text() == "step 10\ntrain 2.302585092994046\nvalidation 2.1"
    assert page.locator(".plot").first.get_attribute("aria-valuenow") == "10"


def test_the_norm_of_a_gradient_is_said_to_be_clipped_where_it_was(opened, training, run):
    page = opened(training)
    norms = [{"gradient_norm": 0.5, "clipped": False}, {"gradient_norm": 2.5, "clipped": True}]
    write(run, *({"event": "train", "step": 30 + 10 * place, **norm} for place, norm in enumerate(norms)))
    wait_for(page, "document.body.innerText.includes('2.5, clipped')")
    assert "gradient norm train 2.5, clipped" in captions(page)
    page.keyboard.press("ArrowLeft")
    assert "gradient norm train 0.5" in captions(page)
    assert not any(caption.startswith("clipped") for caption in captions(page))


def test_a_point_lies_where_its_number_says(opened, training):
    page = opened(training)
    # Of the rate: its two points lie on the lines of the grid that bear their numbers.
    points, grid, labels = page.evaluate("""() => {
      const figure = document.querySelectorAll("figure")[1], numbers = (chosen, name) =>
        [...figure.querySelectorAll(chosen)].map((one) => Number(name ? one.getAttribute(name) : one.textContent));
      return [numbers("circle", "cy"), numbers(".grid", "y1"), numbers("text[text-anchor=end]")];
    }""")
    assert points == pytest.approx([grid[labels.index(0.0003)], grid[labels.index(0.0006)]])
    assert points[0] > points[1]


def test_the_figures_are_saved_as_the_log_has_them(opened, training, tmp_path):
    page = opened(training)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "saved.csv")
    with (tmp_path / "saved.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, event in zip(rows, EVENTS, strict=True):
        assert {name: json.loads(row[name]) for name in event if name != "event"} == {
            name: value for name, value in event.items() if name != "event"
        }
    assert [row["tokens_per_second"] for row in rows] == ["250", "", "400"]


def watch(folder: Path, step: int, first: float) -> None:
    """What a run writes in an evaluation."""
    view = AttentionView.of(
        [[[first, 1 - first], [0.25, 0.75]], [[0.5, 0.5], [1.0, 0.0]]],
        ["la", "maison"],
        ["the", "house"],
        title="the house",
    )
    replace_file(folder / "watched" / f"step-{step:08d}.bin", zlib.compress(packed(view, {"step": step})))


SHOWN = "Number(regard.state.matrix.values[0].toFixed(2))"


def test_the_slider_shows_the_map_of_a_step_and_the_newest_is_followed(opened, training, run):
    page = opened(training)
    assert not page.is_visible("#watched")
    assert not page.is_visible("#panel")
    watch(run, 10, 0.1)
    watch(run, 20, 0.2)
    page.wait_for_selector("body[data-step='20']")
    page.evaluate("regard.choose('head', 0)")
    wait_for(page, f"{SHOWN} === 0.2")
    assert page.inner_text("#watched-step") == "step 20, the newest"
    figure = page.evaluate("regard.canvas.toDataURL()")
    page.focus("#watched")
    page.keyboard.press("ArrowLeft")
    wait_for(page, f"{SHOWN} === 0.1")
    assert page.evaluate("regard.canvas.toDataURL()") != figure
    assert page.get_attribute("#watched", "aria-valuetext") == "step 10"
    assert captions(page)[0] == "loss train 2.302585092994046 validation 2.1"  # the curves tell that step too
    watch(run, 30, 0.3)
    write(run, LATER)
    wait_for(page, "document.querySelector('#watched').max === '2'")
    assert page.evaluate(SHOWN) == 0.1  # what was chosen stays
    wait_for(page, "location.hash.includes('step=10')")
    again = opened(page.url)
    again.wait_for_selector("body[data-step='10']")
    page.keyboard.press("End")
    wait_for(page, f"{SHOWN} === 0.3")
    watch(run, 40, 0.4)
    wait_for(page, f"{SHOWN} === 0.4")
    assert page.inner_text("#watched-step") == "step 40, the newest"


def test_keys_reach_the_curves_or_the_map_and_the_theme_changes_once(opened, training, run):
    watch(run, 10, 0.1)
    page = opened(training)
    page.wait_for_selector("body[data-step='10']")
    before = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != before
    page.keyboard.press("ArrowLeft")
    assert captions(page)[0] == "loss train 2.302585092994046 validation 2.1"
    page.keyboard.press("Escape")
    page.evaluate("regard.move(1, 1)")
    page.focus("#figure")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("[regard.state.row, regard.state.column]") == [1, 0]
    assert captions(page)[0] == "loss train 1.7 validation 2.1"


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_violation(browser, training, run, scheme):
    watch(run, 10, 0.1)
    watch(run, 20, 0.2)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(training)
    page.wait_for_selector("body[data-step='20']")
    page.keyboard.press("ArrowLeft")
    found = violations(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.keyboard.press("?")
    found += violations(page)
    context.close()
    assert found == []
