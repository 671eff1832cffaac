"""The engine by itself, in this process: what one request meets does not touch the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.quantization import QuantizedLinear
from regard.serving.engine import Engine, _loaded, opened
from regard.serving.messages import Answer, Ask, EngineOptions, Failure, Piece, Reply, Request, Write
from regard.tasks.language_writing import Writer


@pytest.fixture(scope="module")
def writer(writer_folder: Path) -> Any:
    return opened(writer_folder, "float32")


def answered(engine: Engine, *requests: Request) -> list[Reply]:
    """All that comes of some requests."""
    replies = [reply for request in requests for reply in engine.take(request)]
    while engine.busy:
        replies += engine.turn()
    return replies


def write(key: int, prompt: str = "line", **more: Any) -> Write:
    return Write(key=key, model="writer", prompt=prompt, maximum=6, **more)


def breaking(wrong: Sequence[int], error: Exception) -> Callable[..., str]:
    whole = Writer.decoded

    def decoded(self: Writer, prompt: Sequence[int], written: Sequence[int]) -> str:
        if list(prompt) == list(wrong):
            raise error
        return whole(self, prompt, written)

    return decoded


def test_a_text_that_cannot_be_made_fails_its_request_alone(
    writer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine({"writer": writer})
    prompt = writer.task.prompted(writer.task.tokenizer.encode("of"))
    monkeypatch.setattr(Writer, "decoded", breaking(prompt, ZeroDivisionError("in the text")))
    replies = answered(engine, write(1), write(2, "of", copies=2, stream=True), write(3))
    (failed,) = [reply for reply in replies if isinstance(reply, Failure)]
    assert (failed.key, failed.blame) == (2, "engine")
    assert "ZeroDivisionError: in the text" in capsys.readouterr().err
    assert "ZeroDivision" not in failed.message
    assert sorted(reply.key for reply in replies if isinstance(reply, Piece) and reply.end) == [1, 3]


def test_vectors_and_tokens_are_made_in_turns_too(writer: Any) -> None:
    engine = Engine({"writer": writer})
    asks = [(key, ["one", str(key)]) for key in range(1, 6)] + [(6, ["other", ""])]
    requests = [
        Ask(key=key, model="writer", what="detokenize", given={"ids": [5]}, client=client) for key, client in asks
    ]
    order = [reply.key for reply in answered(engine, *requests) if isinstance(reply, Answer)]
    assert order.index(6) <= 1
    assert sorted(order) == [1, 2, 3, 4, 5, 6]


class Pipe:
    """Takes what the engine says."""

    def send_bytes(self, message: bytes) -> None:
        pass


def test_a_model_may_have_a_dtype_of_its_own(writer_folder: Path) -> None:
    folder, pipe = str(writer_folder), Pipe()
    options = EngineOptions(folders={"a": folder, "b": folder, "c": folder}, dtypes={"b": "int8"})
    engine = _loaded(pipe, options)  # type: ignore[arg-type]
    a, b, c = engine.predictors.values()
    assert a is c
    assert b is not a
    assert not any(isinstance(part, QuantizedLinear) and part.bits == 8 for part in a.model.modules())
    assert any(isinstance(part, QuantizedLinear) and part.bits == 8 for part in b.model.modules())
