"""`regard lens`: what a model would say after each layer, and which parts the logit of a token comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.console import envelope, print_json, print_rich
from regard.cli.settings import Model


def lens(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The answer that a translator reads, in place of its own.")
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            help="Show which parts of the model the logit at this token comes from, counted from 0, or from -1 backwards.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Whose logit; the most probable token's if none is named.", show_default=False
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Another token, its logit beside the first.", show_default=False)
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="How many tokens of each layer --json has; 5 where not given.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as one JSON object.")] = False,
) -> None:
    """Show what a model would say after each layer (logit lens), or with --position the parts that a logit comes from.

    The last norm and output are applied to the residual stream after each block. With --position, --token or --against the logit
    is a sum of what the embedding, every head, every feed-forward net and the biases add (direct logit attribution).

    \b
    Example:
      regard lens runs/gpt "The history of"
      regard lens runs/gpt "The history of" --position -1 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.errors import InputError
    from regard.inspection.analysis.lens import LogitAttribution, LogitLens
    from regard.machine import keep_freed_memory
    from regard.tasks.loading import load

    keep_freed_memory()
    loaded = load(model)
    found: LogitLens | LogitAttribution
    if position is None and token is None and against is None:
        found = LogitLens.of(loaded, text, target=target, top=5 if top is None else top)
    elif top is not None:
        raise InputError("--top is for the tokens of each layer; leave it out with --position, --token and --against")
    else:
        place = -1 if position is None else position
        found = LogitAttribution.of(loaded, text, token=token, against=against, place=place, target=target)
    if as_json:
        print_json(envelope("lens") | {"model": str(model)} | found.to_json())
    else:
        print_rich(found)
