"""`regard train`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import Interruption, envelope, one_line, print_json, print_table, say, speaking
from regard.cli.settings import Json, Overrides
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.training import Trained

PATIENCE = 3.0  # seconds


def train(
    recipe: Annotated[
        Path,
        typer.Argument(metavar="RECIPE", help="A YAML file, or a recipe of the package: dates.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The run's folder: new, or one to resume.", show_default=False
        ),
    ],
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model as a recipe says.

    The folder then holds the best model, its recipe and the log. Under torchrun several processes train together.

    \b
    Example:
      regard train dates --output runs/dates
      regard train dates training.steps=1000 seed=2 --output runs/longer
      torchrun --nproc-per-node 2 -m regard train dates --output runs/both
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.parts import code_files

    try:
        result = _run(recipe, overrides or [], output, resume)
    except KeyboardInterrupt as stop:
        code = [part for path in code_files() for part in ("--code", path)]
        again = ["regard", "train", str(recipe), *(overrides or ()), *code, "--output", str(output), "--resume"]
        said = str(stop) or "interrupted"
        code = 128 + getattr(stop, "number", 2)
        raise Interruption(f"{said}; to go on from the last checkpoint: {shlex.join(again)}", code) from None
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


def _run(recipe: Path, overrides: list[str], output: Path, resume: bool) -> Trained:
    from regard.machine import keep_freed_memory
    from regard.training.callbacks import ProgressBar
    from regard.training.recipe import read_recipe
    from regard.training.run import train as train_run

    keep_freed_memory()

    resolved = read_recipe(recipe, overrides)
    bars = [ProgressBar()] if speaking() else []
    try:
        return train_run(resolved, output=output, resume=resume, callbacks=bars, say=say)
    except InputError as error:
        if not speaking():  # the first worker may not have met it
            print(f"worker {os.environ['RANK']}: {one_line(str(error))}", file=sys.stderr, flush=True)
        raise
    except RuntimeError:
        if "RANK" in os.environ:
            # Perhaps only the echo of another worker's end. torchrun then ends this one at once, and its own sentence is
            # not buried under a traceback.
            time.sleep(PATIENCE)
        raise
