"""Ends training, saving and extending at every operation on the file system, and at random moments, and looks at what is left.

    python benchmarks/faults/kills.py
    python benchmarks/faults/kills.py --points 4 --kills 0 --output kills.json

Crash points: a tiny training, a save over another model, and a finished run that goes further are each done once while every
operation that changes a file or a folder is counted (opening to write, writing, forcing to disk, renaming, removing, making);
then once for each of these operations, in a process that is ended by SIGKILL just before it, in the middle where it writes. The
counting stands before the C library's functions (`crash_points.c`), so libraries that are not written in Python are seen too.

Random moments: runs of five kinds are started, killed after a random time, and started again, until `--kills` have hit.

What is asked each time: the folder opens as the last good state or the new one (before the first checkpoint, as no model); done
again, it ends as if nothing had happened, bit for bit: weights, the optimiser's state, counters, the log, and which files there
are.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COUNTER = "REGARD_CRASH_POINTS"
"""The variable of the environment that names the library loaded before all others."""

SEED = 7
TRAINING: dict[str, Any] = {
    "steps": 4,
    "batch_tokens": 260,
    "learning_rate": 1e-2,
    "warmup": 3,
    "precision": "float32",
    "evaluate_every": 3,
    "save_every": 2,
    "log_every": 3,
}
FURTHER = 6
"""Steps of a run that is extended."""

BERT: dict[str, Any] = {
    "name": "bert", "width": 12, "heads": 3, "feedforward_width": 10, "layers": 1, "maximum_positions": 16, "dropout": 0.1,
}  # fmt: skip
BAHDANAU: dict[str, Any] = {
    "name": "bahdanau", "embedding_width": 6, "hidden_width": 7, "attention_width": 5, "maxout_width": 4, "dropout": 0.1,
}  # fmt: skip
GPT2: dict[str, Any] = {
    "name": "gpt2", "width": 12, "heads": 3, "feedforward_width": 10, "layers": 1, "maximum_positions": 16, "dropout": 0.1,
}  # fmt: skip
PIECES = {"kind": "bert", "size": 60}
KINDS: dict[str, dict[str, Any]] = {
    "translation": {"model": BAHDANAU, "data": {"validation_size": 12}, "tokenizer": {"kind": "character", "size": 60}},
    "classification": {"model": BERT, "data": {"maximum_length": 16}, "tokenizer": PIECES},
    "masked_language_modelling": {"model": BERT, "data": {"maximum_length": 16}, "tokenizer": PIECES},
    "language_modelling": {"model": GPT2, "data": {"length": 16}, "tokenizer": {"kind": "word", "size": 60}},
    "tagging": {"model": BERT, "data": {"maximum_length": 16}, "tokenizer": PIECES},
}


def recipe(kind: str, **training: Any) -> dict[str, Any]:
    """Evaluations, checkpoints and lines of the log out of step with each other."""
    return {"task": kind, "seed": SEED, **KINDS[kind], "training": TRAINING | training}


def examples(kind: str, count: int = 90) -> list[Any]:
    """Texts of letters, with what the kind wants beside them."""
    draw = random.Random(SEED)

    def word() -> str:
        return "".join(draw.choice("abcdefgh") for _ in range(draw.randint(1, 3)))

    found: list[Any] = []
    for _ in range(count):
        words = [word() for _ in range(draw.randint(2, 5))]
        text = " ".join(words)
        found.append(
            {
                "translation": (text, text[::-1]),
                "classification": (text, "long" if len(text) > 7 else "short"),
                "masked_language_modelling": (text, " ".join(reversed(words))),
                "language_modelling": text,
                "tagging": (words, ["B-A" if "a" in each else "O" for each in words]),
            }[kind]
        )
    return found


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


def remains(folder: Path) -> dict[str, Any]:
    """All that a run leaves but the time it took: which files, tensors and tokens byte by byte, counters, the log by line."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        found[name] = None
        if path.suffix in (".safetensors", ".bin"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "progress.json":
            counters = json.loads(path.read_text())["progress"]
            found[name] = {key: value for key, value in counters.items() if key not in ("seconds", "log_bytes")}
        elif path.name in ("log.jsonl", "checkpoints.json"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return found


def differing(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Which files are not as they ought to be, as half a sentence; empty where all are."""
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name, 0) != wanted.get(name, 0))
    return f"{', '.join(names)} not as without the kill" if names else ""


@dataclass(frozen=True)
class Scene:
    """Something that is done to a folder, and may be ended at any moment.

    Arguments:
        before: a folder that is copied before it begins; None to begin with nothing.
        act: does it, and does it again after a kill.
        allowed: digests of the models that the folder may hold meanwhile; None among them for no model.
        after: what is left of it when it was not ended.
        place: of the model or run in the folder.
    """

    before: Path | None
    act: Callable[[Path], Any]
    allowed: frozenset[str | None]
    after: dict[str, Any]
    place: str = "run"

    def prepare(self, folder: Path) -> None:
        folder.mkdir()
        if self.before is not None:
            shutil.copytree(self.before, folder / self.place)

    def judged(self, folder: Path) -> str:
        """What is wrong with what a kill left, and with what becomes of it; empty where nothing is."""
        state = opened(folder / self.place)
        if state not in self.allowed:
            return "no model" if state is None else "a model that is neither the old nor the new one"
        self.act(folder)
        return differing(remains(folder), self.after)


def in_child(work: Callable[[], Any], folder: Path, seconds: float | None = None) -> Any:
    """What `work` returns in a process of its own; a `Killed` where that is ended, by itself or after so many seconds."""
    answer = folder.with_name(f"{folder.name}.answer")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            import torch

            torch.set_num_threads(1)
            answer.write_text(json.dumps(work()))
        except BaseException:
            answer.write_text(json.dumps({"raised": traceback.format_exc()}))
        os._exit(0)
    deadline = None if seconds is None else time.monotonic() + seconds
    status = 0
    while True:
        done, status = os.waitpid(child, os.WNOHANG if deadline is not None else 0)
        if done:
            break
        if deadline is not None and time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = None
        time.sleep(0.002)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            raise SystemExit(f"the child ended with signal {os.WTERMSIG(status)}")
        return Killed
    found = json.loads(answer.read_text())
    if isinstance(found, dict) and "raised" in found:
        return f"raised {found['raised']}"
    return found


def side_by_side(works: Mapping[str, Callable[[], dict[str, Any]]], base: Path, together: int) -> dict[str, Any]:
    """What each of the works comes to, so many at a time in processes of their own."""
    found: dict[str, Any] = {}
    waiting, running = dict(works), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < together:
            name = next(iter(waiting))
            work, answer = waiting.pop(name), base / f"{name}.json"
            child = os.fork()
            if child == 0:
                try:
                    answer.write_text(json.dumps(work()))
                except BaseException:
                    traceback.print_exc()
                os._exit(0)
            running[child] = name
        name = running.pop(os.wait()[0])
        if not (base / f"{name}.json").is_file():
            raise SystemExit(f"{name} came to no end")
        found[name] = json.loads((base / f"{name}.json").read_text())
        print(name, found[name], flush=True)
    return {name: found[name] for name in works}


class Killed:
    """Instead of an answer."""


def trained(kind: str, folder: Path, states: list[str] | None = None, **training: Any) -> str:
    """Train into a folder's run, going on where it was; the digests after each step are added to `states`."""
    import regard
    from regard.training.callbacks import Callback

    class Watching(Callback):
        def started(self, model: Any, progress: Any, total_steps: int | None) -> None:
            self.model = model

        def stepped(self, progress: Any, tokens_per_second: float) -> None:
            if states is not None:
                states.append(weights(self.model))

    regard.train(
        recipe(kind, **training), output=folder / "run", data=examples(kind), resume=True, callbacks=[Watching()]
    )
    return ""


def saved(model: Path, folder: Path) -> str:
    """Save a model where another may be."""
    import regard

    regard.load(model).save(folder / "model")
    return ""


def scenes(base: Path) -> dict[str, Scene]:
    """What is ended at every crash point, after it was done once undisturbed."""

    def states(name: str, **training: Any) -> list[str]:
        found: list[str] = []
        (base / name).mkdir(exist_ok=True)
        return in_child(lambda: [trained("translation", base / name, found, **training), *found][1:], base / name)

    short = states("short")
    shutil.copytree(base / "short", base / "longer")
    longer = states("longer", steps=FURTHER)
    (base / "other").mkdir()
    in_child(lambda: trained("translation", base / "other", steps=2), base / "other")
    old, new = (in_child(lambda name=name: opened(base / name / "run"), base / name) for name in ("short", "other"))
    for name, model in (("a", "short"), ("b", "other")):
        (base / name).mkdir()
        in_child(lambda name=name, model=model: saved(base / model / "run", base / name), base / name)
    for found in (*longer, *short, old, new):
        if not isinstance(found, str) or found.startswith("raised"):
            raise SystemExit(f"a run that nobody disturbed failed: {found}")
    return {
        "training": Scene(
            None,
            lambda folder: trained("translation", folder),
            frozenset({None, *short}),
            remains(base / "short"),
        ),
        "save over a model": Scene(
            base / "a" / "model", lambda folder: saved(base / "other" / "run", folder), frozenset({old, new}),
            remains(base / "b"), "model",
        ),
        "extending a finished run": Scene(
            base / "short" / "run",
            lambda folder: trained("translation", folder, steps=FURTHER),
            frozenset((*short, *longer)),
            remains(base / "longer"),
        ),
    }  # fmt: skip


def crash_points(scene: Scene, counter: ctypes.CDLL, base: Path, points: int, draw: random.Random) -> dict[str, Any]:
    """End a scene at each of its operations, or at so many of them drawn at random, and judge what is left."""
    counter.crash_count.restype, counter.crash_at.argtypes = ctypes.c_long, [ctypes.c_char_p, ctypes.c_long]

    def act(folder: Path, at: int) -> int:
        counter.crash_at(os.fsencode(folder), at)
        scene.act(folder)
        return counter.crash_count()

    place = os.getpid()

    def tried(at: int) -> Any:
        folder = base / f"tried {place}"
        shutil.rmtree(folder, ignore_errors=True)
        scene.prepare(folder)
        ended = in_child(lambda: act(folder, at), folder)
        if at < 0:
            return ended
        if ended is not Killed:
            return f"it was not ended: {ended}"
        return in_child(lambda: scene.judged(folder), folder)

    count = tried(-1)
    if not isinstance(count, int):
        raise SystemExit(f"the operations could not be counted: {count}")
    chosen = sorted(draw.sample(range(count), points)) if 0 < points < count else list(range(count))
    wrong: list[int] = []
    for number, at in enumerate(chosen):
        found = tried(at)
        if found:
            wrong.append(at)
        if found or number % 50 == 49:
            print(f"crash point {at} of {count}: {found or 'well'}", flush=True)
    return {
        "operations": count,
        "ended at": len(chosen),
        "the last good state or the new one, and then as if never ended": len(chosen) - len(wrong),
    } | ({"wrong at": wrong} if wrong else {})


def random_kills(kind: str, base: Path, kills: int, draw: random.Random) -> dict[str, Any]:
    """Kill a kind of run at random moments until that many have hit; runs that end before are compared, and another begins."""
    steps: dict[str, Any] = {"steps": 24, "accumulate": 2, "evaluate_every": 9, "save_every": 4, "log_every": 3}
    whole = base / kind
    whole.mkdir()
    begun = time.monotonic()
    done = in_child(lambda: trained(kind, whole, **steps), whole)
    seconds = time.monotonic() - begun
    if done != "":
        raise SystemExit(f"{kind}: {done}")
    wanted, hit, runs, wrong = remains(whole), 0, 0, list[str]()
    while hit < kills:
        folder = base / f"{kind} killed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ended: Any = Killed
        while ended is Killed:
            limit = draw.uniform(0.0, 0.6 * seconds) if hit < kills else None
            ended = in_child(lambda folder=folder: trained(kind, folder, **steps), folder, limit)
            hit += ended is Killed
        runs += 1
        fault = ended or differing(remains(folder), wanted)
        if fault:
            wrong.append(fault)
            print(f"{kind}: {fault}", flush=True)
    return {"kills": hit, "runs": runs, "runs equal bit for bit to one never killed": runs - len(wrong)}


def measured(arguments: argparse.Namespace, counter: ctypes.CDLL) -> None:
    """Do all of it and write what came out."""
    sys.path[:0] = [str(HERE.parent)]
    import torch._dynamo  # noqa: F401  # which the first step of an optimizer would import in each fork

    import regard.tasks.loading
    import regard.tasks.spec
    import regard.training.run  # noqa: F401  # everything is to be imported before the first fork
    from measured import record

    points: dict[str, Any] = {}
    killed: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.path.realpath(place))
        works: dict[str, Callable[[], dict[str, Any]]] = {}
        for name, scene in (scenes(base) if arguments.points else {}).items():
            draw = random.Random(f"{arguments.seed} {name}")
            works[f"crash points: {name}"] = partial(crash_points, scene, counter, base, arguments.points, draw)
        share, more = divmod(arguments.kills, len(KINDS))
        for number, kind in enumerate(KINDS):
            wanted, draw = share + (number < more), random.Random(f"{arguments.seed} {kind}")
            if wanted:
                works[f"random kills: {kind}"] = partial(random_kills, kind, base, wanted, draw)
        for name, found in side_by_side(works, base, arguments.together).items():
            (points if name.startswith("crash") else killed)[name] = found
    good = "the last good state or the new one, and then as if never ended"
    equal = "runs equal bit for bit to one never killed"
    summary = {
        "crash points": sum(found["ended at"] for found in points.values()),
        good: sum(found[good] for found in points.values()),
        "random kills": sum(found["kills"] for found in killed.values()),
        equal: f"{sum(found[equal] for found in killed.values())} of {sum(found['runs'] for found in killed.values())}",
    }
    record(
        arguments.output,
        title="Ended at every operation, and at random moments",
        command="python benchmarks/faults/kills.py",
        precision="float32",
        seed=arguments.seed,
        target="60 kills and all crash points of training, saving and extending: bit-equal or the last good state",
        figures=summary | points | killed,
        note=(
            "The process is ended, not the machine: what the system had not written to the disk yet is not lost. That files are "
            "forced to the disk before they get their names is tested by itself."
        ),
        threads=1,
    )
    wrong = summary["crash points"] - summary[good] + sum(found["runs"] - found[equal] for found in killed.values())
    if wrong:
        raise SystemExit(f"{wrong} did not end as they ought to")


def main() -> None:
    """Load the counting library before all others, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "kills.json")
    parser.add_argument(
        "--points", type=int, default=-1, help="crash points of each scene, drawn at random; -1 for all"
    )
    parser.add_argument("--kills", type=int, default=60, help="at random moments, over all kinds of runs")
    parser.add_argument("--seed", type=int, default=1, help="of the points and moments")
    parser.add_argument("--together", type=int, default=2, help="scenes and kinds at a time, each in a process")
    arguments = parser.parse_args()
    library = os.environ.get(COUNTER)
    if library is not None:
        measured(arguments, ctypes.CDLL(library))
        return
    with tempfile.TemporaryDirectory() as place:
        built = Path(place) / "crash_points.so"
        compiler = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
        if compiler is None:
            raise SystemExit("there is no C compiler (gcc, cc or clang) to build crash_points.c with")
        source = HERE / "crash_points.c"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(built), "-ldl"], check=True)
        settings = os.environ | {"LD_PRELOAD": str(built), COUNTER: str(built), "TOKENIZERS_PARALLELISM": "false"}
        settings.setdefault("OMP_NUM_THREADS", "1")
        raise SystemExit(subprocess.run([sys.executable, *sys.argv], env=settings, check=False).returncode)


if __name__ == "__main__":
    main()
