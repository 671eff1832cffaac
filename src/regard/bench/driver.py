"""The process of a contestant: started, asked in lines of JSON, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from regard.bench.peers import RUNNER
from regard.errors import InputError

PATIENCE = 900.0
"""Seconds after which a contestant that does not answer has failed."""


class ContestantFailed(Exception):
    """A contestant failed: its error, or how its process ended, as a sentence."""


class Driver:
    """The process of one contestant, started at once, ended by `close` or at the end of the block.

    Arguments:
        file: the driver to run in it (see `regard.bench.peers.runner`).
        python: the interpreter; None for this one.
        threads: the number of threads for computing.
        patience: seconds to wait for each answer.

    Raises:
        InputError: where the interpreter cannot be started.
    """

    def __init__(self, file: Path, *, threads: int, python: str | None = None, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        try:
            self._process = subprocess.Popen(
                [python or sys.executable, str(RUNNER), str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=_environment(threads, own=python is None),
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            self._errors.close()
            raise InputError(
                f"{python or sys.executable}: cannot be run ({error.strerror or error}); give --peer NAME=PYTHON, an interpreter"
            ) from error
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            for line in self._process.stdout or ():
                self._answers.put(line)
        self._answers.put(None)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises:
            ContestantFailed: where it failed, ended, or does not answer in time.
        """
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            line = self._answers.get(timeout=self._patience)
        except queue.Empty:
            self._process.kill()
            raise ContestantFailed(f"gave no answer in {self._patience:g} seconds") from None
        except OSError:  # the process has ended
            line = None
        if line is None:
            raise ContestantFailed(self._last_words())
        try:
            answer = json.loads(line)
        except ValueError:
            raise ContestantFailed(f"answered {line.strip()[:80]!r}, which is no JSON") from None
        if "failed" in answer:
            raise ContestantFailed(answer["failed"])
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", errors="replace").strip().splitlines()
        return f"its process ended with code {self._process.poll()}" + (f": {lines[-1][:500]}" if lines else "")

    def close(self) -> None:
        """End the process; it is killed where it does not end by itself."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _environment(threads: int, *, own: bool) -> dict[str, str]:
    """Environment variables: the same number of threads for all, and no network look-ups by libraries."""
    count = str(threads)
    values = os.environ | {
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    if not own:  # this interpreter's path is not for another one
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            values.pop(name, None)
    return values
