"""The web application: every request is checked, limited, counted and logged before its route answers it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from regard import __version__
from regard.serving.calls import CALLS
from regard.serving.description import Call
from regard.serving.openai import (
    Asked,
)
from regard.serving.requests import (
    BadRequest,
)
from regard.serving.responses import RETRY_AFTER, UNFORESEEN, Ending, Refusal, Stream
from regard.serving.server import Handler, Server

ACCESS = logging.getLogger("regard.access")
FAULTS = logging.getLogger("regard.serving")


def create_app(
    server: Server, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None
) -> Starlette:
    """The Starlette application that serves a server's routes.

    Arguments:
        server: the state that all routes share.
        lifespan: starts the engine and stops it; None where the caller does.
    """

    async def missing(request: Request, error: Any) -> Response:
        async def refused(server: Server, request: Request) -> Response:
            message = f"{request.method} {request.url.path[:200]}: {error.detail}; docs/serving.md lists the routes"
            return Refusal(message, status=error.status_code, headers=error.headers)

        return await _measured(refused, NO_ROUTE, tasks=request.url.path.startswith("/models/"))(request)

    routes = [
        Route(call.path, _measured(_guarded(call), call.path, tasks=call.tasks), methods=[call.method])
        for call in (*server.more, *CALLS)
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: missing}, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.server = server
    return app


NO_ROUTE = "none"
"""The path under which requests without a route are counted."""


def _measured(handler: Handler, path: str, *, tasks: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """A route that is logged and counted and checks its caller; with `tasks`, errors have the shape of Hugging Face's API."""

    async def checked(server: Server, request: Request) -> Response:
        server.check_caller(request)
        return await handler(server, request)

    async def route(request: Request) -> Response:
        server: Server = request.app.state.server
        started = time.perf_counter()
        response = await _answered(checked, server, request)
        if tasks and isinstance(response, Refusal):
            response = response.of_a_task()
        response.headers["x-regard-version"] = __version__
        server.metrics.answered(path, response.status_code)
        if isinstance(response, Stream):
            response.at_end.append(lambda: _log(request, response, time.perf_counter() - started))
        else:
            _log(request, response, time.perf_counter() - started)
        return response

    return route


def _guarded(call: Call) -> Handler:
    """The handler of a call; where the call needs a key and the server has keys, the key is checked first."""
    handler: Handler = _counted(call.handler) if call.works else call.handler

    async def checked(server: Server, request: Request) -> Response:
        if call.key and server.api_keys and not server.allowed(server.key_of(request)):
            return Refusal(
                "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'",
                status=401,
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        return await handler(server, request)

    return checked


def _counted(handler: Handler) -> Handler:
    """A route that does work: refused while the server shuts down, and while too many requests wait."""

    async def route(server: Server, request: Request) -> Response:
        if server.closing:
            return Refusal("the server is shutting down", status=503, headers={"retry-after": RETRY_AFTER})
        if server.open >= server.limits.waiting:
            server.metrics.turned_away.inc()
            return Refusal(
                f"{server.open} requests wait for an answer, which is as many as there may be; ask again later",
                status=429,
                code="queue_full",
                headers={"retry-after": RETRY_AFTER},
            )
        request.state.body = await _body(
            server, request
        )  # before it is counted: an unfinished body takes no place in the queue
        request.state.until = asyncio.get_running_loop().time() + server.limits.seconds
        server.open += 1
        try:
            response = await handler(server, request)
        except BaseException:
            server.open -= 1
            raise
        if isinstance(response, Stream):
            response.at_end.append(lambda: _one_less(server))
        else:
            server.open -= 1
        return response

    return route


def _one_less(server: Server) -> None:
    server.open -= 1


async def _answered(handler: Handler, server: Server, request: Request) -> Response:
    """A handler's answer, or its error as a sentence; tracebacks never leave the server."""
    try:
        return await handler(server, request)
    except BadRequest as error:
        return Refusal(error.message, status=error.status, parameter=error.parameter, code=error.code)
    except ClientDisconnect:
        return Response(status_code=499)  # the client has gone
    except Exception as error:
        ending = Ending.of(error, server.limits.seconds)
        if ending is None:
            FAULTS.exception("%s %s failed", request.method, request.url.path)
            ending = UNFORESEEN
        request.state.ended = ending.how
        return ending.response()


def _log(request: Request, response: Response, seconds: float) -> None:
    """Log one line of JSON for a request, without the texts asked and answered."""
    client = request.client.host if request.client else ""
    line = {
        "time": round(time.time(), 3),
        "client": client,
        "method": request.method,
        "path": request.url.path,
        "status": response.status_code,
        "seconds": round(seconds, 4),
        "ended": _ended(request, response),
    }
    asked: Asked | None = getattr(request.state, "asked", None)
    if asked is not None:
        usage = asked.usage
        line |= {
            "model": asked.model,
            "prompt_tokens": usage["prompt_tokens"],
            "completion_tokens": usage["completion_tokens"],
        }
    ACCESS.info(json.dumps(line))


def _ended(request: Request, response: Response) -> str:
    """How a request ended, in one word."""
    if isinstance(response, Stream):
        return response.ended
    if response.status_code == 499:
        return "disconnected"
    usual = "done" if response.status_code < 400 else "refused" if response.status_code < 500 else "error"
    return getattr(request.state, "ended", usual)


async def _body(server: Server, request: Request) -> bytes:
    """The body of a request.

    Raises:
        BadRequest: for a body longer than allowed, and for one that does not arrive in time.
        ShutDown: where the server ends before the body has arrived.
    """
    found = bytearray()
    try:
        async with server.bodies.within(asyncio.get_running_loop().time() + server.limits.body_seconds):
            async for piece in request.stream():
                found += piece
                if len(found) > server.limits.body:
                    raise BadRequest(
                        f"the body is longer than {server.limits.body:,} bytes", status=413, code="body_too_large"
                    )
    except TimeoutError:
        raise BadRequest(
            f"the body did not arrive within {server.limits.body_seconds:g} seconds", status=408, code="timeout"
        ) from None
    return bytes(found)
