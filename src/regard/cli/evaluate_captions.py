"""`regard evaluate` for captioners."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import generation_options as options
from regard.cli.console import metric_text, print_json, print_table
from regard.cli.new_file import NewFile
from regard.cli.opening import opened
from regard.cli.pictures import scenes_to_test
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.captioning.examples import CaptionExample

USUAL_SIZE = 1_000


def evaluate_captions(
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
    """Measure a captioner on a file of captions and its pictures, or on builtin scenes.

    Arguments:
        places: a file of captions and a folder or zip of pictures; or `scenes`.
        settings: for decoding.
        unfit: options that were given and mean nothing here.

    Raises:
        InputError: for other places, or what cannot be read.
    """
    if unfit:
        raise InputError(f"{unfit[0]} means nothing for a captioner; leave it out")
    scenes = list(places) == ["scenes"]
    if not scenes and len(places) != 2:
        raise InputError("a captioner is measured on a file of captions and its pictures; give both, or scenes")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.tasks.captioning.evaluation import evaluate

        captioner = opened(model, device, "captioning")
        generation = options.with_options(captioner.task.generation, settings)
        count = limit or USUAL_SIZE
        examples: Sequence[Any] = list(scenes_to_test(captioner, count)) if scenes else _read(places, captioner, limit)
        started = time.monotonic()
        result = evaluate(captioner, examples, generation, batch_size=batch_size)
        seconds = time.monotonic() - started
        if file is not None:
            for found in result.captions:
                file.write(" ".join(found.text.split()) + "\n")
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": list(places),
                "count": result.count,
                "metrics": result.metrics,
                "signatures": result.signatures,
                "generation": asdict(generation),
                "seconds": round(seconds, 3),
            }
        )
        return
    rows = [("pictures", f"{result.count:,} in {seconds:.1f} seconds")]
    for name, value in result.metrics.items():
        words, number = metric_text(name, value)
        rows.append((words, f"{number}  {result.signatures.get(name, '')}"))
    print_table(rows)


def _read(places: Sequence[str], captioner: Any, limit: int | None) -> list[CaptionExample]:
    from regard.cli.console import say
    from regard.tasks.captioning.reading import examples_in

    notes: list[str] = []
    colour = captioner.task.size.channels == 3
    examples = examples_in(places[0], places[1], colour=colour, on_error="skip", notes=notes)
    for note in notes:
        say(note)
    return list(islice(examples, limit))
