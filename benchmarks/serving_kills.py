"""How soon requests are told of an engine that is gone, and how soon the next one is answered: SIGKILL at random moments.

python benchmarks/serving_kills.py [--kills 20] [--shape tiny]

`regard serve` writes for eight clients, four of them streams. The engine's process is killed at a random moment; each of
the eight must end with an error, the web process must go on answering /health, and a new request is asked again and again
until it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from measured import record
from serving_load import SHAPES, Failed, Running, answer, lines_of, made_model, regard_server

ROOT = Path(__file__).parents[1]
CLIENTS = 8
PATH = "/v1/completions"


def engine_of(server: Running) -> int:
    """The process of the engine: the child that `multiprocessing` started with a pipe."""
    for pid in server.pids[1:]:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"spawn_main" in words:
            return pid
    raise SystemExit("the engine's process is not there")


def body(number: int, tokens: int) -> bytes:
    """A request that writes for a while; every second one is a stream."""
    asked = {"model": "m", "prompt": [5 + number], "max_tokens": tokens, "stream": number % 2 == 0}
    return json.dumps(asked | {"temperature": 1.0, "seed": number}).encode()


async def ended(port: int, number: int) -> tuple[float, bool]:
    """When a request ended, and whether it was told that the engine is gone."""
    told = False
    try:
        async for line in lines_of(port, PATH, body(number, 200)):
            told = told or b'"error"' in line
    except Failed as error:
        told = error.args[0] == 503
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        told = False
    return time.perf_counter(), told


async def killed(server: Running, wait: float) -> dict[str, Any]:
    """One kill: seconds to the last of the errors, and to the next answer."""
    asked = [asyncio.create_task(ended(server.port, number)) for number in range(CLIENTS)]
    await asyncio.sleep(wait)
    begun = sum(task.done() for task in asked)
    at = time.perf_counter()
    os.kill(engine_of(server), signal.SIGKILL)
    found = await asyncio.gather(*asked)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=5) as health:
        healthy = health.status == 200
    while True:
        try:
            await answer(server.port, PATH, json.dumps({"model": "m", "prompt": [5], "max_tokens": 1}).encode())
            break
        except Failed:
            await asyncio.sleep(0.05)
    late = [(when - at, told) for when, told in found if when > at]
    return {
        "ended before": begun,
        "at work": len(late),
        "told": sum(told for _, told in late),
        "last error": max((seconds for seconds, _ in late), default=0.0),
        "next answer": time.perf_counter() - at,
        "healthy": healthy,
    }


def main() -> None:
    """Kill and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shape", choices=SHAPES, default="gpt2-small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three kills of a tiny model, and nothing is written down")
    given = parser.parse_args()
    if given.quick:
        given.kills, given.shape = 3, "tiny"
    chance = random.Random(given.seed)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = made_model(Path(folder), given.shape)
        with regard_server([f"m={place}"], "--dtype", "int8") as server:
            asyncio.run(answer(server.port, PATH, json.dumps({"model": "m", "prompt": [5], "max_tokens": 8}).encode()))
            for _ in range(given.kills):
                rows.append(asyncio.run(killed(server, chance.uniform(0.05, 1.0))))
                print(rows[-1], flush=True)
    errors, answers = [row["last error"] for row in rows], [row["next answer"] for row in rows]
    figures = {
        "kills": len(rows),
        "requests at work": sum(row["at work"] for row in rows),
        "of them told by an error": sum(row["told"] for row in rows),
        "web process answered /health": sum(row["healthy"] for row in rows),
        "s to the last error, median": round(statistics.median(errors), 3),
        "s to the last error, longest": round(max(errors), 3),
        "s to the next answer, median": round(statistics.median(answers), 2),
        "s to the next answer, longest": round(max(answers), 2),
    }
    if given.quick:
        print(json.dumps(figures))
        return
    record(
        ROOT / "docs" / "results" / "serving-kills.json",
        title="The engine killed while it works",
        command="python benchmarks/serving_kills.py",
        precision="int8",
        seed=given.seed,
        target="each request at work has an error within a second of SIGKILL, the next one an answer, nothing else is lost",
        figures=figures,
        note=f"`regard serve` with a decoder of {given.shape}'s shape and random weights writes for {CLIENTS} clients, four "
        "of them streams; SIGKILL to the engine's process 0.05 to 1 s after they asked. The next answer waits until the model "
        "is loaded again.",
    )


if __name__ == "__main__":
    main()
