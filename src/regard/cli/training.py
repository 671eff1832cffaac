"""Training commands: `regard train` runs a recipe, `compare` runs variants of it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import recipes
from regard.cli.console import (
    PIPE_WIDTH,
    Interruption,
    envelope,
    on_terminal,
    one_line,
    print_json,
    print_rich,
    print_table,
    say,
    speaking,
)
from regard.cli.settings import Json, Overrides
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.claims.compared import Compared
    from regard.serving.training_page import TrainingPage
    from regard.training import Trained
    from regard.training.callbacks import Callback


PATIENCE = 3.0  # seconds
WATCHED = 2  # validation examples whose attention is recorded for the page


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or a recipe of the package: dates.",
            show_default=False,
            autocompletion=recipes,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The run's folder: a new one, or one to resume.", show_default=False
        ),
    ] = None,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the run's last checkpoint.")] = False,
    studio: Annotated[
        bool, typer.Option("--studio", help="Show the training live on a page, on this machine only.")
    ] = False,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of the --studio page; 0 for any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the --studio page in a browser.")
    ] = True,
    watch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Record the attention on N validation examples at each evaluation; 2 with --studio.",
            show_default=False,
        ),
    ] = None,
    prove_resume: Annotated[
        bool,
        typer.Option(
            "--prove-resume",
            help="Keep no model: kill a small version of the run at random moments, resume it, and compare bit for bit.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model from a recipe.

    The output folder holds the best model, its recipe and the log. Under torchrun, several processes train together. The
    --studio page closes when training ends; on a terminal it stays open until Ctrl-C. --prove-resume exits with 1 if the
    killed and resumed run differs from an uninterrupted one.

    \b
    Example:
      regard train dates --output runs/dates
      regard train dates training.steps=1000 seed=2 --output runs/longer
      regard train dates --output runs/seen --studio
      regard train dates --prove-resume
      torchrun --nproc-per-node 2 -m regard train dates --output runs/both
    """  # noqa: D301  # \b keeps the lines of the example apart
    if prove_resume:
        _prove(recipe, overrides or [], output, as_json)
        return
    if output is None:
        raise InputError("missing option '--output' / '-o', such as --output runs/mine (see regard train --help)")
    if studio:  # report errors in the recipe before the page opens
        from regard.training.recipe import read_recipe

        read_recipe(recipe, overrides or [])
    with _shown(output, studio, port, browser) as page:
        examples = watch if watch is not None else WATCHED if studio else 0
        result = _trained(recipe, overrides or [], output, resume, examples)
        _print_result(result, as_json)
        if page is not None:
            _keep_page(page, output)


DIFFERS = 1
"""The exit code if a resumed run differs from an uninterrupted one."""


def _prove(recipe: Path, overrides: list[str], output: Path | None, as_json: bool) -> None:
    """Report whether resuming is exact for this recipe; its runs are written next to the output, on the same disk."""
    from regard.training.proof import prove_resume

    try:
        proof = prove_resume(recipe, overrides, near=output, say=say)
    except KeyboardInterrupt:
        raise Interruption("interrupted; nothing was kept") from None
    if as_json:
        print_json(envelope("train") | {"prove_resume": proof.to_json()})
    else:
        print(proof)
    if not proof.same:
        raise typer.Exit(DIFFERS)


@contextlib.contextmanager
def _shown(output: Path, studio: bool, port: int, browser: bool) -> Iterator[TrainingPage | None]:
    """The page of the training, where it is asked for; with several processes, only the first has it."""
    if not studio or not speaking():
        yield None
        return
    if importlib.util.find_spec("uvicorn") is None:
        raise InputError("--studio needs uvicorn: pip install 'regard[serve]'")
    import webbrowser

    from regard.serving.training_page import training_page

    with training_page(output, port=port) as page:
        say(f"the training is shown at {page.url}")
        if browser:
            webbrowser.open(page.url)
        yield page


def _keep_page(page: TrainingPage, output: Path) -> None:
    """Keep the page after training until Ctrl-C, on a terminal."""
    if page.ended:
        say(f"the page of the training has stopped; to see the curves: {shlex.join(['regard', 'studio', str(output)])}")
    elif on_terminal(sys.stdin) and on_terminal(sys.stderr):
        say(f"the training has ended; its page stays at {page.url} until Ctrl-C")
        sys.stdout.flush()
        page.wait()


def _trained(recipe: Path, overrides: list[str], output: Path, resume: bool, watch: int) -> Trained:
    from regard.parts import code_files

    try:
        return _run(recipe, overrides, output, resume, watch)
    except KeyboardInterrupt as stop:
        code = [part for path in code_files() for part in ("--code", path)]
        again = ["regard", "train", str(recipe), *overrides, *code, "--output", str(output), "--resume"]
        reason = str(stop) or "interrupted"
        code = 128 + getattr(stop, "number", 2)
        raise Interruption(f"{reason}; to continue from the last checkpoint: {shlex.join(again)}", code) from None


def _print_result(result: Trained, as_json: bool) -> None:
    if as_json:
        print_json(
            envelope("train")
            | {
                "folder": str(result.folder),
                "steps": result.steps,
                "best_step": result.best_step,
                "reason": result.reason,
                "seconds": round(result.seconds, 3),
                "metrics": result.metrics,
            }
        )
        return
    print_table(result.rows())


def _run(recipe: Path, overrides: list[str], output: Path, resume: bool, watch: int) -> Trained:
    from regard.machine import keep_freed_memory
    from regard.training.callbacks import ProgressBar
    from regard.training.recipe import read_recipe
    from regard.training.run import train as train_run

    keep_freed_memory()

    resolved = read_recipe(recipe, overrides)
    callbacks: list[Callback] = [ProgressBar()] if speaking() else []
    if watch and resolved.training.parallel == "fsdp":
        say("attention is not recorded: with training.parallel=fsdp no worker has the whole model")
    elif watch:
        from regard.inspection.watch import Watch

        callbacks.append(Watch(watch, say=say))
    try:
        return train_run(resolved, output=output, resume=resume, callbacks=callbacks, say=say)
    except InputError as error:
        if not speaking():  # the first worker may not have had this error
            print(f"worker {os.environ['RANK']}: {one_line(str(error))}", file=sys.stderr, flush=True)
        raise
    except RuntimeError:
        if "RANK" in os.environ:
            # It may follow from another worker's failure: torchrun then ends this worker within that time, and does not bury
            # the other's error under a second traceback.
            time.sleep(PATIENCE)
        raise


# `regard compare`.


def compare(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE.yaml",
            help="A recipe, or a file that defines a comparison.",
            show_default=False,
            autocompletion=recipes,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The comparison's folder: a new one, or one to continue.",
            show_default=False,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=A,B,...",
            help="Keys with the values to compare; every combination is an arm. A key with one value is set in all arms.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Train each arm with seeds 1 to N; by default as in the file, or 3.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="LIMIT=N", help="Budget of every run: steps=500, tokens=2e6 or seconds=60.", show_default=False
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
        typer.Option("--reuse", metavar="DIR", help="Reuse finished runs of the same recipe from this comparison."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Train variants of a recipe with several seeds and equal budgets, and print the differences.

    The table has the median and range over seeds; the folder holds all runs, the numbers (comparison.json) and a plot
    (comparison.png, comparison.svg). The same command continues an interrupted comparison.

    \b
    Example:
      regard compare dates model.score=dot,general,additive --seeds 3 --budget steps=500 --output runs/scores
      regard compare my.yaml model.width=64,128 training.warmup=50 --budget tokens=2e6 --measure bleu --output runs/width --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.claims.comparing import compare as run
    from regard.claims.comparison import read_grid
    from regard.machine import keep_freed_memory

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
        raise Interruption(f"interrupted; to continue: {shlex.join(['regard', *sys.argv[1:]])}") from None
    plot(compared, [output / "comparison.png", output / "comparison.svg"])
    if as_json:
        print_json(envelope("compare") | compared.to_json())
    else:
        print_tables(compared)


def bars() -> list[Callback]:
    """Callbacks with a progress bar for every run."""
    from regard.training.callbacks import ProgressBar

    return [ProgressBar()]


def plot(compared: Compared, places: Sequence[Path]) -> None:
    """Write the plot; without matplotlib, report that and write none."""
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
    """Print the table, and one for each measure by length or by another quantity."""
    from regard.rendering import Fitted

    print_rich(Fitted(compared.table()), pipe_width=PIPE_WIDTH)
    for name, table in compared.bin_tables().items():
        by = compared.measure(name).along or "words of the source"
        print_rich(f"\n{name}, by {by}", Fitted(table), pipe_width=PIPE_WIDTH)
