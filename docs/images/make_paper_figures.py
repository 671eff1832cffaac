"""The figures of docs/papers, of real models.

    python docs/images/make_paper_figures.py --runs FOLDER [PAGE...]

The commands of a page's "In a minute" are run in a folder of its own under FOLDER, unless they were run there
before. Then the figure is made, by the command under "What it looks like" that writes a .png file, or by the
function below that has the page's name: it is always of the model whose command stands on the page.
"""

from __future__ import annotations

import argparse
import itertools
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
    """Make all figures, or those of the pages that are named."""
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
        written = folder / "figure.png"
        if name in DRAWINGS:
            figure = DRAWINGS[name](folder)
            figure.savefig(written, bbox_inches="tight", facecolor="white")
            plt.close(figure)
        else:
            command = drawing_command(found["What it looks like"])
            written = folder / next(each for each in shlex.split(command) if each.endswith(".png"))
            if not written.exists():
                run(command, folder)
        print(name, kept(written, Path(__file__).parent / f"paper-{name}.png"), flush=True)


def drawing_command(text: str) -> str:
    """The command of a section that writes a figure."""
    shown = [command for block in PAGES.blocks_in(text) if block.kind == "sh" for command in PAGES.commands(block.text)]
    return next(command for command in shown if re.search(r"\.png\b", command))


def kept(written: Path, place: Path) -> int:
    """A figure made as small as it may be, in bytes: no wider than a page shows it, and of as many colours as fit."""
    with Image.open(written) as opened:
        image = opened.convert("RGB")
    for width, colours in itertools.product((WIDEST, 850, 650), (256, 64, 32)):
        width = min(width, image.width)
        smaller = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
        smaller.quantize(colours).save(place, optimize=True)
        if place.stat().st_size <= LARGEST:
            return place.stat().st_size
    raise ValueError(f"{place.name} has {place.stat().st_size} bytes; draw less")


def years(folder: Path) -> Figure:
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
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    found = [int(each.target[:4]) for each in dates]
    points = axes.scatter(*plane.T, s=10, c=found, cmap="viridis", linewidths=0)
    figure.colorbar(points, label="year")
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
    axes.legend(fontsize=8, frameon=False, bbox_to_anchor=(1.06, 1), loc="upper left")
    axes.set(xticks=[], yticks=[])
    return figure


def unseen_forms(folder: Path) -> Figure:
    """Cosines of forms that the text does not have with words that it has."""
    from regard.word_embeddings.files import read_vectors

    vectors = read_vectors(folder / "fasttext")
    known = ["function", "string", "exception", "module", "iterator", "statement"]
    unseen = ["functionalities", "stringy", "exceptionally", "modularize", "iterators'", "restatement"]
    rows = [vectors[word] for word in unseen]
    columns = [vectors[word] for word in known]
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
    words = list(read_words(folder / "neutral.txt"))
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


def depth(folder: Path) -> Figure:
    """What is left of 32 vectors when their common part is taken away, after each layer of four kinds of stack."""
    from regard_claims.rank_collapse.random_stacks import RandomStacks

    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    for skips, colour in ((False, ORANGE), (True, BLUE)):
        for net, style in ((False, "-"), (True, "--")):
            found = RandomStacks(skips=skips, feedforward=net).run(1)["residual"]
            label = ("with skips" if skips else "without skips") + (", with nets" if net else "")
            axes.semilogy(
                list(found), [max(value, 1e-17) for value in found.values()], style, color=colour, label=label
            )
    axes.set(xlabel="layer", ylabel="relative residual")
    axes.legend(frameon=False)
    return figure


def in_context(folder: Path) -> Figure:
    """The probability of the right image, by how many pairs stood before it."""
    from regard.data.sequences import Maps

    model = regard.load(folder / "runs" / "maps")
    texts = list(Maps("test", symbols=3, pairs=9, size=300))
    scores = [score.log_probabilities for score in model.score_batch(texts)]
    offset = len(scores[0]) - 1 - 18  # the end token, and a start token where there is one
    probabilities = np.exp([[row[offset + 2 * pair + 1] for pair in range(9)] for row in scores]).mean(axis=0)
    figure, axes = plt.subplots(figsize=(6.4, 3))
    axes.plot(range(9), probabilities, "o-", color=BLUE, label="the model, on 300 maps that it never met")
    best = [1 - (1 - 1 / 3) ** k + (1 - 1 / 3) ** k / 3 for k in range(9)]
    axes.plot(range(9), best, "--", color=GREY, label="who remembers every pair and else guesses")
    axes.axhline(1 / 3, color=GREY, linewidth=0.6)
    axes.set(xlabel="pairs read before", ylabel="probability of the right image", ylim=(0, 1))
    axes.legend(frameon=False, loc="lower right")
    return figure


def surprise(folder: Path) -> Figure:
    """Bits of each token of a sentence."""
    model = regard.load(next((folder / "runs").iterdir()))
    score = model.score("The function returns a list of the names in the module.")
    figure, axes = plt.subplots(figsize=(9, 2.4))
    axes.bar(range(len(score.tokens)), [-value / np.log(2) for value in score.log_probabilities], color=BLUE)
    axes.set_xticks(range(len(score.tokens)), [token.replace("\u2581", "\u2423") for token in score.tokens], fontsize=7)
    axes.set(ylabel="bits")
    return figure


def both_ways(folder: Path) -> Figure:
    """Of each word, its probability from the left and from the right."""
    model = regard.load(folder / "runs" / "elmo")
    score = model.score("the function returns a list of the names in the module .")
    figure, axes = plt.subplots(figsize=(8, 2.8))
    places = np.arange(len(score.words))
    axes.bar(places - 0.2, np.exp(score.forward[:-1]), 0.4, color=BLUE, label="from the words before")
    axes.bar(places + 0.2, np.exp(score.backward[1:]), 0.4, color=ORANGE, label="from the words after")
    axes.set_xticks(places, score.words)
    axes.set(ylabel="probability")
    axes.legend(frameon=False)
    return figure


def pupils(folder: Path) -> Figure:
    """What a teacher and its student say of one hidden token."""
    text = "The function [MASK] a list of the names in the module."
    teacher, student = (regard.load(folder / "runs" / name) for name in ("teacher", "student"))
    told = teacher.fill(text, 8).masks[0]
    words = [each.token for each in told]
    learnt = {each.token: each.probability for each in student.fill(text, 1000).masks[0]}
    figure, axes = plt.subplots(figsize=(7, 2.8))
    places = np.arange(len(words))
    axes.bar(places - 0.2, [each.probability for each in told], 0.4, color=BLUE, label="teacher, 4 layers")
    axes.bar(places + 0.2, [learnt.get(word, 0) for word in words], 0.4, color=ORANGE, label="student, 2 layers")
    axes.set_xticks(places, words)
    axes.set(ylabel="probability", title=text)
    axes.legend(frameon=False)
    return figure


def captions(folder: Path) -> Figure:
    """Images of the validation part, each with the model's caption and the right one."""
    from regard.data.scenes import Scenes

    model = regard.load(next((folder / "runs").iterdir()))
    scenes = Scenes("test", objects="shapes", rows=2, columns=2, fewest=1, most=2, cell=16, size=5)
    figure, panels = plt.subplots(1, 5, figsize=(9, 2.2))
    for axes, scene in zip(panels, scenes, strict=True):
        axes.imshow(scene.frames[0].squeeze())
        said = model.caption(scene.frames).text
        axes.set_title(f"{said}\n({scene.caption})", fontsize=7)
        axes.set_axis_off()
    return figure


def shares(folder: Path) -> Figure:
    """From how many numbers of a sentence's vector each of its tokens is the source."""
    model = regard.load(folder / "runs" / "inference")
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
    for axes, text in zip(panels, ("no dogs push cars", "all poodles push red cars"), strict=True):
        tokens = model.task.tokenizer.encode(text)
        from regard.layers import Tokens

        with torch.no_grad():
            states = model.model.hidden_states(Tokens.pad([tokens]))[-1][0]
        counts = np.bincount(states.argmax(dim=0).numpy(), minlength=len(tokens))
        axes.bar(range(len(tokens)), counts / counts.sum(), color=BLUE)
        axes.set_xticks(
            range(len(tokens)), [each.strip("\u2581") for each in model.task.tokenizer.tokens(tokens)], rotation=30
        )
    panels[0].set_ylabel("share of the vector")
    return figure


def tests_of_vectors(folder: Path) -> Figure:
    """Two embeddings under two tests."""
    from regard.word_embeddings.evaluation.categories import evaluate_categories, read_categories
    from regard.word_embeddings.evaluation.probes import frequency_probe
    from regard.word_embeddings.files import read_vectors

    kinds = read_categories(folder / "kinds.txt")
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for side, (name, colour) in enumerate((("skipgram", BLUE), ("glove", ORANGE))):
        vectors = read_vectors(folder / name)
        figures = [evaluate_categories(vectors, kinds).purity, frequency_probe(vectors).accuracy]
        bars = axes.bar(np.arange(2) + 0.4 * side - 0.2, figures, 0.4, color=colour, label=name)
        axes.bar_label(bars, [f"{value:.2f}" for value in figures])
    axes.set_xticks(range(2), ["purity of four kinds of words", "frequent or rare, told from the vector"])
    axes.set(ylim=(0, 1.15))
    axes.legend(frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    return figure


def episode(folder: Path) -> Figure:
    """Three labelled digits and the one asked about, under each the weight that it gets."""
    from regard.data.labelled_images import digit_characters

    model = regard.load(folder / "runs" / "few-shot")
    digits = digit_characters([5, 6, 7])
    places = [int((digits.classes == number).argmax()) for number in range(3)]
    asked = int(np.flatnonzero(digits.classes == 1)[3])
    shown = [(digits.pixels[place], name) for place, name in zip(places, ("five", "six", "seven"), strict=True)]
    with regard.look(model) as seen:
        answer = model.classify(shown, digits.pixels[asked])
    address = seen.addresses[-1]
    weights = seen.weights(address)[0, 0, -1]
    figure, panels = plt.subplots(1, 4, figsize=(7, 2.4))
    names = [*("five", "six", "seven"), f"asked: {answer.label}"]
    for axes, place, name, weight in zip(panels, [*places, asked], names, weights.tolist(), strict=True):
        axes.imshow(digits.pixels[place], cmap="Greys")
        axes.set_title(f"{name}\nweight {weight:.2f}", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def patches(folder: Path) -> Figure:
    """Where the class token looks in a digit, in each head of the last block."""
    from regard.data.labelled_images import read_labelled_images

    model = regard.load(folder / "runs" / "digits")
    digit = read_labelled_images(None, "test")[4]
    with regard.look(model) as seen:
        answer = model.classify(digit.image)
    weights = seen.weights("layers.1.attention")[0, :, 0, 1:].reshape(-1, 4, 4)
    figure, panels = plt.subplots(1, 1 + len(weights), figsize=(9, 2.2))
    pixels = np.asarray(digit.image).squeeze()
    panels[0].imshow(pixels, cmap="Greys")
    panels[0].set_title(f"class: {answer.label}", fontsize=9)
    for head, (axes, map_) in enumerate(zip(panels[1:], weights.numpy(), strict=True)):
        axes.imshow(pixels, cmap="Greys")
        axes.imshow(map_, cmap="Oranges", alpha=0.7, vmin=0, extent=(-0.5, 7.5, 7.5, -0.5))
        axes.set_title(f"head {head}: largest {map_.max():.2f}", fontsize=9)
    for axes in panels:
        axes.set_axis_off()
    return figure


def first_symbols(folder: Path) -> Figure:
    """The vector between encoder and decoder, of rows of symbols that the model has not seen."""
    from regard.data.sequences import Sequences

    model = regard.load(folder / "runs" / "sutskever")
    rows = [row for row, _ in Sequences("test", kind="copy", symbols=12, shortest=5, longest=5, size=900)]
    with torch.no_grad():
        x = model.model.start(regard_tokens(model, rows)).layers[-1][0].double()
    x = x - x.mean(dim=0)
    plane = (x @ torch.linalg.svd(x, full_matrices=False)[2][:2].T).numpy()
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    colours = plt.get_cmap("tab20")
    for symbol in range(1, 13):
        here = np.array([row.split()[0] == f"s{symbol}" for row in rows])
        axes.scatter(*plane[here].T, s=10, color=colours(symbol), linewidths=0, label=f"s{symbol} ...")
    axes.legend(fontsize=7, frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    axes.set(xticks=[], yticks=[], title="One point a row, by the vector that is all the decoder gets of it")
    return figure


def noise(folder: Path) -> Figure:
    """A text as it is, and as three seeds make it noisy: words in the colours of their sentences, masks in black."""
    from regard.data.denoising import Denoising
    from regard.text import Tokenizer

    text = "the dog saw the cat. it ran home at once. the king was in the garden."
    tokenizer = Tokenizer.train([text], kind="word", size=60)
    ids, stop = np.array(tokenizer.encode(text)), tokenizer.find(".")
    mask = tokenizer.size
    seeds = [Denoising(seed=seed).corrupt([ids], [0], mask=mask, separators=[stop])[0].tolist() for seed in range(3)]
    sentence = np.cumsum([0, *(token == stop for token in ids.tolist())])
    colours = (BLUE, ORANGE, "#1b7837")
    figure, axes = plt.subplots(figsize=(9, 1.9))
    for line, tokens in enumerate([ids.tolist(), *seeds]):
        axes.text(0, -line, "the text" if line == 0 else f"seed {line - 1}", color=GREY, va="center")
        x = 9
        for token in tokens:
            word = "mask" if token == mask else tokenizer.tokens([token])[0].strip("\u2581")
            homes = {int(sentence[at]) for at in np.flatnonzero(ids == token)}
            colour = "white" if token == mask else colours[homes.pop()] if len(homes) == 1 else GREY
            background = {"facecolor": "black", "pad": 1, "edgecolor": "none"} if token == mask else None
            axes.text(x, -line, word, color=colour, va="center", bbox=background, family="monospace")
            x += len(word) + 1
    axes.set(xlim=(0, 82), ylim=(-3.6, 0.6))
    axes.set_axis_off()
    return figure


DRAWINGS: dict[str, Drawing] = {
    "cho-2014": years,
    "sutskever-2014": first_symbols,
    "word2vec-2013": words_map,
    "glove-2014": words_map,
    "fasttext-2017": unseen_forms,
    "caliskan-2017": associations,
    "bolukbasi-2016": sides,
    "schnabel-2015": tests_of_vectors,
    "dong-2021": depth,
    "gpt3-2020": in_context,
    "zaremba-2014": surprise,
    "elmo-2018": both_ways,
    "distilbert": pupils,
    "vinyals-2015": captions,
    "infersent-2017": shares,
    "snail-2018": episode,
    "bart": noise,
    "gpt-2018": surprise,
    "dosovitskiy-2021": patches,
}


if __name__ == "__main__":
    main()
