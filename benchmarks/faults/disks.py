"""Lets disks fail under a training, and looks at how it ends, at what is left, and at what becomes of it once the disk is mended.

    python benchmarks/faults/disks.py
    python benchmarks/faults/disks.py --points 5 --cuts 20 --only full torn --output disks.json

- full: from the k-th operation that needs room every one fails (ENOSPC), for each k; and on a small real file system (a tmpfs
  that the harness mounts, which takes root on Linux), with less room each time;
- read-only (EROFS) and broken (EIO) from the k-th operation on; and a real file system that is mounted read-only under the run;
- removed, moved: the run's folder, at random moments;
- slow: each operation waits;
- torn: each file of the last checkpoint cut at every byte (every 512 and random ones where it is large), or zeros from there on;
- power: what a loss of power would leave at each fsync (`power.py`).

The training must end with one sentence that says what is wrong (exit code 2); the folder opens as the last good checkpoint, or as
no model before the first; on a mended disk the same command ends with what a run leaves that met no fault, bit for bit. A command
that is stopped goes on, when it is given again, with what it had not done yet (--journal).
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import runs  # noqa: E402
import scenes  # noqa: E402
import valid  # noqa: E402
from power import WAYS, Power  # noqa: E402

WELL = "one sentence, the last good checkpoint, and on a mended disk as without the fault"
FAILURES = {
    "full": (errno.ENOSPC, "the disk is full"),
    "read-only": (errno.EROFS, "not allowed to write there"),
    "broken": (errno.EIO, "cannot be written"),
}
MILLISECONDS = 5
WHOLE_BELOW = 2048
"""Bytes of a file that is cut at each of them."""


class Disks:
    """A training, and disks that fail under it.

    Arguments:
        base: where everything is written.
        scene: the training, that needs nothing beforehand.
        data: the folder of its examples.
        library: counts and fails operations.
        journal: what was found so far.
        points: the most that are taken of each kind of fault, drawn at random; -1 for all.
        cuts: the most of each file; -1 for all.
        seed: of all that is drawn.
    """

    def __init__(
        self,
        base: Path,
        scene: scenes.Scene,
        data: Path,
        library: Any,
        journal: runs.Journal,
        points: int,
        cuts: int,
        seed: int,
    ) -> None:
        self.base, self.scene, self.data, self.library, self.journal = base, scene, data, library, journal
        self.points, self.cuts, self.seed = points, cuts, seed

    def works(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """The kinds of fault."""
        return {
            **{name: partial(self.failing, name) for name in FAILURES},
            "full: a small file system": self.small,
            "read-only: remounted": self.remounted,
            "removed": partial(self.gone, False),
            "moved": partial(self.gone, True),
            "slow": self.slow,
            "torn": self.torn,
            **{f"power: {way} lost": partial(self.power, way) for way in WAYS},
        }

    def chosen(self, name: str, count: int) -> list[int]:
        """Which of so many faults are tried."""
        if not 0 < self.points < count:
            return list(range(count))
        return sorted(random.Random(f"{self.seed} {name}").sample(range(count), self.points))

    def sum(self, name: str, units: list[Any], tried: Callable[[Any], str], **more: Any) -> dict[str, Any]:
        """Try each, and say how many ended as they ought to."""
        wrong: dict[str, str] = {}
        for number, unit in enumerate(units):
            found = self.journal.once(name, unit, lambda unit=unit: tried(unit))
            if found:
                wrong[str(unit)] = found
            if found or number % 50 == 49:
                print(f"{name}: {unit} of {len(units)}: {found or 'well'}", flush=True)
        return {"faults": len(units), WELL: len(units) - len(wrong)} | more | ({"wrong": wrong} if wrong else {})

    def place(self, name: str) -> tuple[Path, Path]:
        """A folder for the run, and a path for what its process says."""
        return self.base / name, self.base / f"{name} child"

    def refused(self, ended: runs.Ended, words: str, *, where: str = "") -> str:
        """What is wrong with how a training ended that met a fault."""
        if ended.code != 2:
            return f"exit code {ended.code}: {ended.said[-600:]}"
        if words not in ended.sentence or where not in ended.sentence or "Traceback" in ended.said:
            return f"said {ended.sentence}"
        return ""

    def act(self, folder: Path) -> int:
        """The training; 2 and one sentence where it is refused."""
        import regard

        try:
            self.scene.act(folder)
        except regard.InputError as error:
            print(error, file=sys.stderr)
            raise SystemExit(2) from None
        return self.library.operations()

    def failing(self, name: str) -> dict[str, Any]:
        """Operations fail from the k-th on."""
        number, words = FAILURES[name]
        folder, place = self.place(name)

        def act(at: int) -> int:
            self.library.fail_at(os.fsencode(folder), at, number)
            return self.act(folder)

        def tried(at: int) -> str:
            self.scene.prepare(folder)
            ended = runs.in_child(lambda: act(at), place)
            # What fails last may be a removal, which nothing hangs on.
            fault = "" if ended.code == 0 else self.refused(ended, words, where=str(folder))
            return fault or scenes.judged_in_child(self.scene, folder, place)

        self.scene.prepare(folder)
        count = runs.in_child(lambda: act(-1), place).answer
        return self.sum(name, self.chosen(name, count), tried, operations=count)

    def small(self) -> dict[str, Any]:
        """A tmpfs with less room than the run needs."""
        folder, place = self.place("small")
        self.scene.prepare(folder)
        self.scene.act(folder)
        need = sum(path.stat().st_blocks * 512 for path in folder.rglob("*")) // 1024
        shutil.rmtree(folder)

        def tried(room: int) -> str:
            with mounted(folder, f"size={room}k"):
                ended = runs.in_child(lambda: self.act(folder), place)
                if ended.code:
                    fault = self.refused(ended, "the disk is full", where=str(folder))
                    if fault:
                        return fault
                remount(folder, "size=64m")
                return scenes.judged_in_child(self.scene, folder, place)

        rooms = list(range(16, need + 64, 8))
        chosen = [rooms[number] for number in self.chosen("small", len(rooms))]
        return self.sum("full: a small file system", chosen, tried) if can_mount() else NOT_MOUNTED

    def remounted(self) -> dict[str, Any]:
        """A tmpfs that becomes read-only while the run writes to it."""
        folder, place = self.place("remounted")

        def tried(number: int) -> str:
            draw = random.Random(f"{self.seed} remounted {number}")
            with mounted(folder, "size=64m"):
                due = [time.monotonic() + draw.uniform(0.05, 0.8)]

                def doom() -> int:
                    if due and time.monotonic() >= due[0] and remount(folder, "ro"):
                        due.clear()
                    return 0

                ended = runs.in_child(lambda: self.act(folder), place, doom)
                remount(folder, "rw")
                fault = "" if ended.code == 0 else self.refused(ended, "not allowed to write there")
                return fault or scenes.judged_in_child(self.scene, folder, place)

        return self.sum("read-only: remounted", self.chosen("remounted", 12), tried) if can_mount() else NOT_MOUNTED

    def gone(self, moved: bool) -> dict[str, Any]:
        """The run's folder is removed, or moved, while the run goes on."""
        name = "moved" if moved else "removed"
        folder, place = self.place(name)
        other = folder.with_name(f"{name} away")

        def tried(number: int) -> str:
            draw = random.Random(f"{self.seed} {name} {number}")
            self.scene.prepare(folder)
            shutil.rmtree(other, ignore_errors=True)
            other.mkdir()
            due = [time.monotonic() + draw.uniform(0.05, 0.8)]
            written = []

            def doom() -> int:
                run = folder / "run"
                if due and time.monotonic() >= due[0] and (run / "data" / "ready").is_file():
                    due.clear()
                    written.extend(run.glob("model.safetensors"))  # at the end: what is left may need no file
                    run.rename(other / "run")  # at once; removing takes its time
                    if not moved:
                        shutil.rmtree(other / "run")
                return 0

            ended = runs.in_child(lambda: self.act(folder), place, doom)
            if due:  # it had ended before
                return ""
            words = "was removed, moved or replaced" if "was removed" in ended.sentence else "cannot be written"
            fault = "" if ended.code == 0 and (moved or written) else self.refused(ended, words, where=str(folder))
            return fault or (scenes.judged_in_child(self.scene, other, place) if moved else "")

        return self.sum(name, self.chosen(name, 12), tried)

    def slow(self) -> dict[str, Any]:
        """Each operation waits."""
        folder, place = self.place("slow")
        seconds: dict[str, float] = {}

        def act(microseconds: int) -> int:
            self.library.slow_down(os.fsencode(folder), microseconds)
            return self.act(folder)

        def tried(name: str) -> str:
            self.scene.prepare(folder)
            begun = time.monotonic()
            ended = runs.in_child(lambda: act(1000 * MILLISECONDS if name == "slow" else 0), place)
            seconds[name] = round(time.monotonic() - begun, 2)
            return ended.said if ended.code else scenes.judged_in_child(self.scene, folder, place)

        return self.sum("slow", ["as it is", "slow"], tried) | {"seconds": seconds, "milliseconds more": MILLISECONDS}

    def torn(self) -> dict[str, Any]:
        """Files of the last checkpoint are cut, or end in zeros; a run of four checkpoints that was killed in its last update."""
        from regard.training.checkpoint import Checkpoints
        from regard.training.workers import joined

        whole, place = self.base / "torn whole", self.base / "torn child"
        steps = {"steps": 9, "save_every": 2, "evaluate_every": 2}
        runs.in_child(lambda: self.stopped_at(whole, 9, **steps), place)
        folder = self.base / "torn"
        shutil.copytree(whole, folder)
        ended = runs.in_child(lambda: scenes.trained(self.data, folder, **steps), place)
        after = runs.remains(folder)
        if ended.code:
            raise SystemExit(ended.said)
        names = json.loads((whole / "run" / "checkpoints.json").read_text())
        last, before = whole / "run" / "checkpoints" / names["last"], names["before"]["last"]
        files = [*sorted(path for path in last.rglob("*") if path.is_file()), whole / "run" / "checkpoints.json"]
        cuts, resumed, wrong = 0, 0, dict[str, str]()

        def looked(file: Path, content: bytes) -> str:
            """Which checkpoint is gone on from, without training, is looked at for every cut."""
            target = folder / file.relative_to(whole)
            for end in cut_at(len(content), random.Random(f"{self.seed} {file.name}"), self.cuts):
                for torn in (content[:end], content[:end] + b"\0" * (len(content) - end)):
                    target.write_bytes(torn)
                    with joined("cpu") as workers:
                        pointers, _, said = Checkpoints(folder / "run", workers).sound()
                    fell_back = pointers["last"] == before and str(target) in said
                    if target.name == "checkpoints.json":
                        fell_back = pointers["last"] == names["last"] and str(target) in said
                    if not fell_back and not same_meaning(target, torn, content):
                        return f"{file.name} cut at {end}: {pointers['last']}, said: {said}"
            target.write_bytes(content)
            return ""

        def gone_on(file: Path, end: int, zeros: bool) -> str:
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            target = folder / file.relative_to(whole)
            content = target.read_bytes()
            target.write_bytes(content[:end] + (b"\0" * (len(content) - end) if zeros else b""))
            said = lambda sentence: print(sentence, file=sys.stderr)  # noqa: E731
            ended = runs.in_child(lambda: scenes.trained(self.data, folder, say=said, **steps), place)
            if ended.code:
                return f"exit code {ended.code}: {ended.sentence}"
            reported = f"{target}" in ended.said and "is intact, and the run continues from it" in ended.said
            if not reported and file.name != "README.md":
                return f"not reported: {ended.said}"
            names = runs.differing(runs.remains(folder), after)
            return ", ".join(names)

        for file in files:
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            content, draw = file.read_bytes(), random.Random(f"{self.seed} {file.name} resumed")
            cuts += 2 * len(cut_at(len(content), random.Random(f"{self.seed} {file.name}"), self.cuts))
            found = self.journal.once("torn", file.name, lambda file=file, content=content: looked(file, content))
            for number in range(3 if self.cuts < 0 else 1):
                end, zeros = draw.randrange(len(content) - 2), bool(number % 2)
                again = partial(gone_on, file, end, zeros)
                found = found or self.journal.once("torn, resumed", f"{file.name} {end} {zeros}", again)
                resumed += 1
            if found:
                wrong[file.name] = found
                print(f"torn: {file.name}: {found}", flush=True)
        good = len(files) - len(wrong)
        return (
            {"faults": cuts, WELL: cuts if not wrong else 0, "files": len(files), "of which well": good}
            | {"of these cuts gone on with to the end": resumed}
            | ({"wrong": wrong} if wrong else {})
        )

    def stopped_at(self, folder: Path, step: int, **training: Any) -> None:
        """The training, killed after an update and before its checkpoint."""
        import regard.training.loop

        real = regard.training.loop.Loop._book

        def book(loop: Any) -> None:
            if loop.progress.step == step:
                os.kill(os.getpid(), signal.SIGKILL)
            real(loop)

        regard.training.loop.Loop._book = book  # type: ignore[method-assign]
        scenes.trained(self.data, folder, **training)

    def power(self, way: str) -> dict[str, Any]:
        """What a loss of power leaves at each fsync, on a file system that gives no number of an inode a second time."""
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as at:
            folder, images = Path(os.path.realpath(at)) / "watched", Path(os.path.realpath(at)) / "images"
            place = self.base / f"power {way}"
            self.scene.prepare(folder)

            def watched() -> int:
                def durable() -> str:  # what the run has said to be written
                    pointer = folder / "run" / "checkpoints.json"
                    return json.loads(pointer.read_text())["last"] if pointer.is_file() else ""

                power = Power(folder, images, durable)
                power.watch()
                self.scene.act(folder)
                return power.count

            ended = runs.in_child(watched, place)
            if ended.code:
                raise SystemExit(ended.said)
            left = self.base / f"power {way} left"

            def tried(number: int) -> str:
                shutil.rmtree(left, ignore_errors=True)
                shutil.copytree(images / f"{number} {way}", left)
                # Named by the fsync before: since then the run has written on, and what was written is on the disk.
                promised = (images / f"{number - 1} note").read_text() if number else ""
                pointer = left / "run" / "checkpoints.json"
                found = json.loads(pointer.read_text() or "{}").get("last", "") if pointer.is_file() else ""
                if found < promised:
                    return f"{promised} was written, and {found or 'nothing'} is left"
                return scenes.judged_in_child(self.scene, left, place)

            return self.sum(f"power: {way} lost", self.chosen(f"power {way}", ended.answer), tried, fsyncs=ended.answer)


NOT_MOUNTED: dict[str, Any] = {
    "faults": 0, WELL: 0, "not run": "mounting a file system takes root on Linux, outside a container that forbids it",
}  # fmt: skip


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    with tempfile.TemporaryDirectory() as place:
        return mount(Path(place), "size=64k") and unmount(Path(place))


def mount(place: Path, options: str) -> bool:
    """Mount a tmpfs; whether that was allowed."""
    return _ran("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place))


def unmount(place: Path) -> bool:
    """Unmount it."""
    return _ran("umount", str(place))


def remount(place: Path, options: str) -> bool:
    """Change how it is mounted; False where that cannot be now."""
    return _ran("mount", "-o", f"remount,{options}", str(place))


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A tmpfs at a new folder while the block runs."""
    place.mkdir(exist_ok=True)
    if not mount(place, options):
        raise SystemExit(f"{place}: cannot be mounted")
    try:
        yield
    finally:
        while not unmount(place):
            time.sleep(0.1)


def _ran(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    settings = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(command, env=settings, capture_output=True, check=False).returncode == 0


def cut_at(size: int, draw: random.Random, most: int) -> list[int]:
    """Where a file is cut: at every byte, or at every 512 and at random ones where it is large."""
    ends = set(range(size)) if size <= WHOLE_BELOW else {*range(0, size, 512), *draw.sample(range(size), 50)}
    return sorted(ends if most < 0 else draw.sample(sorted(ends), min(most, len(ends))))


def same_meaning(file: Path, torn: bytes, content: bytes) -> bool:
    """Whether a cut took nothing that is read: blanks after the JSON, or of the text that says what the folder holds."""
    if file.name == "README.md":
        return True
    try:
        return file.suffix == ".json" and json.loads(torn) == json.loads(content)
    except ValueError:
        return False


def measured(arguments: argparse.Namespace, library: Any) -> None:
    """Do all of it and write what came out."""
    from measured import record

    runs.import_all()
    key = {"seed": arguments.seed, "points": arguments.points, "cuts": arguments.cuts}
    journal = runs.Journal(arguments.journal, key)
    with tempfile.TemporaryDirectory() as place:
        base = Path(os.path.realpath(place))
        valid.write_data(base / "data")
        scene = scenes.scenes(base, base / "data")["training"]
        disks = Disks(base, scene, base / "data", library, journal, arguments.points, arguments.cuts, arguments.seed)
        works = {name: do for name, do in disks.works().items() if name.split(":")[0] in arguments.only}
        found = runs.side_by_side(works, base, arguments.together)
    faults, well = (sum(each[name] for each in found.values()) for name in ("faults", WELL))
    record(
        arguments.output,
        title="Disks that fail under a training",
        command="python benchmarks/faults/disks.py",
        precision="float32",
        seed=arguments.seed,
        target="full, read-only, broken, removed, slow, torn, and without power, at any moment: one sentence, the last good "
        "checkpoint opens, and on a mended disk the run ends as without the fault",
        figures={"faults": faults, WELL: well} | found,
        note=(
            "A tiny translator, four updates, two checkpoints. Operations fail by a library that stands before the C library's "
            "functions. A loss of power is simulated: what was not forced to the disk is taken away."
        ),
        threads=1,
    )
    journal.path.unlink()
    if well < faults:
        raise SystemExit(f"{faults - well} did not end as they ought to")


def main() -> None:
    """Load the library of operations before all others, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "disks.json")
    parser.add_argument("--points", type=int, default=60, help="the most faults of each kind; -1 for all there are")
    parser.add_argument("--cuts", type=int, default=-1, help="the most cuts of each file; -1 for every byte")
    kinds = ["full", "read-only", "broken", "removed", "moved", "slow", "torn", "power"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn")
    parser.add_argument("--together", type=int, default=2, help="kinds of fault at a time, each in a process")
    parser.add_argument("--journal", type=Path, default=Path("runs/disks.jsonl"), help="where it goes on when stopped")
    arguments = parser.parse_args()
    measured(arguments, scenes.with_library())


if __name__ == "__main__":
    main()
