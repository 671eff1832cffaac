"""`regard predict`: the command for a model's task, found from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import InputError

COMMANDS: Mapping[str, str] = {
    "translation": "translate",
    "text_to_text": "generate",
    "language_modelling": "generate",
    "masked_language_modelling": "fill",
    "span_corruption": "fill",
    "classification": "classify",
    "multi_label_classification": "classify",
    "regression": "classify",
    "multi_output_regression": "classify",
    "picture_classification": "classify",
    "few_shot": "classify",
    "tagging": "tag",
    "question_answering": "answer",
    "sentence_embedding": "embed",
    "captioning": "caption",
}
"""The command that predicts with a model, by the model's task."""


def predict(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]... [OPTIONS]", help="As the command for the task takes them.", show_default=False
        ),
    ] = None,
) -> None:
    """Predict with any model: its folder says the task, and the command for that task is run.

    These are translate, generate, fill, classify, tag, answer, embed and caption; what follows MODEL is theirs, --input, --output
    and --json among it. `regard predict MODEL --help` shows all options for this model.

    \b
    Example:
      regard predict runs/dates "Tuesday, 9 May 2017"
      regard predict runs/spam --input messages.txt --output classes.tsv
      regard predict runs/gpt "The history of" --sample --seed 3 --json
      regard predict runs/names --help
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import task_of

    task = task_of(model)
    if task not in COMMANDS:
        raise InputError(f"{model}: no command predicts for task {task}; use the model from Python, with regard.load")
    root = context.find_root()
    commands = root.command
    name, command, words = commands.resolve_command(root, [COMMANDS[task], str(model), *(rest or ())])  # type: ignore[attr-defined]
    with command.make_context(name, words, parent=root) as chosen:
        command.invoke(chosen)
