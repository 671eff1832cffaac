"""`regard lens`: what a model would say after each layer, and which parts the logit of a token comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.console import envelope, print_json, print_rich
from regard.cli.settings import Model


def lens(
    model: Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Input text.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="For a translator: use this output text in place of its own.")
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            help="Split the logit at this token: index from 0, or from -1 backwards.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="The token whose logit is split; by default the most probable one.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Another token, to split the difference of the two logits.", show_default=False
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Tokens per layer in --json; 5 by default.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as one JSON object.")] = False,
) -> None:
    """Show the predictions after each layer (logit lens), or with --position the parts of a logit.

    The final norm and output layer are applied to the residual stream after each block. With --position, --token or
    --against, a logit is split into the contributions of the embedding, every head, every feed-forward layer and the biases
    (direct logit attribution).

    \b
    Example:
      regard lens runs/gpt "The history of"
      regard lens runs/gpt "The history of" --position -1 --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.errors import InputError
    from regard.inspection.analysis.lens import LogitLens
    from regard.inspection.analysis.logit_attribution import LogitAttribution
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
