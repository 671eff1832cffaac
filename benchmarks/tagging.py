"""Fine-tune a trained encoder to tag words and judge it on the development set as conlleval does.

python benchmarks/tagging.py SET MODEL DATA [--name minilm] [--seeds 1,2,3] [--untrained] [--run runs/NAME] [KEY=VALUE ...]

MODEL is the folder of a BERT or DistilBERT; with --untrained only its sizes and its tokenizer are taken. DATA holds the files of
the set, which is one of `SETS`. Of several seeds the median is reported. A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from measured import record
from regard.checkpoints import read_config
from regard.data.tagged import read_tagged
from regard.machine import keep_freed_memory
from regard.models import MODELS
from regard.tasks.tagging import TAGGING, evaluate_tags
from regard.training.callbacks import ProgressBar
from regard.training.precision import resolve

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class TaggedSet:
    """Files to learn from and to judge on."""

    title: str
    train: str
    validation: str
    settings: tuple[str, ...] = ()


SETS = {
    "conll2003": TaggedSet("CoNLL-2003, English named entities", "eng.train.gz", "eng.testa.gz"),
    "conll2003-pos": TaggedSet(
        "CoNLL-2003, English parts of speech",
        "eng.train.gz",
        "eng.testa.gz",
        ("data.tag=1", "data.scheme=none", "training.best=accuracy"),
    ),
    "wnut17": TaggedSet(
        "WNUT 2017, emerging entities", "wnut17train.conll", "emerging.dev.conll", ("training.evaluate_every=100",)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--name", default="bert", help="what the model is called in the results")
    parser.add_argument("--seeds", default="1", help="such as 1,2,3")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--target", default="reported", help="what was asked of it beforehand")
    parser.add_argument("--note", default="", help="what else happened on the machine meanwhile")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    chosen = SETS[arguments.set]
    name = f"tagging-{arguments.set}-{arguments.name}" + ("-untrained" if arguments.untrained else "")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    keep_freed_memory()
    runs = []
    for seed in seeds:
        folder = (arguments.run or Path("runs") / name).with_name(f"{(arguments.run or Path(name)).name}-{seed}")
        runs.append(_measured(chosen, arguments, seed, folder))
    runs.sort(key=lambda run: run["main"])
    middle = runs[len(runs) // 2]
    figures = dict(middle["figures"])
    if len(runs) > 1:
        figures["all seeds"] = {str(run["seed"]): run["main"] for run in runs}
        figures["minutes of training"] = round(statistics.mean(run["minutes"] for run in runs), 1)
    options = [f"--name {arguments.name}", f"--seeds {arguments.seeds}", *["--untrained"] * arguments.untrained]
    record(
        ROOT / "docs" / "results" / f"{name}.json",
        title=f"{chosen.title}: {arguments.name}{', untrained' if arguments.untrained else ''}",
        command=" ".join(["python benchmarks/tagging.py", arguments.set, "MODEL DATA", *options, *arguments.overrides]),
        precision=f"{middle['precision']} (auto) in training, float32 in evaluation",
        seed=middle["seed"],
        target=arguments.target,
        note=arguments.note,
        figures=figures,
    )


def _measured(chosen: TaggedSet, arguments: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    """One run: trained, then judged in float32 with both ways of decoding."""
    trained = regard.train(
        ROOT / "recipes" / "tag.yaml",
        [
            f"data.train={json.dumps(str(arguments.data / chosen.train))}",
            f"data.validation={json.dumps(str(arguments.data / chosen.validation))}",
            *_start(arguments.model, arguments.untrained),
            f"seed={seed}",
            *chosen.settings,
            *arguments.overrides,
        ],
        output=folder,
        resume=(folder / "recipe.yaml").is_file(),
        say=print,
        callbacks=[ProgressBar()],
    )
    model = trained.load()
    data = model.recipe["data"]
    sentences = list(read_tagged(arguments.data / chosen.validation, word=data["word"], tag=data["tag"]))
    found = evaluate_tags(model, sentences)
    main = "f1" if "f1" in found.metrics else "accuracy"
    figures: dict[str, Any] = {_spoken(name): round(100 * value, 2) for name, value in found.metrics.items()}
    if main == "f1":
        figures |= {f"F1 {name}": round(100 * score.f1, 2) for name, score in found.classes.items()}
        greedy = evaluate_tags(model, sentences, decoding="greedy")
        figures["F1 greedy"] = round(100 * greedy.metrics["f1"], 2)
    minutes = round(trained.seconds / 60, 1)
    figures |= {
        "minutes of training": minutes,
        "sentences": found.count,
        "words": found.words,
        "updates": trained.steps,
        "best update": trained.best_step,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
    }
    precision, _ = resolve(model.recipe["training"]["precision"], torch.device("cpu"))
    return {
        "seed": seed,
        "main": round(100 * found.metrics[main], 2),
        "figures": figures,
        "minutes": minutes,
        "precision": str(precision).removeprefix("torch."),
    }


def _start(model: Path, untrained: bool) -> list[str]:
    """The overrides that start from a trained model, or from another of its sizes."""
    if not untrained:
        return [f"model.pretrained={json.dumps(str(model))}"]
    config = read_config(model)
    decided = set(TAGGING.derived_config)
    sizes = {
        part.name: getattr(config, part.name)
        for part in dataclasses.fields(MODELS[config.model_type].config)
        if part.name not in decided
    }
    section = {"name": config.model_type, **sizes}
    return [f"model={json.dumps(section)}", f"tokenizer.path={json.dumps(str(model))}"]


def _spoken(name: str) -> str:
    return {"f1": "F1"}.get(name, name)


if __name__ == "__main__":
    main()
