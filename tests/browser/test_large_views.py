"""Sizes: the weights of BERT-base over 512 tokens, and 2,048 tokens. Times are the best of a few: the machine may be busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.viewer import save_page


def normal_softmax(layers: int, heads: int, length: int, deviation: float) -> AttentionView:
    rng = np.random.default_rng(0)
    tokens = [f"token{i}" for i in range(length)]
    maps = []
    for layer in range(layers):
        weights = rng.standard_normal((heads, length, length), dtype=np.float32)
        weights *= np.float32(deviation)
        np.exp(weights, out=weights)
        weights /= weights.sum(-1, keepdims=True)
        maps.append(
            AttentionMap(
                address=f"layers.{layer}", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights
            )
        )
    return AttentionView(title=f"{length} tokens", maps=tuple(maps))


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("large") / "base.html"
    save_page(normal_softmax(12, 12, 512, 2.0), path)
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("large") / "long.html"
    save_page(normal_softmax(1, 12, 2048, 3.0), path)
    return path


def milliseconds_per_frame(page: Any) -> np.ndarray:
    """While the pointer wanders over the figure."""
    return np.array(
        page.evaluate("""async () => {
      const box = canvas.getBoundingClientRect(), times = [];
      const frame = () => new Promise(requestAnimationFrame);
      await frame();
      let last = performance.now();
      for (let i = 0; i < 80; i++) {
        const clientX = box.left + 10 + (i * 37) % (box.width - 20), clientY = box.top + 40 + (i * 23) % (box.height - 60);
        canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
        await frame();
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      return times;
    }""")
    )


def test_the_page_of_bert_base_over_512_tokens_is_small_and_ready_soon(base, visit):
    assert base.stat().st_size < 25_000_000
    times = []
    for _ in range(3):
        page = visit(base)
        # Until a value can be asked for: the first figure is drawn and the weights under the pointer are there.
        times.append(page.evaluate("performance.now()"))
        assert page.evaluate("valueText(3, 5)").count("±") == 1
        if times[-1] < 2000:
            break
    assert min(times) < 2000


def test_all_144_heads_of_it_are_seen(base, visit, until):
    page = visit(base, "view=model")
    until(page, "VIEWS.model.prepare(room()) && thumbs.size >= 60")
    assert len({page.evaluate(f"thumbs.get('0,{head},light').peak") for head in range(12)}) > 6


@pytest.mark.parametrize("view", ["heatmap", "heads", "model"])
def test_2048_tokens_are_smooth(long, visit, until, view):
    page = visit(long, f"view={view}&head=0")
    until(page, f"document.body.dataset.view === '{view}' && !document.body.classList.contains('busy')")
    page.wait_for_timeout(300)
    milliseconds_per_frame(page)  # once without counting: what is computed on first sight is kept
    frames = min((milliseconds_per_frame(page) for _ in range(3)), key=np.median)
    assert np.median(frames) < 40
    assert np.quantile(frames, 0.9) < 100
    assert page.evaluate("document.querySelectorAll('*').length") < 500


def test_2048_tokens_scroll_and_keep_their_place(long, visit):
    page = visit(long, "view=heatmap&head=0")
    page.focus("#figure")
    page.keyboard.press("Control+End")
    left, top, width, height = page.evaluate(
        "[pane.scrollLeft, pane.scrollTop, canvas.clientWidth, canvas.clientHeight]"
    )
    assert left > 1000
    assert top > 1000
    assert width * height < 1_500_000  # no canvas of the whole figure
    assert "token2047" in page.inner_text("#readout")
    box = page.locator("#figure").bounding_box()
    page.mouse.move(box["x"] + width - 20, box["y"] + height - 20)
    assert "query 20" in page.inner_text("#tip")


def test_2048_tokens_as_text_are_only_as_many_elements(long, visit, until):
    page = visit(long, "view=text&head=0&query=100")
    until(page, "document.querySelectorAll('#words span').length === 2048")
    assert page.evaluate("document.querySelectorAll('*').length") < 2600
    page.select_option("#text-mode", "lines")
    until(page, "!document.getElementById('lines').hidden")
    assert page.evaluate("document.querySelectorAll('*').length") < 5500
    assert "of 0 to 2047" in page.get_attribute("#lines", "data-part")
