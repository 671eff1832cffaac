"""`regard evaluate` for language models."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from regard.cli.console import NewFile
from regard.cli.evaluating.report import Report, counted, say_malformed, timed
from regard.cli.evaluating.request import Request
from regard.cli.inputs import opened
from regard.errors import InputError
from regard.rendering import metric_text

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.tasks.language_modelling import LanguageModel

PYTHON_DOCS = "python_docs"
MELODIES = 100
"""Builtin melodies that are read unless fewer are asked for."""


def evaluate_texts(request: Request, file: NewFile | None) -> Report:
    """Measure a language model on texts it has not seen.

    Arguments:
        request: its places are files of text, or `python_docs`, whose test split is taken; for a model of music MIDI files,
            folders, files of chorales, whose test split is taken too, or `motifs`. Of settings there are `stride`, of the windows
            that texts are read in which are longer than the model has positions for, and `precision`.
        file: where to write the perplexity and each text, a tab between.

    Raises:
        InputError: for other options or settings, or texts that cannot be read.
    """
    from regard.data.malformed import MalformedRows
    from regard.structure import coerced
    from regard.tasks.evaluation import evaluate

    request.refuse_options("language_modelling")
    for name in request.settings:
        if name not in ("stride", "precision"):
            raise InputError(f"{name} is no setting for task language_modelling; leave it out")
    stride = coerced(request.settings.get("stride"), int | None, "stride")
    precision = str(request.settings.get("precision", "float32"))
    malformed = MalformedRows()
    model = opened(request.model, request.device, "language_modelling", precision=precision)
    unit = (model.recipe.get("data") or {}).get("unit", "line")
    found_texts = _pieces(request.places, model, malformed) or _texts(request.places, unit, malformed)
    texts = list(itertools.islice(found_texts, request.limit))
    say_malformed(malformed)
    found, seconds = timed(lambda: evaluate(model, texts, batch_size=request.batch_size, stride=stride))
    if file is not None:
        for score in found.scores:
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
    """The words of pieces of music, for a model that reads such; None for one of texts."""
    from regard.cli.inputs import MOTIFS, test_melodies
    from regard.data.music import read_pieces
    from regard.tasks.language_modelling import writing_of
    from regard.text.events import EVENTS

    if model.task.tokenizer.kind not in EVENTS:
        return None
    if list(places) == [MOTIFS]:
        return test_melodies(model, MELODIES)
    return read_pieces(places, writing_of(model), split="test", malformed=malformed)


def _texts(places: Sequence[str], unit: str, malformed: MalformedRows) -> Iterator[str]:
    from regard.data.python_docs import python_docs
    from regard.data.running_text import read_texts

    if list(places) == [PYTHON_DOCS]:
        return python_docs("test")
    return read_texts(places, unit=unit, malformed=malformed)
