"""Train recipes/translate-multi30k.yaml and judge it on test_2016_flickr with sacreBLEU.

python benchmarks/multi30k.py DATA [--run runs/multi30k]     DATA holds {train,val,test_2016_flickr}.{en,de}.gz
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import regard
from measured import record
from regard.data.pairs import read_pairs
from regard.training.memory import keep_freed_memory
from regard.training.progress_bar import ProgressBar

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--run", type=Path, default=Path("runs/multi30k"))
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    keep_freed_memory()
    files = {split: [str(arguments.data / f"{split}.{side}.gz") for side in ("en", "de")] for split in ("train", "val")}
    trained = regard.train(
        ROOT / "recipes" / "translate-multi30k.yaml",
        [
            f"data.train={json.dumps(files['train'])}",
            f"data.validation={json.dumps(files['val'])}",
            *arguments.overrides,
        ],
        output=arguments.run,
        resume=(arguments.run / "recipe.yaml").is_file(),
        say=print,
        callbacks=[ProgressBar()],
    )
    model = trained.load()
    test = [str(arguments.data / f"test_2016_flickr.{side}.gz") for side in ("en", "de")]
    pairs = [(pair.source, pair.target) for pair in read_pairs(test)]
    found = regard.evaluate(model, pairs)
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    record(
        ROOT / "docs" / "results" / "multi30k.json",
        title="Multi30k, English to German, a Transformer of 3+3 layers and width 256",
        command="python benchmarks/multi30k.py DATA",
        precision="bfloat16 (auto) in training, float32 in evaluation",
        seed=1,
        target="at least 36 BLEU on test_2016_flickr (sacreBLEU, cased, 13a, beam 5) within 60 minutes of training",
        note="Other programs ran on the same two cores during this training; on a quiet machine it is shorter.",
        figures={
            "BLEU": round(found.metrics["bleu"], 2),
            "chrF": round(found.metrics["chrf"], 2),
            "minutes of training": round(trained.seconds / 60, 1),
            "updates": trained.steps,
            "best update": trained.best_step,
            "parameters": parameters,
            "sentences": found.count,
            "length ratio": round(found.metrics["length_ratio"], 3),
            "signature": found.signatures["bleu"],
        },
    )


if __name__ == "__main__":
    main()
