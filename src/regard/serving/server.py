"""What all routes of the server share: the check of callers, limits, and waiting for the engine."""

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
"""Names of this machine that cannot be reached from others."""

HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
"""A host name or an address, with a port or without, as in the header Host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of requests.

    Arguments:
        body: the most bytes of a body.
        waiting: the most unanswered requests; further ones are refused with status 429.
        seconds: the most time for a request.
        body_seconds: the most time for its body to arrive.
    """

    body: int = 2**23
    waiting: int = 256
    seconds: float = 600.0
    body_seconds: float = 30.0


@dataclass(kw_only=True, slots=True, eq=False)
class Server:
    """The state that all routes share.

    Arguments:
        link: to the engine.
        limits: of requests.
        api_keys: clients must send one of them; empty for no check.
        origins: of web pages that may call the server besides its own, `*` for all.
        more: routes besides `CALLS`, such as the studio's.
        runs: folders by name; the studio shows the training of those that are runs.
        deadlines: of answers.
        bodies: deadlines of request bodies; at shutdown these are not waited for.
        loopback: whether the server is for this machine alone. It then answers only requests to this machine's own names: a web
            page may point its own host name at this address (DNS rebinding), and requests under that name are refused.
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
        """The API key that a request has; empty without one."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""

    def allowed(self, given: str) -> bool:
        """Whether a key is valid; compared in constant time."""
        return sum(hmac.compare_digest(given.encode(), key.encode()) for key in self.api_keys) > 0

    def check_caller(self, request: Request) -> None:
        """Refuse a request to a host name that is not the server's, and one from a web page that may not call it.

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
    """Who sent a request, as a path of names: clients take turns.

    The API key's number where the server has keys, then the address, then `user`. `user` is the client's own choice: it divides
    that client's turns only.
    """
    address = request.client.host if request.client else ""
    keys = [f"key {server.api_keys.index(server.key_of(request))}"] if server.api_keys else []
    return [*keys, address, user or ""]


def check_model(server: Server, name: str) -> None:
    """Refuse a model that is not served.

    Raises:
        BadRequest: with the names of the served models.
    """
    if name not in server.link.models:
        known = ", ".join(sorted(server.link.models))
        raise BadRequest(
            f"there is no model {name[:100]!r}; this server has {known}", "model", status=404, code="model_not_found"
        )


async def watched(server: Server, request: Request, work: Coroutine[Any, Any, Any]) -> Response:
    """Await work and return its result as a response; the work is cancelled where the client disconnects.

    Raises:
        TimeoutError: where it takes too long.
        ShutDown: where the server shuts down before.
    """
    doing = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        async with server.deadlines.within(request.state.until):
            await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return Response(status_code=499)  # the client has gone
        found = doing.result()
        return found if isinstance(found, Response) else Json(found)
    finally:
        for each in (doing, gone):
            each.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


def answer(kind: type[Any], respond: Callable[[EngineLink, Any, list[str]], Coroutine[Any, Any, Any]]) -> Handler:
    """A route that decodes one kind of body, checks its `model`, and answers.

    Arguments:
        kind: the class of the body.
        respond: from the engine's link, the decoded body and the client to a `Response`, or to data to encode as JSON.
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
