"""The `regard` command: all commands, and the exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from regard import __version__
from regard.cli.claims import claims
from regard.cli.classify import classify
from regard.cli.commands import commands, predict, with_code
from regard.cli.console import Interruption, ReaderGone, on_terminal, one_line, say
from regard.cli.costs import bench, plan
from regard.cli.doctor import doctor
from regard.cli.embedding import embed, search
from regard.cli.evaluate import evaluate
from regard.cli.folders import check, export, info, push
from regard.cli.language_models import generate, prompt
from regard.cli.lens import lens, rank
from regard.cli.looking import look, walk
from regard.cli.maps import map as map_vectors
from regard.cli.media import caption, compose
from regard.cli.serving import serve
from regard.cli.spans import answer, fill, tag
from regard.cli.studio import studio
from regard.cli.text_to_text import summarize, translate
from regard.cli.training import compare, train
from regard.cli.vectors import vectors
from regard.errors import InputError, nearest
from regard.machine import bound_spinning

SUCCESS, READER_GONE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# The base class of all command-line errors. Newer releases of typer contain click, older ones import it; this holds for both.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


app = typer.Typer(
    cls=commands(depth="rank"),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def regard(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """The attention lineage in one package: train it, run it, look inside it.

    \b
    Example:
      regard train dates --output runs/dates
      regard translate runs/dates "Tuesday, 9 May 2017"
      regard look runs/dates "mardi 9 mai 2017" -o attention.html
    """  # noqa: D301  # \b keeps the lines of the example apart
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


PACKAGE = Path(__file__).parents[1]

# What follows MODEL, including options, is passed on to the command for the task, so options cannot be parsed here.
WHOLE = {"allow_interspersed_args": False, "ignore_unknown_options": True}

for _command in (
    train,
    evaluate,
    predict,
    translate,
    generate,
    prompt,
    summarize,
    classify,
    fill,
    tag,
    answer,
    embed,
    search,
    map_vectors,
    look,
    walk,
    rank,
    lens,
    compare,
    info,
    export,
    push,
    check,
    doctor,
    plan,
    bench,
    caption,
    compose,
    serve,
    studio,
):
    passing = WHOLE if _command is predict else None
    app.command(context_settings=passing)(_command if _command in (bench, doctor, predict) else with_code(_command))
app.add_typer(claims, name="claims", cls=commands())
app.add_typer(vectors, name="vectors", cls=commands(odd="doesnt_match", judge="survey"))


def main(arguments: Sequence[str]) -> int:
    """Run a command and return the exit code: 0, 2 for bad input or a wrong command line, 130 for Ctrl-C, 143 for SIGTERM.

    An error is one sentence on standard error. An error in the program itself is raised.

    >>> main(["--version"])
    regard 0.1.0
    0
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _each_once(_say_warning)
            code = _commands().main(args=list(arguments), prog_name="regard", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else SUCCESS
    except InputError as error:
        say("error: " + one_line(str(error)))
    except UsageError as error:
        say("error: " + one_line(_wrong_usage(error)))
    except Interruption as error:
        say(("\n" if on_terminal(sys.stderr) else "") + str(error))
        return error.code
    except KeyboardInterrupt:  # a command without its own message
        say(("\n" if on_terminal(sys.stderr) else "") + "interrupted")
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        _stop_writing()
        return READER_GONE
    except OSError as error:  # a full disk under `> file`, a file whose permissions changed meanwhile
        place = f"{error.filename}: " if error.filename else ""
        say("error: " + one_line(f"{place}{error.strerror or error}"))
        _stop_writing()
    return BAD_INPUT


@cache
def _commands() -> Any:
    """All commands, built from their functions once per process, since that takes 30 ms."""
    return get_command(app)


def run() -> None:
    """The entry point: `main` with the arguments of the process."""
    try:
        _prepare_process()
        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # just before a command or after its end
        code = INTERRUPTED
    sys.exit(code)


def _prepare_process() -> None:
    bound_spinning()  # before any command imports PyTorch
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # texts are UTF-8, whatever the locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    # SIGTERM raises like Ctrl-C so that scratch files are removed; not under torchrun, where a worker may wait for a dead one.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and "RANK" not in os.environ:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _each_once(show: Callable[..., None]) -> Callable[..., None]:
    """Show each warning only once: a command may open a folder several times."""
    shown: set[tuple[type[Warning], str]] = set()

    def once(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if (category, str(message)) not in shown:
            shown.add((category, str(message)))
            show(message, category, *where)

    return once


def _say_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    """Print a warning of this package as a sentence, and one of a library or a plugin as Python prints it."""
    if category.__module__.split(".")[0] == "regard" or Path(filename).is_relative_to(PACKAGE):
        say("warning: " + one_line(str(message)))
    elif sys.stderr is not None:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


def _wrong_usage(error: Any) -> str:
    """A command-line error as a sentence, with the nearest option and where help is."""
    message = str(error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    if hasattr(error, "possibilities") and context is not None:
        options = [name for part in context.command.get_params(context) for name in part.opts if name.startswith("--")]
        message = f"there is no option {error.option_name}; {nearest(error.option_name, sorted(options))}"
    else:
        message = message[:1].lower() + message[1:]
    path = context.command_path if context is not None else "regard"
    return f"{message} (see {path} --help)"


def _stop_writing() -> None:
    """Discard what is still to be written, so that the exit does not fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
