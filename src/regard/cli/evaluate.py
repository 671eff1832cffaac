"""`regard evaluate`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import generation_options as options
from regard.cli.answers import line_of
from regard.cli.console import metric_text, print_json, print_table, say
from regard.cli.evaluate_captions import evaluate_captions
from regard.cli.evaluate_examples import evaluate_examples
from regard.cli.evaluate_text_to_text import evaluate_text_to_text
from regard.cli.evaluate_texts import evaluate_texts
from regard.cli.evaluation_data import builtin_test, is_builtin, read_files
from regard.cli.new_file import NewFile
from regard.cli.opening import Device, opened
from regard.cli.text_bar import text_bar
from regard.cli.texts import Text, refuse_too_long
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.translation.evaluation import LengthBin

USUAL_SIZE = 2_000


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A TSV, CSV or JSONL file, or two files (source, target), perhaps gzip; or dates, dates:typos, or "
            "sequences; for a language model files of text, or python_docs; for a classifier and the like files of examples; "
            "for a captioner captions and their pictures, or scenes. "
            "Settings may follow: beam=5 for decoding, format=sst2 for the layout of examples.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Index from 0, name or key of the source.")
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The same for the target.")] = None,
    to: options.To = None,
    bins: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="The same by length of the source in words, such as 10,15,20.", show_default=False
        ),
    ] = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only so many pairs, the first.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the translations, one in each line.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts decoded together.")] = 64,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a model on what it has not seen.

    A translator by exact match, BLEU and chrF, a language model by perplexity, a classifier by accuracy, F1 and Matthews'
    correlation, and so on. What a file of examples holds is as in the training data, unless settings say otherwise.

    BLEU and chrF are sacreBLEU's, printed with its signature. Of builtin data the test split is taken, 2,000 pairs unless
    --limit says otherwise; dates:typos has one typo in each text, sequences are the model's own problem, and
    sequences:longest=40 changes it.

    \b
    Example:
      regard evaluate runs/dates dates
      regard evaluate runs/en-de test.en test.de beam=5 length_penalty=1.0 --bins 10,15,20
      regard evaluate runs/one-to-many test.en test.fr --to fr
      regard evaluate runs/language-model test.txt
      regard evaluate runs/gpt test.txt stride=32
      regard evaluate runs/gpt test.txt precision=int8
      regard evaluate runs/sentiment dev.tsv format=sst2
      regard evaluate runs/t5 dev.jsonl part=summaries beam=4
      regard evaluate runs/flickr8k captions.dev.tsv images.dev.zip beam=5
      regard evaluate runs/mine test.csv --source question --target answer --output answers.txt --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import task_of

    task = task_of(model)
    if task == "text_to_text":
        places, settings = options.split_any_settings(data)
        for name, value in (("beam", beam), ("length_penalty", length_penalty), ("source", source), ("target", target)):
            if value is not None:
                settings[name] = value
        given = [name for name, value in {"--to": to, "--bins": bins}.items() if value is not None]
        evaluate_text_to_text(model, places, settings, given, limit, output, batch_size, as_json, device)
        return
    if task == "captioning":
        places, settings = options.split_any_settings(data)
        for name, value in (("beam", beam), ("length_penalty", length_penalty)):
            if value is not None:
                settings[name] = value
        unfit = {"--source": source, "--target": target, "--to": to, "--bins": bins}
        given = [name for name, value in unfit.items() if value is not None]
        evaluate_captions(model, places, settings, given, limit, output, batch_size, as_json, device)
        return
    if task not in ("translation", "language_modelling"):
        places, section = options.split_any_settings(data)
        unfit = {
            "--source": source,
            "--target": target,
            "--to": to,
            "--bins": bins,
            "--beam": beam,
            "--length-penalty": length_penalty,
        }
        given = [name for name, value in unfit.items() if value is not None]
        evaluate_examples(model, places, section, given, limit, output, as_json, device)
        return
    if task == "language_modelling":
        places, section = options.split_any_settings(data)
        stride, precision = section.pop("stride", None), section.pop("precision", "float32")
        unfit = {
            "--source": source,
            "--target": target,
            "--to": to,
            "--bins": bins,
            "beam": beam,
            "length_penalty": length_penalty,
            **section,
        }
        given = [name for name, value in unfit.items() if value is not None]
        evaluate_texts(model, places, given, limit, output, batch_size, as_json, device, stride, precision)
        return
    places, settings = options.split_settings(data)
    for name, value in (("beam", beam), ("length_penalty", length_penalty)):
        if value is not None and settings.setdefault(name, value) != value:
            raise InputError(f"{name} is both {value} and {settings[name]}; give it once")
    ends = _numbers(bins)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.data.malformed import MalformedRows
        from regard.tasks.evaluation import evaluate as measure

        malformed = MalformedRows()
        found = None if is_builtin(places, source, target) else read_files(places, source, target, malformed)
        translator = opened(model, device, "translation")
        translator.task.check_language(to)
        generation = options.with_options(translator.task.generation, settings)
        if found is None:
            found = builtin_test(places[0], translator.recipe, to, limit or USUAL_SIZE)
        pairs = list(itertools.islice(found, limit))
        if malformed.total:
            say(malformed.summary())
        refuse_too_long(translator, [Text(pair.source, f"{pair.file}, line {pair.line}") for pair in pairs], to)
        started = time.monotonic()
        with text_bar(translator, len(pairs)):
            result = measure(
                translator,
                [(pair.source, pair.target) for pair in pairs],
                generation,
                to=to,
                bins=ends,
                batch_size=batch_size,
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
                "to": to,
                "count": result.count,
                "malformed": malformed.total,
                "metrics": result.metrics,
                "bins": [dataclasses.asdict(found) for found in result.bins],
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
    if result.bins:
        _print_bins(result.bins)


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


def _print_bins(bins: Sequence[LengthBin]) -> None:
    """One line for each bin; a bin without pairs has no numbers."""
    names = list(dict.fromkeys(name for found in bins for name in found.metrics))
    lines = [["source words", "pairs", *(metric_text(name, 0)[0] for name in names)]]
    for found in bins:
        numbers = [metric_text(name, found.metrics[name])[1] if found.metrics else "-" for name in names]
        lines.append([found.name, f"{found.count:,}", *numbers])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print()
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
