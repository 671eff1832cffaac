"""The senses of a word told apart by the vectors that an encoder gives it in context: nearest neighbours, and a figure.

python benchmarks/senses.py MODEL DATA [--layers last] [--words bank,spring]

MODEL is the folder of any BERT, such as `python -c "from regard.embeddings import packaged; print(packaged())"` names, DATA
that of CoarseWSD-20 (Loureiro et al. 2021), a folder for each word. A sense is that of the nearest vector, by cosine, among
those of the training sentences. The figure shows the test sentences' vectors of "bank" in the two directions in which equally
many of each sense in training vary most: nothing of it is text.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import regard
from measured import record
from regard.data.labelled import read_labelled
from regard.embeddings import nearest, unit
from regard.machine import keep_freed_memory
from regard.tasks.sentence_embedding import SentenceEncoder

ROOT = Path(__file__).resolve().parent.parent
FIGURE = ROOT / "docs" / "images" / "senses-bank.png"
SENSES = {"bank_bank": "where money is", "bank_bank_(geography)": "beside a river"}
COLOURS = ("#d1495b", "#00798c")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--layers", default="last")
    parser.add_argument("--words", help="all of the data where not given")
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    keep_freed_memory()
    encoder = regard.load(arguments.model, task="sentence_embedding")
    words = (
        arguments.words.split(",")
        if arguments.words
        else sorted(p.name for p in arguments.data.iterdir() if p.is_dir())
    )
    figures: dict[str, Any] = {}
    for word in words:
        folder = arguments.data / word
        train, test = (read(encoder, folder / f"{split}.data.txt", arguments) for split in ("train", "test"))
        figures[word] = compared(train, test)
        print(word, figures[word], flush=True)
        if word == "bank":
            plot(train, test)
    gains = [each["1-NN, %"] - each["most frequent sense, %"] for each in figures.values()]
    accuracies = [each["1-NN, %"] for each in figures.values()]
    record(
        ROOT / "docs" / "results" / "senses.json",
        title="Senses of a word distinguished by its vector in context",
        command="python benchmarks/senses.py MODEL DATA"
        + (f" --layers {arguments.layers}" if arguments.layers != "last" else ""),
        precision=arguments.precision,
        seed=None,
        figures={
            "mean over words, %": round(statistics.mean(accuracies), 1),
            "median over words, %": round(statistics.median(accuracies), 1),
            "mean above the most frequent sense, points": round(statistics.mean(gains), 1),
            **figures,
        },
        target="the senses of bank lie apart",
        note=f"{encoder.model.config.layers} layers of width {encoder.model.config.width}, not trained on senses; layers: "
        f"{arguments.layers}; the mean of the word's pieces; the nearest of the training sentences by cosine. CoarseWSD-20, "
        f"{len(words)} words.",
    )


def read(encoder: SentenceEncoder, file: Path, arguments: argparse.Namespace) -> tuple[np.ndarray, list[str]]:
    """The vector of the word in each sentence, of length one, and its sense."""
    rows = list(read_labelled(file, format="coarsewsd-20"))
    vectors = []
    for start in range(0, len(rows), 512):
        some = rows[start : start + 512]
        found = encoder.features(
            [row.text.split(" ") for row in some], layers=arguments.layers, precision=arguments.precision
        )
        vectors += [each.merged().array[row.places[0]] for each, row in zip(found, some, strict=True)]
    return unit(np.stack(vectors)), [str(row.label) for row in rows]


def compared(train: tuple[np.ndarray, list[str]], test: tuple[np.ndarray, list[str]]) -> dict[str, Any]:
    found = nearest(train[0], test[0], 1).rows[:, 0]
    right = [train[1][row] == sense for row, sense in zip(found, test[1], strict=True)]
    usual = Counter(train[1]).most_common(1)[0][0]
    return {
        "senses": len(set(train[1])),
        "sentences": f"{len(train[1])} and {len(test[1])}",
        "most frequent sense, %": round(100 * test[1].count(usual) / len(test[1]), 1),
        "1-NN, %": round(100 * sum(right) / len(right), 1),
    }


def plot(train: tuple[np.ndarray, list[str]], test: tuple[np.ndarray, list[str]]) -> None:
    from matplotlib.figure import Figure

    least = min(Counter(train[1]).values())
    alike = [row for sense in set(train[1]) for row in [r for r, each in enumerate(train[1]) if each == sense][:least]]
    centre = train[0][alike].mean(axis=0)
    _, sizes, directions = np.linalg.svd(train[0][alike] - centre, full_matrices=False)
    shares = sizes**2 / (sizes**2).sum()
    places = (test[0] - centre) @ directions[:2].T
    figure = Figure(figsize=(6.4, 4.6), dpi=160, layout="constrained")
    axes = figure.subplots()
    senses = [sense for sense, _ in Counter(test[1]).most_common()]
    for sense, colour in zip(senses, COLOURS, strict=False):
        rows = [row for row, each in enumerate(test[1]) if each == sense]
        label = f"{SENSES.get(sense, sense)} ({len(rows)})"
        axes.scatter(places[rows, 0], places[rows, 1], s=16, color=colour, alpha=0.7, linewidths=0, label=label)
    axes.set_title("The vector of “bank” in context: one dot a sentence")
    axes.set_xlabel(f"first direction, {100 * shares[0]:.0f} % of the variance")
    axes.set_ylabel(f"second direction, {100 * shares[1]:.0f} %")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE)


if __name__ == "__main__":
    main()
