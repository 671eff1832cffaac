"""The training of a run in the studio: its log, read while it grows, and the attention recorded at its evaluations.

The run's folder is only read, and its lock is not taken: the page costs a run no more than the reading of new log lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from regard.errors import InputError
from regard.inspection.watch import watched_at, watched_steps
from regard.reading import read_json_object
from regard.serving.attention import Strict
from regard.serving.requests import BadRequest, read
from regard.serving.responses import Json
from regard.serving.server import Server
from regard.tasks.loading import POINTER, pointers_of
from regard.training.checkpoint import PROGRESS
from regard.training.run import RECIPE
from regard.web import page

LOG = "log.jsonl"

MOST = 2**20
"""The most bytes of a log in one answer."""

MARKED = 512
"""Bytes before a position in a log by which it is recognized: a resumed run truncates its log and appends to it."""


class LogRequest(Strict):
    """A request of the training page for new log lines, sent about every second.

    Arguments:
        run: by the name it is served under; None for the first.
        since: the number of bytes of the log that are known; the lines after them are returned.
        mark: from the previous answer; where the log before `since` has changed, it is returned from its beginning.
    """

    run: str | None = None
    since: Annotated[int, Meta(ge=0)] = 0
    mark: str = ""


class WatchedRequest(Strict):
    """A request for the attention recorded at a step.

    Arguments:
        run: by the name it is served under; None for the first.
        step: one of the `watched` steps in the answer about the log.
    """

    step: Annotated[int, Meta(ge=0, lt=10**12)]
    run: str | None = None


class LogPart(msgspec.Struct, kw_only=True):
    """A part of a log.

    Arguments:
        again: whether it begins at the log's beginning, so that lines read before are outdated.
        until, mark: where to continue: `since` and `mark` of the next request.
        more: whether more lines are there already.
        events: its lines.
    """

    again: bool
    until: int
    mark: str
    more: bool
    events: list[dict[str, Any]]


async def training(server: Server, request: Request) -> Response:
    """The page. It contains no data: its script requests them, with the key in the page's address."""
    parts = {"title": "Training", "models": bool(server.link.models), "note": "", "footer": "", "weights": []}
    served = f"{request.scope.get('root_path', '')}/static"
    return HTMLResponse(page("training", parts, styles=("viewer.css", "training.css"), served=served))


async def training_log(server: Server, request: Request) -> Response:
    """The new lines of a run's log, and the state of the run."""
    wanted: LogRequest = read(request.state.body, LogRequest)
    runs, name = _run_of(server, wanted.run)
    try:
        found = await asyncio.to_thread(_log_state, runs[name], wanted)
    except (InputError, OSError) as error:
        raise BadRequest(str(error), "run") from error
    return Json({"runs": list(runs), "run": name, **found})


async def training_attention(server: Server, request: Request) -> Response:
    """The attention on the watched examples at a step; the body has the format of /studio/look."""
    wanted: WatchedRequest = read(request.state.body, WatchedRequest)
    runs, name = _run_of(server, wanted.run)
    try:
        body = await asyncio.to_thread(watched_at, runs[name], wanted.step)
    except InputError as error:
        raise BadRequest(str(error), "step", status=404) from error
    return Response(body, media_type="application/octet-stream")


def _run_of(server: Server, asked: str | None) -> tuple[dict[str, Path], str]:
    """All runs, and the name of the one that is asked for.

    Raises:
        BadRequest: where there is no run, or none of that name.
    """
    runs = runs_of(server.runs)
    if not runs:
        raise BadRequest("none of the folders that are served holds a run; start the studio with one that does", "run")
    name = next(iter(runs)) if asked is None else asked
    if name not in runs:
        raise BadRequest(f"there is no run {name[:100]!r}; this studio has {', '.join(runs)}", "run", status=404)
    return runs, name


def runs_of(folders: Mapping[str, str]) -> dict[str, Path]:
    """The folders that are runs."""
    return {name: Path(folder) for name, folder in folders.items() if (Path(folder) / RECIPE).is_file()}


def without_model(folder: Path) -> bool:
    """Whether a folder is a run without a checkpoint yet."""
    return (folder / RECIPE).is_file() and not any((folder / name).exists() for name in (POINTER, "config.json"))


def read_log(path: Path, since: int = 0, mark: str = "", *, most: int = MOST) -> LogPart:
    """The complete lines of a log after a position; none where the log does not exist yet.

    Arguments:
        path: of the log.
        since, mark: the position, from a previous part. Where the log is shorter, or differs before that position, it is read
            from its beginning.
        most: bytes to read.

    Raises:
        InputError: for a line that is no JSON object.
    """
    if not path.is_file():
        return LogPart(again=since > 0, until=0, mark="", more=False, events=[])
    with path.open("rb") as file:

        def marked(place: int) -> str:
            file.seek(max(0, place - MARKED))
            return hashlib.blake2b(file.read(min(place, MARKED)), digest_size=8).hexdigest() if place else ""

        size = os.fstat(file.fileno()).st_size
        again = since > size or (since > 0 and marked(since) != mark)
        start = 0 if again else since
        file.seek(start)
        piece = file.read(most)
        lines = piece[: piece.rfind(b"\n") + 1]  # an unfinished line is left for the next time
        until = start + len(lines)
        try:
            events = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines.splitlines()]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{path}: has a line that is no JSON object: {error}") from error
        if not lines and len(piece) == most:
            raise InputError(f"{path}: has a line longer than {most:,} bytes, which no run writes")
        return LogPart(again=again, until=until, mark=marked(until), more=len(piece) == most, events=events)


def _log_state(folder: Path, wanted: LogRequest) -> dict[str, Any]:
    path = folder / LOG
    part = read_log(path, wanted.since, wanted.mark)
    progress: dict[str, Any] = {}
    last = pointers_of(folder).get("last")
    file = folder / "checkpoints" / str(last) / PROGRESS
    if last is not None and file.is_file():  # otherwise the next checkpoint has just replaced it
        progress = read_json_object(file, "the checkpoint is damaged").get("progress", {})
    scored = progress.get("best_value") is not None
    return {
        **msgspec.to_builtins(part),
        "age": max(0.0, time.time() - path.stat().st_mtime) if path.is_file() else None,
        "finished": progress.get("finished", ""),
        "checkpoint": progress.get("step"),
        "best": progress.get("best_step") if scored else None,
        "watched": watched_steps(folder),
    }
