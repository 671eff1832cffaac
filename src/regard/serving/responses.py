"""How requests are answered: JSON, errors in OpenAI's shape, streams of events; and how they end before their time."""

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
"""Seconds after which a client that was turned away may ask again."""

MOST_UNSENT = 2**20
"""Bytes of a stream that may wait for a client which does not read."""

READ_SECONDS = 5
"""That it has to begin to read them once there are more, or there is nothing more to come."""


class Json(JSONResponse):
    """JSON as msgspec writes it."""

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return msgspec.json.encode(content)


class Refusal(Json):
    """An error in OpenAI's shape.

    Arguments:
        message: a sentence.
        status: of HTTP.
        parameter: the field that it is about.
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
        """The same as Hugging Face's inference API has it."""
        return Json({"error": self.message}, status_code=self.status_code, headers=self.own_headers)


def error_of(message: str, status: int, parameter: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The body of an error in OpenAI's shape."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


class ShutDown(Exception):
    """The server ends, and did not wait for the request."""


class Deadlines:
    """Ends of what is under way: each in its time, and all at once where the server ends."""

    def __init__(self) -> None:
        self.over = False
        self._open: set[asyncio.Timeout] = set()

    def cut(self) -> None:
        """End all that is under way, and what begins from now on."""
        self.over = True
        now = asyncio.get_running_loop().time()
        for each in self._open:
            if not each.expired():
                each.reschedule(now)

    @contextlib.asynccontextmanager
    async def within(self, until: float) -> AsyncIterator[None]:
        """Work that ends at a time of the loop's clock.

        Raises:
            TimeoutError: where it took longer.
            ShutDown: where the server did not wait for it.
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
    """Why there is no answer.

    Arguments:
        status: of HTTP.
        message: a sentence.
        code: one word.
        how: it ended, as the log has it.
        parameter: the field that it is about.
    """

    status: int
    message: str
    code: str | None
    how: str
    parameter: str | None = None

    @classmethod
    def of(cls, error: Exception, seconds: float) -> Ending | None:
        """What an error of the work means; None for one that nobody foresaw.

        Arguments:
            error: it.
            seconds: that the request could take.
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
        """As an answer."""
        headers = {"retry-after": RETRY_AFTER} if self.status == 503 else None
        return Refusal(self.message, status=self.status, parameter=self.parameter, code=self.code, headers=headers)

    def body(self) -> dict[str, Any]:
        """As an event of a stream."""
        return error_of(self.message, self.status, self.parameter, self.code)


UNFORESEEN = Ending(500, "the server failed at this request; its log says why", None, "error")


class Stream(StreamingResponse):
    """Server-sent events. Who does not read them ends the stream, so what waits for one client is bounded.

    Arguments:
        first: the first piece, None where there is none.
        pieces: the others; closed where the stream ends early.
        deadlines: of the server.
        until: when it ends, on the loop's clock.
        seconds: that the request could take.
        error: how an event tells why there is no more.
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
        """How: `done`, `refused`, `error`, `timed_out`, `shut_down`, `slow_reader` or `disconnected`."""
        self.at_end: list[Callable[[], None]] = []
        """Called however it ends."""
        self._unsent = bytearray()
        self._some = asyncio.Event()
        self._room = asyncio.Event()
        self._whole = False
        if first is not None:
            self._put(first)
        super().__init__(pieces, headers={"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
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
        """Whether the client takes in time what waits for it."""
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
    """Until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
