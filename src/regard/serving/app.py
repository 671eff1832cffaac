"""The web application: routes, who may call them, what they are limited to, and what is counted."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from regard import __version__
from regard.errors import InputError
from regard.inspection.viewer import html_page
from regard.serving import answers
from regard.serving.attention import Attention, Pages, Seen, laid_out, view_of
from regard.serving.description import Call, described
from regard.serving.link import EngineLink
from regard.serving.messages import Card
from regard.serving.metrics import Metrics
from regard.serving.openai import (
    Asked,
    asked_to_chat,
    asked_to_complete,
    chunks,
    completed,
    detokenize,
    embeddings,
    model_card,
    tokenize,
)
from regard.serving.requests import (
    BadRequest,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingRequest,
    TokenizeRequest,
    read,
)
from regard.serving.responses import RETRY_AFTER, UNFORESEEN, Deadlines, Ending, Json, Refusal, Stream
from regard.serving.tasks import ROUTES, decode

ACCESS = logging.getLogger("regard.access")
FAULTS = logging.getLogger("regard.serving")
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
        origins: of web pages that may call it, `*` for all; beside the server's own.
        more: routes beside `CALLS`, such as the studio's.
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


def create_app(
    server: Server, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None
) -> Starlette:
    """The application over a server.

    Arguments:
        server: what all routes share.
        lifespan: starts the engine and ends it; None where whoever runs the application does.
    """

    async def missing(request: Request, error: Any) -> Response:
        async def refused(server: Server, request: Request) -> Response:
            message = f"{request.method} {request.url.path[:200]}: {error.detail}; docs/serving.md lists the routes"
            return Refusal(message, status=error.status_code, headers=error.headers)

        return await _told(refused, NO_ROUTE, tasks=request.url.path.startswith("/models/"))(request)

    routes = [
        Route(call.path, _told(_guarded(call), call.path, tasks=call.tasks), methods=[call.method])
        for call in (*server.more, *CALLS)
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: missing}, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.server = server
    return app


NO_ROUTE = "none"
"""How requests are counted that no route is for."""

Handler = Callable[[Server, Request], Awaitable[Response]]


def _told(handler: Handler, path: str, *, tasks: bool = False) -> Callable[[Request], Awaitable[Response]]:
    """A route that is logged and counted, and that checks who calls it; errors of `tasks` are as Hugging Face's API has them."""

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
    """What answers a call, where it needs a key and the server has any after a look at the key."""
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
    """A route that works: turned away while the server closes, or has too much to do."""

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
        )  # before it counts: who sends half of one takes nobody's place
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
    """A handler's answer, or its error as a sentence; no traceback leaves the server."""
    try:
        return await handler(server, request)
    except BadRequest as error:
        return Refusal(error.message, status=error.status, parameter=error.parameter, code=error.code)
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads it
    except Exception as error:
        ending = Ending.of(error, server.limits.seconds)
        if ending is None:
            FAULTS.exception("%s %s failed", request.method, request.url.path)
            ending = UNFORESEEN
        request.state.ended = ending.how
        return ending.response()


def _log(request: Request, response: Response, seconds: float) -> None:
    """One line of JSON for each request, without what was asked or answered."""
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
    """How a request ended, in a word."""
    if isinstance(response, Stream):
        return response.ended
    if response.status_code == 499:
        return "disconnected"
    usual = "done" if response.status_code < 400 else "refused" if response.status_code < 500 else "error"
    return getattr(request.state, "ended", usual)


async def _body(server: Server, request: Request) -> bytes:
    """The body, no longer than allowed.

    Raises:
        BadRequest: for a longer one.
        ShutDown: where the server ends before it is there.
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


async def health(server: Server, request: Request) -> Response:
    """Whether the web process answers."""
    return Json({"status": "ok", "version": __version__})


async def ready(server: Server, request: Request) -> Response:
    """Whether the engine answers."""
    there = server.link.ready and not server.closing
    return Json({"ready": there, "restarts": server.link.restarts}, status_code=200 if there else 503)


async def metrics(server: Server, request: Request) -> Response:
    """Counts in Prometheus' format."""
    body, kind = server.metrics.text(server.link, server.open)
    return Response(body, media_type=kind)


async def openapi(server: Server, request: Request) -> Response:
    """The routes, described."""
    return Json(described((*server.more, *CALLS), list(server.link.models.values()), keys=bool(server.api_keys)))


async def models(server: Server, request: Request) -> Response:
    """All models."""
    return Json({"object": "list", "data": [model_card(card) for card in server.link.models.values()]})


async def model(server: Server, request: Request) -> Response:
    """One of them."""
    name = request.path_params["name"]
    check_model(server, name)
    return Json(model_card(server.link.models[name]))


async def completions(server: Server, request: Request) -> Response:
    """/v1/completions."""
    wanted: CompletionRequest = read(request.state.body, CompletionRequest)
    check_model(server, wanted.model)
    asked = asked_to_complete(wanted, client_of(server, request, wanted.user))
    return await _written(server, request, asked, stream=bool(wanted.stream))


async def chat_completions(server: Server, request: Request) -> Response:
    """/v1/chat/completions."""
    wanted: ChatRequest = read(request.state.body, ChatRequest)
    check_model(server, wanted.model)
    asked = asked_to_chat(wanted, client_of(server, request, wanted.user))
    return await _written(server, request, asked, stream=bool(wanted.stream))


def answer(
    kind: type[Any], respond: Callable[[EngineLink, Any, list[str]], Coroutine[Any, Any, dict[str, Any]]]
) -> Handler:
    """A route that reads one kind of body and answers at once."""

    async def route(server: Server, request: Request) -> Response:
        wanted = read(request.state.body, kind)
        check_model(server, wanted.model)
        client = client_of(server, request, getattr(wanted, "user", None))
        return await watched(server, request, respond(server.link, wanted, client))

    return route


async def task(server: Server, request: Request) -> Response:
    """A task of Hugging Face's inference API, at /models/NAME."""
    name = request.path_params["name"]
    check_model(server, name)
    card = server.link.models[name]
    wanted = request.path_params.get("task") or next(iter(card.routes), None)
    if wanted is None:
        raise BadRequest(f"the model {name!r} is a language model; ask at /v1/completions", status=404)
    if wanted not in card.routes:
        raise BadRequest(f"the model {name!r} is served at {', '.join(card.routes) or '/v1/completions'}", status=404)
    try:
        asked = decode(ROUTES[wanted], request.state.body, request.headers.get("content-type", ""))
    except InputError as error:
        raise BadRequest(str(error)) from error
    given = {"route": wanted, "request": msgspec.to_builtins(asked, builtin_types=(bytes,))}
    work = server.link.ask(name, "task", given, client=client_of(server, request, None))
    return await watched(server, request, _task_answer(server, request, work, asked.attention))


async def _task_answer(
    server: Server, request: Request, work: Coroutine[Any, Any, Any], attention: Attention | None
) -> Any:
    answer = await work
    if attention is None:
        return answer
    seen = msgspec.convert(answer["attention"], Seen)
    return {"answer": answer["answer"], "attention": await _shown(server, request, seen, attention)}


async def _shown(server: Server, request: Request, seen: Seen, asked: Attention) -> dict[str, Any]:
    """Weights as they were asked for; large ones are laid out in a thread, for others to be answered meanwhile."""
    if not asked.page:
        maps = msgspec.Raw(await asyncio.to_thread(lambda: msgspec.json.encode(laid_out(seen, asked))))
        return {"maps": maps, **({"examples": seen.examples} if len(seen.examples) > 1 else {})}
    made = await asyncio.to_thread(lambda: html_page(view_of(seen)).encode())
    return {"page": f"{request.base_url}pages/{server.pages.add(made)}"}


async def page(server: Server, request: Request) -> Response:
    """A page that was made for an answer. Its name is its key: a browser that follows a link sends no other."""
    found = server.pages.get(request.path_params["name"])
    if found is None:
        raise BadRequest(
            f"this page is kept no longer; pages are kept for {server.pages.seconds:g} seconds", status=404
        )
    return Response(
        found, media_type="text/html", headers={"cache-control": "no-store", "referrer-policy": "no-referrer"}
    )


async def _written(server: Server, request: Request, asked: Asked, *, stream: bool) -> Response:
    response = await _begun(server, request, asked, stream=stream)
    if asked.ignored:
        response.headers["regard-ignored"] = ", ".join(asked.ignored)
    return response


async def _begun(server: Server, request: Request, asked: Asked, *, stream: bool) -> Response:
    request.state.asked = asked
    server.metrics.asked.labels(asked.model).inc()
    asked.show = partial(_shown, server, request)
    started = time.perf_counter()
    pieces = chunks(server.link, asked)

    async def begun() -> Response:
        # The first chunk is awaited here, so that a request that is refused is refused by its status.
        first = await anext(pieces, None)
        limits = {"until": request.state.until, "seconds": server.limits.seconds}
        return Stream(first, pieces, deadlines=server.deadlines, **limits)

    def count(done: bool) -> None:
        first = asked.first_told - started if stream and asked.first_told else None
        server.metrics.wrote(asked.model, asked.usage, time.perf_counter() - started, first=first, done=done)

    response: Response | None = None
    try:
        response = await watched(server, request, begun() if stream else completed(server.link, asked))
        return response
    finally:
        if isinstance(response, Stream):
            sent = response
            sent.at_end.append(lambda: count(sent.ended == "done"))
        else:
            await pieces.aclose()
            count(response is not None and response.status_code == 200)


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


async def _disconnected(request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(0.05)


def _writes(card: Card) -> bool:
    return not card.routes


def _embeds(card: Card) -> bool:
    return card.width is not None


CALLS = (
    Call("GET", "/health", health, "Whether the web process answers.", answers.Health, key=False),
    Call(
        "GET",
        "/ready",
        ready,
        "Whether the engine answers.",
        answers.Readiness,
        key=False,
        otherwise={503: answers.Readiness},
    ),
    Call("GET", "/metrics", metrics, "Counts in Prometheus' format.", str, media="text/plain"),
    Call("GET", "/pages/{name}", page, "A page that was made for an answer.", str, media="text/html", key=False),
    Call("GET", "/openapi.json", openapi, "This description.", answers.Description),
    Call("GET", "/v1/models", models, "All models.", answers.ModelList),
    Call("GET", "/v1/models/{name:path}", model, "One of them.", answers.ModelCard),
    Call(
        "POST",
        "/v1/completions",
        completions,
        "Texts after prompts.",
        answers.Completion,
        CompletionRequest,
        event=answers.Completion,
        models=_writes,
    ),
    Call(
        "POST",
        "/v1/chat/completions",
        chat_completions,
        "The next turn of conversations.",
        answers.ChatCompletion,
        ChatRequest,
        event=answers.ChatPiece,
        models=_writes,
    ),
    Call(
        "POST",
        "/v1/embeddings",
        answer(EmbeddingRequest, embeddings),
        "Vectors of texts.",
        answers.Embeddings,
        EmbeddingRequest,
        models=_embeds,
    ),
    Call("POST", "/models/{name}/pipeline/{task}", task, "A task of a model of several.", tasks=True),
    Call("POST", "/models/{name:path}", task, "The task of a model.", tasks=True),
    Call(
        "POST", "/tokenize", answer(TokenizeRequest, tokenize), "The tokens of a text.", answers.Tokens, TokenizeRequest
    ),
    Call(
        "POST",
        "/detokenize",
        answer(DetokenizeRequest, detokenize),
        "The text of tokens.",
        answers.Detokenized,
        DetokenizeRequest,
    ),
)
"""All routes; the description is made of them too. Where two are for one path, the first is taken."""
