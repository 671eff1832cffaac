"""Many cases in one process, which is forked anew where one of them ends it: how each ended, and what it took."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import mmap
import os
import resource
import shutil
import signal
import struct
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import byte_faults
import judging
import mutating
from loading_texts import Sample

TOGETHER = 2000
"""Cases in one process."""

HARNESS = 99
"""The exit code of a child in which the harness itself failed."""

HEAD = struct.Struct("<qdq")
"""What parent and child share: the case that is being done, the most seconds of one, the most memory; then a byte a case."""

ENDS = (b"?", b"answer", b"refused", b"otherwise")


@dataclass(slots=True)
class Figures:
    """What the cases of one kind came to.

    Arguments:
        ends: how many ended with an answer, were refused, or ended as none may.
        slowest: processor seconds of the slowest that was allowed.
        largest: bytes that a process held beyond those at its beginning, at most.
        wrong: cases that ended as none may: number, what was done, how it ended, and where.
    """

    ends: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)

    @property
    def done(self) -> int:
        return self.ends.total()


class Cases:
    """Damaged copies of valid samples, and what reading them came to.

    Arguments:
        place: where all is written.
        seed: of all cases.
        samples: by the kind of loader.
    """

    def __init__(self, place: Path, seed: int, samples: Mapping[str, list[Sample]]) -> None:
        self.scratch, self.seed, self.samples = place / "scratch", seed, samples
        self.scratch.mkdir()
        self.shared = mmap.mmap(-1, HEAD.size + TOGETHER)
        self._allowed: list[str] = []
        self._files: dict[Path, dict[str, bytes]] = {}
        for sample in (each for kind in samples.values() for each in kind):
            self._files[sample.folder] = {
                str(path.relative_to(sample.folder)): path.read_bytes()
                for path in sorted(sample.folder.rglob("*"))
                if path.is_file()
            }

    def batch(self, kind: str, first: int, count: int, figures: Figures) -> None:
        """Do some cases one after another, and count them."""
        number = first
        while number < first + count:
            judging.emptied(self.scratch)
            self.shared[:] = bytes(len(self.shared))
            HEAD.pack_into(self.shared, 0, number, 0.0, 0)
            child = os.fork()
            if not child:
                self._live(kind, number, first + count - number)
            how = self._watched(child)
            current, slowest, largest = HEAD.unpack_from(self.shared)
            figures.slowest, figures.largest = max(figures.slowest, slowest), max(figures.largest, largest)
            figures.ends.update(
                ENDS[end].decode() for end in self.shared[HEAD.size : HEAD.size + current - number] if end
            )
            with contextlib.suppress(OSError):
                figures.wrong += map(json.loads, (self.scratch / "wrong").read_text().splitlines())
            (self.scratch / "wrong").unlink(missing_ok=True)
            if how is not None and current < first + count:
                figures.ends["otherwise"] += 1
                figures.wrong.append({"case": f"{kind}:{current}", "ended": how, "where": self._stack()})
                current += 1
            number = current

    def _watched(self, child: int) -> str | None:
        """How a child ended that did not come to its end; None for one that did."""
        seen, since = (-1, -1), time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            now = (HEAD.unpack_from(self.shared)[0], judging.work_of(child)[0])
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > judging.STILL and judging.work_of(child)[1] == "S":
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "waits"
            time.sleep(0.02)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return "slow" if number == signal.SIGXCPU else f"died of {signal.Signals(number).name}"
        if os.WEXITSTATUS(status) == HARNESS:
            raise SystemExit(f"the harness failed: {(self.scratch / 'err').read_text()}")
        return f"exit {os.WEXITSTATUS(status)}" if os.WEXITSTATUS(status) else None

    def _stack(self) -> str:
        """The package's innermost lines where a child was ended, the outermost last."""
        try:
            lines = (self.scratch / "fatal").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return " < ".join(line.strip().rpartition("/regard/")[2] for line in lines if "/regard/" in line)[:600]

    def _live(self, kind: str, first: int, count: int) -> NoReturn:
        """What the child does."""
        try:
            fatal = os.open(self.scratch / "fatal", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            wrong = os.open(self.scratch / "wrong", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._allowed = judging.arrange(self.scratch, None)
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.enable(fatal, all_threads=False)
            faulthandler.register(signal.SIGXCPU, fatal, all_threads=False, chain=True)
            warnings.simplefilter("ignore")
            resident, slowest = judging.resident_size(), 0.0
            for number in range(first, first + count):
                _, slowest_before, _ = HEAD.unpack_from(self.shared)
                HEAD.pack_into(self.shared, 0, number, slowest_before, _)
                most = math.ceil(time.process_time()) + judging.KILLED_AFTER
                resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
                did, end, detail, seconds = self.case(kind, number)
                memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
                if end in judging.ALLOWED and seconds > judging.SECONDS:
                    end, detail = "slow", f"{end} after {seconds:.1f} s: {detail}"
                elif end in judging.ALLOWED and memory > judging.MEMORY:
                    end, detail = "large", f"{end} with {memory >> 20} MiB: {detail}"
                allowed = end in judging.ALLOWED
                slowest = max(slowest, seconds) if allowed else slowest
                HEAD.pack_into(self.shared, 0, number + 1, slowest, memory)
                self.shared[HEAD.size + number - first] = 1 + judging.ALLOWED.index(end) if allowed else 3
                if not allowed:
                    said = {"case": f"{kind}:{number}", "did": did, "ended": end, "where": detail[:500]}
                    os.write(wrong, json.dumps(said).encode() + b"\n")
                if memory > judging.MEMORY // 2:
                    break  # else what one held is counted with the next
        except BaseException as error:  # of the harness itself
            os.write(2, "".join(traceback.format_exception(error)).encode())
            os._exit(HARNESS)
        os._exit(0)

    def case(self, kind: str, number: int) -> tuple[str, str, str, float]:
        """One case: what it was, how it ended, what was said, and the processor's seconds."""
        draw = Random(f"{self.seed} {kind} {number}")
        sample = draw.choice(self.samples[kind])
        with self.folder(sample, draw) as (folder, did):
            begun = time.process_time()
            end, detail = judging.ended(lambda: sample.read(folder))
            return did, end, detail, time.process_time() - begun

    @contextlib.contextmanager
    def folder(self, sample: Sample, draw: Random) -> Iterator[tuple[Path, str]]:
        """A copy of a sample with a fault in one of its files, and which; the copy is kept, and mended behind the block."""
        self._allowed.append("/")  # what puts the fault there is not judged
        files = self._files[sample.folder]
        place = self.scratch / "work" / f"{sample.folder.parent.name}-{sample.folder.name}"
        if not place.is_dir():
            for name, content in files.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
        pattern = draw.choice(sample.damaged)
        name = draw.choice([name for name in files if Path(name).match(pattern)] or list(files))
        path = place / name
        suffix = sample.suffix or path.suffix
        did = f"{place.name}/{name}: "
        try:
            if draw.random() < (0.4 if suffix in mutating.BY_ENDING else 0.05):
                did += mutating.fault(path, draw).rpartition(": ")[2]
            else:
                did += "bytes"
                path.write_bytes(byte_faults.damaged(files[name], suffix, draw))
            self._allowed.remove("/")
            yield place, did
        finally:
            self._allowed.append("/")
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            path.write_bytes(files[name])
            self._allowed[:] = [each for each in self._allowed if each != "/"]


def checked(samples: Mapping[str, list[Sample]], say: Callable[[str], None]) -> None:
    """Read every sample as it is; that also imports what reading needs.

    Raises:
        SystemExit: where one is refused.
    """
    for kind, each in samples.items():
        for sample in each:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                end, detail = judging.ended(lambda sample=sample: sample.read(sample.folder))
            if end != "answer":
                raise SystemExit(f"{kind}: {sample.folder.name} is not read as it is: {detail}")
        say(f"{kind}: {len(each)} samples")
