"""What a model costs: `regard plan` estimates it before training, `regard bench` measures it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.commands import renamed
from regard.cli.completion import recipes
from regard.cli.console import NewFile, envelope, print_json, print_table, say, say_malformed
from regard.cli.settings import NOTHING, Given, Json, Overrides, Settings, To, grouped
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.bench import Report


PLAN = Settings(
    place="regard.planning.plan:plan",
    names=(
        *("device", "count", "utilisation", "tokens_per_second", "price", "watts", "precision"),
        *("tokens", "batch_tokens", "length", "activation_checkpointing", "network", "tensor", "parallel", "read"),
    ),
    called={"precision": "dtype"},
    help={
        "device": "p100-16, v100-16, v100-32, a100-40, a100-80, h100-80, rtx-3090, rtx-4090, t4; or here: this machine, "
        "measured."
    },
    defaults=True,
)
"""The options of `plan`, which are keywords of `regard.plan`."""


@renamed(precision="dtype")
@grouped()
def plan(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE.yaml|NAME",
            help="A recipe, or a published model such as gpt3-175b, gpt2-small, bert-base, transformer-big or t5-11b.",
            show_default=False,
            autocompletion=recipes,
        ),
    ],
    overrides: Overrides = None,
    settings: Annotated[Given, PLAN] = NOTHING,
    as_json: Json = False,
) -> None:
    """Estimate the cost of a training run: parameters, FLOPs, time, money and memory, with the calculation.

    \b
    Example:
      regard plan gpt3-175b --device v100-32 --utilisation 0.224 --price 1.5
      regard plan gpt-small --device rtx-4090 --tokens 1e9
      regard plan llama-65b --device a100-80 --count 1024 --network 25 --tensor 8
      regard plan dates --device here --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from typing import Literal, get_args

    from regard.errors import InputError, nearest
    from regard.planning.plan import plan as make
    from regard.planning.plan import rows_of

    given = {name: value for name, value in settings.items() if value is not None}
    formats = Literal["auto", "float32", "bfloat16", "float16"]
    if given.get("precision", "auto") not in get_args(formats):
        raise InputError(f"--dtype is {given['precision']!r}; {nearest(given['precision'], get_args(formats))}")
    found = make(what, overrides or (), **given)
    if as_json:
        print_json(envelope("plan") | found.to_mapping())
    else:
        print_table(rows_of(found))


# `regard bench`.


SLOWER = 1
"""The exit code where a contestant failed, or Regard became slower."""


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="What to measure: translation, recurrent, look, encoder, decoder, images, tokenizers or words.",
            show_default=False,
        ),
    ],
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A TSV, CSV or JSONL file of pairs; give it twice for two parallel files, source and target. By default "
            "pairs are generated.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For the suites words and tokenizers: text to train on; by default Python's reference.",
            show_default=False,
        ),
    ] = None,
    similarity: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="For the suite words: word pairs with scores, to evaluate the embeddings with.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A trained model's folder; by default random weights.", show_default=False),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For the suite decoder, except its training: random weights of gpt2-small (default) or smollm2-135m.",
            show_default=False,
        ),
    ] = None,
    to: To = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of every contestant; by default all cores.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each contestant; the median is reported.")] = 7,
    cases: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Such as training,translation; by default all, or those of --shape."),
    ] = None,
    peers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Such as joeynmt,ctranslate2, or none; by default all.")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PYTHON", help="Python interpreter in which a library is installed.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to check that everything runs and what became slower.")
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A stored run to compare with, by ratios to peers; exits with 1 if something is slower by more than the "
            "spread.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write all results as JSON, with each round and the spread."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare speed with other libraries: the same work, threads and batches, in one run.

    The contestants take turns, each in its own process. A library that is not installed is named and skipped; if one fails,
    its error is printed and the exit code is 1.

    \b
    Example:
      regard bench translation --threads 2
      regard bench translation --pairs train.en.gz --pairs train.de.gz --model runs/en-de --json
      regard bench translation --cases training --peer joeynmt=other-venv/bin/python --output speed.json
      regard bench look --threads 2
      regard bench encoder --threads 2
      regard bench decoder --shape smollm2-135m --threads 2
      regard bench decoder --quick --cases training --output before.json
      regard bench decoder --quick --cases training --against before.json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.bench.suites import suite_of

    found = suite_of(suite)
    chosen = found.cases if shape is None else found.shaped or found.cases
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(NewFile(output)) if output is not None else None
        from regard.bench import PEERS, Options
        from regard.bench import bench as measure
        from regard.bench.against import changes, check_comparable, read_stored

        stored = None if against is None else read_stored(against)
        usual = tuple(PEERS)
        if stored is not None:  # by default, what the stored run has
            chosen = tuple(case for case in chosen if stored.has(case)) or chosen
            usual = tuple(peer for peer in PEERS if peer in stored.peers)
        options = Options(
            pairs=_read(pairs) if pairs else None,
            text=text,
            similarity=tuple(similarity or ()),
            model=model,
            shape=shape,
            to=to,
            threads=threads or (os.cpu_count() or 1 if stored is None else stored.threads),
            rounds=rounds,
            cases=_names(cases) if cases is not None else chosen,
            peers=() if peers == "none" else _names(peers) if peers is not None else usual,
            interpreters=_interpreters(peer or []),
            quick=quick,
        )
        if stored is not None:
            check_comparable(stored, suite, options)
        report = measure(suite, options, say=say)
        if file is not None:
            file.write(json.dumps(report.whole(), ensure_ascii=False, indent=2) + "\n")
    for name in report.absent:
        say(f"{name} is not installed{' in ' + options.interpreters[name] if name in options.interpreters else ''}")
    compared = [] if stored is None else changes(report, stored)
    if stored is not None and stored.processor != report.machine["processor"]:
        say(f"{stored.file} was measured on another processor, {stored.processor}; ratios may differ because of that.")
    if as_json:
        more = {} if stored is None else {"against": stored.file, "changes": [each.to_json() for each in compared]}
        print_json(envelope("bench") | report.to_json() | more)
    else:
        _print(report)
        if compared:
            print()
            print(f"compared with {against}, by the ratio to a peer (least to most of a round)")
            print_table([("  " + each.case, str(each)) for each in compared])
    if report.failed or any(each.verdict == "slower" for each in compared):
        raise typer.Exit(SLOWER)


def _read(files: list[str]) -> list[tuple[str, str]]:
    """The pairs of one file, or of two parallel ones."""
    from regard.data.malformed import MalformedRows
    from regard.data.pairs import read_pairs

    if len(files) > 2:
        raise InputError(f"--pairs is given {len(files)} times; give it once, or twice for source and target")
    malformed = MalformedRows()
    found = [
        (pair.source, pair.target) for pair in read_pairs(files if len(files) == 2 else files[0], malformed=malformed)
    ]
    say_malformed(malformed)
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _interpreters(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, separator, python = text.partition("=")
        if not (name and separator and python):
            raise InputError(
                f"--peer {text!r} names no interpreter; write NAME=PYTHON, such as joeynmt=other/bin/python"
            )
        found[name] = python
    return found


def _print(report: Report) -> None:
    """Print a table for each row: the case, Regard, and every peer with the ratio."""
    for row in report.rows:
        print(row.case)
        lines = [("regard", _figure(row.ours, row.unit))]
        for name, value in row.peers.items():
            lines.append((name, _figure(value, row.unit) + _compared(row.ratio[name], row.unit)))
        print_table([("  " + name, text) for name, text in lines])
        print()
    rows = [("machine", f"{report.machine['processor']}, {report.machine['cores']} cores; {report.threads} threads")]
    rows += list(report.versions.items())
    rows += [(name, "not installed") for name in report.absent]
    rows += [(name, f"failed: {sentence}") for name, sentence in report.failed.items()]
    print_table(rows)


def _compared(ratio: float | None, unit: str) -> str:
    """A ratio in words, of speeds and times, or of sizes."""
    if not ratio:
        return ""
    return f"   {ratio:.2f} times ours" if unit.endswith("B") else f"   ours is {ratio:.2f} times as fast"


def _figure(value: float | None, unit: str) -> str:
    return "failed" if value is None else f"{value:>10,.0f} {unit}" if value >= 100 else f"{value:>10.3g} {unit}"
