"""A day of use in small: whether memory, files and threads stay as they are, and whether looks at the same time meet.

    python benchmarks/faults/growth.py
    python benchmarks/faults/growth.py --predictions 700 --looks 70 --loads 14 --threads 10 --output growth.json

Small models of six tasks are loaded. Then, one kind of use after another: predictions, each of another text; looks, of which
every weight is read; and loads, each with one prediction. A tenth as many, and at least 20 of each model, warm up. Reported
is by how much the resident memory then grows (from the mean of the first twentieth to that of the last), the open files, and the
threads. At the end as many threads as asked look at one model, each while it reads another text, and every weight they see is
compared with that of a look alone, bit for bit. One thread computes, so that the system's count of threads is the package's own.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
sys.path[:0] = [str(HERE.parent), str(HERE)]

import torch  # noqa: E402
import valid  # noqa: E402

import regard  # noqa: E402
from measured import record  # noqa: E402

SEED = 1
MOST = 2.0
"""Growth of resident memory, in per cent, that is allowed."""


def spelt(text: str) -> str:
    """A text of the four letters that the translators know."""
    return "".join("abcd"[ord(letter) % 4] for letter in text[:12])


USES: dict[str, Callable[[Any, str], Any]] = {
    "bahdanau": lambda model, text: model.translate(spelt(text)),
    "marian": lambda model, text: model.translate(spelt(text)),
    "classifier": lambda model, text: model.classify(text),
    "tagger": lambda model, text: model.tag(text),
    "answerer": lambda model, text: model.answer("which one ?", text),
    "encoder": lambda model, text: model.embed([text]),
    "gpt2": lambda model, text: model.generate(text[:8]),
}
"""A prediction by the kind of folder (`valid.RECIPES`)."""


def texts(stream: str) -> Callable[[], str]:
    """Draws one text after another."""
    draw = random.Random(f"{SEED} {stream}")
    return lambda: " ".join(draw.choice(valid.WORDS) for _ in range(draw.randint(2, 7)))


def resident() -> int:
    """Bytes of this process in memory, after Python's own waste is collected."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held() -> tuple[int, int]:
    """How many files and threads this process has; a thread that has ended is still there for a moment."""
    gc.collect()
    time.sleep(0.2)
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def watched(count: int, least: int, use: Callable[[], Any]) -> dict[str, Any]:
    """Use something so many times, and see what has grown from the end of the warm-up.

    Arguments:
        least: times that warm up at least.
    """
    warm_up = max(least, count // 10)
    for _ in range(warm_up):
        use()
    before, sizes, begun = held(), list[int](), time.monotonic()
    every = max(1, count // 100)  # a look at the memory walks through everything that Python holds
    for number in range(count):
        use()
        if number % every == every - 1:
            sizes.append(resident())
    share = max(1, len(sizes) // 20)
    first, last = (statistics.mean(part) for part in (sizes[:share], sizes[-share:]))
    files, threads = (after - earlier for after, earlier in zip(held(), before, strict=True))
    return {
        "times, after those to warm up": [count, warm_up],
        "resident memory, MiB": round(first / 2**20, 1),
        "grown, %": round(100 * (last - first) / first, 2),
        "grown, KiB each time": round((last - first) / count / 1024, 2),
        "files more": files,
        "threads more": threads,
        "seconds": round(time.monotonic() - begun, 1),
    }


def seen(model: Any, use: Callable[[Any, str], Any], text: str) -> list[torch.Tensor]:
    """Every weight of every attention while a text is read."""
    with regard.look(model) as found:
        use(model, text)
    return [
        found.weights(address, run=run) for run in range(len(found.runs)) for address in found.addresses
    ]  # as many runs as forward passes or searches


def at_once(model: Any, use: Callable[[Any, str], Any], count: int) -> int:
    """How many of so many threads that look at once see other weights than a look alone."""
    draw = texts("threads")
    drawn = [draw() for _ in range(count)]
    alone = [seen(model, use, text) for text in drawn]
    found: dict[int, list[torch.Tensor]] = {}
    barrier = threading.Barrier(count, timeout=120)

    def look(number: int) -> None:
        with regard.look(model) as record:
            barrier.wait()  # all are looking when the first begins to read
            use(model, drawn[number])
            barrier.wait()
        found[number] = [
            record.weights(address, run=run) for run in range(len(record.runs)) for address in record.addresses
        ]

    threads = [threading.Thread(target=look, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def same(number: int) -> bool:
        mine, wanted = found.get(number, []), alone[number]
        return len(mine) == len(wanted) > 0 and all(map(torch.equal, mine, wanted))

    return sum(not same(number) for number in range(count))


def measured(place: Path, predictions: int, looks: int, loads: int, threads: int) -> tuple[dict[str, Any], list[str]]:
    """All figures, and what is not as it ought to be."""
    valid.write_data(place / "data")
    valid.write_models(place / "models", place / "data", list(USES))
    models = {name: regard.load(place / "models" / name) for name in USES}
    gc.collect()
    gc.freeze()  # what was imported need not be walked through at each look at the memory
    names, draw = list(USES), texts("uses")
    turn = 0

    def next_name() -> str:
        nonlocal turn
        turn += 1
        return names[turn % len(names)]

    def predict() -> None:
        name = next_name()
        USES[name](models[name], draw())

    def look() -> None:
        name = next_name()
        seen(models[name], USES[name], draw())

    def load() -> None:
        name = next_name()
        USES[name](regard.load(place / "models" / name), draw())

    least = 20 * len(names)
    figures: dict[str, Any] = {}
    for what, count, use in (("predictions", predictions, predict), ("looks", looks, look), ("loads", loads, load)):
        figures[what] = watched(count, least if what == "predictions" else min(least, count), use)
        print(what, figures[what], flush=True)
    files, tasks = held()
    others = {name: at_once(models[name], USES[name], threads) for name in ("bahdanau", "classifier", "gpt2")}
    figures["looks at once"] = {
        "threads": threads,
        "that saw other weights than alone": others,
        "files more": held()[0] - files,
        "threads more": held()[1] - tasks,
    }
    wrong = [f"{name}: {count} looks met" for name, count in others.items() if count]
    for what, numbers in figures.items():
        wrong += [f"{what}: {numbers[name]} {name}" for name in ("files more", "threads more") if numbers[name] > 0]
        if numbers.get("grown, %", 0.0) > MOST:
            wrong.append(f"{what}: resident memory grew by {numbers['grown, %']} %")
    return figures, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs" / "results" / "growth.json")
    parser.add_argument("--predictions", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=1_000)
    parser.add_argument("--loads", type=int, default=100)
    parser.add_argument("--threads", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        figures, wrong = measured(Path(place), given.predictions, given.looks, given.loads, given.threads)
    record(
        given.output,
        title="A day of use in small",
        command="python benchmarks/faults/growth.py",
        precision="float32",
        seed=SEED,
        target="10,000 predictions, 1,000 looks, 100 loads: resident memory grows at most 2 % after the warm-up, open files and "
        "threads do not; 100 threads that look at once do not meet",
        figures=figures,
        threads=1,
        note=f"Small models of six tasks ({', '.join(USES)}). Resident memory is of the whole process, imports included; "
        "grown is from the first twentieth after the warm-up to the last.",
    )
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
