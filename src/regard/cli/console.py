"""What a command says and writes: results on standard output or in a file, everything else on standard error."""

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
    """Whether this process speaks to the user: of those that torchrun starts only the first does."""
    return os.environ.get("RANK", "0") == "0"


def say(sentence: str) -> None:
    """A sentence for the user, on standard error."""
    if speaking() and sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)


def on_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False where there is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def print_json(value: Any, file: NewFile | None = None) -> None:
    """One object on standard output, or in a file; numbers that JSON does not know (NaN, infinities) become null."""
    text = json.dumps(finite(value), ensure_ascii=False, indent=2)
    if file is not None:
        file.write(text + "\n")
    elif speaking():
        print(text)


def envelope(command: str) -> dict[str, str]:
    """What the JSON object of a command begins with: which command it was, and the version of regard that ran it."""
    return {"command": command, "version": __version__}


def json_opening(command: str, name: str, **more: Any) -> str:
    """The beginning of a command's JSON object with one list, whose items are written as they come.

    >>> json_opening("translate", "translations").replace(__version__, "1.0")
    '{"command": "translate", "version": "1.0", "translations": ['
    """
    return json.dumps(envelope(command) | more)[:-1] + f', "{name}": ['


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Names and what they are, in two columns on standard output."""
    rows = list(rows)
    if speaking() and rows:
        print(text_table(rows))


PIPE_WIDTH = 240
"""Characters of a line of a wide table that goes into a file or a pipe, where nothing has to fit a screen."""


def print_rich(*parts: Any, pipe_width: int | None = None) -> None:
    """Tables and texts of rich's on standard output.

    Arguments:
        pipe_width: characters of a line where that is no terminal.
    """
    from rich.console import Console

    console = Console(file=sys.stdout, width=None if on_terminal(sys.stdout) else pipe_width)
    for part in parts:
        console.print(part, markup=False, highlight=False)


def say_malformed(malformed: MalformedRows) -> None:
    """Say which columns were read where not all were named, and what was left out, if anything was."""
    for note in malformed.notes:
        say(note)


def one_line(text: str) -> str:
    r"""A message on one line, with nothing in it that would act on the terminal.

    >>> one_line("a file\n  called \x1b[31mred")
    'a file called \\x1b[31mred'
    """
    joined = " ".join(line.strip() for line in text.splitlines())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in joined)


# How a command is stopped from outside.


class Interruption(Exception):
    """A signal stopped the command, mostly Ctrl-C; the message says how to continue.

    Arguments:
        code: that the command leaves with: 128 and the number of the signal.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


class ReaderGone(Exception):
    """Whoever read the output has gone, as `head` does after its lines."""


# A text file that is written piece by piece and appears whole or not at all.


class NewFile:
    r"""A UTF-8 text file that appears at its path when the block ends well; what was there before is intact until then.

    A device or a pipe (/dev/null, /dev/stdout) is written to as it is.

    Arguments:
        path: where to.

    Raises:
        InputError: for a folder, or a place that cannot be written to, from the start of the block; for a full disk.

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
            target = self.path.resolve() if self.path.is_symlink() else self.path  # a link stays one
            if target.is_dir():
                raise InputError(f"{self.path}: is a folder; give the path of a file")
            whole = target.is_file() or not target.exists()
            opened = new_file(target) if whole else target.open("wb")
            self._file = self._ending.enter_context(opened)
        return self

    def write(self, text: str) -> None:
        """Add to the file."""
        from regard.files import writing_errors

        if self._file is None:
            raise RuntimeError("a NewFile is written to inside its block")
        with writing_errors(self.path):
            self._file.write(text.encode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from regard.files import writing_errors

        with writing_errors(self.path):
            self._ending.__exit__(kind, error, trace)


# A bar on the terminal.


REFRESH = 0.2
"""Seconds between two images of a bar."""

Shown = Callable[[int, int | None, str], None]
"""Is called with how many are done, of how many where that is known, and of which stage; each stage begins again."""


@contextlib.contextmanager
def progress_bar(unit: str, *, shown: bool = True) -> Iterator[Shown]:
    """Inside the block, what is done so far and the speed are on standard error; only where that is a terminal.

    Arguments:
        unit: what is counted, such as texts; a stage may count another, after a comma.
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
        redirect_stdout=False,  # what is written there is for whoever reads it, not for the terminal
        expand=True,
    )
    task = bar.add_task("", total=None, speed=unit)
    current, began, drawn = "", time.monotonic(), 0.0

    def show(done: int, total: int | None, stage: str) -> None:
        nonlocal current, began, drawn
        now = time.monotonic()
        name, _, counted = stage.partition(",")
        if stage != current:
            current, began = stage, now
            bar.reset(task, total=total, description=name)
        speed = f"{counted or unit}  {done / max(1e-9, now - began):,.1f} {counted or unit}/s"
        bar.update(task, total=total, completed=done, speed=speed)
        if now - drawn >= REFRESH or done == total:
            drawn = now
            bar.refresh()

    with bar:
        yield show


@contextlib.contextmanager
def text_bar(model: Predictor[Any] | None, total: int | None, *, shown: bool = True) -> Iterator[None]:
    """Inside the block, show how many texts the model has answered.

    Arguments:
        model: is watched from outside, and does nothing else than before; no bar where None.
        total: of texts; None where it is not known yet.
        shown: no bar where False, because the texts themselves are written to the terminal.
    """
    with contextlib.ExitStack() as stack:
        if model is not None and shown:
            show = stack.enter_context(progress_bar("texts"))
            stack.enter_context(model.observing(_Counter(show, total)))
        yield


class _Counter:
    """Moves the bar with every batch of predictions."""

    def __init__(self, show: Shown, total: int | None) -> None:
        self._show, self._total = show, total
        self._done = 0

    def search_started(self, source: Any) -> None:
        """Nothing is done yet."""

    def search_finished(self, hypotheses: list[list[Any]]) -> None:
        """What was found becomes predictions at once."""

    def read(self, tokens: Any) -> None:
        """What was read is not counted."""

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Any]]) -> None:
        """So many texts more."""
        self._done += len(predictions)
        self._show(self._done, self._total, "")
