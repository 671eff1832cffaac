"""`regard depth`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import print_json, say
from regard.errors import InputError

if TYPE_CHECKING:
    from torch import nn

SUFFIXES = (".png", ".svg")
DOTS_PER_INCH = 130


def depth(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="What the model is to read.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A plot (.png, .svg) of residual by layer.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the residuals as one JSON object.")] = False,
) -> None:
    """Show depth against rank: how alike the vectors of a text's tokens are after each layer of an encoder or a language model.

    The number is the relative residual of Dong et al. 2021: 0 where all tokens have the same vector, a matrix of rank one.
    Beside the model as it is stand the same parameters without skip connections, without feed-forward nets, and without both.
    Numbers are means over the texts.

    \b
    Example:
      regard depth runs/bert "The animal didn't cross the street because it was too tired" --json
      regard depth hub:bert-base-uncased "A dog runs." "It rains." -o depth.png
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise InputError(f"{output}: the name's end says what to write; give one that ends in .png or .svg")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"text {number} is empty; there is nothing to look at")
    module, read = _opened(model, texts)
    from regard.inspection.analysis.collapse import collapse_figure, collapse_forms, depth_table

    found = collapse_forms(module, read)
    if output is not None:
        from regard.inspection.plots import write_figure

        write_figure(collapse_figure(found), output, {}, dots_per_inch=DOTS_PER_INCH)
        say(f"{output}: {len(found)} forms of {len(found['as it is'].addresses)} layers")
    if as_json:
        print_json({name: each.to_json() for name, each in found.items()})
    elif output is None:
        from rich.console import Console

        from regard.rendering import Fitted

        Console(file=sys.stdout).print(Fitted(depth_table(found)))


def _opened(folder: Path, texts: list[str]) -> tuple[nn.Module, Callable[[Any], Any]]:
    """A model, and what lets it, or a form of it, read the texts."""
    from regard.checkpoints import read_config
    from regard.models import MODELS
    from regard.tasks.loading import model_folder
    from regard.training.memory import keep_freed_memory

    keep_freed_memory()
    place = model_folder(folder)
    config = read_config(place)
    family = MODELS[config.model_type]
    if family.interface == "language_model":
        return _language_model(folder, texts)
    if family.serves("encoder"):
        return _encoder(place, texts)
    raise InputError(
        f"{folder}: a {config.model_type} is no encoder of texts and no language model; in Python "
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
