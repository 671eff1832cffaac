"""`regard walk`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import generation_options as options
from regard.cli.console import say


def walk(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.", show_default=False)],
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="The word to follow, among the tokens that ask.", show_default=False),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(help="Which token, from 0: for a word that occurs twice, or in place of one.", show_default=False),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The attention; the last that looks at the source if none is named."),
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="Which head, from 0; the one with the largest weight if none is named.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Walk through the model reading this answer, not its own.")
    ] = None,
    to: options.To = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A page (.html) or all numbers (.json)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as one JSON object.")] = False,
) -> None:
    """Walk through the equation of one attention with the model's own numbers.

    Queries, keys and values; scores; scale; softmax; weigh; sum: each step beside the line of code that computes it. Where a
    layer looks at the source, the words that ask are those of the answer; with --layer encoder.layers.0.attention they are the
    source's own.

    \b
    Example:
      regard walk runs/en-de "A dog runs." --query Hund
      regard walk runs/en-de "A dog runs." --query dog --layer encoder.layers.0.attention -o walk.html
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.inspection.walk import walk as walking
    from regard.inspection.walk.layout import query_text
    from regard.inspection.walk.walking import is_page
    from regard.tasks.loading import load
    from regard.training.memory import keep_freed_memory

    if output is not None:
        is_page(output)  # refused before the model is loaded
    keep_freed_memory()
    seen = walking(load(model), text, query, position=position, layer=layer, head=head, target=target, to=to)
    if output is not None:
        seen.show(output)
        say(f"{output}: {len(seen.steps)} steps of {query_text(seen)!r} through {seen.address}")
    if as_json:
        print(seen.to_json())
    elif output is None:
        from rich.console import Console

        from regard.inspection.walk.terminal import render

        Console(file=sys.stdout).print(render(seen))
