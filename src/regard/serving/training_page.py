"""The studio's page of a run in training: a separate process that serves the run's folder until the training process ends.

None of it runs in the training process, so that requests for the page cost training no more than another program on the machine
does. The process has its own session, so that Ctrl-C, which a terminal sends to its whole process group, reaches only training;
and it reads from a pipe that closes when the training process ends, even when it is killed.
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
"""Seconds that the page's process has to end by itself before it is killed."""


class TrainingPage:
    """The page of a run that is being trained.

    Arguments:
        process: the process that serves it.
        url: of the page, with its access key.
    """

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    @property
    def ended(self) -> bool:
        """Whether its process has ended; by itself it does so only after an error."""
        return self.process.poll() is not None

    def wait(self) -> None:
        """Wait until it ends or the user presses Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self.process.wait()


@contextlib.contextmanager
def training_page(folder: Path, *, port: int = 0) -> Iterator[TrainingPage]:
    """Within the block, the page of a run in training is served to this machine; the folder need not exist yet.

    Arguments:
        folder: of the run.
        port: to listen on; 0 for any free one.

    Raises:
        InputError: where the port cannot be listened on.
    """
    key = secrets.token_urlsafe(18)
    given = {"folder": str(folder.resolve()), "port": port, "key": key}
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.serving.training_page"],
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
        reply: dict[str, Any] = json_value(line) if line else {"problem": "its process ended before it listened"}
        if "problem" in reply:
            raise InputError(f"--studio: {reply['problem']}")
        yield TrainingPage(process, f"{reply['url']}/studio/training#token={key}")
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
    """Serve the folder that the first line of standard input names, until standard input is closed."""
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
        sys.stdin.read()  # returns when the training process has ended
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()
    try:
        serve(EngineOptions(folders={}, threads=1), web, started=started)
    except InputError as error:
        print(json.dumps({"problem": str(error)}), flush=True)


if __name__ == "__main__":
    main()
