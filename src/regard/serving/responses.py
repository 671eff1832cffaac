"""Responses: JSON, errors in OpenAI's shape, streams of events; and how they end before their time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import JSONResponse, Response, StreamingResponse

from regard.serving.link import EngineFault, EngineLost, Rejected

FAULTS = logging.getLogger("regard.serving")

RETRY_AFTER = "1"
"""Seconds after which a refused client may try again."""

MOST_UNSENT = 2**20
"""The most bytes of a stream that wait for a client which does not read them."""

READ_SECONDS = 5
"""Seconds within which such a client has to read, once more bytes wait, or the stream is complete."""


class Json(JSONResponse):
    """JSON encoded by msgspec."""

    def render(self, content: Any) -> bytes:
        """The encoded bytes."""
        return msgspec.json.encode(content)


class Refusal(Json):
    """An error in OpenAI's shape.

    Arguments:
        message: a sentence.
        status: of HTTP.
        parameter: the field it is about.
        code: one word.
        headers: of the response.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        parameter: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.message = message
        self.own_headers = headers
        super().__init__(error_of(message, status, parameter, code), status_code=status, headers=headers)

    def of_a_task(self) -> Json:
        """The same error in the shape of Hugging Face's inference API."""
        return Json({"error": self.message}, status_code=self.status_code, headers=self.own_headers)


def error_of(message: str, status: int, parameter: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The body of an error in OpenAI's shape."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


class ShutDown(Exception):
    """The server shut down without waiting for the request."""


class Deadlines:
    """The time limits of requests under way, which can all be ended at once when the server shuts down."""

    def __init__(self) -> None:
        self.over = False
        self._open: set[asyncio.Timeout] = set()

    def cut(self) -> None:
        """End everything under way, and whatever begins from now on."""
        self.over = True
        now = asyncio.get_running_loop().time()
        for each in self._open:
            if not each.expired():
                each.reschedule(now)

    @contextlib.asynccontextmanager
    async def within(self, until: float) -> AsyncIterator[None]:
        """Run the block until a time of the loop's clock.

        Raises:
            TimeoutError: where it takes longer.
            ShutDown: where the server shuts down before.
        """
        limit = asyncio.timeout_at(0.0 if self.over else until)
        try:
            async with limit:
                self._open.add(limit)
                yield
        except TimeoutError:
            if self.over and limit.expired():
                raise ShutDown from None
            raise
        finally:
            self._open.discard(limit)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a request has no answer.

    Arguments:
        status: of HTTP.
        message: a sentence.
        code: one word.
        how: the word for it in the log.
        parameter: the field it is about.
    """

    status: int
    message: str
    code: str | None
    how: str
    parameter: str | None = None

    @classmethod
    def of(cls, error: Exception, seconds: float) -> Ending | None:
        """The ending for an exception; None for an unexpected one.

        Arguments:
            error: the exception.
            seconds: the time limit of the request.
        """
        if isinstance(error, Rejected):
            return cls(400, str(error), error.code or None, "refused", error.parameter)
        if isinstance(error, EngineFault):
            return cls(500, str(error), "engine_fault", "error")
        if isinstance(error, EngineLost):
            return cls(503, str(error), "engine_lost", "error")
        if isinstance(error, TimeoutError):
            return cls(504, f"the request took longer than {seconds:g} seconds", "timeout", "timed_out")
        if isinstance(error, ShutDown):
            return cls(503, "the server is shutting down, and did not wait for the answer", "shut_down", "shut_down")
        return None

    def response(self) -> Response:
        """The response."""
        headers = {"retry-after": RETRY_AFTER} if self.status == 503 else None
        return Refusal(self.message, status=self.status, parameter=self.parameter, code=self.code, headers=headers)

    def body(self) -> dict[str, Any]:
        """The data of an event in a stream."""
        return error_of(self.message, self.status, self.parameter, self.code)


UNFORESEEN = Ending(500, "the server failed at this request; its log says why", None, "error")


class Stream(StreamingResponse):
    """A stream of server-sent events. It ends where the client does not read, so that the memory for one client is bounded.

    Arguments:
        first: the first piece; None where there is none.
        pieces: the others; closed where the stream ends early.
        deadlines: of the server.
        until: when it ends, on the loop's clock.
        seconds: the time limit of the request.
        error: makes the data of the event that reports an error.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        first: Any,
        pieces: AsyncGenerator[Any],
        *,
        deadlines: Deadlines,
        until: float,
        seconds: float,
        error: Callable[[Ending], Any] = Ending.body,
    ) -> None:
        self.pieces = pieces
        self.error = error
        self.deadlines = deadlines
        self.until = until
        self.seconds = seconds
        self.ended = ""
        """How it ended: `done`, `refused`, `error`, `timed_out`, `shut_down`, `slow_reader` or `disconnected`."""
        self.at_end: list[Callable[[], None]] = []
        """Called when it ends, however it ends."""
        self._unsent = bytearray()
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._whole = False
        if first is not None:
            self._put(first)
        super().__init__(pieces, headers={"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events."""
        filling = asyncio.create_task(self._fill())
        sending = asyncio.create_task(self._send(send))
        left = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({filling, sending, left}, return_when=asyncio.FIRST_COMPLETED)
            if filling.done() and self.ended != "slow_reader":
                await asyncio.wait({sending, left}, timeout=READ_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done() and not left.done():
                    self.ended = "slow_reader"
            if self.ended != "slow_reader" and not (self._whole and sending.done()):
                self.ended = "disconnected"
        except asyncio.CancelledError:
            self.ended = "shut_down"
            raise
        finally:
            for task in (filling, sending, left):
                task.cancel()
            await asyncio.gather(filling, sending, left, return_exceptions=True)
            with contextlib.suppress(Exception):
                await self.pieces.aclose()
            for call in self.at_end:
                call()

    async def _fill(self) -> None:
        """Take the pieces as they come, whether the client reads or not."""
        try:
            async with self.deadlines.within(self.until), contextlib.aclosing(self.pieces):
                async for piece in self.pieces:
                    self._put(piece)
                    if len(self._unsent) > MOST_UNSENT and not await self._taken():
                        self.ended = "slow_reader"
                        return
            self.ended = "done"
        except Exception as error:
            ending = Ending.of(error, self.seconds)
            if ending is None:
                FAULTS.exception("a stream failed")
                ending = UNFORESEEN
            self._put(self.error(ending))
            self.ended = ending.how
        self._unsent += b"data: [DONE]\n\n"
        self._whole = True
        self._some.set()

    async def _taken(self) -> bool:
        """Whether the client reads in time."""
        self._room.clear()
        try:
            await asyncio.wait_for(self._room.wait(), READ_SECONDS)
        except TimeoutError:
            return False
        return True

    def _put(self, piece: Any) -> None:
        self._unsent += b"data: " + msgspec.json.encode(piece) + b"\n\n"
        self._some.set()

    async def _send(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while self._unsent or not self._whole:
            await self._some.wait()
            self._some.clear()
            part, self._unsent = bytes(self._unsent), bytearray()
            self._room.set()
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Any) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
