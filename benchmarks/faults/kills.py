"""Ends training, saving and extending at every operation on the file system, and runs at random moments; judges what is left.

    python benchmarks/faults/kills.py
    python benchmarks/faults/kills.py --points 4 --kills 0 --signals 0 --output kills.json
    python benchmarks/faults/kills.py --kinds tagging captioning --points 0 --kills 10 --output kills.json

Crash points: a tiny training, a save over another model, and a finished run that goes further are each done once while every
operation that changes a file or a folder is counted (opening to write, writing, forcing to disk, renaming, removing, making);
then once for each of these operations, in a process that is ended by SIGKILL just before it, in the middle where it writes. The
counting stands before the C library's functions (`operations.c`), so libraries that are not written in Python are seen too.

Random kills: runs of each kind (`runs.KINDS`) are started, get SIGKILL after a random time, and are started again until they end;
of two workers one is hit, or both and what started them. Random signals: the same with SIGTERM and SIGINT while they train.

What is asked each time: the folder opens as the last good state or the new one (before the first checkpoint, as no model); done
again, it ends as if nothing had happened, bit for bit: weights, the optimiser's state, counters, the log, and which files there
are. A command that is stopped goes on, when it is given again, with what it had not done yet (--journal).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import runs  # noqa: E402
import scenes  # noqa: E402
import valid  # noqa: E402

GOOD = "the last good state or the new one, and then as if never ended"
EQUAL = "runs equal bit for bit to one never killed"
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


def crash_points(
    name: str, scene: scenes.Scene, library: Any, base: Path, journal: runs.Journal, points: int, draw: random.Random
) -> dict[str, Any]:
    """End a scene at each of its operations, or at so many of them drawn at random, and judge what is left."""
    folder, place = base / f"tried {os.getpid()}", base / f"tried {os.getpid()} child"

    def act(at: int) -> int:
        library.crash_at(os.fsencode(folder), at)
        scene.act(folder)
        return library.operations()

    def tried(at: int) -> str:
        scene.prepare(folder)
        ended = runs.in_child(lambda: act(at), place)
        if not ended.killed:
            return f"it was not ended: {ended}"
        return scenes.judged_in_child(scene, folder, place)

    scene.prepare(folder)
    count = runs.in_child(lambda: act(-1), place).answer
    if not isinstance(count, int):
        raise SystemExit(f"{name}: the operations could not be counted")
    chosen = sorted(draw.sample(range(count), points)) if 0 < points < count else list(range(count))
    wrong: list[int] = []
    for number, at in enumerate(chosen):
        found = journal.once(name, at, lambda at=at: tried(at))
        if found:
            wrong.append(at)
        if found or number % 50 == 49:
            print(f"{name}: {at} of {count}: {found or 'well'}", flush=True)
    return {"operations": count, "ended at": len(chosen), GOOD: len(chosen) - len(wrong)} | (
        {"wrong at": wrong} if wrong else {}
    )


class Moment:
    """When a life of a run ends: a random time after it began, or after its last checkpoint came to stand where it is wanted.

    Arguments:
        ready: whether the time begins to run.
        seconds: how long it then takes.
        number: the signal to send.
    """

    def __init__(self, ready: Callable[[runs.Run], bool], seconds: float, number: int) -> None:
        self._ready, self._seconds, self._number = ready, seconds, number
        self._end: float | None = None

    def __call__(self, run: runs.Run) -> int:
        if self._end is None and self._ready(run):
            self._end = time.monotonic() + self._seconds
        return self._number if self._end is not None and time.monotonic() >= self._end else 0


def never_stopped(kind: str, data: Path, base: Path, number: int, seed: int = runs.SEED) -> tuple[runs.Run, float]:
    """A run that nobody kills, and the seconds that it took."""
    run, begun = runs.Run(kind, data, base / kind / f"whole {number} {seed}", number, seed), time.monotonic()
    ended = run.live()
    if ended.code:
        raise SystemExit(f"{kind}: {ended.said}")
    return run, time.monotonic() - begun


def random_kills(kind: str, data: Path, base: Path, journal: runs.Journal, kills: int, seed: int) -> dict[str, Any]:
    """Kill a kind of run at random moments until that many have hit; runs that end before are compared, and another begins."""
    whole: dict[int, tuple[runs.Run, float]] = {}
    vectors = not runs.KINDS[kind].recipe

    def killed(number: int, most: int) -> dict[str, Any]:
        same = number % 3 if vectors else 0
        if same not in whole:
            whole[same] = never_stopped(kind, data, base, same)
        never, seconds = whole[same]
        draw, run = random.Random(f"{seed} {kind} {number}"), runs.Run(kind, data, base / kind / str(number), same)
        wanted = never.remains()
        if vectors:  # others stand where they are to come
            old = never_stopped(kind, data, base, same, runs.SEED + 1)[0]
            shutil.copytree(old.place, run.place)
        hits: Counter[str] = Counter()
        late = runs.KINDS[kind].late
        while True:
            share = draw.uniform(0.0, 0.3 if late else 0.6)
            doom = Moment(
                (lambda run: run.epoch() >= 1) if late else (lambda run: True), share * seconds, signal.SIGKILL
            )
            ended = run.live(doom if hits.total() < most else None)
            if not ended.killed:
                break
            epoch = run.epoch()
            place = (
                "the vectors of before, or the new ones" if vectors else "the start" if epoch < 0 else "a later pass"
            )
            hits[place if epoch else "the first pass"] += 1
            if vectors and all(runs.differing(run.vectors(), each) for each in (old.vectors(), never.vectors())):
                return {"hits": hits, "fault": "neither the old vectors nor the new ones"}
            if not vectors and (left := runs.in_child(lambda: runs.opened(run.place), run.folder / "opened")).code:
                return {"hits": hits, "fault": f"cannot be opened: {left.sentence}"}
        fault = runs.against(run, wanted) if ended.code == 0 else f"exit code {ended.code}: {ended.sentence}"
        if fault:
            print(f"{kind}: {fault}", flush=True)
        return {"hits": hits, "fault": fault}

    hits: Counter[str] = Counter()
    number, wrong = 0, list[str]()
    while hits.total() < kills:
        left = kills - hits.total()
        found = journal.once(f"kills: {kind}", number, lambda number=number, left=left: killed(number, left))
        hits.update(found["hits"])
        wrong += [found["fault"]] if found["fault"] else []
        number += 1
    return {"kills": hits.total(), "runs": number, EQUAL: number - len(wrong), "left": dict(hits)} | (
        {"wrong": wrong} if wrong else {}
    )


def random_signals(kind: str, data: Path, base: Path, signals: int, seed: int) -> dict[str, Any]:
    """Send SIGTERM and SIGINT in turn to a kind of run while it trains; judge how it leaves, and what it comes to at last."""
    never, seconds = never_stopped(kind, data, base, 0)
    draw, left, checkpoints, wrong = random.Random(f"{seed} signals {kind}"), 0, 0, list[str]()
    run = runs.Run(kind, data, base / kind / "signalled")
    vectors = not runs.KINDS[kind].recipe

    def training(run: runs.Run) -> bool:
        return vectors or ((run.place / "log.jsonl").is_file() and not (run.place / "config.json").is_file())

    for number in range(signals):
        sent = (signal.SIGTERM, signal.SIGINT)[number % 2]
        ended = run.live(Moment(training, draw.uniform(0.0, 0.3) * seconds, sent))
        if ended.code == 0:  # it had ended before
            fault = runs.against(run, never.remains())
            run = runs.Run(kind, data, base / kind / f"signalled {number}")
        else:
            left += 1
            named = re.search(r"the checkpoint of step ([\d,]+) is written", ended.said)
            checkpoints += named is not None
            fault = "" if ended.code == CODES[sent] else f"exit code {ended.code} after {sent.name}: {ended.sentence}"
            if named is not None and not fault:
                last = json.loads((run.place / "checkpoints.json").read_text())["last"]
                fault = "" if int(last[5:]) == int(named[1].replace(",", "")) else f"{last}, and said was {named[0]}"
        wrong += [fault] if fault else []
    ended = run.live()
    fault = runs.against(run, never.remains()) if ended.code == 0 else f"exit code {ended.code}: {ended.sentence}"
    wrong += [fault] if fault else []
    for fault in wrong:
        print(f"{kind}: {fault}", flush=True)
    return {"signals": left, "left with 143 or 130 and a checkpoint": checkpoints, "wrong": wrong}


def measured(arguments: argparse.Namespace, library: Any) -> None:
    """Do all of it and write what came out."""
    from measured import record

    runs.import_all()
    key = {"seed": arguments.seed, "points": arguments.points, "kills": arguments.kills, "kinds": arguments.kinds}
    journal = runs.Journal(arguments.journal, key)
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.path.realpath(place))
        valid.write_data(base / "data")
        data = base / "data"
        works: dict[str, Callable[[], dict[str, Any]]] = {}
        share, more = divmod(arguments.kills, len(arguments.kinds))
        for number, kind in enumerate(arguments.kinds):
            if wanted := share + (number < more):
                works[f"random kills: {kind}"] = partial(
                    random_kills, kind, data, base, journal, wanted, arguments.seed
                )
        for kind in arguments.kinds:
            if arguments.signals and runs.KINDS[kind].workers == 1:
                once = partial(random_signals, kind, data, base / "signals", arguments.signals, arguments.seed)
                works[f"signals: {kind}"] = partial(journal.once, f"signals: {kind}", 0, once)
        for name, scene in (scenes.scenes(base, data) if arguments.points else {}).items():
            draw, name = random.Random(f"{arguments.seed} {name}"), f"crash points: {name}"
            works[name] = partial(crash_points, name, scene, library, base, journal, arguments.points, draw)
        found = runs.side_by_side(works, base, arguments.together)
    points, killed, signalled = (
        [each for name, each in found.items() if name.startswith(start)]
        for start in ("crash points", "random kills", "signals")
    )
    summary = {
        "random kills": sum(each["kills"] for each in killed),
        EQUAL: f"{sum(each[EQUAL] for each in killed)} of {sum(each['runs'] for each in killed)}",
        "crash points": sum(each["ended at"] for each in points),
        GOOD: sum(each[GOOD] for each in points),
        "SIGTERM and SIGINT": sum(each["signals"] for each in signalled),
        "left with another code, or resumed to something else": sum(len(each["wrong"]) for each in signalled),
    }
    record(
        arguments.output,
        title="Ended at every operation, and at random moments",
        command="python benchmarks/faults/kills.py"
        + (f" --points {arguments.points}" if arguments.points >= 0 else ""),
        precision="float32, one kind bfloat16",
        seed=arguments.seed,
        target="200 kills over ten kinds of run, and crash points of training, saving and extending: bit-equal or the last good "
        "state",
        figures=summary | found,
        note=(
            "The process is ended, not the machine: what the system had not written to the disk yet is not lost (disks.json "
            "takes that away too). Training of word vectors is not gone on with: killed, it leaves the vectors of before, and "
            "the same command comes to the same new ones."
        ),
        threads=1,
    )
    journal.path.unlink()
    wrong = summary["crash points"] - summary[GOOD] + sum(each["runs"] - each[EQUAL] for each in killed)
    wrong += sum(len(each["wrong"]) for each in signalled)
    if wrong:
        raise SystemExit(f"{wrong} did not end as they ought to")


def main() -> None:
    """Load the counting library before all others, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "kills.json")
    parser.add_argument(
        "--points", type=int, default=-1, help="crash points of each scene, drawn at random; -1 for all"
    )
    parser.add_argument("--kills", type=int, default=200, help="at random moments, over all kinds of runs")
    parser.add_argument("--signals", type=int, default=4, help="SIGTERM and SIGINT, for each kind of run")
    parser.add_argument("--kinds", nargs="+", choices=runs.KINDS, default=list(runs.KINDS))
    parser.add_argument("--seed", type=int, default=1, help="of the points and moments")
    parser.add_argument("--together", type=int, default=2, help="scenes and kinds at a time, each in a process")
    parser.add_argument("--journal", type=Path, default=Path("runs/kills.jsonl"), help="where it goes on when stopped")
    arguments = parser.parse_args()
    measured(arguments, scenes.with_library())


if __name__ == "__main__":
    main()
