"""`regard evaluate` for models that read whole texts: classifiers, taggers and the like."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.cli.console import metric_text, print_json, print_table, say
from regard.cli.new_file import NewFile
from regard.cli.opening import opened
from regard.cli.text_bar import text_bar
from regard.errors import InputError

OWN = ("train", "validation", "validation_share", "alphabets", "validation_alphabets")
"""What a recipe says of its own data, and does not hold for others."""


def evaluate_examples(
    model: Path,
    places: Sequence[str],
    settings: Mapping[str, Any],
    unfit: Sequence[str],
    limit: int | None,
    output: Path | None,
    as_json: bool,
    device: str,
) -> None:
    """Measure a model on examples that it has not seen.

    Arguments:
        places: files of examples.
        settings: entries of the recipe's `data` section, on top of those that the model was trained with, such as `format`.
        unfit: options that were given and are only for other models.
        limit: the most examples.
        output: where to write each prediction, a JSON object in each line.

    Raises:
        InputError: for an option that does not fit, or examples that cannot be read.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.malformed import MalformedRows
        from regard.structure import from_mapping
        from regard.tasks.evaluation import evaluate
        from regard.tasks.kinds import kind_of

        predictor = opened(model, device)
        kind = kind_of(predictor.task.name)
        if unfit or kind.read is None:
            raise InputError(
                f"{unfit[0] if unfit else model}: is no option for task {predictor.task.name}; leave it out"
            )
        trained = {key: value for key, value in (predictor.recipe.get("data") or {}).items() if key not in OWN}
        fields = {part.name for part in dataclasses.fields(kind.sections["data"])}
        if places and "train" not in fields:
            raise InputError(
                f"{places[0]}: task {predictor.task.name} draws its own data; give settings alone, key=value"
            )
        files = {"train": list(places)} if places else {}
        section = from_mapping(kind.sections["data"], {**trained, **settings, **files}, "data")
        malformed = MalformedRows()
        examples = list(itertools.islice(kind.read(section, malformed), limit))
        if malformed.total:
            say(malformed.summary())
        started = time.monotonic()
        with text_bar(predictor, len(examples)):
            found = evaluate(predictor, examples)
        seconds = time.monotonic() - started
        if file is not None:
            for prediction in found.predictions:
                file.write(json.dumps(dataclasses.asdict(prediction), ensure_ascii=False) + "\n")
    said = {part.name: getattr(found, part.name) for part in dataclasses.fields(found) if part.name != "predictions"}
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": list(places),
                "malformed": malformed.total,
                **_plain(said),
                "seconds": round(seconds, 3),
            }
        )
        return
    rows = [("examples", f"{found.count:,} in {seconds:.1f} seconds")]
    rows += [metric_text(name, value) for name, value in found.metrics.items()]
    for name, score in said.get("classes", {}).items():
        rows.append((f"  {name}", f"precision {score.precision:.3f}, recall {score.recall:.3f}, F1 {score.f1:.3f}"))
    print_table(rows)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
