"""Test exact resume with your own recipe and data: a killed and resumed run must equal an uninterrupted one.

This is `regard train --prove-resume`. A small version of the run is trained twice, in processes of their own: once without
interruption, and once killed by SIGKILL at random moments and resumed until it ends. Then the files of the two are compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import scratch_folder
from regard.old_names import old_keywords
from regard.parts import Code, code_files, load_code
from regard.reading import json_value, read_json_object, read_text
from regard.tasks.loading import pointers_of
from regard.training.callbacks import Callback
from regard.training.checkpoint import PROGRESS, Progress
from regard.training.recipe import Recipe, read_recipe, write_recipe

STEPS, KILLS, RUNS = 12, 3, 5
"""The updates of the small version, the kills that must interrupt it, and the maximum number of runs to reach these kills."""

SMALL: dict[str, Any] = {
    "epochs": None, "tokens": None, "seconds": None, "patience": None, "save_minutes": None, "tracker": "none",
    "evaluate_every": 5, "save_every": 2, "log_every": 3,
}  # fmt: skip
"""Settings of the training section in the small version: only `steps` is a limit; evaluations, checkpoints and log lines are at
different steps."""


AGAIN = "prove it again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The result of `prove_resume`.

    Arguments:
        steps: the number of updates of each run.
        epochs: the number of passes over the data that were begun.
        resumed_from: for each kill, the step of the checkpoint that the run continued from; 0 if there was none yet.
        differing: the names of files that differ between the killed run and the uninterrupted one; empty if none do.
        seconds: the duration of the whole test.
    """

    steps: int
    epochs: int
    resumed_from: tuple[int, ...]
    differing: tuple[str, ...]
    seconds: float

    @property
    def same(self) -> bool:
        """Whether the files of both runs are equal, bit for bit."""
        return not self.differing

    def __str__(self) -> str:
        places = ", ".join(f"step {step:,}" if step else "the start" for step in self.resumed_from)
        what = (
            f"{self.steps:,} updates of this recipe, killed {len(self.resumed_from)} times and resumed from {places},"
        )
        if self.same:
            return (
                f"resuming is exact here: {what} gave the same weights, optimizer state, counters and log as without "
                f"interruption, bit for bit ({self.seconds:.0f} s)"
            )
        return (
            f"resuming is NOT exact here: {what} differ from a run without interruption in {', '.join(self.differing)} "
            f"({self.seconds:.0f} s); look for parts of your own that keep state between updates, and for nondeterministic "
            "operations of the device"
        )

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "same": self.same,
            "steps": self.steps,
            "epochs": self.epochs,
            "kills": len(self.resumed_from),
            "resumed_from": list(self.resumed_from),
            "differing": list(self.differing),
            "seconds": round(self.seconds, 3),
        }


def remains(folder: Path) -> dict[str, Any]:
    """The contents of a run's folder by file, without times: digests of tensors and tokens, the counters, the lines of the log.

    Raises:
        InputError: for damaged JSON.
    """
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        found[name] = None
        if path.suffix in (".safetensors", ".bin", ".npy"):
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        elif path.name == "progress.json":
            counters = read_json_object(path, AGAIN)["progress"]
            # The length of the log depends on the number of digits of its times.
            found[name] = {key: value for key, value in counters.items() if key not in ("seconds", "log_bytes")}
        elif path.name in ("log.jsonl", "checkpoints.json"):
            lines: list[Any] = [json_value(line) for line in read_text(path, AGAIN).splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return found


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of files that differ between two runs; both arguments are results of `remains`.

    >>> differing({"log.jsonl": [], "model.safetensors": "a"}, {"log.jsonl": [], "model.safetensors": "b", "recipe.yaml": None})
    ('model.safetensors', 'recipe.yaml')
    """
    return tuple(sorted(name for name in found.keys() | wanted.keys() if found.get(name, 0) != wanted.get(name, 0)))


@old_keywords(beside="near")
def prove_resume(
    recipe: Recipe | Mapping[str, Any] | str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    near: str | os.PathLike[str] | None = None,
    steps: int = STEPS,
    kills: int = KILLS,
    seed: int | None = None,
    code: Code | None = None,
    say: Callable[[str], None] | None = None,
) -> Proof:
    """Kill a small version of a run at random moments, resume it, and compare its files with those of an uninterrupted run.

    Model, data, batches and precision are those of the recipe; the run ends after a few updates, with frequent checkpoints and
    evaluations. A kill can happen at any time: during the preparation of data, in an update, or while a file is written.

    Arguments:
        recipe, overrides: as for `regard.train`; data in memory cannot be given.
        near: the temporary folder of the runs is created next to this path, on its disk; None for the system's temporary folder.
        steps: the number of updates of each run, at most the recipe's own.
        kills: how many kills must interrupt the run.
        seed: the seed of the moments of the kills; None for different ones each time.
        code: your own Python file, or files, with the parts that the recipe names.
        say: receives messages about the progress.

    Returns:
        A `Proof`; its `.same` tells whether the two runs are equal, bit for bit.

    Raises:
        InputError: for a recipe or data that cannot be used, and under torchrun.
    """
    if "RANK" in os.environ:
        raise InputError("--prove-resume tests one process, and torchrun starts several; start it without torchrun")
    load_code(code)
    resolved = read_recipe(recipe, overrides)
    wanted_steps = resolved.training.steps
    steps = min(steps, wanted_steps) if wanted_steps is not None else steps
    training = replace(
        resolved.training, **SMALL, steps=steps, evaluate_generated=min(4, resolved.training.evaluate_generated)
    )
    small = replace(resolved, training=training)
    tell = say if say is not None else _silent
    draw, began = random.Random(seed), time.monotonic()
    parent = Path(tempfile.gettempdir()) if near is None else Path(near).absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(parent, ".regard-proof-") as place:
        (place / "recipe.yaml").write_text(write_recipe(small), encoding="utf-8")
        tell(f"training {steps:,} updates without interruption.")
        _killed(place, "whole", None)
        wanted, counters = remains(place / "whole"), _counters(place / "whole")
        pace = counters["seconds"] / counters["step"]
        hit: list[int] = []
        faults: dict[str, None] = {}

        def resumes() -> bool:
            """Whether a killed run continued from a checkpoint; a run that starts again from nothing proves little."""
            return any(hit) or (bool(hit) and steps <= SMALL["save_every"])

        def enough() -> bool:
            return len(hit) >= (kills if resumes() else 4 * kills)

        for number in range(1, RUNS + 1):
            name = f"killed-{number}"
            while True:
                resumed, late = _resumed_from(place / name), len(hit) >= kills - 1 and not resumes()
                kill = None if enough() else _kill_time(draw, resumed, steps, pace, late=late)
                if not _killed(place, name, kill):
                    break
                resumed = _resumed_from(place / name)
                if resumed < steps:  # a kill after the last checkpoint tests nothing
                    hit.append(resumed)
                    tell(
                        f"killed ({len(hit)} of {kills}); resuming from {f'step {resumed:,}' if resumed else 'the start'}."
                    )
            faults |= dict.fromkeys(differing(remains(place / name), wanted))
            if enough() or faults:
                break
    if not resumes() and not faults:
        raise InputError(
            f"no kill interrupted a run of {steps:,} updates between its first checkpoint and its end; use more steps"
        )
    return Proof(
        steps=steps,
        epochs=counters["epoch"] + 1,
        resumed_from=tuple(hit),
        differing=tuple(faults),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, slots=True)
class _KillTime:
    """When to kill a process: `seconds` after update `step`, or after its start if `step` is None."""

    step: int | None
    seconds: float


def _kill_time(draw: random.Random, resumed: int, steps: int, pace: float, *, late: bool) -> _KillTime:
    """A random moment to kill the next process; with probability 1/4 while it starts and prepares the data.

    `late` is for runs that were only killed before their first checkpoint: the moment is then after an update beyond it.
    """
    first = resumed + 1
    if late:
        first = max(first, SMALL["save_every"] + 1)
    elif draw.random() < 0.25:
        return _KillTime(None, draw.uniform(0.0, 4.0))
    return _KillTime(draw.randint(first, max(first, steps - 2)), draw.uniform(0.0, pace))


def _resumed_from(folder: Path) -> int:
    """The step from which the next process will continue."""
    return int(pointers_of(folder).get("last", "step-0").removeprefix("step-"))


def _counters(folder: Path) -> dict[str, Any]:
    place = folder / "checkpoints" / pointers_of(folder)["last"]
    return read_json_object(place / PROGRESS, AGAIN)["progress"]


def _killed(place: Path, name: str, kill: _KillTime | None) -> bool:
    """Train into a folder in a new process, or continue there; return whether the process was killed before its end.

    Raises:
        InputError: if the training raised one, with its message.
    """
    command = [sys.executable, "-m", "regard.training.proof", str(place / "recipe.yaml"), str(place / name)]
    command += [str(kill.step or 0), str(kill.seconds)] if kill is not None else ["0", "0"]
    errors = place / f"{name}.error"
    with errors.open("wb") as sink, subprocess.Popen([*command, *code_files()], stdout=sink, stderr=sink) as process:
        try:
            if kill is not None and kill.step is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(kill.seconds)
                process.kill()
            code = process.wait()
        finally:
            process.kill()
    if code == 0 or (kill is not None and code == -signal.SIGKILL):
        return code != 0
    said = errors.read_text(errors="replace").strip()
    if code == 2 and said:
        raise InputError(said.splitlines()[-1])
    raise RuntimeError(f"the training process ended before it was killed, with exit code {code}:\n{said}")


class _KillAfter(Callback):
    """Kills its own process `seconds` after update `step`, whatever it is doing then."""

    def __init__(self, step: int, seconds: float) -> None:
        self.step, self.seconds = step, seconds

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        if progress.step == self.step:
            timer = threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()


def main() -> None:
    """The main function of the training processes: train a recipe into a folder, with the given files of code."""
    from regard.training.run import train

    recipe, folder, step, seconds, *code = sys.argv[1:]
    try:
        train(recipe, output=folder, resume=True, callbacks=[_KillAfter(int(step), float(seconds))], code=code)
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


def _silent(_: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
