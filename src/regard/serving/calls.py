"""The routes: what each reads, asks the engine and answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from regard import __version__
from regard.errors import InputError
from regard.serving import answers
from regard.serving.attention import Attention, Seen, laid_out, view_of
from regard.serving.description import Call, described
from regard.serving.messages import Card
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
from regard.serving.responses import Ending, Json, Stream
from regard.serving.server import Server, answer, check_model, client_of, watched
from regard.serving.task_requests import TextGenerationRequest
from regard.serving.tasks import ROUTES, chosen, decode
from regard.serving.text_generation import asked_to_continue, continuation, continuation_pieces, error_event


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


async def task(server: Server, request: Request) -> Response:
    """A task of Hugging Face's inference API, at /models/NAME."""
    name = request.path_params["name"]
    check_model(server, name)
    card = server.link.models[name]
    named, kind = request.path_params.get("task"), request.headers.get("content-type", "")
    if named is not None and named not in card.routes:
        raise BadRequest(
            f"the model {name!r} is not served at {named[:60]!r}, but at {', '.join(card.routes)}", status=404
        )
    route = chosen(card.routes, request.state.body) if named is None else ROUTES[named]
    try:
        asked = decode(route, request.state.body, kind)
    except InputError as error:
        raise BadRequest(str(error)) from error
    client = client_of(server, request, None)
    if isinstance(asked, TextGenerationRequest) and card.writes:
        return await _continued(server, request, card, asked, client)
    given = {"route": route.name, "request": msgspec.to_builtins(asked, builtin_types=(bytes,))}
    work = server.link.ask(name, "task", given, client=client)
    return await watched(server, request, _task_answer(server, request, work, asked.attention))


async def _continued(
    server: Server, request: Request, card: Card, wanted: TextGenerationRequest, client: list[str]
) -> Response:
    """A text that a language model continues, as text-generation-inference answers."""
    try:
        asked = asked_to_continue(card, wanted, client)
    except InputError as error:
        raise BadRequest(str(error)) from error
    whole, pieces = continuation(server.link, asked, wanted), continuation_pieces(server.link, asked, wanted)
    return await _begun(server, request, asked, whole, pieces, stream=bool(wanted.stream), error=error_event)


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
    made = await asyncio.to_thread(_page_of, seen)
    return {"page": f"{request.base_url}pages/{server.pages.add(made)}"}


def _page_of(seen: Seen) -> bytes:
    from regard.inspection.viewer import html_page  # which needs PyTorch: the web process has it from its first page on

    return html_page(view_of(seen)).encode()


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
    whole, pieces = completed(server.link, asked), chunks(server.link, asked)
    response = await _begun(server, request, asked, whole, pieces, stream=stream)
    if asked.ignored:
        response.headers["regard-ignored"] = ", ".join(asked.ignored)
    return response


async def _begun(
    server: Server,
    request: Request,
    asked: Asked,
    whole: Coroutine[Any, Any, Any],
    pieces: AsyncGenerator[Any],
    *,
    stream: bool,
    error: Callable[[Ending], Any] = Ending.body,
) -> Response:
    """The answer of a language model, at once or piece by piece; of the two the other is closed."""
    request.state.asked = asked
    server.metrics.asked.labels(asked.model).inc()
    asked.show = partial(_shown, server, request)
    started = time.perf_counter()

    async def begun() -> Response:
        # The first piece is awaited here, so that a request that is refused is refused by its status.
        first = await anext(pieces, None)
        limits = {"until": request.state.until, "seconds": server.limits.seconds}
        return Stream(first, pieces, deadlines=server.deadlines, error=error, **limits)

    def count(done: bool) -> None:
        first = asked.first_told - started if stream and asked.first_told else None
        server.metrics.wrote(asked.model, asked.usage, time.perf_counter() - started, first=first, done=done)

    if stream:
        whole.close()
    response: Response | None = None
    try:
        response = await watched(server, request, begun() if stream else whole)
        return response
    finally:
        if isinstance(response, Stream):
            sent = response
            sent.at_end.append(lambda: count(sent.ended == "done"))
        else:
            await pieces.aclose()
            count(response is not None and response.status_code == 200)


def _writes(card: Card) -> bool:
    return card.writes


def _chats(card: Card) -> bool:
    return card.chats and card.writes


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
        models=_chats,
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
