"""What the benchmarks of `regard serve` share: models of random weights, servers in processes of their own, and light clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

SEED = 1
CLOCK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


# Models.


def byte_names() -> list[str]:
    """How GPT-2's byte-level tokenizers write each of the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    names = {byte: chr(byte) for byte in shown} | {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    return [names[byte] for byte in range(256)]


def vocabulary(size: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens and merges of a byte-level tokenizer of so many tokens, the last of them the end token.

    Besides the bytes there are pairs and triples of printable characters, so that nearly every token is text.
    """
    tokens, merges = byte_names(), []
    letters = [tokens[byte] for byte in range(32, 127)]
    pairs = [(one, other) for one in letters for other in letters]
    triples = ((one + other, third) for one, other in pairs for third in letters)
    for merge in (*pairs, *(merge for merge, _ in zip(triples, range(size), strict=False))):
        if len(tokens) == size - 1:
            break
        tokens.append("".join(merge))
        merges.append(merge)
    return [*tokens, "<|endoftext|>"], merges


def made_model(folder: Path, shape: str) -> Path:
    """A folder of a decoder with random weights, as Hugging Face's library writes them, with a tokenizer.

    Arguments:
        folder: it is put into.
        shape: one of `SHAPES`.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from regard.bench.decoder import SMOLLM2
    from regard.checkpoints import parameters_of, write_model
    from regard.models import GPT2, GPT2Config, Llama, LlamaConfig

    size = {"gpt2-small": 50_257, "smollm2-135m": 49_152, "tiny": 400}[shape]
    ids: dict[str, Any] = {"end_id": size - 1, "padding_id": size - 1}
    model: Any
    if shape == "tiny":
        sizes: dict[str, Any] = {
            "width": 64,
            "heads": 2,
            "feedforward_width": 128,
            "layers": 2,
            "maximum_positions": 256,
        }
        model = GPT2(GPT2Config(vocabulary=size, **sizes, **ids))
    elif shape == "gpt2-small":
        model = GPT2(replace(GPT2Config.small(vocabulary=size), **ids))
    else:
        model = Llama(LlamaConfig(**{**SMOLLM2, **ids}))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.05, generator=generator)
    place = folder / shape
    place.mkdir()
    write_model(place, model.config, parameters_of(model), task={"name": "language_modelling"}, recipe={}, metrics={})
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    config.pop("regard", None)
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokens, merges = vocabulary(size)
    made = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(place / "tokenizer.json"))
    return place


SHAPES = ("gpt2-small", "smollm2-135m", "tiny")


# Servers.


@dataclass(kw_only=True, slots=True, eq=False)
class Running:
    """A server that listens.

    Arguments:
        name: as a table calls it.
        process: its first process.
        port: on 127.0.0.1.
        fields: of a request, besides prompt and length.
    """

    name: str
    process: subprocess.Popen[str]
    port: int
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        found, grown = [self.process.pid], True
        while grown:
            grown = False
            for pid in list(found):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                new = [int(child) for child in children if int(child) not in found]
                found += new
                grown = grown or bool(new)
        return found

    def cpu_seconds(self) -> float:
        """Of the processor, that all its processes have used."""
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / CLOCK

    def resident(self) -> list[int]:
        """Bytes of memory of each of its processes."""
        return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in self.pids]


@contextlib.contextmanager
def regard_server(
    models: Sequence[str], *words: str, environment: Mapping[str, str] | None = None, name: str = "regard serve"
) -> Iterator[Running]:
    """`regard serve` over NAME=FOLDERs on a free port.

    Arguments:
        words: more of the command line.
        environment: set besides this process's.
    """
    command = [sys.executable, "-m", "regard", "serve", *models, "--port", "0", "--json", "--no-access-log", *words]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=plain_environment() | dict(environment or {}),
    )
    with _ended(process):
        told = ""
        for line in process.stdout or ():
            told += line
            if line.rstrip() == "}":
                break
        found = re.search(r":(\d+)", json.loads(told)["url"])
        yield Running(name=name, process=process, port=int(found.group(1)) if found else 0)


OMP = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables of the environment that say how many threads there are and how they wait; no program here gets the caller's."""


def plain_environment() -> dict[str, str]:
    """This process's environment without `OMP`."""
    return {key: value for key, value in os.environ.items() if key not in OMP}


@contextlib.contextmanager
def other_server(
    command: Sequence[str], port: int, *, ready: str, name: str, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A server of somebody else, once it answers at the path `ready`."""
    process = subprocess.Popen(
        list(command),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env=plain_environment() | dict(environment or {}),
    )
    with _ended(process):
        until = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5).close()
                break
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{name} did not start: {' '.join(command)}")
            time.sleep(0.2)
        yield Running(name=name, process=process, port=port)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that are busy all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


# Clients: what they cost is taken from the server's two cores, so they do no more than they must.


class Failed(Exception):
    """An answer with another status than 200; its argument is the status."""


async def lines_of(port: int, path: str, body: bytes) -> AsyncIterator[bytes]:
    """The lines of an answer's body, as they come.

    Raises:
        Failed: for another status than 200.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        status = int((await reader.readline()).split()[1])
        chunked, length = False, 0
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().lower().partition(":")
            chunked = chunked or (name == "transfer-encoding" and "chunked" in value)
            length = int(value) if name == "content-length" else length
        if status != 200:
            raise Failed(status)
        if not chunked:
            yield await reader.readexactly(length)
            return
        rest = b""
        while size := int(await reader.readline(), 16):
            rest += await reader.readexactly(size)
            await reader.readexactly(2)
            *whole, rest = rest.split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest
    finally:
        writer.close()


async def answer(port: int, path: str, body: bytes) -> Any:
    """A whole answer, read as JSON."""
    return json.loads(b"".join([line async for line in lines_of(port, path, body)]))


@dataclass(kw_only=True, slots=True)
class Streamed:
    """Times of a stream, in seconds from its request, and what came."""

    first: float
    last: float
    tokens: int
    done: bool


async def stream(port: int, path: str, body: bytes) -> Streamed:
    """Read a stream of events to its end; a token is counted by the `usage` that it ends with."""
    begun, first, tokens, done = time.perf_counter(), 0.0, 0, False
    async for line in lines_of(port, path, body):
        if line.startswith(b"data: "):
            if not first:
                first = time.perf_counter() - begun
            if line.startswith(b"data: [DONE]"):
                done = True
            elif b'"completion_tokens":' in line:
                tokens = json.loads(line[6:])["usage"]["completion_tokens"]
    return Streamed(first=first, last=time.perf_counter() - begun, tokens=tokens, done=done)


async def clients(count: int, requests: int, one: Callable[[int], Any]) -> list[Any]:
    """What came of so many requests, of which `count` are under way at any time."""
    turns = asyncio.Semaphore(count)

    async def bounded(number: int) -> Any:
        async with turns:
            return await one(number)

    return await asyncio.gather(*map(bounded, range(requests)))
