"""`regard plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.console import print_json, print_table


def plan(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE.yaml|NAME",
            help="A recipe, or a published model such as gpt3-175b, gpt2-small, bert-base, transformer-big or t5-11b.",
            show_default=False,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="A recipe's settings on top.", show_default=False),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="p100-16, v100-16, v100-32, a100-40, a100-80, h100-80, rtx-3090, rtx-4090, t4; or here: this machine, measured."
        ),
    ] = "a100-80",
    count: Annotated[int, typer.Option(help="How many devices.")] = 1,
    utilisation: Annotated[float, typer.Option(help="The share of the devices' peak that is reached.")] = 0.3,
    tokens_per_second: Annotated[
        float | None,
        typer.Option(help="Measured, of all devices together, instead of a utilisation.", show_default=False),
    ] = None,
    price: Annotated[
        float | None, typer.Option(help="Of one device for an hour, in any currency.", show_default=False)
    ] = None,
    watts: Annotated[
        float | None, typer.Option(help="That one device draws, for the energy.", show_default=False)
    ] = None,
    precision: Annotated[str, typer.Option(help="Of matrix products: auto, float32, bfloat16 or float16.")] = "auto",
    tokens: Annotated[
        float | None,
        typer.Option(help="Of the whole run, instead of the recipe's or the paper's.", show_default=False),
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="That one device reads at a time.", show_default=False)
    ] = None,
    length: Annotated[int | None, typer.Option(help="Of a text, in tokens.", show_default=False)] = None,
    activation_checkpointing: Annotated[
        bool | None,
        typer.Option(
            "--activation-checkpointing/--no-activation-checkpointing",
            help="Compute blocks again in the backward pass; as the recipe says unless given.",
            show_default=False,
        ),
    ] = None,
    read: Annotated[
        bool, typer.Option("--read/--no-read", help="Read a recipe's data where it is here, as training would.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what training will cost before it is run: parameters, operations, time, money, memory, the working shown.

    \b
    Example:
      regard plan gpt3-175b --device v100-32 --utilisation 0.224 --price 1.5
      regard plan gpt-small --device rtx-4090 --tokens 1e9
      regard plan dates --device here --json
    """  # noqa: D301  # \b keeps the lines of the example apart
    from typing import Literal, get_args

    from regard.errors import InputError, nearest
    from regard.planning.plan import plan as make
    from regard.planning.plan import rows_of

    formats = Literal["auto", "float32", "bfloat16", "float16"]
    if precision not in get_args(formats):
        raise InputError(f"--precision is {precision!r}; {nearest(precision, get_args(formats))}")
    found = make(
        what,
        overrides or (),
        device=device,
        count=count,
        utilisation=utilisation,
        tokens_per_second=tokens_per_second,
        price=price,
        watts=watts,
        precision=precision,  # type: ignore[arg-type]
        tokens=tokens,
        batch_tokens=batch_tokens,
        length=length,
        activation_checkpointing=activation_checkpointing,
        read=read,
    )
    if as_json:
        print_json(found.to_mapping())
    else:
        print_table(rows_of(found))
