"""Fine-tune a trained BERT on SQuAD's articles and judge it on articles that it has not seen.

python benchmarks/squad.py MODEL FILE [--run runs/squad] [--untrained]

MODEL is the folder of a BERT; FILE is in SQuAD's JSON, perhaps gzip. Its articles are parted by the seed: `TEST` of them are
judged on, `VALIDATION` choose the checkpoint, the others are learnt from. --untrained takes the sizes and the tokenizer of MODEL,
not its weights, for comparison. A run that was stopped goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import regard
from measured import record
from multi30k import trained_in_bfloat16
from regard.checkpoints import located, read_config
from regard.data.questions import Question, read_questions, write_predictions
from regard.machine import keep_freed_memory
from regard.models.config import config_to_json
from regard.training import read_recipe
from regard.training.callbacks import ProgressBar

ROOT = Path(__file__).resolve().parent.parent
TEST, VALIDATION = 5, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--name", default="", help="of the model, for the title and the file of results")
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--note", default="", help="what else happened on the machine meanwhile")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_intermixed_args()
    name = (arguments.name or arguments.model.name) + ("-untrained" if arguments.untrained else "")
    run = arguments.run or Path("runs") / f"squad-{name}"
    recipe = read_recipe(
        ROOT / "recipes" / "answer.yaml", [f"model.pretrained={arguments.model}", *arguments.overrides]
    )
    values = recipe.to_mapping()
    if arguments.untrained:
        values["model"] = untrained(arguments.model)
    train, validation, test = parted(list(read_questions(arguments.file)), recipe.seed)
    keep_freed_memory()
    trained = regard.train(
        values,
        output=run,
        data=train,
        validation=validation,
        resume=(run / "recipe.yaml").is_file(),
        say=print,
        callbacks=[ProgressBar()],
    )
    model = trained.load()
    found = regard.evaluate(model, test)
    write_predictions(run / "predictions.json", found.texts)
    record(
        ROOT / "docs" / "results" / f"squad-{name}.json",
        title=f"SQuAD 1.1, {name}, {len(train):,} questions of {articles(train)} articles to learn from",
        command=" ".join(
            [
                "python benchmarks/squad.py MODEL FILE",
                *(["--untrained"] if arguments.untrained else []),
                *arguments.overrides,
            ]
        ),
        precision=("bfloat16" if trained_in_bfloat16(run) else "float32")
        + " (auto) in training, float32 in evaluation",
        seed=recipe.seed,
        target="reported",
        note=arguments.note,
        figures={
            "F1": round(100 * found.metrics["f1"], 2),
            "exact match": round(100 * found.metrics["exact_match"], 2),
            "minutes of training": round(trained.seconds / 60, 1),
            "questions": found.count,
            "F1 on the articles that chose the checkpoint": round(100 * trained.metrics["f1"], 2),
            "updates": trained.steps,
            "best update": trained.best_step,
            "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        },
    )


def parted(questions: list[Question], seed: int) -> tuple[list[Question], list[Question], list[Question]]:
    """The questions to learn from, to validate on and to judge on; no article is in two of them."""
    titles = list(dict.fromkeys(question.title for question in questions))
    order = np.random.Generator(np.random.Philox(key=[seed, 0])).permutation(len(titles)).tolist()
    drawn = [titles[place] for place in order]
    parts = drawn[TEST + VALIDATION :], drawn[TEST : TEST + VALIDATION], drawn[:TEST]
    train, validation, test = ([each for each in questions if each.title in part] for part in parts)
    return train, validation, test


def articles(questions: list[Question]) -> int:
    """How many articles questions are about."""
    return len({question.title for question in questions})


def untrained(folder: Path) -> dict[str, Any]:
    """The `model` section of the same sizes without the weights; the head and what the tokenizer decides are filled in."""
    values = config_to_json(read_config(located(str(folder))))
    decided = ("model_type", "format_version", "vocabulary", "padding_id", "head", "outputs", "head_dropout", "pooler")
    return {"name": values["model_type"], **{key: value for key, value in values.items() if key not in decided}}


if __name__ == "__main__":
    main()
