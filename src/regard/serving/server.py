"""What all routes of the server share: who may call them, what they are limited to, and how they wait for the engine."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from regard.serving.attention import Pages
from regard.serving.description import Call
from regard.serving.link import EngineLink
from regard.serving.metrics import Metrics
from regard.serving.requests import BadRequest, read
from regard.serving.responses import Deadlines, Json

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Names of this machine that no other reaches."""

HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
"""A name or an address, and a port, as the header Host has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one request, and all together, may take.

    Arguments:
        body: bytes.
        waiting: requests that are not answered yet; one more is turned away with 429.
        seconds: that a request may take.
        body_seconds: that its body may take to arrive.
    """

    body: int = 2**23
    waiting: int = 256
    seconds: float = 600.0
    body_seconds: float = 30.0


@dataclass(kw_only=True, slots=True, eq=False)
class Server:
    """What all routes share.

    Arguments:
        link: to the engine.
        limits: of requests.
        api_keys: of which a client must give one; none asked for where empty.
        origins: of web pages that may call it, `*` for all; next to the server's own.
        more: routes next to `CALLS`, such as the studio's.
        runs: folders whose training the studio shows where it was a run, by name.
        deadlines: of answers.
        bodies: of bodies that arrive; where the server ends they are not waited for.
        loopback: whether it is for this machine alone, and then only called by the machine's own names. A page on the web may
            give its address a name that leads here; what it asks under that name is refused.
    """

    link: EngineLink
    limits: Limits = field(default_factory=Limits)
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    loopback: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    pages: Pages = field(default_factory=Pages)
    more: tuple[Call, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    bodies: Deadlines = field(default_factory=Deadlines)
    closing: bool = False
    open: int = 0

    def key_of(self, request: Request) -> str:
        """The key that a request came with; empty where it came with none."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""

    def allowed(self, given: str) -> bool:
        """Whether a key is one of them; each comparison takes as long whatever is given."""
        return sum(hmac.compare_digest(given.encode(), key.encode()) for key in self.api_keys) > 0

    def check_caller(self, request: Request) -> None:
        """Refuse a call under a name that is none, and a web page that may not call it.

        Raises:
            BadRequest: with the reason.
        """
        names, origin = request.headers.getlist("host"), request.headers.get("origin")
        if len(names) != 1 or not HOST.fullmatch(names[0]):
            raise BadRequest(
                f"the header Host is {', '.join(names)[:100]!r}; send the server's name or address, and its port"
            )
        host = names[0]
        if self.loopback and (request.url.hostname or "") not in LOOPBACK:
            raise BadRequest(
                f"this server is for its own machine, and was called as {host[:100]!r}; call it as 127.0.0.1",
                status=403,
                code="caller_not_allowed",
            )
        own = f"{request.url.scheme}://{host}"
        if origin is None or origin == own or "*" in self.origins or origin in self.origins:
            return
        raise BadRequest(
            f"web pages of {origin[:100]!r} may not call this server; start it with --allow-origin to let them",
            status=403,
            code="caller_not_allowed",
        )


Handler = Callable[[Server, Request], Awaitable[Response]]


def client_of(server: Server, request: Request, user: str | None) -> list[str]:
    """Whose request it is: clients take turns.

    The key, where the server has any, then the address. A client may say `user` as it likes: that shares out its own turns alone.
    """
    address = request.client.host if request.client else ""
    keys = [f"key {server.api_keys.index(server.key_of(request))}"] if server.api_keys else []
    return [*keys, address, user or ""]


def check_model(server: Server, name: str) -> None:
    """Refuse a model that is not served.

    Raises:
        BadRequest: naming those that are.
    """
    if name not in server.link.models:
        known = ", ".join(sorted(server.link.models))
        raise BadRequest(
            f"there is no model {name[:100]!r}; this server has {known}", "model", status=404, code="model_not_found"
        )


async def watched(server: Server, request: Request, work: Coroutine[Any, Any, Any]) -> Response:
    """The answer that comes of some work, which ends where nobody waits for it any more.

    Raises:
        TimeoutError: where it takes too long.
        ShutDown: where the server ends before.
    """
    doing = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        async with server.deadlines.within(request.state.until):
            await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return Response(status_code=499)  # nobody reads it
        found = doing.result()
        return found if isinstance(found, Response) else Json(found)
    finally:
        for each in (doing, gone):
            each.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


def answer(kind: type[Any], respond: Callable[[EngineLink, Any, list[str]], Coroutine[Any, Any, Any]]) -> Handler:
    """A route that reads one kind of body, whose `model` it checks, and answers at once.

    Arguments:
        kind: of the body.
        respond: from the engine's link, what was read and whose request it is to a `Response`, or to what becomes JSON.
    """

    async def route(server: Server, request: Request) -> Response:
        wanted = read(request.state.body, kind)
        check_model(server, wanted.model)
        client = client_of(server, request, getattr(wanted, "user", None))
        return await watched(server, request, respond(server.link, wanted, client))

    return route


async def _disconnected(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.05)
