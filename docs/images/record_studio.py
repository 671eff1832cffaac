"""The recording of the studio in this folder, of real models: python docs/images/record_studio.py.

`regard studio --demo` is started and used as somebody would: type, move through the map, write on, switch heads off, look at all
heads, and at a translator. The page is photographed after each step of that and written as one animated WebP of about
twenty seconds. Everything that is sampled has a seed. Needs playwright, Pillow and Chromium.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FRAME = 200
"""Milliseconds of a frame."""

SENTENCE = "The animal didn't cross the street because it was too tired"
SIZE = (1280, 800)


@contextmanager
def studio() -> Iterator[str]:
    """The address of the demonstration's page."""
    command = [sys.executable, "-m", "regard", "studio", "--demo", "--no-browser", "--json"]
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


class Film:
    """Frames of a page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[bytes] = []
        self.milliseconds: list[int] = []

    def show(self, milliseconds: int = FRAME) -> None:
        """One figure, for so long."""
        self.page.evaluate("() => studio.settled()")
        self.page.wait_for_timeout(80)
        self.frames.append(self.page.screenshot())
        self.milliseconds.append(milliseconds)

    def type(self, text: str, every: int = 3) -> None:
        """Type, a figure after every few letters."""
        for start in range(0, len(text), every):
            self.page.keyboard.type(text[start : start + every])
            self.show(FRAME // 2)

    def save(self, path: Path, width: int) -> None:
        """Write them in fewer pixels; figures that are alike become one."""
        from PIL import Image

        height = SIZE[1] * width // SIZE[0]
        images = [Image.open(io.BytesIO(frame)).convert("RGB").resize((width, height)) for frame in self.frames]
        images[0].save(
            path,
            save_all=True,
            append_images=images[1:],
            duration=self.milliseconds,
            loop=0,
            quality=70,
            method=6,
            minimize_size=True,
        )


def perform(film: Film) -> None:
    """Use the page."""
    page = film.page
    page.select_option("#model", "vectors")
    page.fill("#reads", "")
    page.focus("#reads")
    film.type(SENTENCE)
    film.show(800)
    page.click("#tab-heads")
    film.show(1000)
    page.click("#tab-model")
    film.show(1500)
    page.click("#tab-heatmap")
    page.select_option("#model", "chat")
    page.fill("#reads", "<user>\n")
    page.focus("#reads")
    page.keyboard.press("Control+End")
    film.type("where does Eva live?\n<assistant>\n")
    film.show(800)
    page.click("#playback-title")
    page.click("#write")
    page.wait_for_selector("#step-bars tr")
    page.click("#play-first")
    for _ in range(7):
        film.show(600)
        page.click("#play-step")
    film.show(1500)
    page.click("#playback-title")
    page.click("#play-last")
    page.select_option("#address", "layers.1.attention")
    page.click("#switch-off")
    film.show(2500)
    page.click("#changed button")
    page.select_option("#model", "dates")
    page.fill("#reads", "")
    page.focus("#reads")
    film.type("mardi 9 mai 2017")
    film.show(2500)


def main() -> None:
    """Film and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "studio.webp")
    parser.add_argument("--width", type=int, default=960)
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with studio() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        film = Film(page)
        perform(film)
        browser.close()
    film.save(given.out, given.width)
    seconds = sum(film.milliseconds) / 1000
    print(f"{given.out}: {seconds:.1f} seconds, {len(film.frames)} frames, {given.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
