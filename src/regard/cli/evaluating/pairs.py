"""`regard evaluate` for translators."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli import generation_options
from regard.cli.answers import line_of
from regard.cli.console import NewFile, say, text_bar
from regard.cli.evaluating.given_pairs import builtin_test, is_builtin, read_files
from regard.cli.evaluating.report import Report, counted, metric_rows, say_malformed, timed
from regard.cli.evaluating.request import Request
from regard.cli.inputs import Text, opened, refuse_too_long
from regard.errors import InputError
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.tasks.translation import LengthBin

USUAL_SIZE = 2_000


def evaluate_pairs(request: Request, file: NewFile | None) -> Report:
    """Measure a translator on pairs: a file of them, two parallel files, or builtin ones.

    Arguments:
        request: its settings are of decoding, and `precision`.
        file: where to write the translations, one in each line.

    Raises:
        InputError: for settings that are unknown or contradict each other, pairs that cannot be read, or a source that is too
            long for the model.
    """
    from regard.data.malformed import MalformedRows
    from regard.tasks.evaluation import evaluate

    settings = request.settings_and("beam", "length_penalty")
    precision = str(settings.pop("precision", "float32"))
    generation_options.check_known(settings)
    source, target, to = (request.options[name] for name in ("source", "target", "to"))
    bins = _numbers(request.options["bins"])
    malformed = MalformedRows()
    builtin = is_builtin(request.places, source, target)
    found = None if builtin else read_files(request.places, source, target, malformed)
    translator = opened(request.model, request.device, "translation", precision=precision)
    translator.task.check_language(to)
    generation = generation_options.with_options(translator.task.generation, settings)
    if found is None:
        found = builtin_test(request.places[0], translator.recipe, to, request.limit or USUAL_SIZE)
    pairs = list(itertools.islice(found, request.limit))
    say_malformed(malformed)
    refuse_too_long(translator, [Text(pair.source, f"{pair.file}, line {pair.line}") for pair in pairs], to)
    texts = [(pair.source, pair.target) for pair in pairs]
    with text_bar(translator, len(pairs)):
        result, seconds = timed(
            lambda: evaluate(translator, texts, generation, to=to, bins=bins, batch_size=request.batch_size)
        )
    if file is not None:
        for translation in result.translations:
            file.write(line_of(translation))
    if result.note:
        say(result.note)
    return Report(
        {
            "to": to,
            "precision": precision,
            "count": result.count,
            "malformed": malformed.total,
            "metrics": result.metrics,
            "bins": [dataclasses.asdict(found) for found in result.bins],
            "signatures": result.signatures,
            "generation": dataclasses.asdict(generation),
            "seconds": seconds,
        },
        [counted("pairs", result.count, seconds), *metric_rows(result.metrics, result.signatures)],
        _lines(result.bins),
    )


def _numbers(bins: str | None) -> list[int] | None:
    """The upper ends of bins of lengths.

    Raises:
        InputError: where they are no whole numbers.
    """
    if bins is None:
        return None
    try:
        return [int(end) for end in bins.split(",")]
    except ValueError:
        raise InputError(f"--bins is {bins!r}; give rising numbers of words, such as 10,15,20") from None


def _lines(bins: Sequence[LengthBin]) -> list[str]:
    """One line for each bin, under one that names the columns; a bin without pairs has no numbers."""
    if not bins:
        return []
    names = list(dict.fromkeys(name for found in bins for name in found.metrics))
    lines = [["source words", "pairs", *(metric_text(name, 0)[0] for name in names)]]
    for found in bins:
        numbers = [metric_text(name, found.metrics[name])[1] if found.metrics else "-" for name in names]
        lines.append([found.name, f"{found.count:,}", *numbers])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "",
        *("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines),
    ]
