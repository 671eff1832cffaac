"""The server as an ASGI application, under other people's programs: uvicorn, Ray Serve, and two servers behind LiteLLM."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.conftest import Served

from regard.errors import InputError
from regard.serving.messages import EngineOptions
from regard.serving.run import WebOptions, application

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKED = {"model": "model", "prompt": "line nu", "max_tokens": 20, "temperature": 0.8, "seed": 3, "logprobs": 1}


def test_its_lifespan_starts_the_engine_and_ends_it(writer_folder: Path) -> None:
    app = application(EngineOptions(folders={"model": str(writer_folder)}, threads=1), WebOptions(api_keys=("secret",)))

    async def ask() -> tuple[list[int], Any]:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client,
        ):
            made = [
                await client.post("/v1/completions", json=ASKED, headers=headers)
                for headers in ({}, {"authorization": "Bearer secret"})
            ]
            return [answer.status_code for answer in made], app.state.server.link._process

    found, process = asyncio.run(ask())
    assert found == [401, 200]
    assert not process.is_alive()


def test_a_model_that_cannot_be_loaded_is_said_by_the_lifespan(tmp_path: Path) -> None:
    app = application(EngineOptions(folders={"model": str(tmp_path)}))

    async def start() -> None:
        async with app.router.lifespan_context(app):
            raise AssertionError("it must not start")

    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        asyncio.run(start())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def program(*command: object, log: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs meanwhile, without a way to the network."""
    offline = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": "127.0.0.1,localhost"}
    with log.open("w") as file:
        process = subprocess.Popen(
            [*map(str, command)],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | offline | environment,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(url: str, process: subprocess.Popen[str], log: Path, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise AssertionError(log.read_text()[-3000:])


KEY = "sk-0123456789abcdef0123456789abcdef"


def answered(url: str, **changed: Any) -> Any:
    headers = {"authorization": f"Bearer {KEY}"}
    answer = httpx.post(f"{url}/v1/completions", json=ASKED | changed, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


@pytest.mark.slow
def test_replicas_of_ray_serve_answer_with_the_bits_of_one_server(
    start_server: Callable[..., Served], writer_folder: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("there is no ray")
    alone = start_server(f"model={writer_folder}")
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, EXAMPLES / "ray_serve.py", writer_folder, "--replicas", 2, "--port", port]
    with program(*command, log=log) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/ready", process, log)
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda seed: answered(url, seed=seed), range(24)))
        assert together == [answered(alone.url, seed=seed) for seed in range(24)]
        with httpx.stream("POST", f"{url}/v1/completions", json=ASKED | {"stream": True}, timeout=60) as answer:
            events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
        assert events[-1] == "[DONE]"
        assert "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]) == answered(url)["text"]
        assert len(events) > 3


@pytest.mark.slow
def test_litellm_shares_out_requests_and_goes_on_when_a_server_is_gone(
    start_server: Callable[..., Served], writer_folder: Path, tmp_path: Path
) -> None:
    litellm = Path(sys.executable).with_name("litellm")
    if importlib.util.find_spec("litellm") is None or not litellm.is_file():
        pytest.skip("there is no litellm with its proxy")
    servers = [start_server(f"writer={writer_folder}") for _ in range(2)]
    config, log, port = tmp_path / "litellm.yaml", tmp_path / "log", free_port()
    text = (EXAMPLES / "litellm.yaml").read_text()
    for place, server in zip(("8001", "8002"), servers, strict=True):
        text = text.replace(f'"http://127.0.0.1:{place}/v1"', f'"{server.url}/v1"')
    config.write_text(text)
    command = [litellm, "--config", config, "--host", "127.0.0.1", "--port", port]
    with program(*command, log=log, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MASTER_KEY=KEY) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/health/liveliness", process, log)
        alone = [answered(servers[0].url, model="writer", seed=seed)["text"] for seed in range(12)]
        with ThreadPoolExecutor(6) as pool:
            assert [*pool.map(lambda seed: answered(url, model="writer", seed=seed)["text"], range(12))] == alone
        assert all('"path": "/v1/completions"' in server.log.read_text() for server in servers)
        servers[1].process.kill()
        servers[1].process.wait()
        assert [answered(url, model="writer", seed=seed)["text"] for seed in range(12)] == alone
