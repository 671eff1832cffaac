"""Whether a thousand clients who stream at once all get their texts, and whether the server's memory stays as it is.

    python benchmarks/serving_streams.py [--clients 1000] [--minutes 10] [--warm-up 3000]

Each client asks for a text of 1 to 48 tokens, reads it as a stream, and asks again when it is done. A request that is turned away
with 429 is asked again a second later; a stream that ends without its last event, or an answer of another status, is lost. The
resident memory of each of the server's processes is read every five seconds. It counts from when so many texts as the warm-up
names have been served and no process has grown during the last of them (`--unchanged`): memory settles by the count of texts,
however fast the machine. The model has random weights and is tiny, so that the clients, and not its products, are what the
server has to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measured import record
from serving_load import SEED, Failed, Running, made_model, regard_server, stream

STILL = 0.002
"""Growth, as a share, that counts as none while the server warms up."""
LOOK = 5.0
"""Seconds between two looks at the memory."""


async def load(
    server: Running, count: int, least: int, unchanged: int, longest_wait: float, seconds: float
) -> dict[str, Any]:
    """Clients until the time is over, each to the end of its stream.

    Arguments:
        count: of clients.
        least: texts that are served before memory counts.
        unchanged: texts during which no process may have grown before memory counts.
        longest_wait: seconds after which memory counts in any case; the figures say that it did.
        seconds: for which memory counts.
    """
    begun, until = time.monotonic(), float("inf")
    told = {"streams": 0, "tokens": 0, "lost": 0, "turned away": 0}
    longest = 0.0

    async def one(number: int) -> None:
        nonlocal longest
        draw = random.Random(SEED + number)
        await asyncio.sleep(draw.random() * min(10.0, seconds))
        while time.monotonic() < until:
            body = {
                "model": "model",
                "prompt": [draw.randrange(256, 399) for _ in range(draw.randint(1, 40))],
                "max_tokens": draw.randint(1, 48),
                "temperature": draw.choice([0, 0.8]),
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            try:
                found = await stream(server.port, "/v1/completions", json.dumps(body).encode())
            except Failed as error:
                if error.args[0] == 429:
                    told["turned away"] += 1
                    await asyncio.sleep(1)
                else:
                    told["lost"] += 1
                continue
            except (OSError, ValueError, asyncio.IncompleteReadError):
                told["lost"] += 1
                continue
            told["streams"] += 1
            told["tokens"] += found.tokens
            told["lost"] += not (found.done and found.tokens)
            longest = max(longest, found.first)

    sizes: list[list[int]] = []
    warmed: dict[str, Any] = {}

    async def watch() -> None:
        nonlocal until
        highest, grown_at, still = server.resident(), 0, False
        while not still and time.monotonic() < begun + longest_wait:
            await asyncio.sleep(LOOK)
            now, served = server.resident(), told["streams"]
            if len(now) != len(highest) or any(new > old * (1 + STILL) for new, old in zip(now, highest, strict=True)):
                highest, grown_at = now, served
            still = served >= least and served - grown_at >= unchanged
        warmed.update(texts=told["streams"], seconds=round(time.monotonic() - begun), still=still)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            sizes.append(server.resident())
            await asyncio.sleep(LOOK)

    await asyncio.gather(watch(), *map(one, range(count)))
    shares = [
        100 * (max(sizes[-1 - step][place] for step in range(min(6, len(sizes)))) / sizes[0][place] - 1)
        for place in range(len(sizes[0]))
    ]
    return {
        "clients": count,
        "seconds": seconds,
        "warm-up: texts": warmed["texts"],
        "warm-up: seconds": warmed["seconds"],
        f"warm-up: no process grew in its last {unchanged:,} texts": warmed["still"],
        **told,
        "longest time to a first token, s": round(longest, 2),
        "resident memory after the warm-up, of each process, MiB": [size >> 20 for size in sizes[0]],
        "growth to the end (largest of the last half minute), of each process, percent": [
            round(each, 2) for each in shares
        ],
    }


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--warm-up", type=int, default=3000, help="texts, at least, before memory counts")
    parser.add_argument("--unchanged", type=int, default=1000, help="texts without growth before memory counts")
    parser.add_argument("--patience", type=float, default=20, help="minutes after which memory counts in any case")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--quick", action="store_true", help="record nothing")
    parser.add_argument("--note", default="", help="of the machine: busy or quiet")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = made_model(Path(folder), "tiny")
        words = ("--rows", str(given.rows), "--queue", str(2 * given.clients))
        with regard_server([f"model={place}"], *words) as server:
            figures = asyncio.run(
                load(
                    server,
                    given.clients,
                    given.warm_up,
                    given.unchanged,
                    60 * given.patience,
                    60 * given.minutes,
                )
            )
    if given.quick:
        print(json.dumps(figures, indent=1))
        return
    record(
        Path(__file__).parents[1] / "docs" / "results" / "serving-streams.json",
        title="A thousand clients who stream",
        target="1,000 clients for 10 minutes: none lost, resident memory of both processes grows by at most 2 %",
        command="python benchmarks/serving_streams.py",
        precision="float32",
        seed=SEED,
        figures=figures,
        note="Clients and server share the cores. " + given.note,
    )


if __name__ == "__main__":
    main()
