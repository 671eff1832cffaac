"""`regard evaluate`, and the evaluation of language models and of models with one prediction per example."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import NewFile, envelope, print_json, print_table, say, say_malformed, text_bar
from regard.cli.evaluate_generation import (
    Report,
    Request,
    counted,
    evaluate_captions,
    evaluate_pairs,
    evaluate_text_to_text,
    timed,
)
from regard.cli.inputs import MOTIFS, opened, test_melodies
from regard.cli.run import write_records
from regard.cli.settings import DECODING, NOTHING, BatchSize, Device, Given, Json, Model, To, grouped, split_settings
from regard.errors import InputError
from regard.rendering import class_text, metric_rows, metric_text

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.tasks.language_modelling import LanguageModel
    from regard.tasks.spec import TaskSpec


@grouped()
def evaluate(
    model: Model,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A TSV, CSV or JSONL file, or two files (source, target), optionally gzipped; or dates, dates:typos or "
            "sequences. For a language model: text files, or python_docs. For a classifier: files of examples. For a "
            "captioner: captions and their images, or scenes. Settings may follow: beam=5 for decoding, format=sst2 for the "
            "file format.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the source: index from 0, name or key.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the target, in the same way.")] = None,
    to: To = None,
    bins: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Also report scores by source length in words, such as 10,15,20.",
            show_default=False,
        ),
    ] = None,
    decoding: Annotated[Given, DECODING.only("beam", "length_penalty")] = NOTHING,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="For a classifier: the class F1 is computed for; by default the second of two.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="For a classifier: the lowest probability at which that class, or a label, is predicted. For question "
            "answering: how far the no-answer score must lead to predict no answer.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Use only the first N examples.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the predictions. Models that generate text: one line per example. Language models: the perplexity of "
            "each text, and the text. Others: each example with its reference, prediction, probabilities and other columns, "
            "as JSON lines, or as a table if FILE ends in .csv or .tsv.",
        ),
    ] = None,
    device: Device = "auto",
    batch_size: BatchSize = 64,
    as_json: Json = False,
) -> None:
    """Evaluate a model on held-out data.

    Translators are scored by exact match, BLEU and chrF, language models by perplexity, classifiers by accuracy, F1 and
    Matthews' correlation, and so on. A file has the format of the training data unless settings say otherwise.

    BLEU and chrF are sacreBLEU's, printed with its signature. For builtin data the test split is used, 2,000 pairs unless
    --limit is given. dates:typos has one typo in each text; sequences is the model's own problem, and sequences:longest=40
    changes it.

    \b
    Example:
      regard evaluate runs/dates dates
      regard evaluate runs/en-de test.en test.de beam=5 length_penalty=1.0 --bins 10,15,20
      regard evaluate runs/one-to-many test.en test.fr --to fr
      regard evaluate runs/language-model test.txt
      regard evaluate runs/gpt test.txt stride=32
      regard evaluate runs/gpt test.txt dtype=int8
      regard evaluate runs/sentiment dev.tsv format=sst2
      regard evaluate runs/spam test.csv --positive spam --threshold 0.3
      regard evaluate runs/spam test.csv --output predicted.csv
      regard evaluate runs/t5 dev.jsonl part=summaries beam=4
      regard evaluate runs/flickr8k captions.dev.tsv images.dev.zip beam=5
      regard evaluate runs/mine test.csv --source question --target answer --output answers.txt --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import task_of

    places, settings = split_settings(data)
    if "precision" in settings:
        say("warning: precision= is called dtype= now; the old name will be removed in the next release")
        settings["dtype"] = settings.pop("precision")
    request = Request(
        model=model,
        places=places,
        settings=settings,
        options={
            "source": source,
            "target": target,
            "to": to,
            "bins": bins,
            **decoding,
            "positive": positive,
            "threshold": threshold,
        },
        limit=limit,
        batch_size=batch_size,
        device=device,
    )
    measure = EVALUATIONS.get(task_of(model), evaluate_examples)
    with NewFile(output) if output is not None else contextlib.nullcontext() as file:
        report = measure(request, file)
    if as_json:
        print_json(envelope("evaluate") | {"model": str(model), "data": places, **report.values})
        return
    print_table(report.rows)
    for line in report.below:
        print(line)


# Models that predict each example separately: classifiers, taggers and others.


OWN = ("train", "validation", "validation_share", "validation_size", "alphabets", "validation_alphabets")
"""Fields of a recipe's data section that describe its own data and do not apply to other data."""


DECIDING = ("positive", "threshold")
"""Fields of data sections that affect predictions and are also options."""


def evaluate_examples(request: Request, file: NewFile | None) -> Report:
    """Evaluate a model on held-out examples.

    Arguments:
        request: its places are files of examples; its settings are fields of the recipe's `data` section, such as `format`, which
            replace those of training.
        file: for each example with its reference and prediction: JSON lines, or a table if its name ends in .csv or .tsv; None
            for no file.

    Raises:
        InputError: for an option or setting that does not apply, and for examples that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.structure import from_mapping
    from regard.tasks.evaluation import evaluate
    from regard.tasks.spec import spec_of

    predictor = opened(request.model, request.device)
    task = predictor.task.name
    kind = spec_of(task)
    fields = {part.name for part in dataclasses.fields(kind.sections["data"])}
    request.refuse_options(task, but=[name for name in DECIDING if name in fields])
    settings = request.settings_and(*DECIDING)
    if kind.read is None:
        raise InputError(f"{request.model}: models for task {task} cannot be evaluated yet")
    trained = {key: value for key, value in (predictor.recipe.get("data") or {}).items() if key not in OWN}
    if request.places and "train" not in fields:
        raise InputError(f"{request.places[0]}: task {task} generates its own data; give only settings, key=value")
    files = {"train": list(request.places)} if request.places else {}
    section = from_mapping(kind.sections["data"], {**trained, **settings, **files}, "data")
    asked = {name: getattr(section, name) for name in DECIDING if name in settings and name in fields}
    malformed = MalformedRows()
    examples = list(itertools.islice(kind.read(section, malformed), request.limit))
    say_malformed(malformed)
    with text_bar(predictor, len(examples)):
        found, seconds = timed(lambda: evaluate(predictor, examples, **asked))
    if file is not None:
        if not found.predictions:
            raise InputError(f"task {task} has no prediction for each example, only metrics; leave out --output")
        write_records(
            file, [_record(kind, predictor.task, *both) for both in zip(examples, found.predictions, strict=True)]
        )
    found_values = {
        part.name: getattr(found, part.name) for part in dataclasses.fields(found) if part.name != "predictions"
    }
    rows = [counted("examples", found.count, seconds)]
    of = found_values.get("positive")
    rows += metric_rows(
        found.metrics, predictor.task.metric_words() | ({"f1": f"F1 of {of}"} if of is not None else {})
    )
    for name, score in found_values.get("classes", {}).items():
        rows.append((f"  {name}", class_text(score.precision, score.recall, score.f1, score.gold)))
    if found_values.get("threshold") is not None:
        rows.append(("threshold", f"{found_values['threshold']:g}" + (f" of {of}" if of is not None else "")))
    return Report({"malformed": malformed.total, **_plain(found_values), "seconds": seconds}, rows)


def _record(kind: TaskSpec, task: Any, example: Any, prediction: Any) -> dict[str, Any]:
    return dataclasses.asdict(prediction) if kind.record is None else kind.record(task, example, prediction)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


# Language models.


PYTHON_DOCS = "python_docs"
MELODIES = 100
"""The number of builtin melodies that are read by default."""


def evaluate_texts(request: Request, file: NewFile | None) -> Report:
    """Evaluate a language model on held-out texts.

    Arguments:
        request: its places are text files, or `python_docs`, whose test split is used; for a model of music, MIDI files, folders,
            files of chorales, whose test split is used too, or `motifs`. Its settings are `stride`, the step between the windows
            in which texts longer than the model's maximum are read, and `dtype`.
        file: for the perplexity and each text, separated by a tab; None for no file.

    Raises:
        InputError: for other options or settings, and texts that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.structure import coerced
    from regard.tasks.evaluation import evaluate

    request.refuse_options("language_modelling")
    for name in request.settings:
        if name not in ("stride", "dtype"):
            raise InputError(f"{name} is no setting for task language_modelling; leave it out")
    stride = coerced(request.settings.get("stride"), int | None, "stride")
    dtype = str(request.settings.get("dtype", "float32"))
    malformed = MalformedRows()
    model = opened(request.model, request.device, "language_modelling", dtype=dtype)
    unit = (model.recipe.get("data") or {}).get("unit", "line")
    found_texts = _pieces(request.places, model, malformed) or _texts(request.places, unit, malformed)
    texts = list(itertools.islice(found_texts, request.limit))
    say_malformed(malformed)
    found, seconds = timed(lambda: evaluate(model, texts, batch_size=request.batch_size, stride=stride))
    if file is not None:
        for score in found.predictions:
            file.write(f"{score.perplexity:.4f}\t{' '.join(score.text.split())}\n")
    return Report(
        {
            "unit": unit,
            "stride": stride,
            "count": found.count,
            "tokens": found.tokens,
            "words": found.words,
            "characters": found.characters,
            "unknown": found.unknown,
            "malformed": malformed.total,
            "metrics": found.metrics,
            "seconds": seconds,
        },
        [
            counted("texts", found.count, seconds),
            ("tokens", f"{found.tokens:,}, of which {found.unknown:,} unknown"),
            *(metric_text(name, value) for name, value in found.metrics.items()),
        ],
    )


def _pieces(places: Sequence[str], model: LanguageModel, malformed: MalformedRows) -> Iterable[str] | None:
    """The words of pieces of music, for a model of music; None for a model of text."""
    from regard.data.music import read_pieces
    from regard.tasks.composing import writing_of
    from regard.text.events import EVENTS

    if model.task.tokenizer.kind not in EVENTS:
        return None
    if list(places) == [MOTIFS]:
        return test_melodies(model, MELODIES)
    return read_pieces(places, writing_of(model), split="test", malformed=malformed)


def _texts(places: Sequence[str], unit: str, malformed: MalformedRows) -> Iterator[str]:
    from regard.data.running_text import python_docs, read_texts

    if list(places) == [PYTHON_DOCS]:
        return python_docs("test")
    return read_texts(places, unit=unit, malformed=malformed)


EVALUATIONS = {
    "translation": evaluate_pairs,
    "language_modelling": evaluate_texts,
    "captioning": evaluate_captions,
    "text_to_text": evaluate_text_to_text,
}
"""By task; other tasks use `evaluate_examples`."""
