"""`regard classify`."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import answer_all, by_hand
from regard.cli.console import NewFile, on_terminal, text_bar
from regard.cli.inputs import Device, Text, TextColumn, columns_trained_on, opened, read_input
from regard.cli.media import classify_pictures
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.classification import Classification
    from regard.tasks.multi_label import Labelling
    from regard.tasks.regression import Rating, Ratings

CLASSIFYING = ("classification", "multi_label_classification")
"""The tasks that this command is for, beside those of numbers and pictures."""


def classify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="What to classify; else --input or standard input. For a model of pictures files, folders or zips of them.",
            show_default=False,
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The second text, for a model that reads two.", show_default=False),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="A text, or two with a tab between, in each line; or a table (CSV, TSV or JSONL), whose first line may name the "
            "columns: which is read is told. Perhaps gzip.",
        ),
    ] = None,
    shown: Annotated[
        Path | None,
        typer.Option(
            metavar="PLACE",
            help="For a model that learns from a few pictures: a folder or zip of them, CLASS/PICTURE.",
            show_default=False,
        ),
    ] = None,
    text_column: TextColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to, a line for each text.")
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="The class that --threshold decides on, the last of two if not said.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="The least probability at which that class is predicted, else the most probable other class; of a model that "
            "tells any number of labels: that of each label.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, with the probability of every class.")
    ] = False,
) -> None:
    """Tell the class of texts, or of pairs of texts: one line out for each line in, the class and its probability.

    A model that tells any number of labels tells those that are probable enough, with a comma between, and the probability of
    each. A model that gives numbers, such as how alike two sentences are, gives the number, or several with tabs between. Of
    pictures the line begins with the name; digits is scikit-learn's digits that no training sees, digits:4 the fifth of them.

    \b
    Example:
      regard classify runs/spam "WINNER!! Claim your prize now" "see you at eight"
      regard classify runs/paraphrases "It rains." --pair "Rain is falling."
      regard classify runs/spam --input messages.txt --output classes.tsv
      regard classify runs/spam --input messages.txt --json
      regard classify runs/spam --input messages.txt --positive spam --threshold 0.3
      regard classify runs/mnist seven.png scans.zip
      regard classify runs/few-shot --shown letters/ unknown.png
    """  # noqa: D301  # \b keeps the lines of the example apart
    if pair is not None and (input_file is not None or len(texts or ()) != 1):
        raise InputError("--pair goes with one TEXT; pairs in a file stand in each line with a tab between")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.tasks.loading import task_of

        task = task_of(model)
        if task in ("picture_classification", "few_shot"):
            given = (("--pair", pair), ("--input", input_file), ("--positive", positive), ("--threshold", threshold))
            unfit = [name for name, value in given if value is not None]
            classify_pictures(model, texts or (), file, as_json, device, shown=shown, unfit=unfit)
            return
        if shown is not None:
            raise InputError("--shown is for models that learn from a few pictures; this one reads texts, leave it out")
        waiting = read_input(texts or (), input_file, text_column, pairs=True, known=columns_trained_on(model))
        _check_deciding(task, positive, threshold)
        rates = task in ("regression", "multi_output_regression")
        predictor: Any = opened(model, device, None if rates or task in CLASSIFYING else "classification")
        ask = predictor.rate_batch if rates else predictor.classify_batch
        deciding = {
            name: value for name, value in (("positive", positive), ("threshold", threshold)) if value is not None
        }
        ask = functools.partial(ask, **deciding)

        def answer(chunk: list[Text]) -> Any:
            return ask([_parts(text, pair, predictor.task.pairs) for text in chunk])

        typed = by_hand(texts, input_file)
        progress = not typed and (file is not None or not on_terminal(sys.stdout))
        stack.enter_context(text_bar(predictor, len(texts) if texts else None, shown=progress))
        together = {"together": 1} if typed else {}
        answer_all(
            waiting,
            answer,
            command="classify",
            name="ratings" if rates else "classifications",
            line_of=_line,
            object_of=_object,
            file=file,
            as_json=as_json,
            empty=functools.partial(_empty, pairs=pair is None and predictor.task.pairs is not False),
            **together,
        )


def _check_deciding(task: str, positive: str | None, threshold: float | None) -> None:
    """Refuse a class or a threshold for a model that has none.

    Raises:
        InputError: naming the option.
    """
    if positive is not None and task != "classification":
        raise InputError("--positive is for models that tell one class of each text; this one does not, leave it out")
    if threshold is not None and task not in CLASSIFYING:
        raise InputError("--threshold is for models that tell classes or labels; this one does not, leave it out")
    if positive is not None and threshold is None:
        raise InputError("--positive names the class that a threshold decides on; give --threshold too")


def _empty(text: Text, *, pairs: bool) -> bool:
    """Whether there is nothing to read in a text, or in one of two with a tab between."""
    parts = text.content.split("\t", 1) if pairs else [text.content]
    return not all(part.strip() for part in parts)


def _parts(text: Text, pair: str | None, pairs: bool | None) -> Any:
    """What the model reads of one text: the text, or two.

    Raises:
        InputError: for one text where the model reads two.
    """
    if pair is not None:
        return text.content, pair
    first, tab, second = text.content.partition("\t")
    if pairs is False or (pairs is None and not tab):
        return text.content
    if not tab:
        raise InputError(
            f"{text.where}: the model reads two texts; give them with a tab between, or the second by --pair"
        )
    return first, second


def _line(answer: Classification | Labelling | Rating | Ratings | None) -> str:
    if answer is None:
        return "\n"
    if hasattr(answer, "values"):
        return "\t".join(f"{value:.4f}" for value in answer.values.values()) + "\n"  # type: ignore[union-attr]
    if hasattr(answer, "labels"):
        names = ", ".join(" ".join(label.split()) for label in answer.labels)  # type: ignore[union-attr]
        return f"{names}\t{', '.join(f'{answer.probabilities[each]:.4f}' for each in answer.labels)}\n"  # type: ignore[union-attr]
    if hasattr(answer, "value"):
        return f"{answer.value:.4f}\n"  # type: ignore[union-attr]
    return f"{' '.join(answer.label.split())}\t{answer.probability:.4f}\n"  # type: ignore[union-attr]


def _object(text: Text, answer: Classification | Labelling | Rating | Ratings | None) -> dict[str, Any]:
    if answer is None:
        return {"text": text.content}
    said: dict[str, Any] = {"text": answer.text}
    if hasattr(answer, "value"):
        return said | {"value": answer.value}  # type: ignore[union-attr]
    if hasattr(answer, "values"):
        return said | {"values": answer.values}  # type: ignore[union-attr]
    if hasattr(answer, "labels"):
        return said | {"labels": list(answer.labels), "probabilities": answer.probabilities}  # type: ignore[union-attr]
    return said | {"label": answer.label, "probabilities": answer.probabilities}  # type: ignore[union-attr]
