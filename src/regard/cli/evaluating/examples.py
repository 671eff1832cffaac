"""`regard evaluate` for models that read whole texts: classifiers, taggers and the like."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.cli.answers import write_records
from regard.cli.console import NewFile, text_bar
from regard.cli.evaluating.report import Report, counted, say_malformed, timed
from regard.cli.evaluating.request import Request
from regard.cli.inputs import opened
from regard.errors import InputError
from regard.rendering import class_text, metric_rows

if TYPE_CHECKING:
    from regard.tasks.spec import TaskSpec

OWN = ("train", "validation", "validation_share", "validation_size", "alphabets", "validation_alphabets")
"""What a recipe says of its own data, and does not hold for others."""


DECIDING = ("positive", "threshold")
"""Settings of data that say how answers are decided, and may be options."""


def evaluate_examples(request: Request, file: NewFile | None) -> Report:
    """Measure a model on examples that it has not seen.

    Arguments:
        request: its places are files of examples, its settings entries of the recipe's `data` section, on top of those that the
            model was trained with, such as `format`.
        file: where to write each example with its right answer and the predicted one, a JSON object in each line; or a table,
            where its name ends in .csv or .tsv.

    Raises:
        InputError: for an option or a setting that does not fit, or examples that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.structure import from_mapping
    from regard.tasks.evaluation import evaluate
    from regard.tasks.kinds import kind_of

    predictor = opened(request.model, request.device)
    task = predictor.task.name
    kind = kind_of(task)
    fields = {part.name for part in dataclasses.fields(kind.sections["data"])}
    request.refuse_options(task, but=[name for name in DECIDING if name in fields])
    settings = request.settings_and(*DECIDING)
    if kind.read is None:
        raise InputError(f"{request.model}: there is no measuring of models for task {task} yet")
    trained = {key: value for key, value in (predictor.recipe.get("data") or {}).items() if key not in OWN}
    if request.places and "train" not in fields:
        raise InputError(f"{request.places[0]}: task {task} draws its own data; give settings alone, key=value")
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
            raise InputError(f"task {task} has no answer for each example, only figures; leave out --output")
        write_records(
            file, [_record(kind, predictor.task, *both) for both in zip(examples, found.predictions, strict=True)]
        )
    said = {part.name: getattr(found, part.name) for part in dataclasses.fields(found) if part.name != "predictions"}
    rows = [counted("examples", found.count, seconds)]
    of = said.get("positive")
    rows += metric_rows(
        found.metrics, predictor.task.metric_words() | ({"f1": f"F1 of {of}"} if of is not None else {})
    )
    for name, score in said.get("classes", {}).items():
        rows.append((f"  {name}", class_text(score.precision, score.recall, score.f1, score.gold)))
    if said.get("threshold") is not None:
        rows.append(("threshold", f"{said['threshold']:g}" + (f" of {of}" if of is not None else "")))
    return Report({"malformed": malformed.total, **_plain(said), "seconds": seconds}, rows)


def _record(kind: TaskSpec, task: Any, example: Any, prediction: Any) -> dict[str, Any]:
    return dataclasses.asdict(prediction) if kind.beside is None else kind.beside(task, example, prediction)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
