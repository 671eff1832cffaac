"""How `regard serve` ends: while models are loaded, while a body arrives, and what is said of who does not read."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.serving.conftest import Served

COMPLETION = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def connected(server: Served) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the engine in /proc")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_models_are_loaded_ends_server_and_engine_at_once(
    number: signal.Signals, status: int, writer_folder: Path
) -> None:
    command = [sys.executable, "-m", "regard", "serve", str(writer_folder), "--port", "0"]
    heard = partial(
        signal.signal, number, signal.SIG_DFL
    )  # a shell's background job is deaf to Ctrl-C, and so would this be
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        try:
            children: list[str] = []
            while not children:  # the engine begins, and needs seconds to import PyTorch
                assert process.poll() is None
                time.sleep(0.01)
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            began = time.monotonic()
            process.send_signal(number)
            said = process.communicate(timeout=30)[1]
            assert process.returncode == status
            assert (
                time.monotonic() - began < 10
            )  # a busy machine's; the engine would load for as long as models are large
        finally:
            process.kill()
    assert "Traceback" not in said
    end = time.monotonic() + 20
    while any(map(runs, children)):  # the engine, and Python's own process that looks after what such processes share
        assert time.monotonic() < end
        time.sleep(0.05)


def runs(process: str) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.slow
def test_a_body_that_still_arrives_at_sigterm_is_not_waited_for(
    start_server: Callable[..., Served], writer_folder: Path
) -> None:
    served = start_server(f"writer={writer_folder}")
    with connected(served) as half:
        half.sendall(COMPLETION + b"Content-Length: 500\r\n\r\n{")
        time.sleep(0.3)
        began = time.monotonic()
        served.process.terminate()
        told = half.recv(1 << 16)
        while b"shut_down" not in told and (more := half.recv(1 << 16)):
            told += more
        assert told.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in told
        assert b"shut_down" in told
    assert served.process.wait(20) == 143
    assert time.monotonic() - began < 5  # and not the 30 seconds of --drain, or of a body


@pytest.mark.slow
def test_who_does_not_read_has_one_line_in_the_log(start_server: Callable[..., Served], writer_folder: Path) -> None:
    served = start_server(f"writer={writer_folder}")
    body = {
        "model": "writer",
        "prompt": ["line"] * 16,
        "n": 16,
        "max_tokens": 140,
        "temperature": 2,
        "stream": True,
        "logprobs": 20,
        # No special token, so no text ends before 140: 27 MB, and the kernel's buffers hold about 4. Texts that end early are
        # 3 to 7 MB in all, and may fit.
        "logit_bias": dict.fromkeys("0123", -100),
    }
    sent = json.dumps(body).encode()
    with connected(served) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(COMPLETION + b"Content-Length: %d\r\n\r\n" % len(sent) + sent)
        end = time.monotonic() + 120
        while '"ended"' not in served.log.read_text():
            assert time.monotonic() < end
            time.sleep(0.1)
    time.sleep(0.5)
    lines = [line for line in served.log.read_text().splitlines() if not re.match(r"loading|serving", line)]
    assert [json.loads(line)["ended"] for line in lines] == ["slow_reader"]
