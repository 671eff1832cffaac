"""Contestants without libraries, and our own in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from regard.bench import ours
from regard.bench.driver import ContestantFailed
from regard.bench.rounds import OURS, Contestant


class InProcess:
    """Our own side without a process of its own: importing PyTorch again takes seconds."""

    def __init__(self, contestant: Contestant) -> None:
        assert contestant.library == OURS
        self.driver: Any = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "hello":
            self.driver = ours.KINDS[request["kind"]]()
            return {"available": self.driver.available(), "versions": self.driver.versions()}
        if request["do"] == "prepare":
            return self.driver.prepare(request["job"])
        answer = self.driver.run()
        return answer if request["do"] == "run" else {"measures": answer.get("measures", {})}

    def close(self) -> None:
        self.driver = None


class Scripted:
    """A contestant that works at a given speed, round after round, or fails when told."""

    def __init__(self, *speeds: float | str, hello: dict[str, Any] | None = None, note: dict[str, Any] | None = None):
        self.speeds = list(speeds)
        self.hello = hello or {"available": True, "versions": {"scripted": "1.0"}}
        self.note = note or {"note": ""}
        self.asked: list[str] = []
        self.closed = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request["do"])
        if request["do"] == "hello":
            return self.hello
        if request["do"] == "prepare":
            return self.note
        speed = self.speeds.pop(0)
        if isinstance(speed, str):
            raise ContestantFailed(speed)
        return {"amount": 10, "seconds": 10 / speed if speed else 0.0, "answers": [[1], [2, int(speed) % 2]]}

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def in_process() -> Iterator[Callable[[Contestant], InProcess]]:
    with torch.random.fork_rng():  # training seeds
        yield InProcess
