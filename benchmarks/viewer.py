"""How large the page is, and how soon and how smoothly a browser shows it: 12 layers of 12 heads on 512 tokens, and 2,048 tokens.

And a map of 100,000 vectors: how long its neighbours take, how large it is, and its frames while it is moved and zoomed.

python benchmarks/viewer.py

Needs playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from measured import record
from regard.embeddings.map_page import html_page
from regard.embeddings.vector_map import map_vectors
from regard.inspection.view import AttentionMap, AttentionView
from regard.inspection.viewer import save_page

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WANDERING = """async () => {
  const canvas = regard.canvas, box = canvas.getBoundingClientRect(), times = [];
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
}"""
MOVING = """async () => {
  const times = [], frame = () => new Promise(requestAnimationFrame);
  regard.space.showAll();
  await frame();
  let last = performance.now();
  for (let i = 0; i < 80; i++) {
    regard.space.pan(i % 2 ? 9 : -6, 4);
    regard.space.zoom(i < 40 ? 1.04 : 1 / 1.04);
    regard.redraw();
    await frame();
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}"""
POINTS, WIDTH, GROUPS = 100_000, 300, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, layers, length, deviation in (
            ("12 layers x 12 heads x 512 tokens, scores of deviation 2", 12, 512, 2.0),
            ("12 layers x 12 heads x 512 tokens, scores of deviation 3", 12, 512, 3.0),
            ("1 layer x 12 heads x 2,048 tokens, scores of deviation 3", 1, 2048, 3.0),
        ):
            view = softmax_of_noise(layers, 12, length, deviation)
            path = Path(folder) / "page.html"
            began = time.perf_counter()
            save_page(view, path)
            figures[f"{name}: seconds to write"] = round(time.perf_counter() - began, 2)
            figures[f"{name}: MB"] = round(path.stat().st_size / 1e6, 1)
            used = seen_in_browser(path, arguments.rounds, "#view=heatmap&head=0", "regard.valueText(3, 5)", WANDERING)
            figures |= {f"{name}: {what}": value for what, value in used.items()}
        name = f"map of {POINTS:,} vectors of {WIDTH}"
        path = Path(folder) / "map.html"
        figures[f"{name}: seconds to lay out by PCA and find 10 neighbours of each"] = saved_map(path)
        figures[f"{name}: MB"] = round(path.stat().st_size / 1e6, 1)
        used = seen_in_browser(path, arguments.rounds, "", "regard.find('word 99')", MOVING)
        figures |= {f"{name}: {what}": value for what, value in used.items()}
    record(
        ROOT / "docs" / "results" / "viewer.json",
        title="The page in a browser",
        command="python benchmarks/viewer.py",
        precision="weights on a log scale, each within 1 % of itself and 2e-4 of the largest, or finer",
        seed=0,
        target="12 layers, 12 heads, 512 tokens: under 25 MB, interactive in under 2 s in Chromium; 2,048 tokens smooth",
        figures=figures,
        note=f"Medians of {arguments.rounds} openings in headless Chromium with 2 cores and no GPU. Interactive means that the "
        "first image is painted and a value can be asked for. Frames while the pointer wanders over the heatmap, after one such "
        "passage that does not count; of the map while it is moved and "
        "zoomed, by WebGL in software. Weights are softmaxes of normal scores: harder to pack than those of trained models.",
    )


def softmax_of_noise(layers: int, heads: int, length: int, deviation: float) -> AttentionView:
    """Weights without structure."""
    generator = np.random.default_rng(0)
    tokens = tuple(f"token{place}" for place in range(length))
    maps = []
    for layer in range(layers):
        weights = generator.standard_normal((heads, length, length), dtype=np.float32)
        np.exp(weights * np.float32(deviation), out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        maps.append(
            AttentionMap(
                address=f"layers.{layer}", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights
            )
        )
    return AttentionView(title=f"{length} tokens", maps=tuple(maps))


def saved_map(path: Path) -> float:
    """Write the map of vectors that lie around some middles, each a word; the seconds it took to make."""
    draw = np.random.default_rng(0)
    group = draw.integers(0, GROUPS, POINTS)
    middles = draw.standard_normal((GROUPS, WIDTH), dtype=np.float32)
    vectors = middles[group] + draw.standard_normal((POINTS, WIDTH), dtype=np.float32)
    began = time.perf_counter()
    made = map_vectors(
        vectors,
        [f"word {number}" for number in range(POINTS)],
        columns={"group": [f"group {number}" for number in group]},
    )
    seconds = time.perf_counter() - began
    path.write_text(html_page(made), encoding="utf-8")
    return round(seconds, 1)


def seen_in_browser(path: Path, rounds: int, place: str, first: str, moving: str) -> dict[str, float]:
    """Milliseconds until the page can be used, and of its frames.

    Arguments:
        path: of the page.
        rounds: of opening it.
        place: what follows its address.
        first: what is asked of it once it is ready.
        moving: gives the milliseconds of frames.
    """
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    ready, frames = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for number in range(rounds + 1):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri() + place)
            page.wait_for_selector("body[data-ready]")
            page.evaluate(first)
            seconds = page.evaluate("performance.now()") / 1e3
            page.evaluate(moving)
            times = page.evaluate(moving)
            if number:  # the first opening also starts the browser's own processes
                ready.append(seconds)
                frames.append(times)
            page.close()
        browser.close()
    every = [time for times in frames for time in times]
    return {
        "seconds to interactive": round(statistics.median(ready), 2),
        "ms per frame": round(statistics.median(every), 1),
        "ms per frame, 95 of 100": round(float(np.quantile(every, 0.95)), 1),
    }


if __name__ == "__main__":
    main()
