"""Whether a killed and resumed run equals one never stopped, for a recipe and data of one's own: `regard train --prove-resume`.

A small version of the run is trained twice, each in a process of its own: once from start to end, and once killed by SIGKILL at
random moments and continued until it ends. What both leave is compared file by file.
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
from regard.parts import Code, code_files, load_code
from regard.reading import json_value, read_json_object, read_text
from regard.tasks.loading import pointers_of
from regard.training.callbacks import Callback
from regard.training.checkpoint import PROGRESS, Progress
from regard.training.recipe import Recipe, read_recipe, write_recipe

STEPS, KILLS, RUNS = 12, 3, 5
"""Updates of the small version, kills that have to hit it, and after how many runs that all ended too soon it is given up."""

SMALL: dict[str, Any] = {
    "epochs": None, "tokens": None, "seconds": None, "patience": None, "save_minutes": None, "tracker": "none",
    "evaluate_every": 5, "save_every": 2, "log_every": 3,
}  # fmt: skip
"""What of the training section is otherwise in it: no limit but steps; evaluations, checkpoints and log out of step."""


AGAIN = "prove it again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What came out.

    Arguments:
        steps: updates of each run.
        epochs: passes over the data begun in them.
        resumed_from: the step of the checkpoint that each killed run continued from; 0 where there was none yet.
        differing: what the killed run left otherwise than the one that nobody stopped; empty where nothing is.
        seconds: that all took.
    """

    steps: int
    epochs: int
    resumed_from: tuple[int, ...]
    differing: tuple[str, ...]
    seconds: float

    @property
    def same(self) -> bool:
        """Whether both runs left the same, bit for bit."""
        return not self.differing

    def __str__(self) -> str:
        places = ", ".join(f"step {step:,}" if step else "the start" for step in self.resumed_from)
        what = (
            f"{self.steps:,} updates of this recipe, killed {len(self.resumed_from)} times and resumed from {places},"
        )
        if self.same:
            return (
                f"resuming is exact here: {what} left what a run never stopped leaves, bit for bit: weights, optimizer, "
                f"counters and log ({self.seconds:.0f} s)"
            )
        return (
            f"resuming is NOT exact here: {what} left otherwise than a run never stopped: {', '.join(self.differing)} "
            f"({self.seconds:.0f} s); look for parts of your own that keep something between updates, and for operations of "
            "the "
            "device that are not deterministic"
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
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
    """All that a run leaves but the time it took: which files, tensors and tokens byte by byte, counters, the log by line.

    Raises:
        InputError: for JSON that is damaged.
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
            # The log's length depends on how the seconds in it are spelt.
            found[name] = {key: value for key, value in counters.items() if key not in ("seconds", "log_bytes")}
        elif path.name in ("log.jsonl", "checkpoints.json"):
            lines: list[Any] = [json_value(line) for line in read_text(path, AGAIN).splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return found


def differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of what two runs left otherwise, of what `remains` gives.

    >>> differing({"log.jsonl": [], "model.safetensors": "a"}, {"log.jsonl": [], "model.safetensors": "b", "recipe.yaml": None})
    ('model.safetensors', 'recipe.yaml')
    """
    return tuple(sorted(name for name in found.keys() | wanted.keys() if found.get(name, 0) != wanted.get(name, 0)))


def prove_resume(
    recipe: Recipe | Mapping[str, Any] | str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    beside: str | os.PathLike[str] | None = None,
    steps: int = STEPS,
    kills: int = KILLS,
    seed: int | None = None,
    code: Code | None = None,
    say: Callable[[str], None] | None = None,
) -> Proof:
    """Kill a small version of a run at random moments, resume it, and compare what it leaves with that of one never stopped.

    Model, data, batches and precision are the recipe's own; the training ends after a few updates, with checkpoints and
    evaluations close together. A kill falls anywhere: while the data are prepared, in an update, in the middle of writing.

    Arguments:
        recipe, overrides: as `regard.train` takes them; data in memory cannot be given.
        beside: the runs are next to this path, on its disk, while they last; in the system's own temporary folder if None.
        steps: updates of each run, at most as many as the recipe has.
        kills: that have to hit.
        seed: of the moments; sampled again if None.
        code: your own Python file, or files, with parts that the recipe names.
        say: receives sentences on how far it is.

    Returns:
        What came out; `.same` is whether the two runs left the same.

    Raises:
        InputError: for a recipe or data that cannot be used, and under torchrun.
    """
    if "RANK" in os.environ:
        raise InputError(
            "resuming is proved on one process, which torchrun starts several of; start it without torchrun"
        )
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
    parent = Path(tempfile.gettempdir()) if beside is None else Path(beside).absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(parent, ".regard-proof-") as place:
        (place / "recipe.yaml").write_text(write_recipe(small), encoding="utf-8")
        tell(f"training {steps:,} updates without a stop.")
        _killed(place, "whole", None)
        wanted, counters = remains(place / "whole"), _counters(place / "whole")
        pace = counters["seconds"] / counters["step"]
        hit: list[int] = []
        faults: dict[str, None] = {}

        def resumes() -> bool:
            """Whether a killed run continued from a checkpoint; one that starts again from nothing shows little."""
            return any(hit) or (bool(hit) and steps <= SMALL["save_every"])

        def enough() -> bool:
            return len(hit) >= (kills if resumes() else 4 * kills)

        for number in range(1, RUNS + 1):
            name = f"killed-{number}"
            while True:
                resumed, late = _resumed_from(place / name), len(hit) >= kills - 1 and not resumes()
                doom = None if enough() else _doom(draw, resumed, steps, pace, late=late)
                if not _killed(place, name, doom):
                    break
                resumed = _resumed_from(place / name)
                if resumed < steps:  # else all that can be distinguished was done
                    hit.append(resumed)
                    tell(
                        f"killed ({len(hit)} of {kills}); going on from {f'step {resumed:,}' if resumed else 'the start'}."
                    )
            faults |= dict.fromkeys(differing(remains(place / name), wanted))
            if enough() or faults:
                break
    if not resumes() and not faults:
        raise InputError(
            f"no kill hit a run of {steps:,} updates between its first checkpoint and its end; take more steps"
        )
    return Proof(
        steps=steps,
        epochs=counters["epoch"] + 1,
        resumed_from=tuple(hit),
        differing=tuple(faults),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, slots=True)
class _Doom:
    """When a process is killed: so many seconds after an update, or where that is None after it has started."""

    step: int | None
    seconds: float


def _doom(draw: random.Random, resumed: int, steps: int, pace: float, *, late: bool) -> _Doom:
    """A random moment; one time in four while the process starts up and prepares the data.

    With `late`, which is for runs that have only been killed before their first checkpoint, an update after that checkpoint.
    """
    first = resumed + 1
    if late:
        first = max(first, SMALL["save_every"] + 1)
    elif draw.random() < 0.25:
        return _Doom(None, draw.uniform(0.0, 4.0))
    return _Doom(draw.randint(first, max(first, steps - 2)), draw.uniform(0.0, pace))


def _resumed_from(folder: Path) -> int:
    """The step that the next process will continue from."""
    return int(pointers_of(folder).get("last", "step-0").removeprefix("step-"))


def _counters(folder: Path) -> dict[str, Any]:
    place = folder / "checkpoints" / pointers_of(folder)["last"]
    return read_json_object(place / PROGRESS, AGAIN)["progress"]


def _killed(place: Path, name: str, doom: _Doom | None) -> bool:
    """Start a process that trains into a folder, or continues there; whether it was killed before it came to its end.

    Raises:
        InputError: what the training raised.
    """
    command = [sys.executable, "-m", "regard.training.proof", str(place / "recipe.yaml"), str(place / name)]
    command += [str(doom.step or 0), str(doom.seconds)] if doom is not None else ["0", "0"]
    errors = place / f"{name}.error"
    with errors.open("wb") as sink, subprocess.Popen([*command, *code_files()], stdout=sink, stderr=sink) as process:
        try:
            if doom is not None and doom.step is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(doom.seconds)
                process.kill()
            code = process.wait()
        finally:
            process.kill()
    if code == 0 or (doom is not None and code == -signal.SIGKILL):
        return code != 0
    said = errors.read_text(errors="replace").strip()
    if code == 2 and said:
        raise InputError(said.splitlines()[-1])
    raise RuntimeError(f"the training that was to be killed ended by itself, with exit code {code}:\n{said}")


class _KillAfter(Callback):
    """Kills its own process so many seconds after an update, whatever that does then."""

    def __init__(self, step: int, seconds: float) -> None:
        self.step, self.seconds = step, seconds

    def stepped(self, progress: Progress, tokens_per_second: float) -> None:
        if progress.step == self.step:
            timer = threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()


def main() -> None:
    """What such a process does: train what the recipe says into the folder, with the files of code."""
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
