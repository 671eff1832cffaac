"""The studio's page next to a training: a process of its own that shows the run's folder until the training's process ends.

Nothing of it runs in the training's process: a page that is asked for costs the training no more than another program on the
machine does. The process has a session of its own, so that Ctrl-C, which a terminal sends to all that belong to it, reaches the
training alone; and it reads from a pipe that closes when the training's process is gone, killed or not.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.reading import json_value

PATIENCE = 5.0
"""Seconds that the page's process has to end by itself."""


class StudioBeside:
    """The page of a run that is being trained.

    Arguments:
        process: which serves it.
        url: of the page, with the key without which it answers nothing.
    """

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    @property
    def ended(self) -> bool:
        """Whether its process has ended, which it does by itself only where something went wrong."""
        return self.process.poll() is not None

    def wait(self) -> None:
        """Wait until it ends or the user presses Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self.process.wait()


@contextlib.contextmanager
def beside(folder: Path, *, port: int = 0) -> Iterator[StudioBeside]:
    """Inside the block the page of a run's training is served to this machine; the folder may not be there yet.

    Arguments:
        folder: of the run.
        port: to listen on; 0 for any that is free.

    Raises:
        InputError: for a port that cannot be listened on.
    """
    key = secrets.token_urlsafe(18)
    given = {"folder": str(folder.resolve()), "port": port, "key": key}
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.serving.beside"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process was started without its pipes")
        with contextlib.suppress(BrokenPipeError):  # it ended at once; what it wrote says why
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        told: dict[str, Any] = json_value(line) if line else {"problem": "its process ended before it listened"}
        if "problem" in told:
            raise InputError(f"--studio: {told['problem']}")
        yield StudioBeside(process, f"{told['url']}/studio/training#token={key}")
    finally:
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Serve what the first line of standard input names, until that is closed."""
    from regard.serving.messages import EngineOptions
    from regard.serving.run import WebOptions, serve

    given = json_value(sys.stdin.readline())
    folder = Path(given["folder"])
    web = WebOptions(
        port=given["port"],
        api_keys=(given["key"],),
        access_log=False,
        studio=True,
        runs={folder.name: str(folder)},
        drain_seconds=1,
    )

    def started(url: str, names: Sequence[str]) -> None:
        print(json.dumps({"url": url}), flush=True)

    def follow() -> None:
        sys.stdin.read()  # until the other end is gone
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    try:
        serve(EngineOptions(folders={}, threads=1), web, started=started)
    except InputError as error:
        print(json.dumps({"problem": str(error)}), flush=True)


if __name__ == "__main__":
    main()
