"""`regard look`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import generation_options as options
from regard.cli.console import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.inspection import AttentionView

SUFFIXES = (".html", ".htm", ".png", ".svg", ".json")


def look(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model or run.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at the model reading this answer, not at its own.")
    ] = None,
    to: options.To = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A page (.html), plot (.png, .svg) or numbers (.json)."),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", metavar="ADDRESS", help="Only layers called so, * for any; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the weights as one JSON object.")] = False,
) -> None:
    """Show the attention of a model while it translates a text.

    Without --output the terminal shows heatmaps: rows are the tokens written, columns those looked at. `regard info MODEL` lists
    the layers' addresses.

    \b
    Example:
      regard look runs/dates "mardi 9 mai 2017"
      regard look runs/dates "mardi 9 mai 2017" --target 2017-05-09 -o attention.html
      regard look runs/en-de "A dog runs." --layer "decoder.layers.*.cross_attention" -o heads.png
    """  # noqa: D301  # \b keeps the lines of the example apart
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{output}: the name's end says what to write; give one that ends in .html, .png, .svg or .json"
        )
    view = _seen(model, text, target, to, layer)
    if output is not None:
        from regard.inspection.page import save_page
        from regard.inspection.plots import save_plot

        (save_page if output.suffix.lower().startswith(".htm") else save_plot)(view, output)
        say(f"{output}: {len(view.maps)} attention maps of {view.title!r}")
    if as_json:
        print(view.to_json())
    elif output is None:
        _show(view, every=bool(layer))


def _seen(model: Path, text: str, target: str | None, to: str | None, layers: list[str] | None) -> AttentionView:
    import torch

    from regard.inspection import look as recording
    from regard.tasks.loading import load
    from regard.training.memory import keep_freed_memory

    keep_freed_memory()

    translator = load(model, task="translation")
    translator.task.check_language(to)
    with recording(translator, layers or None) as record:
        if target is None:
            translator.translate(text, to=to)
        else:
            for name, given in (("TEXT", text), ("--target", target)):
                if not given.strip():
                    raise InputError(f"{name} is empty; there is nothing to look at")
            batch = translator.teacher_forced([(text, target)], to=to)
            with torch.no_grad():
                translator.model(batch.source, batch.target)
    return record.view(0)


def _show(view: AttentionView, *, every: bool) -> None:
    """Print heatmaps: of every map, or of those over the source where there are any."""
    from dataclasses import replace

    from rich.console import Console

    from regard.inspection.terminal import render

    maps = view.maps if every else tuple(item for item in view.maps if item.kind == "cross") or view.maps
    console = Console(file=sys.stdout)
    console.print(view.title, markup=False, highlight=False)
    console.print(render(replace(view, maps=maps)))
    if len(maps) < len(view.maps):
        say(f"{len(view.maps) - len(maps)} further maps, of tokens looking at their own side; --layer '*' shows all")
