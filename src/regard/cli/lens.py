"""A model layer by layer: `regard lens` shows what it would predict after each, `regard rank` how alike its vectors become."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import envelope, print_json, print_rich, say
from regard.cli.looking import DOTS_PER_INCH, PLOT_SUFFIXES
from regard.cli.settings import Model
from regard.errors import InputError

if TYPE_CHECKING:
    from torch import nn


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


def rank(
    model: Model,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Input text.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output: a plot (.png, .svg) of the residual by layer."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the residuals as one JSON object.")] = False,
) -> None:
    """Measure rank collapse: how similar the token vectors are after each layer of an encoder or language model.

    The number is the relative residual of Dong et al. 2021: 0 if all tokens have the same vector (rank one). The model is
    compared with the same parameters without skip connections, without feed-forward layers, and without both. Numbers are
    means over the texts.

    \b
    Example:
      regard rank runs/bert "The animal didn't cross the street because it was too tired" --json
      regard rank hub:bert-base-uncased "A dog runs." "It rains." -o depth.png
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is not None and output.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(f"{output}: the ending selects the format; give a name that ends in .png or .svg")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {number} is empty; give a text")
    module, read = _opened(model, texts)
    from regard.inspection.analysis.collapse import collapse_figure, collapse_forms, rank_table

    found = collapse_forms(module, read)
    if output is not None:
        from regard.inspection.plots import write_figure

        write_figure(collapse_figure(found), output, {}, dots_per_inch=DOTS_PER_INCH)
        say(f"{output}: {len(found)} forms of {len(found['as it is'].addresses)} layers")
    if as_json:
        values = {"model": str(model), "forms": {name: each.to_json() for name, each in found.items()}}
        print_json(envelope("rank") | values)
    elif output is None:
        from regard.rendering import Fitted

        print_rich(Fitted(rank_table(found)))


def _opened(folder: Path, texts: list[str]) -> tuple[nn.Module, Callable[[Any], Any]]:
    """A model, and a function that lets it, or a variant of it, read the texts."""
    from regard.checkpoints import read_config
    from regard.machine import keep_freed_memory
    from regard.models import MODELS
    from regard.tasks.loading import model_folder

    keep_freed_memory()
    place = model_folder(folder)
    config = read_config(place)
    family = MODELS[config.model_type]
    if family.interface == "language_model":
        return _language_model(folder, texts)
    if family.serves("encoder"):
        return _encoder(place, texts)
    raise InputError(
        f"{folder}: a {config.model_type} is neither a text encoder nor a language model; in Python, "
        "regard.inspection.analysis.collapse takes any model of blocks"
    )


def _language_model(folder: Path, texts: list[str]) -> tuple[nn.Module, Callable[[Any], Any]]:
    from regard.tasks.loading import load

    reader = load(folder, task="language_modelling")
    tokenizer = reader.task.tokenizer
    batch = reader.task.batch([[tokenizer.end_id, *tokenizer.encode(text), tokenizer.end_id] for text in texts])
    return reader.model, lambda each: each(batch.tokens)


def _encoder(place: Path, texts: list[str]) -> tuple[nn.Module, Callable[[Any], Any]]:
    from regard.inspection.text_reader import TextReader
    from regard.tasks.encoders import join, padded

    reader = TextReader.load(place)
    encoded = reader.tokenizer.encode_batch(texts)
    joined = [join(reader.tokenizer, ids, maximum=len(ids) + 2) for ids in encoded]
    tokens, segments = padded(joined, padding_id=reader.tokenizer.padding_id)
    return reader.model, lambda each: each(tokens, segments)
