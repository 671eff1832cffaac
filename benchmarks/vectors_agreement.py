"""Our figures of vectors of words beside gensim's, and of their bias beside four other programs'.

python benchmarks/vectors_agreement.py VECTORS --similarity FILE... --analogies FILE...

VECTORS is a folder or file of vectors. gensim's figures are computed here; those of the programs on bias are the ones kept in
tests/golden/bias_scores.json, see make_bias_scores.py beside it.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from measured import record
from regard.word_embeddings import WordVectors
from regard.word_embeddings.bias import AssociationTest, NamedWords, association_test, bias_subspace, hard_debiased
from regard.word_embeddings.evaluation.analogies import evaluate_analogies, read_analogies
from regard.word_embeddings.evaluation.similarity import evaluate_similarity, read_similarity
from regard.word_embeddings.files import read_vectors

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "bias_scores.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--similarity", type=Path, nargs="+", default=[])
    parser.add_argument("--analogies", type=Path, nargs="+", default=[])
    arguments = parser.parse_args()
    vectors = read_vectors(arguments.vectors)
    figures = beside_gensim(vectors, arguments.similarity, arguments.analogies) | of_bias()
    record(
        ROOT / "docs" / "results" / "vectors-agreement.json",
        title="Word embeddings: our figures compared with other programs'",
        command="python benchmarks/vectors_agreement.py VECTORS --similarity FILE... --analogies FILE...",
        precision="float32 vectors; sums in float64",
        seed=None,
        target="similarity and analogies as gensim prints them, question by question; WEAT and debiasing within 1e-6",
        figures=figures,
        note=f"gensim {version('gensim')}, whose sums are in float32. Bias: 56 random vectors; debiaswe, wefe, sent-bias.",
    )


def beside_gensim(vectors: WordVectors, similarity: list[Path], analogies: list[Path]) -> dict[str, Any]:
    from gensim.models import KeyedVectors

    theirs = KeyedVectors(vectors.width)
    theirs.add_vectors(list(vectors.words), np.asarray(vectors.matrix))
    apart = printed = 0.0
    compared = 0
    for file in similarity:
        separator = "\t" if "\t" in file.read_text(encoding="utf-8").split("\n")[0] else " "
        for unknown in ("skip", "zero"):
            found = evaluate_similarity(vectors, read_similarity(file), unknown=unknown, resamples=0)
            told = theirs.evaluate_word_pairs(
                str(file), delimiter=separator, dummy4unknown=unknown == "zero", restrict_vocab=len(vectors)
            )
            for ours, other in ((found.pearson, told[0][0]), (found.spearman, told[1][0])):
                apart = max(apart, abs(ours - other))
                printed += f"{ours:.4f}" != f"{other:.4f}"
                compared += 1
    questions = differing = 0
    for file in analogies:
        found = evaluate_analogies(vectors, read_analogies(file), resamples=0)
        _, sections = theirs.evaluate_word_analogies(str(file), restrict_vocab=len(vectors))
        right = [tuple(word.upper() for word in each.question) for each in found.answers if each.right]
        questions += found.total.asked
        differing += len(set(right) ^ set(sections[-1]["correct"]))
    return {
        "correlations compared with gensim's": compared,
        "largest difference of a correlation": float(f"{apart:.2g}"),
        "correlations that print otherwise, four digits": int(printed),
        "analogies compared with gensim's": questions,
        "analogies answered otherwise": differing,
    }


def of_bias() -> dict[str, Any]:
    """The largest differences on the drawn vectors of the golden file."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    table, lists = golden["vectors"], golden["lists"]
    vectors = WordVectors(words=tuple(table), matrix=np.array(list(table.values()), dtype=np.float32))
    differences: dict[str, float] = {}
    for name in ("large", "small"):
        x, y, a, b = (NamedWords(name=one, words=tuple(words)) for one, words in zip("xyab", lists[name], strict=True))
        test = AssociationTest(name=name, targets=(x, y), attributes=(a, b))
        for program, ddof, keys in (("wefe", 0, ("effect_size",)), ("sent_bias", 1, ("effect_size", "p"))):
            found = association_test(vectors, test, ddof=ddof)  # type: ignore[arg-type]
            for key in keys:
                what = f"WEAT, {key.replace('_', ' ')}, {program}: largest difference"
                apart = abs(getattr(found, key) - golden[program][name][key])
                differences[what] = max(differences.get(what, 0.0), apart)
    subspace = bias_subspace(vectors, [tuple(pair) for pair in lists["pairs"]])
    for program, equalize in (("debiaswe", lists["equalize"]), ("wefe", [["queen", "king"]])):
        found = hard_debiased(
            vectors, subspace, specific=lists["specific"], equalize=[tuple(pair) for pair in equalize]
        )
        rows = {word: np.array(row) for word, row in golden[program]["debiased"].items() if word not in ("mum", "dad")}
        differences[f"debiased vectors, {program}: largest difference"] = max(
            float(np.abs(found[word] - row / np.linalg.norm(row)).max()) for word, row in rows.items()
        )
    return {name: float(f"{value:.2g}") for name, value in differences.items()}


if __name__ == "__main__":
    main()
