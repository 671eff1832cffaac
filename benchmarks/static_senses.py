"""The senses of a word by vectors that know nothing of its sentence, by those of the words around it, and by an encoder's.

python benchmarks/static_senses.py VECTORS... --coarsewsd FOLDER --wic FOLDER [--model MODEL] [--output FOLDER]

VECTORS are files or folders of word vectors, MODEL the folder of any BERT, such as `python -c "from regard.embeddings import
packaged; print(packaged())"` names; the data are CoarseWSD-20 (Loureiro et al. 2021), a folder for each word, and WiC (Pilehvar
and Camacho-Collados 2019). A static vector of the word itself is the same in every sentence, but for the word's forms, so it can
do no better than the commonest sense: that is so by construction, and measured all the same.

CoarseWSD-20: the sense is that of the nearest mean of a sense's training vectors, by cosine (of those equally near, the
commonest), or what logistic regression says. WiC, whether a word has one sense in two sentences: a threshold of the cosine that
is best on the training pairs.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import regard
from measured import record
from regard.data.labelled import LabelledText, read_labelled
from regard.embeddings import unit
from regard.machine import keep_freed_memory
from regard.metrics.regression import bootstrap_interval
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.extrinsic import logistic
from regard.word_embeddings.evaluation.similarity import Lookup
from regard.word_embeddings.files import read_vectors

ROOT = Path(__file__).resolve().parent.parent

Vectors = np.ndarray
Featurise = Callable[[Sequence[Sequence[str]], Sequence[int]], Vectors]
"""From sentences, each a list of words, and the place of a word in each, to a vector of each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, nargs="+")
    parser.add_argument("--coarsewsd", type=Path)
    parser.add_argument("--wic", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--layers", default="last")
    parser.add_argument("--words", help="of CoarseWSD-20; all where not given")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results")
    arguments = parser.parse_args()
    keep_freed_memory()
    kinds: dict[str, Featurise] = {}
    for path in arguments.vectors:
        table = read_vectors(path)
        name = table.name.split(".")[0]
        kinds[f"{name}, the word"] = of_word(table)
        kinds[f"{name}, its neighbours"] = of_neighbours(table)
    if arguments.model is not None:
        encoder = regard.load(arguments.model, task="sentence_embedding")
        kinds["encoder, the word in context"] = of_encoder(encoder, arguments.layers)
    figures: dict[str, Any] = {}
    if arguments.coarsewsd is not None:
        figures |= coarsewsd(arguments.coarsewsd, arguments.words, kinds)
    if arguments.wic is not None:
        figures |= wic(arguments.wic, kinds)
    record(
        arguments.output / "static-senses.json",
        title="Senses of a word by static vectors and by vectors in context",
        command="python benchmarks/static_senses.py VECTORS... --coarsewsd FOLDER --wic FOLDER --model MODEL",
        precision="float32",
        seed=None,
        figures=figures,
        target="static vectors of the word itself do not beat the commonest sense; vectors in context do",
        note="CoarseWSD-20: accuracy in per cent, the mean over the words, by the nearest mean of a sense and by logistic "
        "regression (C = 0.1, features of variance 1). WiC: accuracy in per cent on the development pairs and its 95 % interval. "
        "Neighbours: the mean of the vectors of all other words of the sentence. Words of a sentence as they stand, or else in "
        "small letters.",
    )


def of_word(table: WordVectors) -> Featurise:
    """The word's own vector; zeros where it has none."""
    lookup = Lookup(vectors=table, case="lower")

    def featurise(sentences: Sequence[Sequence[str]], places: Sequence[int]) -> Vectors:
        found = [lookup.vector(words[place]) for words, place in zip(sentences, places, strict=True)]
        return np.stack([np.zeros(table.width, np.float32) if each is None else each for each in found])

    return featurise


def of_neighbours(table: WordVectors) -> Featurise:
    """The mean vector of the other words in the sentence that have one."""
    lookup = Lookup(vectors=table, case="lower")

    def featurise(sentences: Sequence[Sequence[str]], places: Sequence[int]) -> Vectors:
        means = np.zeros((len(sentences), table.width), np.float32)
        for number, (words, place) in enumerate(zip(sentences, places, strict=True)):
            own = words[place].lower()
            known = [v for word in words if word.lower() != own and (v := lookup.vector(word)) is not None]
            if known:
                means[number] = np.mean(known, axis=0)
        return means

    return featurise


def of_encoder(encoder: SentenceEncoder, layers: str) -> Featurise:
    """The mean of the vectors of the word's pieces, in its sentence."""

    def featurise(sentences: Sequence[Sequence[str]], places: Sequence[int]) -> Vectors:
        found = []
        for start in range(0, len(sentences), 512):
            some = encoder.features(sentences[start : start + 512], layers=layers, precision="float32")
            found += [each.merged().array[place] for each, place in zip(some, places[start : start + 512], strict=True)]
        return np.stack(found)

    return featurise


def coarsewsd(folder: Path, chosen: str | None, kinds: dict[str, Featurise]) -> dict[str, Any]:
    names = chosen.split(",") if chosen else sorted(path.name for path in folder.iterdir() if path.is_dir())
    usual: list[float] = []
    found: dict[str, dict[str, list[float]]] = {kind: {"nearest mean": [], "logistic": []} for kind in kinds}
    for name in names:
        train, test = (
            list(read_labelled(folder / name / f"{split}.data.txt", format="coarsewsd-20"))
            for split in ("train", "test")
        )
        gold = [str(row.label) for row in train], [str(row.label) for row in test]
        order: list[str] = [sense for sense, _ in Counter(gold[0]).most_common()]
        usual.append(100 * gold[1].count(order[0]) / len(test))
        for kind, featurise in kinds.items():
            sides = [
                featurise([row.text.split(" ") for row in part], [row.places[0] for row in part])
                for part in (train, test)
            ]
            said = nearest_mean(sides[0], gold[0], sides[1], order)
            found[kind]["nearest mean"].append(accuracy(gold[1], said))
            said = [str(each) for each in logistic(0.1).fit(sides[0], gold[0]).predict(sides[1])]
            found[kind]["logistic"].append(accuracy(gold[1], said))
        shown = {kind: {how: round(each[-1], 1) for how, each in ways.items()} for kind, ways in found.items()}
        print(f"{name}: commonest sense {usual[-1]:.1f}; {shown}", flush=True)
    figures: dict[str, Any] = {f"CoarseWSD-20, commonest sense, % ({len(names)} words)": mean(usual)}
    for kind, ways in found.items():
        figures[f"CoarseWSD-20, {kind}, %"] = {how: mean(each) for how, each in ways.items()}
    return figures


def nearest_mean(train: Vectors, gold: Sequence[str], test: Vectors, order: Sequence[str]) -> list[str]:
    """The sense whose mean is nearest; of those equally near (to six digits) the one that comes first in the order."""
    units, labels = unit(train), np.array(gold)
    means = unit(np.stack([units[labels == sense].mean(axis=0) for sense in order]))
    best = np.round(unit(test) @ means.T, 6).argmax(axis=1)
    return [str(order[int(number)]) for number in best]


def wic(folder: Path, kinds: dict[str, Featurise]) -> dict[str, Any]:
    train, dev = (list(read_labelled(folder / f"{split}.data.txt", format="wic")) for split in ("train", "dev"))
    usual = Counter(str(row.label) for row in train).most_common(1)[0][0]
    figures: dict[str, Any] = {
        "WiC, commonest answer, %": accuracy([str(row.label) for row in dev], [usual] * len(dev))
    }
    for kind, featurise in kinds.items():
        cosines, gold = zip(*(cosines_of(part, featurise) for part in (train, dev)), strict=True)
        border = best_threshold(cosines[0], gold[0])
        right = (cosines[1] >= border) == gold[1]
        interval = bootstrap_interval(right.astype(np.float64))
        figures[f"WiC, {kind}, %"] = {
            "accuracy": round(100 * interval.value, 1),
            "95 %": f"{100 * interval.low:.1f} to {100 * interval.high:.1f}",
        }
        print(f"WiC, {kind}: {figures[f'WiC, {kind}, %']}", flush=True)
    return figures


def cosines_of(part: Sequence[LabelledText], featurise: Featurise) -> tuple[Vectors, Vectors]:
    """The cosine of the two vectors of each pair, and whether the sense is the same."""
    sides = [
        unit(featurise([text.split(" ") for text in texts], [row.places[side] for row in part]))
        for side, texts in enumerate(([row.text for row in part], [row.pair or "" for row in part]))
    ]
    return np.round((sides[0] * sides[1]).sum(axis=1), 6), np.array([row.label == "same" for row in part])


def best_threshold(cosines: Vectors, same: Vectors) -> float:
    """From where on pairs are said to be the same so that most are right; of those alike the lowest."""
    borders = [*np.unique(cosines).tolist(), 2.0]
    rights = [int(((cosines >= border) == same).sum()) for border in borders]
    return borders[int(np.argmax(rights))]


def accuracy(gold: Sequence[str], said: Sequence[str]) -> float:
    return round(100 * sum(a == b for a, b in zip(gold, said, strict=True)) / len(gold), 1)


def mean(values: Sequence[float]) -> float:
    return round(statistics.mean(values), 1)


if __name__ == "__main__":
    main()
