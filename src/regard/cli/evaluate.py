"""`regard evaluate`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import generation_options as options
from regard.cli.answers import line_of
from regard.cli.console import metric_text, print_json, print_table, say
from regard.cli.new_file import NewFile
from regard.cli.text_bar import text_bar
from regard.cli.texts import Text, refuse_too_long
from regard.errors import InputError, nearest

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.data.pair import Pair

DATES = "dates"
BUILTIN = {DATES: 0.0, "dates:typos": 1.0}
"""Builtin data by name, with the share of texts that have a typo."""
USUAL_SIZE = 2_000


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A TSV, CSV or JSONL file, or two files (source, target), perhaps gzip; or dates, or dates:typos. "
            "Settings for decoding may follow, such as beam=5.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Index from 0, name or key of the source.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The same for the target.")] = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many pairs, the first.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the translations, one in each line.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts decoded together.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a model on pairs it has not seen: exact match, BLEU and chrF.

    BLEU and chrF are sacreBLEU's, printed with its signature. Of the builtin dates the test split is taken, 2,000 days unless
    --limit says otherwise; dates:typos has one typo in each text.

    \b
    Example:
      regard evaluate runs/dates dates
      regard evaluate runs/en-de test.en test.de beam=5 length_penalty=1.0
      regard evaluate runs/mine test.csv --source question --target answer --output answers.txt --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    places, settings = options.split_settings(data)
    for name, value in (("beam", beam), ("length_penalty", length_penalty)):
        if value is not None and settings.setdefault(name, value) != value:
            raise InputError(f"{name} is both {value} and {settings[name]}; give it once")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.malformed import MalformedRows
        from regard.tasks.evaluation import evaluate as measure
        from regard.tasks.loading import load
        from regard.training.memory import keep_freed_memory

        keep_freed_memory()

        malformed = MalformedRows()
        found = None if _is_builtin(places, source, target) else _read(places, source, target, malformed)
        translator = load(model, task="translation")
        generation = options.with_options(translator.task.generation, settings)
        if found is None:
            found = _dates(places[0], translator.recipe, limit or USUAL_SIZE)
        pairs = list(itertools.islice(found, limit))
        if malformed.total:
            say(malformed.summary())
        refuse_too_long(translator, [Text(pair.source, f"{pair.file}, line {pair.line}") for pair in pairs])
        started = time.monotonic()
        with text_bar(translator, len(pairs)):
            result = measure(
                translator, [(pair.source, pair.target) for pair in pairs], generation, batch_size=batch_size
            )
        seconds = time.monotonic() - started
        if file is not None:
            for translation in result.translations:
                file.write(line_of(translation))
    if result.note:
        say(result.note)
    if as_json:
        print_json(
            {
                "model": str(model),
                "data": places,
                "count": result.count,
                "malformed": malformed.total,
                "metrics": result.metrics,
                "signatures": result.signatures,
                "generation": dataclasses.asdict(generation),
                "seconds": round(seconds, 3),
            }
        )
        return
    rows = [("pairs", f"{result.count:,} in {seconds:.1f} seconds")]
    for name, value in result.metrics.items():
        words, number = metric_text(name, value)
        rows.append((words, f"{number}  {result.signatures.get(name, '')}"))
    print_table(rows)


def _is_builtin(places: Sequence[str], source: str | None, target: str | None) -> bool:
    """Whether builtin data is meant.

    Raises:
        InputError: for a number of places that no data has, or builtin data of an unknown name.
    """
    if not 1 <= len(places) <= 2:
        raise InputError(f"{len(places)} files of data given; give one file of pairs, two parallel files, or dates")
    if len(places) == 2 or places[0].partition(":")[0] != DATES:
        return False
    if places[0] not in BUILTIN:
        raise InputError(f"there is no builtin data {places[0]!r}; {nearest(places[0], list(BUILTIN))}")
    if source is not None or target is not None:
        raise InputError(f"builtin {places[0]} have no columns; leave out --source and --target")
    return True


def _read(places: Sequence[str], source: str | None, target: str | None, malformed: MalformedRows) -> Iterator[Pair]:
    from regard.data.pairs import read_pairs

    def column(name: str | None) -> int | str | None:
        return int(name) if name is not None and name.isascii() and name.isdigit() else name

    path = places[0] if len(places) == 1 else places
    return read_pairs(path, source=column(source), target=column(target), malformed=malformed)


def _dates(name: str, recipe: Mapping[str, Any], size: int) -> Iterator[Pair]:
    """Days that no training has seen, in the languages that the model was trained on."""
    from regard.data.dates import LANGUAGES, Dates
    from regard.data.pair import Pair

    trained = (recipe.get("data") or {}).get("dates") or {}
    languages = trained.get("languages") or LANGUAGES
    for number, example in enumerate(Dates("test", size=size, languages=languages, typo_rate=BUILTIN[name]), start=1):
        yield Pair(source=example.source, target=example.target, file=name, line=number)
