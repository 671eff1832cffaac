"""Runs the compiled kernels under sanitizers, on drawn shapes and numbers, and compares what comes out with float64.

    python benchmarks/faults/kernels.py
    python benchmarks/faults/kernels.py --count 50 --builds addresses:avx2 threads:plain --output kernels.json
    python benchmarks/faults/kernels.py --only addresses:avx2:17

A build is a sanitizer and the instructions that the sources are compiled for. `addresses` stops at any access outside an
array and at any undefined behaviour (-fsanitize=address,undefined,float-cast-overflow), `threads` at any two accesses that
race (-fsanitize=thread), `none` checks the numbers alone, with the flags that users get. Each case is one call of
`regard_linear`, `regard_blocks`, `regard_greedy`, `regard_texts`, `regard_word2vec`, `regard_glove`, `regard_candidates` or
`regard_dropout`, or one of `regard_loss`, `regard_attention`, `regard_additive`, `regard_recurrent` or `regard_lstm` and
then of its gradient: of any shape, 0 among them; at addresses that are multiples of no more than the size of a number; with
infinite numbers, NaN, -0.0 and denormal ones; on one thread and on several, which must give the same bits. A case depends on
the seed and its number only.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from kernel_additive import additive_case  # noqa: E402
from kernel_blocks import blocks_case  # noqa: E402
from kernel_candidates import candidates_case  # noqa: E402
from kernel_cases import Case, linear_case  # noqa: E402
from kernel_greedy import greedy_case  # noqa: E402
from kernel_lstm import lstm_case  # noqa: E402
from kernel_recurrent import recurrent_case  # noqa: E402
from kernel_texts import texts_case  # noqa: E402
from kernel_training import attention_case, dropout_case, loss_case  # noqa: E402
from kernel_words import counts_case, words_case  # noqa: E402

from regard.kernels.variants import FLAGS, SOURCES, VARIANTS, processor  # noqa: E402

SANITIZERS = {
    "addresses": ("-O1", "-g1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
    "threads": ("-O1", "-g1", "-fsanitize=thread"),
    "none": (),
}

_V4 = frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
_V3 = frozenset(("avx2", "fma", "bmi2", "f16c"))
_SHIPPED = {variant.name: variant.flags for variant in VARIANTS}
INSTRUCTIONS = {
    "bf16": (_V3 | _V4 | {"avx512_vnni", "avx512_bf16"}, _SHIPPED["x86_64-avx512-bf16"]),
    "vnni": (_V3 | _V4 | {"avx512_vnni"}, _SHIPPED["x86_64-avx512"]),
    "avx512": (_V3 | _V4, ("-march=x86-64-v4",)),
    "avx2": (_V3, _SHIPPED["x86_64-avx2"]),
    "avx": (frozenset(("avx",)), ("-march=x86-64-v2", "-mavx")),
    "plain": (frozenset(), ("-march=x86-64",)),
    "aarch64": (frozenset(), _SHIPPED["aarch64"]),
}
"""What the processor has to list, and the compiler's options; `aarch64` runs under an emulator elsewhere."""

BUILDS = tuple(
    f"{sanitizer}:{name}"
    for name in INSTRUCTIONS
    for sanitizer in SANITIZERS
    if name != "aarch64" or sanitizer == "none"
)


class NotHere(Exception):
    """Why a build cannot be run on this machine."""


@dataclass(frozen=True)
class Driver:
    """The kernels and what calls them, compiled.

    Arguments:
        command: what runs it.
        halves: whether they round rows to bfloat16 for weights of 16 bits.
    """

    command: tuple[str, ...]
    halves: bool

    @classmethod
    def built(cls, build: str, place: Path, sources: Path = SOURCES) -> Driver:
        """For a build, `SANITIZER:INSTRUCTIONS`, in a folder.

        Raises:
            NotHere: where there is no compiler, no emulator, or no such instructions.
        """
        sanitizer, name = build.split(":")
        needs, flags = INSTRUCTIONS[name]
        other = name == "aarch64" and platform.machine() != "aarch64"
        if not needs <= set(processor().split()) or (name != "aarch64" and platform.machine() != "x86_64"):
            raise NotHere("this processor has no such instructions")
        compiler = shutil.which("aarch64-linux-gnu-g++" if other else os.environ.get("CXX", "g++"))
        emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
        if compiler is None or (other and emulator is None):
            raise NotHere(
                "there is no compiler for it" if compiler is None else "there is no emulator of it (qemu-user)"
            )
        program, part = place / build.replace(":", "-"), place / "part.o"
        options = [flag for flag in FLAGS if flag != "-fno-exceptions"]  # the driver starts threads
        own = [
            compiler,
            *options,
            *flags,
            *SANITIZERS[sanitizer],
            f"-I{sources}",
            "-c",
            str(HERE / "kernels_driver.cpp"),
        ]
        for command in (
            [*own, "-o", str(part)],
            # Without OpenMP's library: its functions are the driver's.
            [
                compiler,
                *SANITIZERS[sanitizer],
                *(["-static"] if other else []),
                str(part),
                "-pthread",
                "-o",
                str(program),
            ],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotHere(f"it did not compile ({(done.stderr.splitlines() or ['?'])[0]})")
        around: list[str] = [emulator] if other and emulator else []
        if sanitizer == "threads" and (setarch := shutil.which("setarch")):
            around = [setarch, "-R"]  # this sanitizer does not start where addresses are drawn from a wide range
        return cls((*around, str(program)), halves=name == "bf16")

    def run(self, calls: Sequence[bytes], sizes: Sequence[int]) -> tuple[list[bytes], str]:
        """What comes out of each call, up to one that does not come to its end, and what was said then."""
        settings = {
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "TSAN_OPTIONS": "halt_on_error=1",
        }
        with tempfile.TemporaryFile() as given:
            given.write(b"".join(calls))
            given.seek(0)
            done = subprocess.run(
                self.command, stdin=given, capture_output=True, env=os.environ | settings, check=False, timeout=3000
            )
        answers, at = [], 0
        for size in sizes:
            if at + size > len(done.stdout):
                said = done.stderr.decode(errors="replace").strip()
                return answers, f"it ended with {done.returncode}: {said[:4000]}"
            answers.append(done.stdout[at : at + size])
            at += size
        return answers, ""


def drawn_case(seed: int, number: int, halves: bool) -> Case:
    """The case of a number; halves: as in `Driver`."""
    rng = np.random.default_rng([seed, number])
    with np.errstate(all="ignore"):
        if number % 10 == 8:
            kinds = (words_case, counts_case, words_case, recurrent_case, words_case, lstm_case)
            return kinds[number // 10 % len(kinds)](rng)
        if number % 20 == 12:
            return (texts_case if number % 40 == 12 else candidates_case)(rng)
        if number % 10 == 6:
            return (loss_case if number % 20 == 6 else dropout_case if number % 40 == 16 else attention_case)(rng)
        if number % 20 == 2:
            return (attention_case if number % 40 == 2 else additive_case)(rng)
        return (linear_case if number % 2 else greedy_case if number % 6 == 4 else blocks_case)(rng, halves)


def judged(case: Case, threads: Sequence[int], answers: Sequence[bytes]) -> tuple[float, str]:
    """The largest error as a share of what is allowed, and what is wrong with the answers of one case."""
    if int.from_bytes(answers[0][:4], "little"):
        return math.inf, "it wrote into what it was to read alone"
    for count, answer in zip(threads, answers, strict=True):
        if answer != answers[0]:
            return math.inf, f"{count} threads come to other bits than {threads[0]}"
    outputs, at = [], 4
    for kind, shape in case.outputs:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        outputs.append(np.frombuffer(answers[0][at : at + size], kind).reshape(shape))
        at += size
    with np.errstate(all="ignore"):
        error = case.judge(outputs)
    return error, "" if error <= 1 else f"its error is {error:.3g} times what is allowed"


THREADS = (1, 3)


def run(driver: Driver, seed: int, numbers: Sequence[int], say: Callable[[str], None]) -> tuple[int, float, list[str]]:
    """How many cases were run, the largest error of those that went well, and what went wrong, with the number of each."""
    wrong: list[str] = []
    largest, waiting = 0.0, list(numbers)
    while waiting:
        cases = {number: drawn_case(seed, number, driver.halves) for number in waiting[:200]}
        calls = [case.call(threads) for case in cases.values() for threads in THREADS]
        sizes = [
            4 + sum(int(np.prod(shape)) * np.dtype(kind).itemsize for kind, shape in case.outputs)
            for case in cases.values()
            for _ in THREADS
        ]
        answers, said = driver.run(calls, sizes)
        done = len(answers) // len(THREADS)
        for place, (number, case) in enumerate(list(cases.items())[:done]):
            error, what = judged(case, THREADS, answers[place * len(THREADS) : (place + 1) * len(THREADS)])
            if what:
                wrong.append(f"{number} ({case.what}): {what}")
                say(wrong[-1])
            else:
                largest = max(largest, error)
        waiting = waiting[done:]
        if said:
            wrong.append(f"{waiting[0]} ({cases[waiting[0]].what}): {said}")
            say(wrong[-1])
            waiting = waiting[1:]
    return len(numbers), largest, wrong


def main() -> None:
    """Build, run, and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "kernels-sanitized.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="cases of each build")
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=BUILDS, metavar="SANITIZER:INSTRUCTIONS")
    parser.add_argument("--only", metavar="BUILD:NUMBER", help="repeat one case and say how it ended")
    arguments = parser.parse_args()
    begun = time.monotonic()
    figures, wrong, cases = {}, [], 0
    with tempfile.TemporaryDirectory() as place:
        if arguments.only:
            build, number = arguments.only.rsplit(":", 1)
            driver = Driver.built(build, Path(place))
            found = run(driver, arguments.seed, [int(number)], print)
            print(drawn_case(arguments.seed, int(number), driver.halves).what, *found, sep="\n")
            return
        for build in arguments.builds:
            try:
                driver = Driver.built(build, Path(place))
            except NotHere as error:
                figures[build] = f"not run: {error}"
                continue
            done, largest, faults = run(driver, arguments.seed, range(arguments.count), print)
            cases += done
            figures[build] = {
                "cases": done,
                "faults": len(faults),
                "largest error, as a share of what is allowed": round(largest, 3),
            }
            wrong += [f"{build}: {fault[:500]}" for fault in faults]
            print(build, figures[build], flush=True)
    from measured import record  # imports PyTorch, which the rest does without

    record(
        arguments.output,
        title="Compiled kernels under sanitizers, against float64",
        command="python benchmarks/faults/kernels.py",
        precision="weights of 32, 16, 8 and 4 bits; keys and values of 32 and 16",
        seed=arguments.seed,
        target="no access outside an array, no undefined behaviour, no race, no number further from float64 than it is rounded",
        figures={"cases": cases, "faults": len(wrong), "minutes": round((time.monotonic() - begun) / 60, 1)}
        | figures
        | ({"what went wrong": wrong} if wrong else {}),
        threads=max(THREADS),
        note="SANITIZER:INSTRUCTIONS. bf16: AVX-512 with VNNI and BF16; vnni: with VNNI alone; avx512: without VNNI; "
        "avx: without AVX2; plain: SSE2 alone. "
        f"Each case runs on {' and on '.join(map(str, THREADS))} threads and has to come to the same bits.",
    )
    if wrong:
        raise SystemExit(f"{len(wrong)} cases went wrong")


if __name__ == "__main__":
    main()
