"""The link to the engine's process: waiting for a process stops nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from regard.serving.link import UNDEALT, EngineLink
from regard.serving.messages import EngineOptions, Load, encode


class Stubborn:
    """A process that takes its time to end."""

    exitcode = -9
    killed = False

    def join(self, timeout: float | None = None) -> None:
        time.sleep(0.3)

    def is_alive(self) -> bool:
        return not self.killed

    def kill(self) -> None:
        self.killed = True


class Pipe:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("ends", ["close", "restart"])
def test_a_process_that_ends_slowly_holds_up_nobody(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[Any] = []
    monkeypatch.setattr(EngineLink, "_launch", lambda self, loop: launched.append(self))
    link, process, pipe = EngineLink(EngineOptions(folders={})), Stubborn(), Pipe()
    made: Any = link
    made._process, made._pipe, made.models = process, pipe, {"m": None}

    async def others() -> int:
        """How often somebody else has a turn meanwhile."""
        turns = 0
        if ends == "close":
            waiting: Any = asyncio.create_task(link.close())
        else:
            link._ended(made._pipe)
            waiting = link._restarting
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0.01)
        await waiting
        return turns

    assert asyncio.run(others()) > 3
    assert process.killed
    assert pipe.closed
    assert len(launched) == link.restarts == (ends == "restart")


def test_a_web_process_without_time_is_not_filled_with_replies() -> None:
    """The engine's messages stay in the pipe, so that the engine waits, until the event loop has a turn."""
    count, read = 4 * UNDEALT, 0

    class Flood:
        def recv_bytes(self) -> bytes:
            nonlocal read
            if read == count:
                raise EOFError
            read += 1
            return encode([Load(writing={"m": read}, waiting={})])

    async def starve() -> tuple[int, int]:
        link: Any = EngineLink(EngineOptions(folders={}))
        listener = threading.Thread(target=link._listen, args=(Flood(), asyncio.get_running_loop()), daemon=True)
        listener.start()
        time.sleep(0.3)  # the loop has no turn
        before = read
        while listener.is_alive():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        return before, link.fullness.writing["m"]

    before, last = asyncio.run(starve())
    assert before <= UNDEALT + 1
    assert last == count
