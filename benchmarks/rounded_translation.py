"""What fewer bits cost a translator: BLEU and chrF in float32, bfloat16, and with weights of 8 and 4 bits.

python benchmarks/rounded_translation.py MODEL SOURCE TARGET [--to LANGUAGE]

MODEL is the folder of a Transformer that translates; SOURCE and TARGET are parallel files. Decoding is the folder's own. Beside
the metrics is how many translations are those of float32 to the letter.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import regard
from measured import record
from regard.data.pairs import read_pairs

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--to")
    parser.add_argument("--note", default="", help="which model and texts these are")
    arguments = parser.parse_args()
    pairs = [(pair.source, pair.target) for pair in read_pairs([str(arguments.source), str(arguments.target)])]
    figures: dict[str, Any] = {"sentences": len(pairs)}
    plain: list[str] = []
    for precision in ("float32", "bfloat16", "int8", "int4"):
        model: Any = regard.load(arguments.model, task="translation", dtype=precision)
        found = regard.evaluate(model, pairs, to=arguments.to)
        texts = [translation.text for translation in found.predictions]
        plain = plain or texts
        figures[f"{precision}, BLEU"] = round(found.metrics["bleu"], 2)
        figures[f"{precision}, chrF"] = round(found.metrics["chrf"], 2)
        figures[f"{precision}, translations alike"] = sum(map(str.__eq__, texts, plain))
        figures["signature"] = found.signatures["bleu"]
    record(
        ROOT / "docs" / "results" / "rounded-translation.json",
        title="What fewer bits cost: a small Transformer on Multi30k",
        command="python benchmarks/rounded_translation.py MODEL test_2016_flickr.en.gz test_2016_flickr.de.gz"
        + (f" --to {arguments.to}" if arguments.to else ""),
        precision="as named",
        seed=None,
        target="the loss with each precision",
        figures=figures,
        note=arguments.note,
    )


if __name__ == "__main__":
    main()
