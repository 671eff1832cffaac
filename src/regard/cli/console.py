"""Output of commands: results on standard output or in a file, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from regard import __version__
from regard.errors import InputError
from regard.rendering import text_table
from regard.structure import finite

if TYPE_CHECKING:
    from regard.data.malformed import MalformedRows
    from regard.tasks.predictor import Predictor


def speaking() -> bool:
    """Whether this process prints: of the processes that torchrun starts, only the first does."""
    return os.environ.get("RANK", "0") == "0"


def say(sentence: str) -> None:
    """Print a sentence for the user on standard error."""
    if speaking() and sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False where there is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def print_json(value: Any, file: NewFile | None = None) -> None:
    """Print an object as JSON on standard output, or write it to a file; NaN and infinities become null."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2)
    if file is not None:
        file.write(text + "\n")
    elif speaking():
        print(text)


def envelope(command: str) -> dict[str, str]:
    """The beginning of a command's JSON object: the command and the version of regard."""
    return {"command": command, "version": __version__}


def json_opening(command: str, name: str, **more: Any) -> str:
    """The beginning of a command's JSON object with one list, whose items are written one by one.

    >>> json_opening("translate", "translations").replace(__version__, "1.0")
    '{"command": "translate", "version": "1.0", "translations": ['
    """
    return json.dumps(envelope(command) | more)[:-1] + f', "{name}": ['


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values as two columns on standard output."""
    rows = list(rows)
    if speaking() and rows:
        print(text_table(rows))


PIPE_WIDTH = 240
"""Characters per line of a wide table in a file or pipe."""


def print_rich(*parts: Any, pipe_width: int | None = None) -> None:
    """Print rich's tables and texts on standard output.

    Arguments:
        parts: tables and texts.
        pipe_width: characters per line where standard output is no terminal.
    """
    from rich.console import Console

    console = Console(file=sys.stdout, width=None if on_terminal(sys.stdout) else pipe_width)
    for part in parts:
        console.print(part, markup=False, highlight=False)


def say_malformed(malformed: MalformedRows) -> None:
    """Report which columns were read where not all were named, and what was left out, if anything."""
    for note in malformed.notes:
        say(note)


def one_line(text: str) -> str:
    r"""A message on one line, with characters that would control the terminal escaped.

    >>> one_line("a file\n  called \x1b[31mred")
    'a file called \\x1b[31mred'
    """
    joined = " ".join(line.strip() for line in text.splitlines())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in joined)


# Interruptions from outside.


class Interruption(Exception):
    """A signal stopped the command, usually Ctrl-C; the message says how to continue.

    Arguments:
        message: for the user.
        code: the exit status: 128 plus the signal's number.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


class ReaderGone(Exception):
    """The reader of the output has closed it, as `head` does after its lines."""


# A text file that is written piece by piece and appears complete or not at all.


class NewFile:
    r"""A UTF-8 text file that appears at its path when the block ends without an error; an existing file is kept until then.

    A device or a pipe (/dev/null, /dev/stdout) is written to directly.

    Arguments:
        path: of the file.

    Raises:
        InputError: at the start of the block for a folder, or a place that cannot be written to; for a full disk.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "lines.txt"
    >>> with NewFile(place) as file:
    ...     file.write("eins\n")
    ...     place.exists()
    False
    >>> place.read_text()
    'eins\n'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> NewFile:
        from regard.files import new_file, writing_errors

        with writing_errors(self.path):
            target = self.path.resolve() if self.path.is_symlink() else self.path  # keep the link
            if target.is_dir():
                raise InputError(f"{self.path}: is a folder; give the path of a file")
            whole = target.is_file() or not target.exists()
            opened = new_file(target) if whole else target.open("wb")
            self._file = self._ending.enter_context(opened)
        return self

    def write(self, text: str) -> None:
        """Append to the file."""
        from regard.files import writing_errors

        if self._file is None:
            raise RuntimeError("a NewFile can only be written to inside its block")
        with writing_errors(self.path):
            self._file.write(text.encode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from regard.files import writing_errors

        with writing_errors(self.path):
            self._ending.__exit__(kind, error, trace)


# A progress bar on the terminal.


REFRESH = 0.2
"""Seconds between two updates of the bar."""

Shown = Callable[[int, int | None, str], None]
"""Called with the number done, the total (None where unknown) and the stage; counting starts anew with each stage."""


@contextlib.contextmanager
def progress_bar(unit: str, *, shown: bool = True) -> Iterator[Shown]:
    """Within the block, a progress bar with the speed on standard error, if that is a terminal.

    Arguments:
        unit: what is counted, such as texts; a stage may have another unit, after a comma.
        shown: False for no bar.
    """
    if not shown or not on_terminal(sys.stderr):
        yield lambda done, total, stage: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        auto_refresh=False,
        redirect_stdout=False,  # standard output must not be changed
        expand=True,
    )
    task = bar.add_task("", total=None, speed=unit)
    current, began, refreshed = "", time.monotonic(), 0.0

    def show(done: int, total: int | None, stage: str) -> None:
        nonlocal current, began, refreshed
        now = time.monotonic()
        name, _, counted = stage.partition(",")
        if stage != current:
            current, began = stage, now
            bar.reset(task, total=total, description=name)
        speed = f"{counted or unit}  {done / max(1e-9, now - began):,.1f} {counted or unit}/s"
        bar.update(task, total=total, completed=done, speed=speed)
        if now - refreshed >= REFRESH or done == total:
            refreshed = now
            bar.refresh()

    with bar:
        yield show


@contextlib.contextmanager
def text_bar(model: Predictor[Any] | None, total: int | None, *, shown: bool = True) -> Iterator[None]:
    """Within the block, a progress bar of the texts that the model has answered.

    Arguments:
        model: observed, not changed; None for no bar.
        total: number of texts; None where unknown.
        shown: False for no bar, where the texts themselves are printed to the terminal.
    """
    with contextlib.ExitStack() as stack:
        if model is not None and shown:
            show = stack.enter_context(progress_bar("texts"))
            stack.enter_context(model.observing(_Counter(show, total)))
        yield


class _Counter:
    """Updates the bar with every batch of predictions."""

    def __init__(self, show: Shown, total: int | None) -> None:
        self._show, self._total = show, total
        self._done = 0

    def search_started(self, source: Any) -> None:
        """Do nothing."""

    def search_finished(self, hypotheses: list[list[Any]]) -> None:
        """Do nothing."""

    def read(self, tokens: Any) -> None:
        """Do nothing."""

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Any]]) -> None:
        """Count the predictions."""
        self._done += len(predictions)
        self._show(self._done, self._total, "")
