"""Train a recipe on Multi30k and judge it on test_2016_flickr with sacreBLEU.

python benchmarks/multi30k.py SYSTEM DATA [--run runs/SYSTEM]

DATA holds {train,val,test_2016_flickr}.{en,de,fr}.gz; SYSTEM is one of `SYSTEMS`. A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch

import regard
from measured import record
from regard.data.pairs import read_pairs
from regard.machine import keep_freed_memory
from regard.training.callbacks import ProgressBar

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class System:
    """What is trained, in which direction, and what was asked of it beforehand."""

    title: str
    recipe: str
    source: str = "en"
    targets: tuple[str, ...] = ("de",)
    settings: tuple[str, ...] = ()
    target: str = ""


SYSTEMS = {
    "transformer": System(
        "English to German, a pre-norm Transformer of 3+3 layers and width 256",
        "translate-multi30k.yaml",
        target="at least 37 BLEU on test_2016_flickr (sacreBLEU, cased, 13a, beam 5) within 60 minutes of training",
    ),
    "bahdanau": System(
        "English to German, additive attention and GRU of width 384",
        "translate-multi30k-bahdanau.yaml",
        target="at least 34 BLEU on test_2016_flickr (sacreBLEU, cased, 13a, beam 5) within 60 minutes of training",
    ),
    "luong": System(
        "English to German, general score and input feeding, LSTM of width 512",
        "translate-multi30k-luong.yaml",
        target="at least 34 BLEU on test_2016_flickr (sacreBLEU, cased, 13a, beam 5) within 60 minutes of training",
    ),
    "de-en": System(
        "German to English, a post-norm Transformer of 3+3 layers and width 256",
        "translate-multi30k.yaml",
        source="de",
        targets=("en",),
        settings=("model.norm=post", "training.learning_rate=1e-3", "training.warmup=800"),
        target="reported",
    ),
    "one-to-many": System(
        "English to German and French by one pre-norm Transformer with a target tag",
        "translate-one-to-many.yaml",
        targets=("de", "fr"),
        target="reported",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("data", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--note", default="", help="what else happened on the machine meanwhile")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    system = SYSTEMS[arguments.system]
    run = arguments.run or Path("runs") / f"multi30k-{arguments.system}"
    keep_freed_memory()
    trained = regard.train(
        ROOT / "recipes" / system.recipe,
        [*_files(system, arguments.data), *system.settings, *arguments.overrides],
        output=run,
        resume=(run / "recipe.yaml").is_file(),
        say=print,
        callbacks=[ProgressBar()],
    )
    model = trained.load()
    figures: dict[str, object] = {}
    for target in system.targets:
        test = [str(arguments.data / f"test_2016_flickr.{side}.gz") for side in (system.source, target)]
        pairs = [(pair.source, pair.target) for pair in read_pairs(test)]
        several = len(system.targets) > 1
        found = regard.evaluate(model, pairs, to=target if several else None)
        ending = f" {target}" if several else ""
        figures |= {
            f"BLEU{ending}": round(found.metrics["bleu"], 2),
            f"chrF{ending}": round(found.metrics["chrf"], 2),
            f"length ratio{ending}": round(found.metrics["length_ratio"], 3),
            "sentences": found.count,
            "signature": found.signatures["bleu"],
        }
    bleu = {name: value for name, value in figures.items() if name.startswith("BLEU")}
    figures = bleu | {"minutes of training": round(trained.seconds / 60, 1)} | figures
    figures |= {
        "updates": trained.steps,
        "best update": trained.best_step,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
    }
    precision = "bfloat16" if trained_in_bfloat16(run) else "float32"
    record(
        ROOT / "docs" / "results" / f"multi30k-{arguments.system}.json",
        title=f"Multi30k, {system.title}",
        command=" ".join(["python benchmarks/multi30k.py", arguments.system, "DATA", *arguments.overrides]),
        precision=f"{precision} (auto) in training, float32 in evaluation",
        seed=int(model.recipe["seed"]),
        target=system.target,
        note=arguments.note,
        figures=figures,
    )


def trained_in_bfloat16(run: Path) -> bool:
    """What `training.precision: auto` means on this machine."""
    from regard.training.precision import resolve

    settings = json.loads((run / "regard.json").read_text(encoding="utf-8"))["recipe"]["training"]
    return resolve(settings["precision"], torch.device("cpu"))[0] == torch.bfloat16


def _files(system: System, data: Path) -> list[str]:
    """The overrides that name the files of each split."""
    found = []
    for target in system.targets:
        section = f"data.targets.{target}" if len(system.targets) > 1 else "data"
        for key, split in (("train", "train"), ("validation", "val")):
            files = [str(data / f"{split}.{side}.gz") for side in (system.source, target)]
            found.append(f"{section}.{key}={json.dumps(files)}")
    return found


if __name__ == "__main__":
    main()
