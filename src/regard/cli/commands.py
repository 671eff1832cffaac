"""Groups of commands: renamed commands and options, errors in one sentence, `--code`; and `regard predict`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from regard.cli.console import Interruption, ReaderGone, say
from regard.cli.settings import Model
from regard.errors import InputError, nearest

Code = Annotated[
    list[Path] | None,
    typer.Option(
        "--code", metavar="FILE", help="A Python file of yours to run first, with parts that the recipe or model names."
    ),
]


def with_code(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the option `--code`: the user's Python files, which are run first."""

    @functools.wraps(command)
    def coded(*arguments: Any, code: list[Path] | None = None, **settings: Any) -> None:
        if code:
            from regard.parts import load_code

            load_code(code)
        command(*arguments, **settings)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("code", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Code)
    whole = signature.replace(parameters=[*signature.parameters.values(), option])
    coded.__signature__ = whole  # type: ignore[attr-defined]
    coded.__annotations__ = {name: each.annotation for name, each in whole.parameters.items()}
    return coded


def renamed(**old: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that accepts old names of options for one release, with a warning; they are not in its help.

    >>> @renamed(top="n_best")
    ... def search(n_best: int = 5) -> None: ...
    >>> search.renamed
    {'--top': '--n-best'}
    """

    def option(name: str) -> str:
        return "--" + name.replace("_", "-")

    def marked(command: Callable[..., None]) -> Callable[..., None]:
        command.renamed = {option(before): option(now) for before, now in old.items()}  # type: ignore[attr-defined]
        return command

    return marked


def _in_new_words(words: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The words of a command line with renamed options replaced, each with a warning."""
    end = words.index("--") if "--" in words else len(words)
    found = list(words)
    for place, word in enumerate(words[:end]):
        name, equals, value = word.partition("=")
        if name in names:
            _say_renamed(name, names[name])
            found[place] = names[name] + equals + value
    return found


def _say_renamed(before: str, now: str) -> None:
    say(f"warning: {before} is called {now} now; the old name will be removed in the next release")


def _bounded(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that refuses integers too large for the libraries below."""

    @functools.wraps(command)
    def bounded(*arguments: Any, **settings: Any) -> Any:
        from regard.structure import LARGEST_WHOLE  # imported late, so that `--help` is fast

        for name, value in settings.items():
            if isinstance(value, int) and not -LARGEST_WHOLE <= value <= LARGEST_WHOLE:
                option = "--" + name.rstrip("_").replace("_", "-")
                raise InputError(f"{option}: the number is too large; whole numbers go up to {LARGEST_WHOLE:,}")
        return command(*arguments, **settings)

    return bounded


def _first_sentence(text: str) -> str:
    r"""The first sentence of a help text, on one line and without its full stop.

    >>> _first_sentence("Summarize documents: one line\n    for each. Pieces are joined.")
    'Summarize documents: one line for each'
    >>> _first_sentence("Remove a direction (Bolukbasi et al. 2016). More.")
    'Remove a direction (Bolukbasi et al. 2016)'
    """
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z])", paragraph)[0].removesuffix(".")


_BOUNDED = _bounded(print).__code__


class Commands(TyperGroup):
    """A group of commands."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Old names of commands, which are accepted for one release, and their new names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command with a name.

        Raises:
            InputError: for an unknown name; the message has the nearest one.
        """
        if args[0] in self.renamed:
            _say_renamed(args[0], self.renamed[args[0]])
            args = [self.renamed[args[0]], *args[1:]]
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:  # shell completion
            raise InputError(f"there is no command {args[0]!r}; {nearest(args[0], self.list_commands(ctx))}")
        name, command, rest = super().resolve_command(ctx, args)
        callback = None if command is None else command.callback
        rest = _in_new_words(rest, getattr(callback, "renamed", {}))
        if command is not None and callback is not None and callback.__code__ is not _BOUNDED:  # wrap it only once
            command.callback = _bounded(callback)
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with the whole first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, _first_sentence(each.help or "")) for name, each in commands if each is not None and not each.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            Interruption: for Ctrl-C.
            ReaderGone: where the output is no longer read.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interruption("interrupted") from None
        except BrokenPipeError:
            raise ReaderGone from None


def commands(**renamed: str) -> type[Commands]:
    """The class of a group with some renamed commands, given as old="new"."""
    return type(
        "Commands", (Commands,), {"renamed": {before: now.replace("_", "-") for before, now in renamed.items()}}
    )


# `regard predict`: the command for a model's task, found from its folder.


def predict(
    context: typer.Context,
    model: Model,
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]... [OPTIONS]", help="Arguments of the command for the task.", show_default=False
        ),
    ] = None,
) -> None:
    """Predict with any model: runs the command for the task in the model's folder.

    That command is translate, generate, fill, classify, tag, answer, embed or caption. All arguments after MODEL, such as
    --input, --output and --json, are passed to it. `regard predict MODEL --help` shows its options.

    \b
    Example:
      regard predict runs/dates "Tuesday, 9 May 2017"
      regard predict runs/spam --input messages.txt --output classes.tsv
      regard predict runs/gpt "The history of" --sample --seed 3 --json
      regard predict runs/names --help
    """  # noqa: D301  # \b keeps the lines of the example apart
    from regard.tasks.loading import task_of

    task = task_of(model)
    root = context.find_root()
    group: Any = root.command
    found = next((name for name, each in group.commands.items() if task in getattr(each.callback, "tasks", ())), None)
    if found is None:
        raise InputError(f"{model}: no command predicts for task {task}; use the model from Python, with regard.load")
    name, command, words = group.resolve_command(root, [found, str(model), *(rest or ())])
    with command.make_context(name, words, parent=root) as chosen:
        command.invoke(chosen)
