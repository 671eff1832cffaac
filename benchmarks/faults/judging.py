"""One case in a process of its own: what it does, how it ended, and whether it may end so."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

import regard.cli.main
from regard.bench.driver import Driver
from regard.cli.main import app, get_command, main
from regard.errors import InputError
from regard.training.loop import Loop

SECONDS, MEMORY = 2.0, 1 << 30
"""What a case may take: processor seconds, and bytes beyond those of the process that it is forked from."""

KILLED_AFTER = 5
"""Processor seconds after which the system ends a case."""

STILL = 4.0
"""Seconds without any work, asleep, after which a case is taken to wait for something that never comes."""

LONGEST = 3000
"""Characters of a message that somebody reads."""

ALLOWED = ("answer", "refused", "started")
"""How a case may end: with an answer; with one sentence; or, of what would train, at the first update."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a case ended.

    Arguments:
        kind: one of `ALLOWED`, or what went wrong.
        detail: what was said, or where it happened.
        seconds: of the processor.
        memory: bytes beyond those at the beginning, at most.
    """

    kind: str
    detail: str = ""
    seconds: float = 0.0
    memory: int = 0

    @property
    def allowed(self) -> bool:
        return self.kind in ALLOWED


class Started(BaseException):
    """Training has come to its first update: all that was given has been accepted."""


def command(*words: str) -> Callable[[], None]:
    """A command line as something to do."""

    def run() -> None:
        code = main(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
        errors = Path("/proc/self/fd/2")
        # When the parent warms up, it may be a pipe or a terminal, and nothing is judged.
        said = errors.read_text(encoding="utf-8", errors="replace") if errors.is_file() else ""
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        if "Traceback (most recent call last)" in said:
            raise Unclear(f"exit code {code} with a traceback")
        if code == 2 and len(lines) == 1:
            raise InputError(lines[0])
        if code not in (0, 1) or lines:
            raise Unclear(f"exit code {code} with {len(lines)} lines of error")

    return run


class Unclear(Exception):
    """A command ended otherwise than with an answer or one sentence."""


def judged(scratch: Path, do: Callable[[], Any]) -> Outcome:
    """Do something in a forked process, in the folder `work` of `scratch`; it may write there and in `temporary` alone."""
    before = listing(scratch / "outside")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _live(scratch, do, writer)
    os.close(writer)
    text, how = b"", "died"
    asleep = time.monotonic()
    worked = -1
    while True:
        ready, _, _ = select.select([reader], [], [], 0.25)
        if ready:
            part = os.read(reader, 1 << 16)
            text += part
            if not part:
                break
        now, state = work_of(child)
        if now != worked or state != "S":
            worked, asleep = now, time.monotonic()
        elif time.monotonic() - asleep > STILL:
            how = "waits"
            break
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if text.endswith(b"\n"):
        outcome = Outcome(**json.loads(text))
    elif how == "died" and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        outcome = Outcome(kind="slow", detail=_stack(scratch), seconds=seconds)
    elif how == "died":
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        outcome = Outcome(
            kind="died", detail=signal.Signals(number).name if number else f"exit {status >> 8}", seconds=seconds
        )
    else:
        outcome = Outcome(kind="waits", detail=_stack(scratch), seconds=seconds)
    if outcome.allowed and listing(scratch / "outside") != before:
        outcome = Outcome(
            kind="wrote outside", detail="what is outside has changed", seconds=seconds, memory=outcome.memory
        )
    return outcome


def work_of(process: int) -> tuple[int, str]:
    """Ticks of work, and the state: S while it waits."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, "Z"
    return int(fields[11]) + int(fields[12]), fields[0]


def _stack(scratch: Path) -> str:
    """Where a case stood when it was last looked at; its own timer writes that down."""
    try:
        return (scratch / "stack").read_text()
    except OSError:
        return ""


def _live(scratch: Path, do: Callable[[], Any], writer: int) -> NoReturn:
    """What the child does."""
    try:
        os.setsid()
        arrange(scratch)
        begun, resident = time.process_time(), resident_size()
        kind, detail = ended(do)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.process_time() - begun + used.ru_utime + used.ru_stime
        memory = max(0, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident)
        if kind in ALLOWED and seconds > SECONDS:
            kind, detail = "slow", f"{kind} after {seconds:.1f} s: {detail}"
        elif kind in ALLOWED and memory > MEMORY:
            kind, detail = "large", f"{kind} with {memory >> 20} MiB: {detail}"
        outcome = Outcome(kind=kind, detail=detail[:1500], seconds=seconds, memory=memory)
        os.write(writer, json.dumps(asdict(outcome)).encode() + b"\n")
    finally:
        os._exit(0)


def ended(do: Callable[[], Any]) -> tuple[str, str]:
    try:
        do()
    except InputError as error:
        message = str(error)
        if not message or len(message) > LONGEST:
            return "unclear", f"a message of {len(message)} characters: {message[:120]}... {_place(error)}"
        return "refused", message
    except Started:
        return "started", ""
    except Outside as error:
        return "wrote outside", f"{error} {_place(error)}"
    except BaseException as error:
        return "unclear" if isinstance(
            error, Unclear
        ) else "other exception", f"{type(error).__name__}: {error} {_place(error)}"
    return "answer", ""


def _place(error: BaseException) -> str:
    """The innermost place in the package, and what it called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/regard/" in frame.filename]
    shown = own[-2:] + [frame for frame in frames[-1:] if "/regard/" not in frame.filename]
    return "at " + " > ".join(
        f"{frame.filename.rpartition('/regard/')[2]}:{frame.lineno} {frame.name}" for frame in shown
    )


class Outside(BaseException):
    """Something was to be written where nothing may be."""


WRITES = {
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.truncate",
    "os.chmod",
    "shutil.rmtree",
}


def arrange(scratch: Path, killed_after: int | None = KILLED_AFTER) -> list[str]:
    """Streams, limits and watches of the child.

    Arguments:
        killed_after: processor seconds, of all that it does; None for one that does many things and counts itself.

    Returns:
        How the paths begin that it may write to; what is added is allowed from then on.
    """
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(scratch / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    sys.stdin = io.TextIOWrapper(io.FileIO(0), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), encoding="utf-8", errors="backslashreplace")
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8", errors="backslashreplace")
    os.chdir(scratch / "work")
    torch.set_num_threads(1)
    allowed = [os.path.realpath(scratch / name) + "/" for name in ("work", "temporary")]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        paths: tuple[Any, ...] = ()
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            if isinstance(arguments[0], str | bytes) and (
                any(letter in mode for letter in "wax+")
                if isinstance(mode, str)
                else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            ):
                paths = (os.path.realpath(arguments[0]),)
        elif event in WRITES:
            paths = tuple(
                os.path.join(os.path.realpath(os.path.dirname(os.fspath(each))), os.path.basename(os.fspath(each)))
                for each in arguments[: 2 if event == "os.rename" else 1]
                if isinstance(each, str | os.PathLike)
            )
        for path in paths:
            spelt = os.fsdecode(path)
            if not (spelt + "/").startswith(tuple(allowed)) and spelt not in ("/dev/null", "/dev/full"):
                raise Outside(f"{event} {spelt}")

    stack = scratch / "stack"
    stack.unlink(missing_ok=True)

    def look(*_: Any) -> None:
        frame, found = sys._getframe(1), []
        while frame is not None:
            name = frame.f_code.co_filename
            if "/regard/" in name:
                found.append(f"{name.rpartition('/regard/')[2]}:{frame.f_lineno} {frame.f_code.co_name}")
            frame = frame.f_back
        descriptor = os.open(stack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(descriptor, ("at " + " > ".join(reversed(found[:2]))).encode())
        os.close(descriptor)

    allowed.append(os.path.realpath(stack) + "/")
    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    if killed_after is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (killed_after, killed_after + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))
    return allowed


def resident_size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """All that is in a folder, with size and time."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found.append((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns))
    return found


def emptied(scratch: Path) -> Path:
    """The folder `work`, empty; `temporary` and `outside` next to it as they ought to be."""
    for name in ("work", "temporary"):
        if (scratch / name).is_symlink() or (scratch / name).is_file():
            (scratch / name).unlink()
        shutil.rmtree(scratch / name, ignore_errors=True)
        (scratch / name).mkdir()
    if not (scratch / "outside" / "bait").is_file():
        shutil.rmtree(scratch / "outside", ignore_errors=True)
        (scratch / "outside").mkdir()
        (scratch / "outside" / "bait").write_text("not to be changed\n")
        (scratch / "outside" / "step-00000001").mkdir()
        (scratch / "outside" / "step-00000001" / "mine").write_text("not to be removed\n")
    return scratch / "work"


def until_started() -> None:
    """From here on training in this process, and in what is forked from it, ends at its first update; a benchmark before it.

    The commands are built once, which takes longer than many a case.
    """
    update, tree = Loop._update, get_command(app)

    def first(self: Any, *arguments: Any) -> Any:
        update(self, *arguments)
        raise Started

    def none(*_: Any, **__: Any) -> None:
        raise Started

    Loop._update = first  # type: ignore[method-assign]
    Driver.__init__ = none  # type: ignore[method-assign]
    regard.cli.main.get_command = lambda _: tree  # type: ignore[assignment]
    gc.collect()
    gc.freeze()  # else the collector touches, and so copies, the memory that a fork shares with this process
