"""Fine-tune a trained encoder on a public set of labelled texts, perhaps beside the same model untrained.

python benchmarks/fine_tuning.py SET DATA MODEL [--seeds 1,2,3] [--beside-untrained] [--name minilm] [KEY=VALUE ...]

SET is one of `SETS`, DATA the folder of its files, MODEL the folder of the encoder. A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import regard
from measured import record
from regard.checkpoints import read_config
from regard.data.labelled import LABELLED_FORMATS, LabelledText, read_labelled
from regard.machine import keep_freed_memory
from regard.training.callbacks import ProgressBar
from regard.training.run import Trained

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Set:
    """What is learnt, and what was asked of it beforehand.

    Arguments:
        metric: the official one, times 100.
        settings: beside those of the recipe.
        validation: the file that is judged on; None holds a fifth of the training examples out.
    """

    title: str
    format: str
    train: str
    validation: str | None
    metric: str
    task: str = "classification"
    settings: tuple[str, ...] = ()
    target: str = "reported"


SETS = {
    "sst2": Set(
        "SST-2, sentiment of sentences",
        "sst2",
        "train.tsv",
        "dev.tsv",
        "accuracy",
        target="at least 88 % accuracy on the development set, in at most 40 minutes",
    ),
    "stsb": Set(
        "STS-B, how alike two sentences are",
        "stsb",
        "sts-train.csv",
        "sts-dev.csv",
        "pearson",
        task="regression",
        settings=("training.best=pearson",),
    ),
    "mrpc": Set(
        "MRPC, whether two sentences say the same",
        "mrpc",
        "msr_paraphrase_train.txt",
        None,
        "f1",
        settings=("training.best=f1", "data.validation_share=0.2"),
    ),
    "wic": Set(
        "WiC, whether a word has one sense in two sentences",
        "wic",
        "train.data.txt",
        "dev.data.txt",
        "accuracy",
    ),
    "sms-spam": Set(
        "SMS Spam Collection",
        "sms-spam",
        "SMSSpamCollection.tsv",
        None,
        "f1",
        settings=("training.best=f1", "data.validation_share=0.2"),
    ),
}
UNTRAINED = {"learning_rate": 3e-4}
"""What a model without training wants otherwise."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seeds", default="1", help="one run for each")
    parser.add_argument("--beside-untrained", action="store_true", help="the same sizes from nothing, too")
    parser.add_argument("--name", default="minilm", help="what the results call the model")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "fine-tuning")
    parser.add_argument("--note", default="", help="what else happened on the machine meanwhile")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    chosen = SETS[arguments.set]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    keep_freed_memory()
    arms: dict[str, dict[str, Any]] = {"": {"pretrained": str(arguments.model)}}
    if arguments.beside_untrained:
        arms["untrained"] = _sizes(arguments.model)
    figures: dict[str, Any] = {}
    minutes: list[float] = []
    for arm, model in arms.items():
        found: list[float] = []
        others: dict[str, float] = {}
        for seed in seeds:
            place = arguments.runs / "-".join(filter(None, (arguments.name, arm, arguments.set, str(seed))))
            trained = _run(chosen, arguments.data, model, arguments.model, seed, place, arm, arguments.overrides)
            found.append(round(100 * trained.metrics[chosen.metric], 2))
            minutes.append(trained.seconds / 60)
            others = {name: value for name, value in trained.metrics.items() if name not in ("loss", chosen.metric)}
        label = " ".join(filter(None, (arm, chosen.metric.replace("_", " "))))
        figures[label] = found[0] if len(found) == 1 else {"median": statistics.median(found), "seeds": found}
        if len(found) == 1:
            figures |= {f"{arm} {name}".strip(): round(100 * value, 2) for name, value in others.items()}
    if arguments.beside_untrained:
        gained = _median(figures, chosen.metric) - _median(figures, f"untrained {chosen.metric}")
        figures["points gained"] = round(gained, 2)
    figures["minutes a run, at most"] = round(max(minutes), 1)
    ending = "-beside-untrained" if arguments.beside_untrained else ""
    record(
        ROOT / "docs" / "results" / f"fine-tuning-{arguments.name}-{arguments.set}{ending}.json",
        title=f"{chosen.title}: {arguments.name} fine-tuned",
        command=" ".join(
            [
                f"python benchmarks/fine_tuning.py {arguments.set} DATA MODEL --name {arguments.name} --seeds {arguments.seeds}",
                *(["--beside-untrained"] if arguments.beside_untrained else []),
                *arguments.overrides,
            ]
        ),
        precision="bfloat16 (auto) in training",
        seed=seeds[0] if len(seeds) == 1 else ", ".join(map(str, seeds)),
        target="at least 3 points above the same model untrained (median of three seeds)"
        if arguments.beside_untrained
        else chosen.target,
        note=arguments.note,
        figures=figures,
    )


def _run(
    chosen: Set, data: Path, model: dict[str, Any], folder: Path, seed: int, place: Path, arm: str, overrides: list[str]
) -> Trained:
    values: dict[str, Any] = {
        "task": chosen.task,
        "seed": seed,
        "model": model,
        "data": {},
        "tokenizer": {"path": str(folder)},
    }
    values["training"] = dict(TRAINING) | (UNTRAINED if arm else {})
    classes = LABELLED_FORMATS[chosen.format].labels
    if classes:  # in the order in which the official metrics count them: the last of two is the positive one
        values["data"]["labels"] = list(classes)
    settings = [*chosen.settings, *overrides]
    given = _examples(chosen, data / chosen.train)
    validation = None if chosen.validation is None else _examples(chosen, data / chosen.validation)
    return regard.train(
        values,
        settings,
        output=place,
        data=list(given),
        validation=None if validation is None else list(validation),
        resume=(place / "recipe.yaml").is_file(),
        say=print,
        callbacks=[ProgressBar()],
    )


TRAINING: dict[str, Any] = {
    "epochs": 3,
    "batch_tokens": 1024,
    "learning_rate": 1e-4,
    "betas": [0.9, 0.999],
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "schedule": "linear",
    "warmup": 100,
    "evaluate_every": 100,
    "save_every": 100,
    "best": "accuracy",
}


def _examples(chosen: Set, path: Path) -> Iterator[LabelledText]:
    """The examples of a file; where they are about a word, each text begins with it."""
    for example in read_labelled(path, format=chosen.format):
        if not example.places:
            yield example
            continue
        words = [
            text.split()[place] for text, place in zip((example.text, example.pair or ""), example.places, strict=False)
        ]
        yield replace(example, text=f"{words[0]}: {example.text}", pair=f"{words[-1]}: {example.pair}")


def _sizes(folder: Path) -> dict[str, Any]:
    """A model of the same sizes from nothing."""
    config = read_config(folder)
    left_out = ("vocabulary", "padding_id", "head", "outputs", "pooler", "head_dropout")
    values = {part.name: getattr(config, part.name) for part in dataclasses.fields(config)}
    return {"name": config.model_type, **{name: value for name, value in values.items() if name not in left_out}}


def _median(figures: dict[str, Any], name: str) -> float:
    value = figures[name.replace("_", " ")]
    return value["median"] if isinstance(value, dict) else value


if __name__ == "__main__":
    main()
