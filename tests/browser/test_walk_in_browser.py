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
