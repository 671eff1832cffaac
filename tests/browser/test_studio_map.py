"""The map of texts in the studio: pasted texts become points, as Python lays them out, with a model of this server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser.conftest import served, wait_for
from tests.browser.test_accessibility import needs_axe, violations
from tests.serving.test_attention import InProcess, language_model
from tests.serving.test_tasks import sentence_encoder

from regard.embeddings.vector_map import map_vectors

TEXTS = ["cat", "a mat", "the cat sat", "cat", "sat on", "</script>"]


@pytest.fixture
def encoder(randomize: Any) -> Any:
    return sentence_encoder(randomize)


@pytest.fixture
def address(encoder: Any, randomize: Any) -> Iterator[str]:
    with served(link=InProcess(lm=language_model(randomize), vectors=encoder)) as found:
        yield f"{found}/studio"


def test_pasted_texts_become_points_as_python_lays_them_out(opened, address, encoder):
    page = opened(f"{address}#token=secret")
    assert page.get_attribute("#map", "href") == f"{address}/map#token=secret"
    page.click("#map")
    page.wait_for_selector("#ask[data-ready]")
    assert page.locator("#model option").all_text_contents() == ["vectors"]
    assert page.locator("#stage").is_hidden()
    page.click("#draw")
    wait_for(page, "document.getElementById('problem').textContent.includes('no text to draw')")
    page.fill(
        "#texts",
        "\n".join(f"{'even' if number % 2 == 0 else 'odd'}\t{text}" for number, text in enumerate(TEXTS)) + "\n\n",
    )
    page.click("#draw")
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("regard.data.labels") == TEXTS
    wanted = map_vectors(encoder.embed(TEXTS), TEXTS, neighbours=5)
    found = np.array(page.evaluate("[...regard.data.xs].map((x, i) => [x, regard.data.ys[i]])"))
    np.testing.assert_allclose(found, wanted.points, atol=1e-4)
    assert page.evaluate("regard.data.neighbours") == 5
    assert page.locator("#legend button span").all_text_contents() == ["even", "odd"]
    assert "of their variance" in page.inner_text("#about")
    # Others take their place, and a list of numbers is no class.
    page.fill("#texts", "cat\nmat\nsat")
    page.click("#draw")
    wait_for(page, "regard.data.count === 3 && regard.painter.kind === 'webgl'")
    assert page.locator("#colour-label").is_hidden()
    page.locator("#over").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("regard.state.chosen") >= 0


def test_a_file_is_taken_and_what_the_server_refuses_is_said(opened, address, tmp_path: Path):
    (tmp_path / "lines.txt").write_text("cat\nmat\n")
    page = opened(f"{address}/map#token=secret", ready=False)
    page.wait_for_selector("#ask[data-ready]")
    page.set_input_files("#file", tmp_path / "lines.txt")
    wait_for(page, "document.getElementById('texts').value === 'cat\\nmat\\n'")
    page.evaluate("document.getElementById('model').replaceChildren(new Option('lm'))")
    page.click("#draw")
    wait_for(page, "document.getElementById('problem').textContent.includes('computes no text embeddings')")
    page = opened(f"{address}/map", ready=False)
    wait_for(page, "document.getElementById('problem').textContent.includes('no key')")


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_violation(opened, address, scheme):
    page = opened(f"{address}/map#token=secret", ready=False)
    page.emulate_media(color_scheme=scheme)
    page.wait_for_selector("#ask[data-ready]")
    found = violations(page)
    page.fill("#texts", "a\tcat\nb\tmat\na\tsat")
    page.click("#draw")
    page.wait_for_selector("body[data-ready]")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert found + violations(page) == []
