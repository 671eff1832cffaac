"""`regard evaluate` for captioners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from regard.cli import generation_options
from regard.cli.console import NewFile, say
from regard.cli.evaluating.report import Report, counted, metric_rows, timed
from regard.cli.evaluating.request import Request
from regard.cli.inputs import opened, scenes_to_test
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.caption_data import CaptionExample

USUAL_SIZE = 1_000


def evaluate_captions(request: Request, file: NewFile | None) -> Report:
    """Measure a captioner on a file of captions and its pictures, or on builtin scenes.

    Arguments:
        request: its places are a file of captions and a folder or zip of pictures, or `scenes`; its settings are of decoding.
        file: where to write the captions, one in each line.

    Raises:
        InputError: for other places or options, or what cannot be read.
    """
    from regard.tasks.captioning import evaluate

    request.refuse_options("captioning", but=("beam", "length_penalty"))
    places, limit = request.places, request.limit
    scenes = list(places) == ["scenes"]
    if not scenes and len(places) != 2:
        raise InputError("a captioner is measured on a file of captions and its pictures; give both, or scenes")
    captioner = opened(request.model, request.device, "captioning")
    generation = generation_options.with_options(
        captioner.task.generation, request.settings_and("beam", "length_penalty")
    )
    examples: Sequence[Any] = (
        list(scenes_to_test(captioner, limit or USUAL_SIZE)) if scenes else _read(places, captioner, limit)
    )
    result, seconds = timed(lambda: evaluate(captioner, examples, generation, batch_size=request.batch_size))
    if file is not None:
        for found in result.captions:
            file.write(" ".join(found.text.split()) + "\n")
    return Report(
        {
            "count": result.count,
            "metrics": result.metrics,
            "signatures": result.signatures,
            "generation": asdict(generation),
            "seconds": seconds,
        },
        [counted("pictures", result.count, seconds), *metric_rows(result.metrics, result.signatures)],
    )


def _read(places: Sequence[str], captioner: Any, limit: int | None) -> list[CaptionExample]:
    from regard.tasks.caption_data import examples_in

    notes: list[str] = []
    colour = captioner.task.size.channels == 3
    examples = examples_in(places[0], places[1], colour=colour, on_error="skip", notes=notes)
    for note in notes:
        say(note)
    return list(islice(examples, limit))
