"""`regard evaluate` for language models."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.console import metric_text, print_json, print_table, say
from regard.cli.new_file import NewFile
from regard.cli.opening import opened
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.tasks.language_modelling.language_model import LanguageModel

PYTHON_DOCS = "python_docs"
MELODIES = 100
"""Builtin melodies that are read unless fewer are asked for."""


def evaluate_texts(
    model: Path,
    places: Sequence[str],
    unfit: Sequence[str],
    limit: int | None,
    output: Path | None,
    batch_size: int,
    as_json: bool,
    device: str,
    stride: object = None,
    precision: object = "float32",
) -> None:
    """Measure a language model on texts it has not seen.

    Arguments:
        places: files of text, or `python_docs`, whose test split is taken; for a model of music MIDI files, folders, files of
            chorales, whose test split is taken too, or `motifs`.
        unfit: options and settings that were given and are only for pairs.
        limit: the most texts.
        output: where to write the perplexity and each text, a tab between.
        stride: of the windows that texts are read in which are longer than the model has positions for; None: half of these.
        precision: `float32`, `bfloat16`, `float16`, `int8` or `int4`.

    Raises:
        InputError: for an option that is for pairs, or texts that cannot be read.
    """
    if unfit:
        raise InputError(f"{unfit[0]} is for pairs, and {model} is a language model; leave it out")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.malformed import MalformedRows
        from regard.structure import coerced
        from regard.tasks.evaluation import evaluate

        step = coerced(stride, int | None, "stride")
        malformed = MalformedRows()
        language_model = opened(model, device, "language_modelling", precision=str(precision))
        unit = (language_model.recipe.get("data") or {}).get("unit", "line")
        found_texts = _pieces(places, language_model, malformed)
        texts = list(itertools.islice(found_texts or _texts(places, unit, malformed), limit))
        if malformed.total:
            say(malformed.summary())
        started = time.monotonic()
        found = evaluate(language_model, texts, batch_size=batch_size, stride=step)
        seconds = time.monotonic() - started
        if file is not None:
            for score in found.scores:
                file.write(f"{score.perplexity:.4f}\t{' '.join(score.text.split())}\n")
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": list(places),
                "unit": unit,
                "stride": step,
                "count": found.count,
                "tokens": found.tokens,
                "words": found.words,
                "characters": found.characters,
                "unknown": found.unknown,
                "malformed": malformed.total,
                "metrics": found.metrics,
                "seconds": round(seconds, 3),
            }
        )
        return
    rows = [
        ("texts", f"{found.count:,} in {seconds:.1f} seconds"),
        ("tokens", f"{found.tokens:,}, of which {found.unknown:,} unknown"),
    ]
    print_table([*rows, *(metric_text(name, value) for name, value in found.metrics.items())])


def _pieces(places: Sequence[str], model: LanguageModel, malformed: MalformedRows) -> Iterable[str] | None:
    """The words of pieces of music, for a model that reads such; None for one of texts."""
    from regard.cli.pieces import MOTIFS, test_melodies
    from regard.data.music import read_pieces
    from regard.tasks.language_modelling.composing import writing_of
    from regard.text.events import EVENTS

    if model.task.tokenizer.kind not in EVENTS:
        return None
    if list(places) == [MOTIFS]:
        return test_melodies(model, MELODIES)
    return read_pieces(places, writing_of(model), split="test", malformed=malformed)


def _texts(places: Sequence[str], unit: str, malformed: MalformedRows) -> Iterator[str]:
    from regard.data.python_docs import python_docs
    from regard.data.texts import read_texts

    if list(places) == [PYTHON_DOCS]:
        return python_docs("test")
    return read_texts(places, unit=unit, malformed=malformed)
