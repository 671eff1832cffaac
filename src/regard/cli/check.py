"""`regard check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import one_line, print_json, print_table

NOT_WHOLE = 1


def check(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Of a model, a run, vectors, tokens, or texts with an index.", show_default=False
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say of a folder whether every file is there, whole and of the digest recorded, and which programs open it.

    The exit code is 0 where the folder is whole, 1 where it is not, and 2 where there is no such folder.

    \b
    Example:
      regard check runs/dates
      regard check path/to/bert --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.checking import check as looked_at

    report = looked_at(folder)
    if as_json:
        print_json(report.to_mapping())
    else:
        print_table((one_line(name), one_line(said)) for name, said in report.rows())
    if not report.whole:
        raise typer.Exit(NOT_WHOLE)
