"""Kinds of run that faults are put into: what each is, what it leaves, and processes of their own to do it in.

A run is the command line's own (`regard train`, `regard vectors train`) on files, in a process forked from this one, which has
imported everything; so a life of a run does not begin with seconds of imports.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import valid
import yaml

from regard.training.proof import differing, remains

SEED = 7
TRAINING: dict[str, Any] = {
    "steps": 24, "batch_tokens": 260, "learning_rate": 1e-2, "warmup": 3, "evaluate_every": 9, "save_every": 4, "log_every": 3,
}  # fmt: skip
"""Several passes over the data; evaluations, checkpoints and lines of the log out of step with each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of run.

    Arguments:
        recipe: its name in `valid.RECIPES`; empty for vectors of words.
        model, training: what is otherwise in the recipe.
        workers: processes that train together, started as torchrun starts them.
        late: whether it is killed in the second pass over the data and later alone.
    """

    recipe: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1
    late: bool = False


DROPOUT = {"dropout": 0.1}
KINDS: dict[str, Kind] = {
    "translation": Kind(recipe="bahdanau", model=DROPOUT),
    "classification": Kind(recipe="classifier"),
    "tagging": Kind(recipe="tagger"),
    "masked language modelling": Kind(recipe="masked"),
    "causal language modelling": Kind(recipe="gpt2", model=DROPOUT),
    "captioning": Kind(recipe="captioner", training={"batch_tokens": 100}),
    "text to text (T5)": Kind(recipe="text_to_text"),
    "word vectors": Kind(),
    "two workers under torchrun": Kind(recipe="marian", training={"accumulate": 2, "batch_tokens": 180}, workers=2),
    "accumulated gradients, bfloat16": Kind(
        recipe="transformer", training={"accumulate": 3, "batch_tokens": 180, "precision": "bfloat16"}
    ),
    "second pass over the data and later": Kind(recipe="bahdanau", model=DROPOUT, training={"steps": 40}, late=True),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Arguments:
        code: its exit code, or minus the signal that ended it.
        answer: what it returned.
        said: what it wrote to its standard error.
    """

    code: int
    answer: Any = None
    said: str = ""

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL

    @property
    def sentence(self) -> str:
        """Its last line."""
        return self.said.strip().splitlines()[-1] if self.said.strip() else ""


class Run:
    """A run of a kind in a folder.

    Arguments:
        kind: its name.
        data: the folder of `valid.write_data`.
        folder: where it trains; made.
        number: of the run, which decides the method of vectors of words.
        seed: of the run itself.
        training: what is otherwise in this very recipe.
    """

    def __init__(self, kind: str, data: Path, folder: Path, number: int = 0, seed: int = SEED, **training: Any) -> None:
        self.kind, self.folder = KINDS[kind], folder
        folder.mkdir(parents=True, exist_ok=True)
        self.place = folder / "run"
        if not self.kind.recipe:
            method = ("skipgram", "glove", "fasttext")[number % 3]
            self.words = ["vectors", "train", str(data / "text.txt"), "-o", str(self.place), "--method", method]
            self.words += f"--dim 8 --minimum-count 1 --epochs 150 --workers 1 --seed {seed}".split()
            self.words += ["--scratch", str(folder), *(["--buckets", "50"] if method == "fasttext" else [])]
            return
        recipe = valid.recipe_of(self.kind.recipe, data)
        recipe |= {"seed": seed, "model": {**recipe["model"], **self.kind.model}}
        recipe["training"] = {**recipe["training"], **TRAINING, **self.kind.training, **training}
        path = folder / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe))
        self.words = ["train", str(path), "-o", str(self.place), "--resume"]

    def live(self, doom: Callable[[Run], int] | None = None) -> Ended:
        """Do it, or go on with it, in a process of its own.

        Arguments:
            doom: asked again and again; the signal to send now, or 0.
        """
        work = self._together if self.kind.workers > 1 else self._alone
        return in_child(work, self.folder / "child", None if doom is None else lambda: doom(self))

    def _alone(self) -> None:
        from regard.cli.main import run

        sys.argv = ["regard", *self.words]
        run()

    def _together(self) -> None:
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=self.kind.workers, run_id=f"{self.folder.name}-{os.getpid()}",
            rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0, monitor_interval=0.05, start_method="fork",
        )  # fmt: skip
        elastic_launch(config, _worker)(self.words)

    def epoch(self) -> int:
        """The pass over the data that the last checkpoint is in, from 0; -1 where there is none."""
        try:
            last = json.loads((self.place / "checkpoints.json").read_text())["last"]
            return json.loads((self.place / "checkpoints" / last / "progress.json").read_text())["progress"]["epoch"]
        except (OSError, KeyError, ValueError):  # it is being written
            return -1

    def remains(self) -> dict[str, Any]:
        """All that it left but the time it took."""
        if self.kind.recipe:
            return remains(self.place)
        scratch = [*self.folder.glob(".*"), *self.folder.glob("regard-vectors-*")]
        return self.vectors() | {path.name: None for path in scratch}

    def vectors(self) -> dict[str, Any]:
        """The files of vectors of words, byte by byte but for what tells of the time."""
        files = [path for path in self.place.rglob("*") if path.is_file()]
        return {
            path.name: None if path.suffix == ".json" else hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }


def _worker(words: list[str]) -> None:
    """One of the workers."""
    from regard.cli.main import main

    code = main(words)
    if code:
        raise SystemExit(code)


def against(run: Run, wanted: Mapping[str, Any]) -> str:
    """What a run left otherwise than it ought to, as half a sentence; empty where nothing is."""
    names = differing(run.remains(), wanted)
    return f"{', '.join(names)} not as without the fault" if names else ""


def weights(model: Any) -> str:
    """The digest of all that a model has learnt."""
    from regard.checkpoints import parameters_of

    total = hashlib.sha256()
    for name, tensor in sorted(parameters_of(model).items()):
        total.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def opened(folder: Path) -> str | None:
    """The digest of the model in a folder; None where it holds none yet."""
    import regard

    if not (folder / "config.json").is_file() and not (folder / "checkpoints.json").is_file():
        try:
            regard.load(folder)
        except regard.InputError:
            return None
    return weights(regard.load(folder).model)


# Processes.


def import_all() -> None:
    """Import what children would, before the first fork, and compute nothing."""
    from cases import import_all as everything

    everything()
    importlib.import_module("torch.distributed.launcher.api")


def in_child(work: Callable[[], Any], place: Path, doom: Callable[[], int] | None = None) -> Ended:
    """What `work` comes to in a process of its own.

    Arguments:
        place: of two files, for its answer and what it says.
        doom: asked again and again; the signal to send now, or 0.
    """
    answer, said = place.with_suffix(".answer"), place.with_suffix(".said")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_child(work, answer, said)
    sent, status = 0, 0
    while True:
        done, status = os.waitpid(child, os.WNOHANG if doom is not None and not sent else 0)
        if done:
            break
        sent = doom() if doom is not None else 0
        if sent:
            _send(child, sent)
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    text = said.read_text(errors="replace") if said.is_file() else ""
    if sent == signal.SIGKILL and code != 0:  # one of several workers may have been hit, and the others ended after it
        code = -signal.SIGKILL
    return Ended(code, json.loads(answer.read_text()) if answer.is_file() else None, text)


def _send(child: int, number: int) -> None:
    """Send a signal to a process; of several workers SIGKILL hits one, or all and what started them."""
    others = [int(pid) for path in Path(f"/proc/{child}/task").glob("*/children") for pid in path.read_text().split()]
    if number == signal.SIGKILL and others:
        place = time.monotonic_ns() // 1_000_000 % (len(others) + 1)
        for pid in others if place == len(others) else [others[place]]:
            _kill(pid, number)
        if place < len(others):
            return
    _kill(child, number)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, number)


def _be_child(work: Callable[[], Any], answer: Path, said: Path) -> None:
    """Do the work and leave, with standard output and error in a file."""
    import torch

    code = 0
    try:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        torch.set_num_threads(1)
        answer.write_text(json.dumps(work()))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


class Journal:
    """What was found so far, a line each; a harness that was stopped goes on from there.

    Arguments:
        path: of the file.
        key: what the findings hang on; those of another are not taken.
    """

    def __init__(self, path: Path, key: Mapping[str, Any]) -> None:
        self.path, self.key = path, dict(key)
        lines = path.read_text().splitlines() if path.is_file() else []
        self._found: dict[tuple[str, str], Any] = {}
        if lines and json.loads(lines[0]) == self.key:
            for line in lines[1:]:
                work, unit, found = json.loads(line)
                self._found[work, unit] = found
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.key) + "\n")

    def once(self, work: str, unit: Any, find: Callable[[], Any]) -> Any:
        """What was found for a unit of a work, or is now."""
        if (work, str(unit)) not in self._found:
            found = find()
            with self.path.open("a") as file:
                file.write(json.dumps([work, str(unit), found]) + "\n")
            self._found[work, str(unit)] = found
        return self._found[work, str(unit)]


def side_by_side(works: Mapping[str, Callable[[], dict[str, Any]]], base: Path, together: int) -> dict[str, Any]:
    """What each of the works comes to, so many at a time in processes of their own."""
    found: dict[str, Any] = {}
    waiting, running = dict(works), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < together:
            name = next(iter(waiting))
            work, answer = waiting.pop(name), base / f"{name.replace('/', ' ')}.json"
            child = os.fork()
            if child == 0:
                try:
                    answer.write_text(json.dumps(work()))
                except BaseException:
                    traceback.print_exc()
                os._exit(0)
            running[child] = name
        name = running.pop(os.wait()[0])
        answer = base / f"{name.replace('/', ' ')}.json"
        if not answer.is_file():
            raise SystemExit(f"{name} came to no end")
        found[name] = json.loads(answer.read_text())
        print(name, found[name], flush=True)
    return {name: found[name] for name in works}
