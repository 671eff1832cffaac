"""A small language model with a chat template, and a server over it in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard

TEXTS = [f"line number {i} of the text" for i in range(30)]
CHAT = (
    "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% endfor %}{% if add_generation_prompt %}line{% endif %}"
)


@pytest.fixture(scope="session")
def writer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT of characters, with a chat template."""
    folder = tmp_path_factory.mktemp("models") / "gpt"
    sizes = {"width": 16, "heads": 2, "feedforward_width": 32, "layers": 2, "maximum_positions": 160}
    values = {
        "task": "language_modelling",
        "model": {"name": "gpt2", **sizes},
        "data": {"length": 32},
        "tokenizer": {"kind": "character", "size": 40},
        "training": {"steps": 60, "batch_tokens": 500, "precision": "float32", "learning_rate": 1e-2, "warmup": 5},
    }
    regard.train(values, output=folder, data=TEXTS)
    (folder / "chat_template.jinja").write_text(CHAT)
    return folder


class Served:
    """A server that runs, and its address."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    @property
    def engine(self) -> int:
        """The process id of the engine: of its children the one that was started by multiprocessing with a pipe to it."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return int(found[-1])


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Starts `regard serve` with these words and waits until it listens; every one is ended after the tests."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object, **environment: str) -> Served:
        log = tmp_path_factory.mktemp("server") / "log"
        command = [sys.executable, "-m", "regard", "serve", *map(str, words), "--port", "0", "--threads", "1"]
        with log.open("w") as file:
            process = subprocess.Popen(command, stderr=file, text=True, env={**os.environ, **environment})
        started.append(process)
        while process.poll() is None:
            found = re.search(r"at (https?://\S+)/v1", log.read_text())
            if found:
                return Served(process, found.group(1), log)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError(log.read_text())

    yield start
    for process in started:
        process.terminate()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Served], writer_folder: Path, minilm: Path) -> Served:
    """A server over the small GPT and a real encoder."""
    return start_server(f"writer={writer_folder}", f"vectors={minilm}")


@pytest.fixture
def client(server: Served) -> Any:
    """The official client."""
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
