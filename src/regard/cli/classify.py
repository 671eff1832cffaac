"""`regard classify`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import renamed
from regard.cli.console import NewFile
from regard.cli.inputs import ImageText, Support, Text, columns_trained_on, images_named, labelled_images
from regard.cli.run import Answers, Texts, verb
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.classification import Classification
    from regard.tasks.few_shot import FewShotClassifier
    from regard.tasks.image_classification import ImageClassifierPredictor
    from regard.tasks.images import ImageClassification, ImageInput
    from regard.tasks.multi_label import Labelling
    from regard.tasks.regression import Rating, Ratings

CLASSIFYING = ("classification", "multi_label_classification")
"""The tasks whose predictions are classes or labels of texts."""


@renamed(shown="support")
@verb(
    *("classification", "multi_label_classification", "regression", "multi_output_regression"),
    *("image_classification", "few_shot"),
    texts="Texts to classify; by default --input or standard input. For an image model: image files, folders or zips of "
    "them.",
    input_file="One text per line, or two separated by a tab; or a CSV, TSV or JSONL table. The column that is read is "
    "printed. Optionally gzipped.",
    as_json="Print one JSON object, with the probability of every class.",
)
def classify(
    run: Texts,
    pair: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The second text, for a model of text pairs.", show_default=False),
    ] = None,
    support: Support = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="The class that --threshold applies to; by default the second of two.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="The lowest probability at which that class is predicted; below it the most probable other class. For a "
            "multi-label model: the threshold of each label.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Classify texts, pairs of texts or images: one output line each, with the class and its probability.

    A multi-label model prints the labels above the threshold, separated by commas, and the probability of each. A regression
    model, such as for sentence similarity, prints its number or numbers, separated by tabs. For images the line begins with
    the file name; digits is the test set of scikit-learn's digits, digits:4 its fifth image.

    \b
    Example:
      regard classify runs/spam "WINNER!! Claim your prize now" "see you at eight"
      regard classify runs/paraphrases "It rains." --pair "Rain is falling."
      regard classify runs/spam --input messages.txt --output classes.tsv
      regard classify runs/spam --input messages.txt --json
      regard classify runs/spam --input messages.txt --positive spam --threshold 0.3
      regard classify runs/mnist seven.png scans.zip
      regard classify runs/few-shot --support letters/ unknown.png
    """  # noqa: D301  # \b keeps the lines of the example apart
    if pair is not None and (run.input_file is not None or run.count != 1):
        raise InputError("--pair goes with one TEXT; in a file, write each pair on one line with a tab between")
    with run.file() as file:
        from regard.tasks.loading import task_of

        task = task_of(run.model)
        if task in ("image_classification", "few_shot"):
            given = (
                ("--pair", pair),
                ("--input", run.input_file),
                ("--positive", positive),
                ("--threshold", threshold),
            )
            for name, value in given:
                if value is not None:
                    raise InputError(
                        f"{name} is for models that read texts; this one reads images; name image files instead"
                    )
            _classify_images(run, file, support)
            return
        if support is not None:
            raise InputError("--support is for few-shot models; this one reads texts; leave it out")
        waiting = run.read(pairs=True, known=columns_trained_on(run.model))
        _check_deciding(task, positive, threshold)
        rates = task in ("regression", "multi_output_regression")
        predictor: Any = run.load(None if rates or task in CLASSIFYING else "classification")
        ask = predictor.rate_batch if rates else predictor.classify_batch
        deciding = {
            name: value for name, value in (("positive", positive), ("threshold", threshold)) if value is not None
        }

        def answer(chunk: list[Text]) -> Any:
            return ask([_parts(text, pair, predictor.task.pairs) for text in chunk], **deciding)

        empty = functools.partial(_empty, pairs=pair is None and predictor.task.pairs is not False)
        run.write(RATINGS if rates else CLASSES, waiting, answer, file=file, watched=predictor, empty=empty)


def _check_deciding(task: str, positive: str | None, threshold: float | None) -> None:
    """Refuse `positive` or `threshold` for a model without classes.

    Raises:
        InputError: with the name of the option.
    """
    if positive is not None and task != "classification":
        raise InputError("--positive is for models that give one class to each text; this one does not; leave it out")
    if threshold is not None and task not in CLASSIFYING:
        raise InputError("--threshold is for models that give classes or labels; this one does not; leave it out")
    if positive is not None and threshold is None:
        raise InputError("--positive names the class that a threshold applies to; give --threshold too")


def _empty(text: Text, *, pairs: bool) -> bool:
    """Whether a text is empty, or one of two texts separated by a tab."""
    parts = text.content.split("\t", 1) if pairs else [text.content]
    return not all(part.strip() for part in parts)


def _parts(text: Text, pair: str | None, pairs: bool | None) -> Any:
    """The model's input for one line: a text, or two.

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
            f"{text.where}: the model reads two texts; separate them by a tab, or give the second with --pair"
        )
    return first, second


def _line(text: Text, answer: Classification | Labelling | Rating | Ratings | None) -> str:
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


def _values(text: Text, answer: Classification | Labelling | Rating | Ratings | None) -> dict[str, Any]:
    if answer is None:
        return {"text": text.content}
    found: dict[str, Any] = {"text": answer.text}
    if hasattr(answer, "value"):
        return found | {"value": answer.value}  # type: ignore[union-attr]
    if hasattr(answer, "values"):
        return found | {"values": answer.values}  # type: ignore[union-attr]
    if hasattr(answer, "labels"):
        return found | {"labels": list(answer.labels), "probabilities": answer.probabilities}  # type: ignore[union-attr]
    return found | _classified(answer)


def _classified(answer: Any) -> dict[str, Any]:
    return {"label": answer.label, "probability": answer.probability, "probabilities": answer.probabilities}


CLASSES = Answers(command="classify", name="classifications", line=_line, values=_values)
RATINGS = Answers(command="classify", name="ratings", line=_line, values=_values)


# Models that classify images.


IMAGES_TOGETHER = 256


def _classify_images(run: Texts, file: NewFile | None, support: Path | None) -> None:
    """Classify images: one line each, with its name, the class and its probability.

    Arguments:
        run: the options of the command.
        file: the output file; None for standard output.
        support: for a few-shot model, its labelled images: CLASS/IMAGE in a folder or zip archive.

    Raises:
        InputError: without images, for one that cannot be read, and for labelled images that the model does not use, or needs but
            does not get.
    """
    if not run.texts:
        raise InputError(
            "this model reads images, and there is none; name files, a folder or a zip archive, or digits:0"
        )
    predictor = run.load()
    named = images_named(run.texts, predictor)
    ask = _asked(predictor, support)

    def answer(chunk: list[Text]) -> Any:
        return ask([each.image for each in chunk if isinstance(each, ImageText)])

    run.write(IMAGES, iter(named), answer, file=file, together=IMAGES_TOGETHER)


def _asked(
    predictor: ImageClassifierPredictor | FewShotClassifier, support: Path | None
) -> Callable[[Sequence[ImageInput]], Sequence[ImageClassification]]:
    """The function that classifies images; a few-shot classifier is given its labelled images."""
    from regard.tasks.few_shot import FewShotClassifier

    if not isinstance(predictor, FewShotClassifier):
        if support is not None:
            raise InputError("--support is for few-shot models; this one knows its classes; leave it out")
        return predictor.classify_batch
    return partial(predictor.classify_batch, labelled_images(support, predictor))


def _image_line(text: Text, found: ImageClassification | None) -> str:
    name = " ".join(text.content.split())
    return f"{name}\n" if found is None else f"{name}\t{' '.join(found.label.split())}\t{found.probability:.4f}\n"


def _image_values(text: Text, found: ImageClassification | None) -> dict[str, Any]:
    right = {"reference": text.caption} if isinstance(text, ImageText) and text.caption else {}
    return {"image": text.content, **({} if found is None else _classified(found)), **right}


IMAGES = Answers(command="classify", name="classifications", line=_image_line, values=_image_values)
