"""`regard evaluate` for text-to-text models."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import generation_options as options
from regard.cli.console import metric_text, print_json, print_table, say
from regard.cli.new_file import NewFile
from regard.cli.opening import opened
from regard.cli.text_bar import text_bar
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.text_to_text.data import TextToTextData

OF_READING = ("source", "target", "format", "on_error")
"""What is said of how a part's files are read."""


def evaluate_text_to_text(
    model: Path,
    places: Sequence[str],
    settings: Mapping[str, Any],
    unfit: Sequence[str],
    limit: int | None,
    output: Path | None,
    batch_size: int,
    as_json: bool,
    device: str,
) -> None:
    """Measure a text-to-text model on pairs that it has not seen.

    Arguments:
        places: a file of pairs or of questions, or two parallel files.
        settings: `part`, the part of a mixture that the pairs belong to; how the files are read, on top of what the model was
            trained with, such as `format`; and settings of decoding.
        unfit: options that were given and are only for other models.
        limit: the most pairs.
        output: where to write what is written, a line for each pair.

    Raises:
        InputError: for an option that does not fit, a part that is not there, or pairs that cannot be read.
    """
    if unfit:
        raise InputError(f"{unfit[0]} is no option for task text_to_text; leave it out")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.malformed import MalformedRows
        from regard.tasks.evaluation import evaluate
        from regard.tasks.text_to_text.examples import reader

        writer = opened(model, device, "text_to_text")
        part = settings.get("part")
        writer.task.prefix_of(part)
        generation = options.with_options(
            writer.task.generation, {key: value for key, value in settings.items() if key not in (*OF_READING, "part")}
        )
        data = _reading(writer.recipe.get("data") or {}, part, settings)
        malformed = MalformedRows()
        read = reader(data, places[0] if len(places) == 1 else tuple(places), None, "test", "data")
        if read is None or not places:
            raise InputError("no file of pairs is given; name one")
        examples = list(itertools.islice(read(malformed), limit))
        if malformed.total:
            say(malformed.summary())
        started = time.monotonic()
        with text_bar(writer, len(examples)):
            found = evaluate(writer, examples, generation, part=part, batch_size=batch_size)
        seconds = time.monotonic() - started
        if file is not None:
            for written in found.predictions:
                file.write(" ".join(written.text.split()) + "\n")
    if found.note:
        say(found.note)
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": list(places),
                "part": part,
                "count": found.count,
                "cut": found.cut,
                "malformed": malformed.total,
                "metrics": found.metrics,
                "signatures": found.signatures,
                "generation": dataclasses.asdict(generation),
                "seconds": round(seconds, 3),
            }
        )
        return
    rows = [("pairs", f"{found.count:,} in {seconds:.1f} seconds")]
    if found.cut:
        rows.append(("cut", f"{found.cut:,} sources, of which the beginning was read"))
    for name, value in found.metrics.items():
        words, number = metric_text(name, value)
        rows.append((words, f"{number}  {found.signatures.get(name, '')}".rstrip()))
    print_table(rows)


def _reading(trained: Mapping[str, Any], part: str | None, settings: Mapping[str, Any]) -> TextToTextData:
    """How files are read: as those of the part in training, unless settings say otherwise."""
    from regard.structure import from_mapping
    from regard.tasks.text_to_text.data import TextToTextData

    own = (trained.get("parts") or {}).get(part) or trained
    said = {
        **{key: own.get(key) for key in OF_READING},
        **{key: settings.get(key) for key in OF_READING if key in settings},
    }
    return from_mapping(TextToTextData, {key: value for key, value in said.items() if value is not None}, "data")
