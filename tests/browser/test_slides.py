"""Decks: of a text that was played, saved as one offline file, and of a walk; one step a screen, and one a page of a PDF."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.browser.conftest import wait_for
from tests.browser.test_studio import TOKENS, played, studio
from tests.browser.test_walk_in_browser import walked

__all__ = ["studio", "walked"]  # fixtures


def pages_of(page: Any) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True, print_background=True)))


def saved(page: Any, button: str, path: Path) -> Path:
    with page.expect_download() as found:
        page.click(button)
    found.value.save_as(path)
    return path


def test_a_played_text_is_saved_as_slides(opened, studio, visit, until, tmp_path):
    page = opened(studio)
    played(page, 5)
    steps = page.locator("#written button").all_inner_texts()
    page.click("#play-step")
    wait_for(page, f"{TOKENS} === 11")
    row = page.evaluate("[...regard.state.matrix.row(10)]")
    bars = page.inner_text("#step-bars")
    deck = visit(saved(page, "#save-slides", tmp_path / "slides.html"), ready="section")
    slides = deck.locator("section")
    assert slides.count() == 1 + len(steps)
    assert slides.nth(2).locator("h2 em").inner_text() == steps[1]
    # The row of the token that it was chosen from, which is the last of the map that the studio shows then.
    shown = slides.nth(2).locator("table").nth(0).locator("tr").first.inner_text().split()[-1]
    assert abs(float(shown) - max(row)) < 1e-3
    expected = slides.nth(2).locator("table").nth(1).locator("tr").all_inner_texts()
    assert [line.split()[-1] for line in expected] == re.findall(r"\b[01]\.\d+", bars)
    deck.keyboard.press("ArrowRight")
    deck.keyboard.press(" ")
    until(deck, "Math.round(scrollY / innerHeight) === 2")
    deck.keyboard.press("ArrowLeft")
    deck.keyboard.press("End")
    until(deck, f"Math.round(scrollY / innerHeight) === {len(steps)}")
    assert pages_of(deck) == 1 + len(steps)


def test_a_translation_is_saved_as_slides_with_its_source(opened, studio, visit, tmp_path):
    page = opened(studio)
    page.select_option("#model", "pair")
    page.fill("#reads", "abc def")
    wait_for(page, "studio.seen?.wanted.text === 'abc def' && !document.querySelector('#playback').hidden")
    page.evaluate("studio.settled()")
    count, columns = page.evaluate(TOKENS), page.evaluate("regard.data.maps[0].key.tokens.length")
    deck = visit(saved(page, "#save-slides", tmp_path / "slides.html"), ready="section")
    assert deck.locator("section").count() == 1 + count
    assert deck.locator("section").nth(1).locator(".text span").count() == columns


def test_a_walk_prints_its_slides_one_a_page(visit, walked, tmp_path):
    walked.show(tmp_path / "walk.html")
    page = visit(tmp_path / "walk.html", "slides=1", ready="nav a[aria-current]")
    assert pages_of(page) >= page.locator("section").count()
    assert page.locator("section").count() > 3
