"""The web process's side of the engine: starts its process, distributes its replies, and restarts it when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import multiprocessing
import queue
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from regard.errors import InputError
from regard.serving.messages import (
    Answer,
    Ask,
    Began,
    Broken,
    Cancel,
    Card,
    EngineOptions,
    Failure,
    Load,
    Loading,
    Piece,
    Ready,
    Reply,
    Write,
    decode_replies,
    encode,
)

LOST = "the engine's process ended while it worked on this request, and is being started again; ask once more"
NOT_READY = "the engine is being started; ask again in a moment"

FAULTS = logging.getLogger("regard.serving")
MOST_FAILURES = 3
"""How many times in a row the engine may end before its models are loaded, until it is no longer restarted."""

UNDEALT = 64
"""Messages of the engine that are read ahead of a busy web process; at this number the engine waits."""

PATIENCE = 30
"""Seconds that a request waits for an engine that is starting."""


class EngineLost(Exception):
    """The engine cannot answer: its process has ended, or has not started yet. The message is a sentence."""


class EngineFault(Exception):
    """The engine failed on this request. The message is a sentence."""


class Rejected(Exception):
    """A request that is wrong. The message is a sentence.

    Arguments:
        message: the sentence.
        code: OpenAI's error code; empty where there is none.
        parameter: the field it is about, where that is known.
    """

    def __init__(self, message: str, code: str = "", parameter: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.parameter = parameter


@dataclass(slots=True, eq=False)
class EngineLink:
    """An engine in a separate process.

    Arguments:
        options: of the engine.
        progress: called before each model is loaded.
    """

    options: EngineOptions
    progress: Callable[[Loading], None] = lambda loading: None
    models: Mapping[str, Card] = field(default_factory=dict)
    fullness: Load = field(default_factory=lambda: Load(writing={}, waiting={}))
    restarts: int = 0
    _process: Any = None
    _pipe: Connection | None = None
    _outbox: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    _waiting: dict[int, asyncio.Queue[Reply]] = field(default_factory=dict)
    _keys: Any = field(default_factory=lambda: itertools.count(1))
    _ready: asyncio.Event = field(default_factory=asyncio.Event)
    _broken: str = ""
    _failures: int = 0
    _restarting: asyncio.Task[None] | None = None
    closing: bool = False
    """Whether an engine that ends is left ended."""
    patience: float = 2.0
    """Seconds that an engine has to end by itself before it is killed."""

    @property
    def ready(self) -> bool:
        """Whether all models are loaded."""
        return self._ready.is_set() and not self._broken

    async def start(self) -> None:
        """Start the process and wait until the models are loaded.

        Raises:
            InputError: where a model cannot be loaded.
        """
        self._launch(asyncio.get_running_loop())
        await self._ready.wait()
        if self._broken:
            raise InputError(self._broken)

    async def close(self) -> None:
        """End the process."""
        self.closing = True
        self._outbox.put(None)
        if self._restarting is not None:
            self._restarting.cancel()
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            # An engine that is loading models does not read the pipe until it is done.
            await asyncio.to_thread(_end, self._process, self.patience if self._ready.is_set() else 0.0)

    async def ask(self, model: str, what: str, given: Any, *, client: Sequence[str] = ()) -> Any:
        """Send an `Ask` and return its answer.

        Raises:
            Rejected: where the request is wrong.
            EngineFault: where the engine failed on it.
            EngineLost: where the engine cannot answer.
        """
        key = next(self._keys)
        async with contextlib.aclosing(
            self._replies(Ask(key=key, model=model, what=what, given=given, client=list(client)))
        ) as replies:
            async for reply in replies:
                if isinstance(reply, Answer):
                    return reply.value
        raise EngineLost(LOST)

    async def write(self, **asked: Any) -> AsyncGenerator[Began | Piece]:
        """Send a `Write` with these fields and yield its replies; it is cancelled where the iterator is closed early."""
        request = Write(key=next(self._keys), **asked)
        left = request.copies
        async with contextlib.aclosing(self._replies(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Piece):
                    left -= bool(reply.end)
                    yield reply
                elif isinstance(reply, Began):
                    yield reply
                if not left:
                    return

    async def _replies(self, request: Ask | Write) -> AsyncGenerator[Reply]:
        try:
            await asyncio.wait_for(self._ready.wait(), PATIENCE)
        except TimeoutError:
            raise EngineLost(NOT_READY) from None
        if self._broken:
            raise EngineLost(self._broken)
        try:
            message = encode(request)
        except (OverflowError, UnicodeEncodeError) as error:
            raise Rejected(f"a number or a text in the request is out of range: {error}") from error
        waiting: asyncio.Queue[Reply] = asyncio.Queue()
        self._waiting[request.key] = waiting
        try:
            self._outbox.put(message)
            while True:
                reply = await waiting.get()
                if isinstance(reply, Failure):
                    if reply.blame == "request":
                        raise Rejected(reply.message, reply.code, field_of(reply.message, request))
                    raise (EngineFault if reply.blame == "engine" else EngineLost)(reply.message)
                yield reply
        finally:
            del self._waiting[request.key]
            self._outbox.put(encode(Cancel(request.key)))

    def _launch(self, loop: asyncio.AbstractEventLoop) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process would inherit locks that threads hold
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_engine, args=(theirs, self.options), name="regard-engine", daemon=True)
        self._process.start()
        theirs.close()
        self._outbox = queue.SimpleQueue()
        threading.Thread(target=_speak, args=(self._pipe, self._outbox), daemon=True, name="regard-requests").start()
        threading.Thread(target=self._listen, args=(self._pipe, loop), daemon=True, name="regard-replies").start()

    def _listen(self, pipe: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Thread: receive replies until the pipe ends."""
        room = threading.Semaphore(UNDEALT)

        def deal_out(replies: list[Reply]) -> None:
            room.release()
            self._dealt_out(replies)

        with contextlib.suppress(RuntimeError):  # the loop was closed
            try:
                while True:
                    replies = decode_replies(pipe.recv_bytes())
                    room.acquire()
                    loop.call_soon_threadsafe(deal_out, replies)
            except Exception:  # the pipe ended, or sent something that is no reply: the engine is lost
                loop.call_soon_threadsafe(self._ended, pipe)

    def _dealt_out(self, replies: list[Reply]) -> None:
        for reply in replies:
            if isinstance(reply, Loading):
                self.progress(reply)
            elif isinstance(reply, Ready):
                self.models = {card.name: card for card in reply.models}
                self._failures = 0
                self._ready.set()
            elif isinstance(reply, Broken):
                self._broken = reply.message
                if self.models:
                    FAULTS.error("the engine cannot be started again: %s", reply.message)
                self._ready.set()
            elif isinstance(reply, Load):
                self.fullness = reply
            else:
                waiting = self._waiting.get(reply.key)
                if waiting is not None:
                    waiting.put_nowait(reply)

    def _ended(self, pipe: Connection) -> None:
        """After the engine has ended: waiting requests fail, and another engine is started."""
        if pipe is not self._pipe or self._broken:
            return
        for key, waiting in self._waiting.items():
            waiting.put_nowait(Failure(key, LOST, "lost"))
        self._outbox.put(None)
        if self.closing:
            return
        self._ready.clear()
        self.fullness = Load(writing={}, waiting={})
        self._restarting = asyncio.get_running_loop().create_task(self._restart(pipe, self._process))

    async def _restart(self, pipe: Connection, process: Any) -> None:
        await asyncio.to_thread(_end, process, 0.0)  # in a thread, so that the web process answers meanwhile
        pipe.close()
        self._failures += 1
        if not self.models or self._failures > MOST_FAILURES:  # restarting would never end
            self._broken = f"the engine's process ended while it loaded the models (exit status {process.exitcode})"
            FAULTS.error(self._broken)
            self._ready.set()
            return
        self.restarts += 1
        self._launch(asyncio.get_running_loop())


def _engine(pipe: Connection, options: EngineOptions) -> None:
    """The engine process's main function; only this process imports PyTorch."""
    from regard.serving.engine import main

    main(pipe, options)


def field_of(message: str, request: Ask | Write) -> str | None:
    """The field that an error of the engine is about: the one with which the sentence begins, else the field with the text.

    >>> field_of("attention.heads: layers.0.attention has heads 0 to 1", Write(key=1, model="a", prompt="b"))
    'attention.heads'
    >>> field_of("the model has tokens from 0 to 8", Ask(key=1, model="a", what="detokenize", given={}))
    'tokens'
    >>> from regard.serving.attention import Scale
    >>> asked = Write(key=1, model="a", prompt="b", interventions=[Scale(address="layers.0.attention", heads=[7])])
    >>> field_of("layers.0.attention: heads [7] are outside 0 to 3", asked)
    'interventions[0]'
    """
    if found := re.match(r"((?:[a-z_]+)(?:\[\d+\]|\.[a-z_]+)*):", message):
        return found[1]
    if isinstance(request, Write):
        for number, each in enumerate(request.interventions):
            if message.startswith(f"{each.address}:"):  # an error found only when the model runs
                return f"interventions[{number}]"
        return "prompt" if request.messages is None else "messages"
    return {"embed": "input", "tokenize": "prompt", "detokenize": "tokens", "task": "inputs"}.get(request.what)


def _end(process: Any, patience: float) -> None:
    """In a thread: wait `patience` seconds for a process to end by itself, then kill it."""
    process.join(patience)
    if process.is_alive():
        process.kill()
    process.join()


def _speak(pipe: Connection, outbox: queue.SimpleQueue[bytes | None]) -> None:
    """Thread: send messages until None or the engine's end; in a thread, since a busy engine reads late."""
    with contextlib.suppress(OSError, ValueError):
        while (message := outbox.get()) is not None:
            pipe.send_bytes(message)
