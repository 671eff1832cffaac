"""How long what the package does takes while two other processes are always busy.

    python benchmarks/faults/busy.py
    python benchmarks/faults/busy.py --quick

Each kind of work is done in a process of its own, with as many threads as there are cores, which wait for one another as the
command line lets them (`regard.machine.bound_spinning`). It is made ready and done once; then as much of it as takes some seconds
is done by turns with the machine idle and with two processes that count without end. For an idle time nothing else may run.
On two cores a fair share of them is half, so twice the idle time is what a perfect scheduler would give. `--quick` uses tiny
models and a moment each, to see that all of it runs; it records nothing. The whole takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measured import record  # noqa: E402
from regard.machine import SPINS, keep_freed_memory  # noqa: E402
from serving_load import SEED, answer, clients, made_model, neighbours, plain_environment, regard_server  # noqa: E402
from serving_speed import bodies, minilm, prompts, short_texts, size_of  # noqa: E402

ROOT = HERE.parents[1]
MOST = 3.0
"""Times the idle time that a kind of work may take with the neighbours."""

SECONDS, ROUNDS = 4.0, 2
"""That an amount of work takes idle, and how often it is measured, idle and busy by turns."""

TOKENS = 16
SLICE = ("tests/metrics",)
"""What of the tests is run."""

Work = Callable[[], Any]


def training(folder: Path, quick: bool) -> Work:
    """A run of some updates of a small translator on dates, its evaluation and checkpoint among them."""
    import regard

    keep_freed_memory()
    number = itertools.count()
    data = {"dates": {"size": 400, "validation_size": 40, "languages": ["en"]}}
    shape = {"name": "transformer", "width": 64, "heads": 4, "feedforward_width": 128}
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    settings = {"steps": 2 if quick else 15, "batch_tokens": 4000, "precision": "float32", "warmup": 1}
    recipe = {
        "model": {**shape, **layers}, "data": data, "tokenizer": {"kind": "character", "size": 200}, "training": settings,
    }  # fmt: skip
    return lambda: regard.train(recipe, output=folder / f"run{next(number)}")


def decoding(folder: Path, precision: str) -> Work:
    """Eight texts in one batch."""
    from regard.generation import Continuation, FixedLength, generate
    from regard.layers import Tokens
    from regard.serving.engine import opened

    keep_freed_memory()
    size = size_of(folder)
    model = Continuation(opened(folder, precision).model)
    source = Tokens.pad(prompts(8, size), padding_id=size - 1, side="left")
    return lambda: generate(model, source, limit=FixedLength(TOKENS), minimum_length=TOKENS)


def embedding() -> Work:
    """Vectors of some texts."""
    import regard

    model = regard.load(minilm(), task="sentence_embedding")
    texts = list(itertools.chain.from_iterable(short_texts(4)))
    return lambda: model.embed(texts)


def looking() -> Work:
    """All weights of some texts, as they are read."""
    import regard

    model = regard.load(minilm(), task="sentence_embedding")
    texts = list(itertools.chain.from_iterable(short_texts(2)))

    def look() -> None:
        with regard.look(model) as seen:
            model.embed(texts)
        for address in seen.addresses:
            seen.weights(address)

    return look


def word_vectors(quick: bool) -> Work:
    """Skip-gram on drawn text."""
    from regard.word_embeddings.training.corpus import VectorSettings
    from regard.word_embeddings.training.train import train_vectors

    draw = random.Random(SEED)
    words = [f"w{number}" for number in range(2000)]
    text = [draw.choices(words, k=20) for _ in range(200 if quick else 5000)]
    settings = VectorSettings(width=100, epochs=1, minimum_count=1)
    return lambda: train_vectors(text, settings)


def tests() -> Work:
    """A slice of the tests, as `make test` runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider", *SLICE]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return lambda: subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Work]:
    """Eight clients of a server, its processes and theirs on the same cores."""
    with regard_server([f"model={folder}"], "--dtype", "int8") as server:
        asked = bodies(server, size_of(folder), 8, TOKENS)

        def ask() -> None:
            asyncio.run(clients(8, 8, lambda number: answer(server.port, "/v1/completions", asked[number])))

        yield ask


def ready(name: str, folder: Path, quick: bool) -> contextlib.AbstractContextManager[Work]:
    """A kind of work."""
    model = folder / ("tiny" if quick else "gpt2-small")
    if name == "serving, int8":
        return serving(model)
    made: dict[str, Callable[[], Work]] = {
        "training": lambda: training(Path(tempfile.mkdtemp(dir=folder)), quick),
        "decoding, float32": lambda: decoding(model, "float32"),
        "decoding, int8": lambda: decoding(model, "int8"),
        "embedding": embedding,
        "looking": looking,
        "word vectors": lambda: word_vectors(quick),
        "a slice of the tests": tests,
    }
    return contextlib.nullcontext(made[name]())


KINDS = (
    "training",
    "decoding, float32",
    "decoding, int8",
    "embedding",
    "serving, int8",
    "looking",
    "word vectors",
    "a slice of the tests",
)


def _seconds_of(do: Work) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def work(name: str, folder: Path, quick: bool, seconds: float) -> None:
    """Do an amount of a kind of work for each line of the input, and print how long it took."""
    with ready(name, folder, quick) as do:
        once = _seconds_of(do)
        if once < seconds:  # the first time makes ready too
            once = _seconds_of(do)
        amount = max(1, round(seconds / once))
        print("ready", flush=True)
        for _ in sys.stdin:
            begun = time.perf_counter()
            for _ in range(amount):
                do()
            print(time.perf_counter() - begun, flush=True)


def compared(name: str, folder: Path, given: argparse.Namespace, seconds: float, rounds: int) -> dict[str, Any]:
    """How long an amount of a kind of work takes, idle and with the neighbours."""
    command = [sys.executable, str(Path(__file__)), "--work", name, "--folder", str(folder), "--seconds", str(seconds)]
    command += ["--quick"] if given.quick else []
    environment = plain_environment() | {"GOMP_SPINCOUNT": SPINS, "TOKENIZERS_PARALLELISM": "false"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **pipes) as process:
        assert process.stdin is not None

        def answer() -> str:
            line = (process.stdout or iter([])).readline().strip()  # type: ignore[union-attr]
            if not line:
                raise SystemExit(f"{name} ended before it was done; `{' '.join(command)}` says why")
            return line

        def once() -> float:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return float(answer())

        while answer() != "ready":
            pass
        idle, busy = list[float](), list[float]()
        for _ in range(rounds):
            idle.append(once())
            with neighbours(2):
                busy.append(once())
        process.stdin.close()
    quiet, shared = statistics.median(idle), statistics.median(busy)
    return {
        "idle, s": round(quiet, 2),
        "with two busy neighbours, s": round(shared, 2),
        "times": round(shared / quiet, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "busy.json")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.folder, given.quick, given.seconds)
        return
    seconds, rounds = (0.3, 1) if given.quick else (given.seconds, ROUNDS)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        made_model(Path(place), "tiny" if given.quick else "gpt2-small")
        for name in given.only:
            begun = time.monotonic()
            figures[name] = compared(name, Path(place), given, seconds, rounds)
            print(name, json.dumps(figures[name]), f"({time.monotonic() - begun:.0f} s)", flush=True)
    if given.quick:
        return
    record(
        given.output,
        title="What the package does on a busy machine",
        command="python benchmarks/faults/busy.py",
        precision="float32 but where named",
        seed=SEED,
        target="with two busy neighbours on the same two cores at most 3 times the idle time",
        figures=figures,
        note=f"Decoding and serving are of a GPT-2 of 124 million random weights, eight texts of {TOKENS} tokens each, vectors "
        f"and looks of all-MiniLM-L6-v2; the tests are {' and '.join(SLICE)}. Medians of {ROUNDS}, idle and busy by turns.",
    )
    slow = [name for name, found in figures.items() if found["times"] > MOST]
    if slow:
        raise SystemExit(f"more than {MOST:g} times the idle time: {', '.join(slow)}")


if __name__ == "__main__":
    main()
