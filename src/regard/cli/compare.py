"""`regard compare`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import Interruption, on_terminal, print_json, say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.claims.compared import Compared
    from regard.training.callbacks import Callback

PIPE_WIDTH = 240
"""Characters of a table that goes into a file or a pipe, where nothing has to fit a screen."""


def compare(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE.yaml", help="A recipe, or a file that holds a whole comparison.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The comparison's folder: new, or one to go on with.",
            show_default=False,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=A,B,...",
            help="Keys with the values to compare, every combination an arm; with one value it is set for all.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="Train each arm with seeds 1 to N; 3 unless the file says.", show_default=False
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="LIMIT=N", help="Where every run ends: steps=500, tokens=2e6 or seconds=60.", show_default=False
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="NAME",
            help="loss, bleu, steps_to:token_accuracy=0.9, parameters, ..., or {name: ..., kind: ...}; may be repeated.",
            show_default=False,
        ),
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option("--reuse", metavar="DIR", help="Take finished runs of the very same recipe from this comparison."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Train variants of a recipe with several seeds on an equal budget, and print what differs.

    The table has the median over seeds and the range; the folder holds all runs, the numbers (comparison.json) and a plot
    (comparison.png, comparison.svg). The same command again goes on where it was stopped.

    \b
    Example:
      regard compare dates model.score=dot,general,additive --seeds 3 --budget steps=500 --output runs/scores
      regard compare my.yaml model.width=64,128 training.warmup=50 --budget tokens=2e6 --measure bleu --output runs/width --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.claims.arms import read_grid
    from regard.claims.comparing import compare as run
    from regard.training.memory import keep_freed_memory

    keep_freed_memory()
    overrides, grid = read_grid(settings or ())
    try:
        compared = run(
            recipe,
            overrides,
            output=output,
            grid=grid,
            seeds=seeds,
            budget=budget,
            measures=measure or None,
            reuse=reuse or (),
            callbacks=bars(),
            say=say,
        )
    except KeyboardInterrupt:
        raise Interruption(f"interrupted; to go on: {shlex.join(['regard', *sys.argv[1:]])}") from None
    plot(compared, [output / "comparison.png", output / "comparison.svg"])
    if as_json:
        print_json(compared.to_json())
    else:
        print_tables(compared)


def bars() -> list[Callback]:
    """A progress bar for every run, where there is a terminal."""
    from regard.training.callbacks import ProgressBar

    return [ProgressBar()]


def plot(compared: Compared, places: Sequence[Path]) -> None:
    """Write the plot; without matplotlib say so, and leave the numbers to speak."""
    from regard.claims.compared import why_no_curves

    try:
        for place in places:
            compared.save_plot(place)
        if places and (why := why_no_curves(compared)):
            say(f"{places[0]}: {why}")
    except InputError as error:
        if "matplotlib" not in str(error):
            raise
        say(str(error))


def print_tables(compared: Compared) -> None:
    """The table, and one for each measure by length, or by what else it is measured along, on standard output."""
    from rich.console import Console

    from regard.rendering import Fitted

    console = Console(file=sys.stdout, width=None if on_terminal(sys.stdout) else PIPE_WIDTH)
    console.print(Fitted(compared.table()))
    for name, table in compared.bin_tables().items():
        by = compared.measure(name).along or "words of the source"
        console.print(f"\n{name}, by {by}", markup=False, highlight=False)
        console.print(Fitted(table))
