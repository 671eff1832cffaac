"""The pictures of docs/papers, of real models.

    python docs/images/make_paper_figures.py --runs FOLDER [PAGE...]

The commands of a page's "In a minute" are run in a folder of its own under FOLDER, unless they were run there
before. Then the picture is made, by the command under "What it looks like" that writes a .png file, or by the
function below that has the page's name: it is always of the model whose command stands on the page.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

import regard

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks")]
from course import part_of_the_docs  # noqa: E402
from papers import PAPERS, run  # noqa: E402

PAGES = part_of_the_docs("pages")
WIDEST, LARGEST = 1100, 58_000
BLUE, ORANGE, GREY = "#2166ac", "#d6604d", "#888888"
Drawing = Callable[[Path], Figure]


def main() -> None:
    """Make all pictures, or those of the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("pages", nargs="*")
    arguments = parser.parse_args()
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 130})
    for name in arguments.pages or sorted(page.stem for page in PAPERS.glob("*.md") if page.name != "index.md"):
        folder = arguments.runs / name
        found = PAGES.sections((PAPERS / f"{name}.md").read_text(encoding="utf-8"))
        if not folder.exists():
            folder.mkdir(parents=True)
            run(PAGES.blocks_in(found["In a minute"])[0].text, folder)
        written = folder / "picture.png"
        if name in DRAWINGS:
            figure = DRAWINGS[name](folder)
            figure.savefig(written, bbox_inches="tight", facecolor="white")
            plt.close(figure)
        else:
            command = drawing_command(found["What it looks like"])
            run(command, folder)
            written = folder / next(each for each in shlex.split(command) if each.endswith(".png"))
        print(name, kept(written, Path(__file__).parent / f"paper-{name}.png"), flush=True)


def drawing_command(text: str) -> str:
    """The command of a section that writes a picture."""
    shown = [command for block in PAGES.blocks_in(text) if block.kind == "sh" for command in PAGES.commands(block.text)]
    return next(command for command in shown if re.search(r"\.png\b", command))


def kept(picture: Path, place: Path) -> int:
    """A picture made as small as it may be, in bytes: no wider than a page shows it, and of as many colours as fit."""
    with Image.open(picture) as opened:
        image = opened.convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    for colours in (256, 64, 32, 16):
        image.quantize(colours).save(place, optimize=True)
        if place.stat().st_size <= LARGEST:
            return place.stat().st_size
    raise ValueError(f"{place.name} has {place.stat().st_size} bytes; draw less")


def months(folder: Path) -> Figure:
    """The vector between encoder and decoder, of dates that the model has not seen, in its two principal directions."""
    from regard.data.dates import Dates

    model = regard.load(next(folder.glob("runs/*")))
    dates = list(Dates("test", size=900, languages=["en", "fr", "de", "es"]))
    vectors = []
    with torch.no_grad():
        for begin in range(0, len(dates), 100):
            tokens = regard_tokens(model, [each.source for each in dates[begin : begin + 100]])
            state = model.model.start(tokens)
            vectors.append(state.hidden if hasattr(state, "hidden") else state.layers[-1][0])
    x = torch.cat(vectors).double()
    x = x - x.mean(dim=0)
    plane = (x @ torch.linalg.svd(x, full_matrices=False)[2][:2].T).numpy()
    figure, axes = plt.subplots(figsize=(6.4, 4))
    colours = plt.get_cmap("hsv")(np.linspace(0, 1, 13)[:12])
    for month in range(12):
        here = np.array([int(each.target.split("-")[1]) == month + 1 for each in dates])
        axes.scatter(*plane[here].T, s=12, color=colours[month], label=f"month {month + 1:02}", linewidths=0)
    axes.legend(fontsize=7, frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    axes.set(xticks=[], yticks=[], title="One point a date, by the vector that is all the decoder gets of it")
    return figure


def regard_tokens(model: Any, texts: list[str]) -> Any:
    """A batch of sources, as the model reads them."""
    from regard.layers import Tokens

    return Tokens.pad(model.task.encode_sources(texts))


GROUPS = {
    "containers": ["list", "tuple", "dictionary", "set", "mapping", "sequence"],
    "numbers": ["integer", "float", "complex", "number", "numbers", "integers"],
    "strings": ["string", "bytes", "characters", "literal", "unicode", "strings"],
    "errors": ["exception", "raised", "error", "handler", "exceptions", "finally"],
    "definitions": ["class", "function", "method", "module", "methods", "classes"],
}


def words_map(folder: Path) -> Figure:
    """Words of five kinds, by their vectors, in the two directions in which these words differ most."""
    from regard.word_embeddings.files import read_vectors

    vectors = read_vectors(next(each for each in folder.iterdir() if each.is_dir()))
    place = {word: row for row, word in enumerate(vectors.words)}
    here = [(group, word) for group, words in GROUPS.items() for word in words if word in place]
    x = np.array([vectors.matrix[place[word]] for _, word in here], dtype=np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x -= x.mean(axis=0)
    plane = x @ np.linalg.svd(x, full_matrices=False)[2][:2].T
    figure, axes = plt.subplots(figsize=(7, 4.4))
    for colour, group in zip(("#2166ac", "#d6604d", "#1b7837", "#762a83", "#8c510a"), GROUPS, strict=True):
        mine = [row for row, (name, _) in enumerate(here) if name == group]
        axes.scatter(*plane[mine].T, s=14, color=colour, label=group)
        for row in mine:
            axes.annotate(here[row][1], plane[row], color=colour, fontsize=8, xytext=(3, 2), textcoords="offset points")
    axes.legend(fontsize=8, frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    axes.set(xticks=[], yticks=[])
    return figure


def unseen_forms(folder: Path) -> Figure:
    """Cosines of forms that the text does not have with words that it has."""
    from regard.word_embeddings.files import read_vectors

    vectors = read_vectors(folder / "fasttext")
    known = ["function", "string", "exception", "module", "iterator", "statement"]
    unseen = ["functionalities", "stringy", "exceptionally", "modularize", "iterators'", "restatement"]
    rows = [vectors.vector(word) for word in unseen]
    columns = [vectors.vector(word) for word in known]
    cosines = [[float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for b in columns] for a in rows]
    return heatmap(cosines, unseen, known, "cosine of a word never seen (rows) with one that was (columns)")


def heatmap(values: list[list[float]], rows: list[str], columns: list[str], title: str) -> Figure:
    """Numbers between 0 and 1 in cells, each written in its cell."""
    figure, axes = plt.subplots(figsize=(6, 3.4))
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.6 else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(title, fontsize=9)
    return figure


def associations(folder: Path) -> Figure:
    """s(w) of the words of an association test."""
    from regard.word_embeddings.bias.association import effect_size, word_associations
    from regard.word_embeddings.files import read_vectors

    vectors = read_vectors(folder / "skipgram")
    place = {word: row for row, word in enumerate(vectors.words)}
    test = json.loads((folder / "weat.json").read_text("utf-8"))
    sets = {key: [vectors.matrix[place[word]] for word in test[key]["examples"]] for key in test}
    arrays = {key: np.array(rows) for key, rows in sets.items()}
    figure, axes = plt.subplots(figsize=(7, 2.2))
    found = []
    for row, (key, colour) in enumerate((("targ1", BLUE), ("targ2", ORANGE))):
        s = word_associations(arrays[key], arrays["attr1"], arrays["attr2"])
        found.append(s)
        axes.scatter(s, [1 - row] * len(s), color=colour, s=24)
        for number, i in enumerate(np.argsort(s)):
            axes.annotate(
                test[key]["examples"][i],
                (s[i], 1 - row),
                color=colour,
                ha="center",
                xytext=(0, 7 if number % 2 else -14),
                textcoords="offset points",
            )
    axes.set_yticks([1, 0], [test["targ1"]["category"], test["targ2"]["category"]])
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.margins(x=0.1)
    axes.set(ylim=(-0.6, 1.6), xlabel="s(w): above 0 nearer to the parts, below 0 nearer to the names")
    axes.set_title(f"d = {effect_size(*found):.2f}", fontsize=9)
    return figure


def sides(folder: Path) -> Figure:
    """Words along the direction from singular to plural, before and after it is taken out."""
    from regard.word_embeddings.bias.direction import bias_subspace, projections
    from regard.word_embeddings.bias.lists import read_word_sets, read_words
    from regard.word_embeddings.files import read_vectors

    before, after = read_vectors(folder / "skipgram"), read_vectors(folder / "debiased")
    pairs = read_word_sets(folder / "pairs.txt")
    direction = bias_subspace(before, pairs).directions[0]
    words = list(read_words(folder / "neutral.txt").words)
    figure, axes = plt.subplots(figsize=(7, 3.2))
    found = projections(before, direction, words)
    left = {each.word: each.cosine for each in projections(after, direction, words)}
    places = np.arange(len(found))
    axes.bar(places - 0.2, [each.cosine for each in found], 0.4, color=BLUE, label="before")
    axes.bar(places + 0.2, [left[each.word] for each in found], 0.4, color=ORANGE, label="after: 0 for all")
    axes.set_xticks(places, [each.word for each in found], rotation=40, ha="right")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(ylabel="cosine with the direction")
    axes.legend(frameon=False)
    return figure


DRAWINGS: dict[str, Drawing] = {
    "cho-2014": months,
    "sutskever-2014": months,
    "word2vec-2013": words_map,
    "glove-2014": words_map,
    "fasttext-2017": unseen_forms,
    "caliskan-2017": associations,
    "bolukbasi-2016": sides,
}


if __name__ == "__main__":
    main()
