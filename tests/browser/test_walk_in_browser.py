"""The page of a walk in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.attention import AttentionInputs, ScaledDot, ScoredAttention
from regard.inspection import Walk, walk_attention

KEYS = ["the", "<img src=x onerror=alert(1)>", "{{data}}", "\u202esat"]


@pytest.fixture
def walked() -> Walk:
    generator = torch.Generator().manual_seed(2)
    inputs = AttentionInputs(
        query=torch.randn(1, 1, 4, 16, generator=generator), key=torch.randn(1, 1, 4, 16, generator=generator)
    )
    value = torch.randn(1, 1, 4, 8, generator=generator)
    return walk_attention(ScoredAttention(ScaledDot()), inputs, value, position=1, queries=KEYS, keys=KEYS)


@pytest.fixture
def page(walked, visit, tmp_path: Path):
    walked.show(tmp_path / "walk.html")
    return visit(tmp_path / "walk.html", ready="nav a[aria-current]")


def test_from_step_to_step_by_key(page, walked):
    titles = [step.title for step in walked.steps]
    assert page.locator("nav a").all_text_contents()[-1] == titles[-1]

    def here() -> str:
        return page.locator("nav a[aria-current]").text_content().lstrip("0123456789 ")

    assert here() == titles[0]
    page.keyboard.press("n")
    page.keyboard.press("n")
    assert here() == titles[2]
    assert page.locator("#step-2 h2").is_visible()
    page.keyboard.press("p")
    assert here() == titles[1]


def test_numbers_are_read_by_arrow_keys_and_by_pointer(page, walked):
    first = walked.step("Queries, keys, values")
    page.locator(".strips").nth(1).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    told = page.locator("#readout").text_content()
    assert told.startswith("k, {{data}}, entry 1 of 0 to 15: ")
    assert float(told.rpartition(" ")[2]) == pytest.approx(float(first["k"][2, 1]), rel=1e-5)
    page.keyboard.press("Escape")
    assert page.locator("#readout").is_hidden()
    strip = page.locator(".strips").first.locator(".strip").first
    strip.hover(position={"x": strip.bounding_box()["width"] * 15.5 / 16, "y": 5})
    told = page.locator("#readout").text_content()
    assert told.startswith("q, entry 15 of 0 to 15: ")
    assert float(told.rpartition(" ")[2]) == pytest.approx(float(first["q"][15]), rel=1e-5)


def test_all_numbers_unfold(page, walked, until):
    page.locator("details summary").first.click()
    until(page, "document.querySelector('details pre').textContent")  # written once the browser tells of the opening
    numbers = page.locator("details pre").first.text_content().split()
    assert [float(number) for number in numbers] == pytest.approx(walked.steps[0]["q"].tolist(), rel=1e-4, abs=1e-5)


def test_light_and_dark(page):
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_markup_in_tokens_is_text(page):
    assert page.locator("img").count() == 0
    assert "<img␣src=x␣onerror=alert(1)>" in page.locator("#step-1 tbody").text_content()


def test_another_query_is_asked_by_a_click_and_by_key(page, walked, until):
    other = walked.at(3)
    assert page.locator("main button[data-position]").count() == 4
    page.click("main button[data-position='3']")
    until(page, "document.getElementById('walked').dataset.position === '3'")
    assert "sat" in page.inner_text("h1 em")
    cells = page.locator("#step-3 td[title]").evaluate_all("all => all.map((one) => Number(one.title))")
    assert cells[-1] == pytest.approx(float(other.weights[-1]), rel=1e-5)
    # Its strips have their colours, those of the keys too, which were on the page before.
    assert page.evaluate(
        "[...document.querySelectorAll('main .strip')].every((one) => one.style.background.includes('gradient'))"
    )
    page.locator("main button[data-position='1']").focus()
    page.keyboard.press("Enter")
    until(page, "document.getElementById('walked').dataset.position === '1'")
    assert page.evaluate("document.activeElement.dataset.position") == "1"
    cells = page.locator("#step-3 td[title]").evaluate_all("all => all.map((one) => Number(one.title))")
    assert cells[-1] == pytest.approx(float(walked.weights[-1]), rel=1e-5)
    page.locator(".strips").nth(1).focus()
    page.keyboard.press("ArrowRight")
    assert "entry 1 of 0 to 15" in page.inner_text("#readout")


def test_slides_show_one_step_a_screen(page, walked, until):
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.keyboard.press("f")
    until(page, "document.body.classList.contains('slides')")

    def seen() -> list[str]:
        return [section.get_attribute("id") for section in page.locator("section").all() if section.is_visible()]

    assert seen() == ["step-0"]
    for key in ("ArrowRight", " ", "PageDown"):
        page.keyboard.press(key)
    assert seen() == ["step-3"]
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
    page.keyboard.press("ArrowLeft")
    assert seen() == ["step-2"]
    page.click("main button[data-position='2']")
    assert seen() == ["step-2"]
    page.click(f"nav a >> nth={len(walked.steps) - 1}")
    assert seen() == [f"step-{len(walked.steps) - 1}"]
    page.keyboard.press("Escape")
    until(page, "!document.body.classList.contains('slides')")
    assert len(seen()) == len(walked.steps)


def test_the_address_keeps_query_step_and_slides(page, walked, until):
    page.click("main button[data-position='3']")
    page.keyboard.press("n")
    page.keyboard.press("n")
    page.reload()
    until(page, "document.getElementById('walked').dataset.position === '3'")
    assert "sat" in page.inner_text("h1 em")
    assert page.locator("nav a[aria-current]").text_content().endswith(walked.steps[2].title)
    page.keyboard.press("f")
    page.keyboard.press("ArrowRight")
    page.reload()
    until(page, "document.body.classList.contains('slides')")
    assert [one.get_attribute("id") for one in page.locator("section").all() if one.is_visible()] == ["step-3"]
    page.keyboard.press("Escape")
    page.click("main button[data-position='1']")
    assert "query=" not in page.url


def test_numbers_go_over_from_slide_to_slide(walked, visit, tmp_path):
    """What two steps share moves from its old place; with reduced motion nothing does."""
    walked.show(tmp_path / "walk.html")
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = visit(tmp_path / "walk.html", ready="nav a[aria-current]", reduced_motion=motion)
        page.keyboard.press("f")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        running = page.evaluate(
            "document.getAnimations().map((one) => one.animationName + ' ' + one.effect.target.textContent.slice(0, 6))"
        )
        assert ("handed score" in running) == moves
        assert ("appear weight" in running) == moves
