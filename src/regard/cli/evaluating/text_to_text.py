"""`regard evaluate` for text-to-text models."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.cli import generation_options
from regard.cli.console import NewFile, say, text_bar
from regard.cli.evaluating.report import Report, counted, metric_rows, say_malformed, timed
from regard.cli.evaluating.request import Request
from regard.cli.inputs import opened
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.text_to_text import TextToTextData

OF_READING = ("source", "target", "format", "on_error")
"""What is said of how a part's files are read."""


def evaluate_text_to_text(request: Request, file: NewFile | None) -> Report:
    """Measure a text-to-text model on pairs that it has not seen.

    Arguments:
        request: its places are a file of pairs or of questions, or two parallel files. Its settings are `part`, the part of a
            mixture that the pairs belong to; how the files are read, on top of what the model was trained with, such as `format`;
            and those of decoding.
        file: where to write what is written, a line for each pair.

    Raises:
        InputError: for an option that does not fit, a part that is not there, or pairs that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.tasks.evaluation import evaluate
    from regard.tasks.text_to_text import reader

    known = ("beam", "length_penalty", "source", "target")
    request.refuse_options("text_to_text", but=known)
    settings = request.settings_and(*known)
    part = settings.pop("part", None)
    reading = {name: settings.pop(name) for name in OF_READING if name in settings}
    writer = opened(request.model, request.device, "text_to_text")
    writer.task.prefix_of(part)
    generation = generation_options.with_options(writer.task.generation, settings)
    places = request.places[0] if len(request.places) == 1 else tuple(request.places)
    malformed = MalformedRows()
    read = reader(_reading(writer.recipe.get("data") or {}, part, reading), places, None, "test", "data")
    if read is None or not places:
        raise InputError("no file of pairs is given; name one")
    examples = list(itertools.islice(read(malformed), request.limit))
    say_malformed(malformed)
    with text_bar(writer, len(examples)):
        found, seconds = timed(lambda: evaluate(writer, examples, generation, part=part, batch_size=request.batch_size))
    if file is not None:
        for written in found.predictions:
            file.write(" ".join(written.text.split()) + "\n")
    if found.note:
        say(found.note)
    cut = [("cut", f"{found.cut:,} sources, of which the beginning was read")] if found.cut else []
    return Report(
        {
            "part": part,
            "count": found.count,
            "cut": found.cut,
            "malformed": malformed.total,
            "metrics": found.metrics,
            "signatures": found.signatures,
            "generation": dataclasses.asdict(generation),
            "seconds": seconds,
        },
        [counted("pairs", found.count, seconds), *cut, *metric_rows(found.metrics, found.signatures)],
    )


def _reading(trained: Mapping[str, Any], part: str | None, given: Mapping[str, Any]) -> TextToTextData:
    """How files are read: as those of the part in training, unless it was given otherwise."""
    from regard.structure import from_mapping
    from regard.tasks.text_to_text import TextToTextData

    own = (trained.get("parts") or {}).get(part) or trained
    said = {**{key: own.get(key) for key in OF_READING}, **given}
    return from_mapping(TextToTextData, {key: value for key, value in said.items() if value is not None}, "data")
