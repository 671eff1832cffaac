"""`regard export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import print_json, print_table, say


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run or model.", show_default=False)],
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="To write: new, or a model's, which is replaced.", show_default=False),
    ],
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, or the name of a folder under checkpoints/.")
    ] = "best",
    max_shard_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Put weights that are larger, such as 5GB, in several files with an index."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write the model of a run by itself, to be given away: no training texts, no state of the optimiser, no paths.

    \b
    Example:
      regard export runs/dates dates
      regard export runs/dates dates-at-the-end --checkpoint last
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.exporting import export as write

    exported = write(run, folder, checkpoint=checkpoint, max_shard_size=max_shard_size)
    for note in exported.notes:
        say(note)
    if as_json:
        print_json(
            {
                "folder": str(exported.folder),
                "from": str(exported.source),
                "task": exported.task,
                "files": exported.files,
                "bytes": sum(exported.files.values()),
                "notes": list(exported.notes),
            }
        )
    else:
        print_table(exported.rows())
