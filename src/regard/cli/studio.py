"""`regard studio`: a page on which one types a text and sees what a model attends to."""

from __future__ import annotations

import secrets
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import envelope, print_json, say
from regard.cli.serving import check_folders, named, run_shown, with_demo
from regard.cli.settings import DType
from regard.errors import InputError

MOST_CHECKPOINT_BYTES = 2**30
"""The most bytes of weights of a run's checkpoints that are loaded without being asked for."""


def with_checkpoints(folders: dict[str, str]) -> dict[str, str]:
    """The models, each run followed by those of its checkpoints that differ from its model: `gpt@last`.

    Large checkpoints are named but not loaded.

    Raises:
        InputError: as `checkpoints_of`.
    """
    from regard.serving.engine import weight_bytes
    from regard.tasks.loading import checkpoints_of

    found: dict[str, str] = {}
    for name, folder in folders.items():
        found[name] = folder
        others: dict[Path, str] = {}
        known = checkpoints_of(Path(folder))
        for each, place in known.items():
            if place != known.get("best", known.get("last")) and f"{name}@{each}" not in folders:
                others.setdefault(place, each)
        names = ", ".join(f"{folder}@{each}" for each in others.values())
        size = sum(map(weight_bytes, others))
        if size > MOST_CHECKPOINT_BYTES:
            say(f"{name}: its other checkpoints ({size / 1e9:.1f} GB) are not loaded; name those to compare: {names}")
            continue
        if others:
            say(f"{name}: its checkpoints are loaded too: {', '.join(f'{name}@{each}' for each in others.values())}")
        found |= {f"{name}@{each}": f"{folder}@{each}" for each in others.values()}
    return found


def studio(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]MODEL...", help="Folders of models, optionally with names.", show_default=False),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Show small demo models; the first time they are trained, in less than a minute."),
    ] = False,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads.", show_default=False)] = None,
    dtype: DType = "float32",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address and the models as one JSON object.")
    ] = False,
) -> None:
    """Inspect models live: type a text, see all layers and heads, and switch heads off.

    The page works on this machine only, and its address contains a key. It shows text models: encoders, classifiers, language
    models and translators. `regard serve --studio` serves the same page. For a run's folder it also shows the training
    curves, live, and other checkpoints to compare: NAME@last, NAME@step-500.

    \b
    Example:
      regard studio --demo
      regard studio runs/gpt path/to/minilm
      regard studio small=runs/small large=runs/large --port 9000 --no-browser
      regard studio runs/gpt@best runs/gpt@step-500
    """  # noqa: D301  # \b keeps the lines of the example apart
    folders = named(models or [])
    if not folders and not demo:
        raise InputError("no model is given; give folders of models, or --demo for small demo models")
    check_folders(folders, demo=demo)
    try:
        from regard.serving.run import WebOptions
    except ImportError as error:
        raise InputError(f"the studio needs {error.name}: pip install 'regard[serve]'") from error
    from regard.serving.messages import EngineOptions
    from regard.serving.training import without_model

    key = secrets.token_urlsafe(18)
    begun = {name: folder for name, folder in folders.items() if without_model(Path(folder))}
    folders = {name: folder for name, folder in folders.items() if name not in begun}
    for name in begun:
        say(f"{name}: has no checkpoint yet; its training is shown; restart the studio later to see its model")

    folders = with_checkpoints(folders)

    def listening(url: str, names: Sequence[str]) -> None:
        page = f"{url}/studio{'' if names else '/training'}#token={key}"
        if as_json:
            print_json({**envelope("studio"), "url": page, "models": list(names)})
            sys.stdout.flush()
        say(f"studio of {', '.join((*names, *begun))} at {page} (end with Ctrl-C)")
        if browser:
            webbrowser.open(page)

    def options() -> EngineOptions:
        return EngineOptions(folders=with_demo(folders) if demo else folders, dtype=dtype, threads=threads)

    run_shown(options, WebOptions(port=port, api_keys=(key,), access_log=False, studio=True, runs=begun), listening)
