"""`regard serve`: serves models over HTTP."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import Interruption, envelope, on_terminal, print_json, say
from regard.errors import InputError, nearest, no_model
from regard.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

    from regard.serving.messages import EngineOptions, Loading
    from regard.serving.run import WebOptions

KEY_VARIABLE = "REGARD_API_KEY"


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]MODEL...", help="Folders of models, optionally with names.", show_default=False),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve small demo models; the first time they are trained, in less than a minute."),
    ] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Texts that a language model generates at the same time.")
    ] = 16,
    queue: Annotated[
        int, typer.Option(metavar="N", min=1, help="Requests that may wait; more are answered with 429.")
    ] = 256,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Time limit of a request.")] = 600,
    drain: Annotated[
        int, typer.Option(metavar="SECONDS", min=0, help="Time for requests to finish after SIGTERM.")
    ] = 30,
    prefix_cache: Annotated[
        int, typer.Option(metavar="MIB", min=0, help="Memory per model for cached prefixes of prompts.")
    ] = 256,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads.", show_default=False)] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Allow calls from web pages of this origin (CORS); may be repeated.",
            show_default=False,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with one API key per line; in place of REGARD_API_KEY.",
            show_default=False,
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TLS certificate, for HTTPS.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the certificate.", show_default=False)
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log one line of JSON per request, without its texts.")
    ] = True,
    studio: Annotated[
        bool, typer.Option("--studio", help="Also serve the studio at /studio; its key is the API key.")
    ] = False,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]DTYPE",
            help="float32 (default), bfloat16 or float16; int8 or int4 for language models and translators. With NAME it "
            "applies to that model, otherwise to all others; may be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address and the models as one JSON object.")
    ] = False,
) -> None:
    """Serve models over HTTP with OpenAI's API: completions, chat completions and embeddings.

    Language models use continuous batching; a text and its log-probabilities are bit-identical under any load. A model
    without NAME is served under its folder's name. Access from other machines needs an API key, from --api-key-file or
    REGARD_API_KEY.

    \b
    Example:
      regard serve --demo
      regard serve runs/gpt
      regard serve writer=runs/gpt vectors=path/to/minilm --port 9000 --dtype writer=int8
      REGARD_API_KEY=$(openssl rand -hex 32) regard serve runs/gpt --host 0.0.0.0 --dtype int8
    """  # noqa: D301  # \b keeps the lines of the example apart
    folders = named(models or [])
    if not folders and not demo:
        raise InputError("no model is given; give the folder of a model, or --demo")
    check_folders(folders, demo=demo)
    try:
        from regard.serving.run import Limits, WebOptions
    except ImportError as error:
        raise InputError(f"the server needs {error.name}: pip install 'regard[serve]'") from error
    from regard.serving.messages import EngineOptions

    usual, own = _dtypes(dtype or [], refuse_demo_names(folders) if demo else folders)
    keys = api_keys(api_key_file)
    web = WebOptions(
        host=host,
        port=port,
        api_keys=keys,
        origins=tuple(allow_origin or ()),
        certificate=tls_certificate,
        private_key=tls_key,
        limits=Limits(waiting=queue, seconds=timeout),
        drain_seconds=drain,
        access_log=access_log,
        studio=studio,
    )

    def listening(url: str, names: Sequence[str]) -> None:
        if as_json:
            print_json({**envelope("serve"), "url": url, "models": list(names)})
            sys.stdout.flush()
        say(f"serving {', '.join(names)} at {url}/v1 (end with Ctrl-C)")
        if demo:
            from regard.serving.demo import calls

            given = f"$(head -n 1 {shlex.quote(str(api_key_file))})" if api_key_file else f"${KEY_VARIABLE}"
            for line in calls(url, names, key=given if keys else "", trusted=tls_certificate is None):
                say(f"  {line}")

    def options() -> EngineOptions:
        served = with_demo(folders) if demo else folders
        return EngineOptions(
            folders=served, dtype=usual, dtypes=own, rows=rows, kept_bytes=prefix_cache << 20, threads=threads
        )

    run_shown(options, web, listening)


def run_shown(
    options: Callable[[], EngineOptions], web: WebOptions, listening: Callable[[str, Sequence[str]], None]
) -> None:
    """Serve, and report the loading of models until the server listens.

    Arguments:
        options: makes the engine's options; called when the socket is open, since it may train models.
        web: of the web application.
        listening: called when the server listens, with its URL and the names of the models.
    """
    from regard.serving import run

    with run.listening(web) as listener, LoadingShown() as shown:
        engine = options()

        def started(url: str, names: Sequence[str]) -> None:
            shown.end()
            listening(url, names)

        run.serve(engine, web, listener=listener, progress=shown.loading, started=started)


class LoadingShown:
    """Reports which model is being loaded, and its size: a progress bar in bytes on a terminal, else a line per model."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def __enter__(self) -> LoadingShown:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def loading(self, model: Loading) -> None:
        """Report the next model; those before it are loaded."""
        size = f", {model.size / 1e6:,.1f} MB" if model.size else ""
        line = f"loading {model.name} ({model.number} of {model.count}{size})"
        if not on_terminal(sys.stderr):
            say(line)
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task(line)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=line, completed=model.before, total=model.total or None)

    def end(self) -> None:
        """Remove the bar when loading has ended."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TimeElapsedColumn(),  # shows progress while a large model is loaded
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # standard output must not be changed
        expand=True,
    )


def api_keys(file: Path | None) -> tuple[str, ...]:
    """The API keys that clients may send: from a file, one per line, or from the environment variable.

    Raises:
        InputError: for a file that cannot be read or has none, and where both are given.
    """
    given = os.environ.get(KEY_VARIABLE)
    if file is None:
        return () if given is None else (given.strip(),)
    if given is not None:
        raise InputError(f"--api-key-file {file}: {KEY_VARIABLE} is set too; give the keys in one place")
    keys = tuple(filter(None, map(str.strip, read_text(file, "give a file of text").splitlines())))
    if not keys:
        raise InputError(
            f"--api-key-file {file}: has no key; write one per line, such as the output of: openssl rand -hex 32"
        )
    return keys


def with_demo(folders: dict[str, str]) -> dict[str, str]:
    """The models of the demonstration, which are trained where they are missing, and the given ones.

    Raises:
        Interruption: for SIGTERM while one is trained.
    """
    from regard.serving.demo import models
    from regard.training.callbacks import ProgressBar
    from regard.training.loop import Stopped

    try:
        return models(say, [ProgressBar()]) | folders
    except Stopped as stopped:
        raise Interruption("ended; the unfinished model is not kept", 128 + stopped.number) from None


def refuse_demo_names(folders: Mapping[str, str]) -> dict[str, str]:
    """The names of the demonstration's models, and the given ones.

    Raises:
        InputError: for a name that is in both.
    """
    from regard.serving.demo import NAMES

    for name in folders.keys() & {*NAMES}:
        raise InputError(f"the demo has a model {name!r} too; give yours another name: NAME=FOLDER")
    return {**dict.fromkeys(NAMES, ""), **folders}


def named(models: list[str]) -> dict[str, str]:
    """Folders by the names they are served under.

    Raises:
        InputError: for a missing name or folder, and for a name given twice.
    """
    folders: dict[str, str] = {}
    for each in models:
        name, equals, folder = each.partition("=")
        if not equals:
            name, folder = Path(each).name or each, each
        if not name or not folder:
            raise InputError(f"{each!r} names no model; give NAME=FOLDER")
        if name in folders:
            raise InputError(f"two models are called {name!r}; give them different names: NAME=FOLDER")
        folders[name] = folder
    return folders


def check_folders(folders: Mapping[str, str], *, demo: bool) -> None:
    """Refuse missing folders before anything that takes seconds is imported or trained.

    Raises:
        InputError: for a missing folder, and for a name that the demonstration has too.
    """
    if demo:
        refuse_demo_names(folders)
    for folder in folders.values():
        run, at, _ = folder.rpartition("@")  # runs/x@last is a checkpoint, which is found when it is loaded
        if (
            not folder.startswith("hub:")
            and not Path(folder).exists()
            and not (at and (Path(run) / "checkpoints").is_dir())
        ):
            raise no_model(folder)


def _dtypes(given: Sequence[str], folders: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The dtype of models without one of their own, and the dtypes of single models.

    Raises:
        InputError: for an unknown name, and for two dtypes for one model.
    """
    found: dict[str, str] = {}
    for each in given:
        name, _, dtype = each.rpartition("=")
        if "=" in each and name not in folders:
            raise InputError(f"--dtype {each}: no model is called {name!r}; {nearest(name, list(folders))}")
        if not dtype:
            raise InputError(f"--dtype {each}: has no dtype; give one, such as {name}=int8")
        if name in found:
            raise InputError(f"--dtype {each}: a dtype for {name or 'all models'} is given twice; give one")
        found[name] = dtype
    return found.pop("", "float32"), found
