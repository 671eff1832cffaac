"""Whether `regard serve` answers under load, byte for byte, what it answers to a request alone: texts and log-probabilities.

    python benchmarks/serving_exact.py MODEL [--requests 1000] [--clients 64] [--dtype float32]

A server is started on a free port of this machine. Requests of many shapes (prompts with a common beginning and without, greedy
and drawn, one text and several) come from many clients at once; some are begun and given up. Then each is asked alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent))

from measured import record

TEXT = "the function returns a list of names and values in order to make the class object file open read write"


def requests_of(count: int, seed: int) -> list[dict[str, Any]]:
    """Bodies of /v1/completions."""
    draw, words = random.Random(seed), TEXT.split()
    common = " ".join(draw.choice(words) for _ in range(130))
    made = []
    for number in range(count):
        prompt = " ".join(draw.choice(words) for _ in range(draw.randint(1, 40)))
        made.append(
            {
                "model": "model",
                "prompt": f"{common} {prompt}" if number % 4 == 0 else prompt,
                "max_tokens": draw.randint(1, 40),
                "temperature": draw.choice([0, 0.8]),
                "seed": number,
                "logprobs": 2,
                "n": draw.choice([1, 1, 2]),
                "user": str(number % 7),
            }
        )
    return made


async def answered(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The choices of an answer, as text, and its count of tokens."""
    answer = await client.post("/v1/completions", json=body)
    if answer.status_code != 200:
        raise SystemExit(answer.text)
    found = answer.json()
    return json.dumps(found["choices"]), found["usage"]


async def run(url: str, count: int, clients: int, seed: int) -> dict[str, Any]:
    """All together, then each alone."""
    bodies = requests_of(count, seed)
    draw = random.Random(seed)
    given_up = 0
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=httpx.Limits(max_connections=2 * clients)) as client:
        turns = asyncio.Semaphore(clients)

        async def one(number: int) -> tuple[str, dict[str, Any]]:
            nonlocal given_up
            async with turns:
                if number % 9 == 8:
                    with contextlib.suppress(TimeoutError):
                        long = bodies[number] | {"max_tokens": 45}
                        await asyncio.wait_for(answered(client, long), 0.1 + 0.2 * draw.random())
                        given_up -= 1
                    given_up += 1
                return await answered(client, bodies[number])

        begun = time.perf_counter()
        together = await asyncio.gather(*map(one, range(count)))
        seconds = time.perf_counter() - begun
        begun = time.perf_counter()
        differing = 0
        for number, body in enumerate(bodies):
            differing += (await answered(client, body))[0] != together[number][0]
        alone = time.perf_counter() - begun
    tokens = sum(usage["completion_tokens"] for _, usage in together)
    return {
        "requests": count,
        "clients": clients,
        "given up on the way, besides": given_up,
        "tokens written": tokens,
        "tokens of prompts that were not read again": sum(
            usage["prompt_tokens_details"]["cached_tokens"] for _, usage in together
        ),
        "answers that differ from those alone, in any byte of text or log-probability": differing,
        "seconds together, and one after another": [round(seconds, 1), round(alone, 1)],
    }


def main() -> None:
    """Measure and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    words = [
        "regard",
        "serve",
        f"model={given.model}",
        "--port",
        "0",
        "--json",
        "--no-access-log",
        "--dtype",
        given.dtype,
    ]
    with subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True) as server:
        try:
            told = ""
            for line in server.stdout or ():
                told += line
                if line.rstrip() == "}":
                    break
            figures = asyncio.run(run(json.loads(told)["url"], given.requests, given.clients, given.seed))
        finally:
            server.terminate()
    record(
        Path(__file__).parents[1] / "docs" / "results" / f"serving-exact-{given.dtype}.json",
        title=f"Answers of the server under load, compared with the same alone, {given.dtype}",
        target="of 1,000 requests by 64 clients, with some that join and some that are given up, none differs",
        command=f"python benchmarks/serving_exact.py MODEL --dtype {given.dtype}",
        precision=given.dtype,
        seed=given.seed,
        figures=figures,
        note="A decoder of Llama's type, 4.5 million parameters, trained here on Python's documentation. The machine did other "
        "work meanwhile, so the seconds say little.",
    )


if __name__ == "__main__":
    main()
