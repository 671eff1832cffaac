"""Between the steps of a search other models go on writing, and a search that nobody wants any more ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.serving.test_tasks import MADE

from regard.serving.engine import Engine, opened
from regard.serving.messages import Answer, Ask, Cancel, Piece, Reply, Request, Write


@pytest.fixture(scope="module")
def writer(writer_folder: Path) -> Any:
    return opened(writer_folder, "float32")


def asked(key: int, name: str) -> Ask:
    request = {"inputs": "abc"}
    route = "translation" if name == "translation" else "text2text-generation"
    return Ask(key=key, model=name, what="task", given={"route": route, "request": request})


class Pipe:
    """The other end: what was sent, and what comes at which exchange."""

    def __init__(self, coming: dict[int, list[Request]] | None = None) -> None:
        self.coming, self.sent, self.exchanges = coming or {}, list[Reply](), 0

    def __call__(self, replies: Sequence[Reply]) -> list[Request]:
        self.sent += replies
        self.exchanges += 1
        return self.coming.pop(self.exchanges, [])


@pytest.mark.parametrize("name", ["translation", "text_to_text", "denoising"])
def test_texts_are_written_between_the_steps_of_a_search(name: str, writer: Any, randomize: Any) -> None:
    model, pipe = MADE[name](randomize), Pipe()
    (alone,) = answers(Engine({name: model}), asked(1, name))
    engine = Engine({name: model, "writer": writer}, exchange=pipe)
    engine.take(Write(key=2, model="writer", prompt="line", maximum=3, stream=True))
    engine.take(asked(1, name))
    (answer,) = [reply for reply in engine.turn() if isinstance(reply, Answer)]
    assert answer.value == alone
    written = [reply for reply in pipe.sent if isinstance(reply, Piece)]
    assert sum(len(piece.tokens) for piece in written) >= 2


def test_what_comes_meanwhile_is_taken(writer: Any, randomize: Any) -> None:
    pipe = Pipe({2: [Write(key=2, model="writer", prompt="line", maximum=2), asked(3, "translation")]})
    engine = Engine({"translation": MADE["translation"](randomize), "writer": writer}, exchange=pipe)
    engine.take(asked(1, "translation"))
    replies = engine.turn()
    assert [reply.key for reply in replies if isinstance(reply, Answer)] == [1]
    while engine.busy:
        replies += engine.turn()
    assert sorted(reply.key for reply in (*pipe.sent, *replies) if isinstance(reply, Answer | Piece)) == [1, 2, 3]


def test_a_search_that_is_cancelled_ends_at_the_next_step(randomize: Any) -> None:
    pipe = Pipe({3: [Cancel(1)]})
    engine = Engine({"translation": MADE["translation"](randomize)}, exchange=pipe)
    engine.take(asked(1, "translation"))
    assert engine.turn() == []
    assert pipe.exchanges <= 4
    assert not engine.busy
    engine.take(asked(2, "translation"))
    assert [reply.key for reply in engine.turn() if isinstance(reply, Answer)] == [2]


def answers(engine: Engine, request: Request) -> list[Any]:
    engine.take(request)
    return [reply.value for reply in engine.turn() if isinstance(reply, Answer)]
