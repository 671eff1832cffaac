"""The studio: a page on which one types a text and sees what a model attends to, served with the other routes.

The page is the viewer of offline pages (`regard.web`), which here gets its data from the server. It shows what `attention` and
`interventions` return for any request: nothing is computed for the page alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from regard.inspection.viewer import packed
from regard.serving import maps, playing
from regard.serving.attention import EVERYTHING, Attention, Interventions, Seen, Strict, view_of
from regard.serving.description import Call
from regard.serving.link import EngineLink
from regard.serving.messages import Card
from regard.serving.playing import TOP, Top
from regard.serving.requests import BadRequest
from regard.serving.server import Server, answer
from regard.serving.tasks import ROUTES
from regard.serving.training import LogRequest, WatchedRequest, runs_of, training, training_attention, training_log
from regard.web import page

MIME = {"js": "text/javascript", "css": "text/css"}

READS: Mapping[str, Literal["text", "image"]] = {
    "text-classification": "text",
    "token-classification": "text",
    "question-answering": "text",
    "fill-mask": "text",
    "translation": "text",
    "summarization": "text",
    "text2text-generation": "text",
    "feature-extraction": "text",
    "image-classification": "image",
    "image-to-text": "image",
}
"""The routes that the page uses, and their inputs: a text (or two), or an image."""


WRITES: Mapping[str, str] = {
    "translation": "generate_parameters",
    "summarization": "generate_parameters",
    "text2text-generation": "generate_parameters",
    "image-to-text": "generation_parameters",
}
"""Routes of models that generate text, and the field of their parameters that holds generation settings."""

TOP_ROUTES = ("fill-mask", "image-classification")
"""Routes that return five candidates unless more are asked for."""


class LookRequest(Strict):
    """A request of the page for an answer and its attention.

    Arguments:
        model: by the name it is served under.
        text: the input.
        second: a second text, for models that read two; for question answering, the context.
        image: the bytes of an image, in base64, for models that read images; `text` is then empty.
        language: the target language, for a multilingual translator.
        top: how many candidates to return: next tokens, tokens at a mask, classes of an image.
        interventions: how the model is changed; the answer without them is then returned too.
    """

    model: str
    text: str = ""
    second: str | None = None
    image: bytes | None = None
    language: str | None = None
    top: Top = TOP
    interventions: Interventions | None = None


class EffectsRequest(LookRequest, kw_only=True):
    """A layer whose heads are ablated one at a time.

    Arguments:
        address: of the attention layer.
    """

    address: str


class BeamRequest(LookRequest):
    """A text or an image for which beam search generates an answer.

    Arguments:
        beam: the beam size.
    """

    beam: Annotated[int, Meta(ge=2, le=16)] = 4


async def studio(server: Server, request: Request) -> Response:
    """The page. It contains no data: its script requests them, with the key in the page's address."""
    parts = {
        "title": "Studio",
        "note": "",
        "footer": "",
        "weights": [],
        "training": bool(runs_of(server.runs)),
        "maps": any(card.width is not None for card in server.link.models.values()),
    }
    served = f"{request.scope.get('root_path', '')}/static"
    return HTMLResponse(page("studio", parts, styles=("viewer.css", "studio.css"), served=served))


async def static(server: Server, request: Request) -> Response:
    """A module or a style sheet of the pages."""
    path = request.path_params["path"]
    kind = MIME.get(path.rpartition(".")[2])
    file = resources.files("regard.web").joinpath("static")
    for part in path.split("/"):
        if part in ("", ".", "..") or "\\" in part:
            kind = None
        file = file.joinpath(part)
    if kind is None or not file.is_file():
        raise BadRequest(f"there is no file {path[:100]!r}", status=404)
    return Response(file.read_bytes(), media_type=kind, headers={"cache-control": "no-cache"})


async def look(link: EngineLink, wanted: LookRequest, client: list[str]) -> Response:
    """The attention of a model on a text, and its answer.

    The body of the response is the length of a JSON object (4 bytes, little-endian), that object, and the weights of its maps one
    after another, quantized to levels (`regard.inspection.viewer`).
    """
    card = _card(link, wanted)
    ask = _of_language_model if card.writes else _of_task
    answer, seen = await ask(link, card, wanted, wanted.interventions or [], client, EVERYTHING)
    plain = None
    if wanted.interventions:  # only the answer is shown without them, so attention is not asked for
        plain, _ = await ask(link, card, wanted, [], client, None)
    # In a thread, since the weights of a long text take long, and other requests are to be answered meanwhile.
    body = await asyncio.to_thread(lambda: packed(view_of(seen), {"answer": answer, "plain": plain}))
    return Response(body, media_type="application/octet-stream")


async def effects(link: EngineLink, wanted: EffectsRequest, client: list[str]) -> Any:
    """The effect of ablating each head of a layer: `about` names the answer's score, `rows` have a score for each head."""
    card, interventions = _card(link, wanted), wanted.interventions or []
    if not card.writes:
        given = _asked(card, wanted, interventions, None)
    else:
        tokens = await link.ask(card.name, "tokenize", {"text": wanted.text, "special": True}, client=client)
        given = {"ids": tokens["ids"], "interventions": msgspec.to_builtins(interventions)}
    return await link.ask(card.name, "effects", {**given, "address": wanted.address}, client=client)


async def beam(link: EngineLink, wanted: BeamRequest, client: list[str]) -> Any:
    """A beam search: `tried` tokens, each with its `parent` in that list and its `fate`; and the best `hypotheses`."""
    card = _card(link, wanted)
    route, _ = _inputs(card, wanted)
    if route not in WRITES:
        raise BadRequest(f"the model {wanted.model!r} does not generate text by search, so there is no beam", "model")
    given = _asked(card, wanted, wanted.interventions or [], None, **{WRITES[route]: {"num_beams": wanted.beam}})
    return await link.ask(card.name, "beam", given, client=client)


def _card(link: EngineLink, wanted: LookRequest) -> Card:
    if not wanted.text.strip() and wanted.image is None:
        raise BadRequest("text: is empty; give a text", "text")
    return link.models[wanted.model]


async def _of_language_model(
    link: EngineLink,
    card: Card,
    wanted: LookRequest,
    interventions: Sequence[Any],
    client: list[str],
    attention: Attention | None,
) -> tuple[Any, Any]:
    """The most probable next tokens after the text, and the text's attention where it is asked for."""
    given = {
        "text": wanted.text,
        "interventions": msgspec.to_builtins(interventions),
        "attention": msgspec.to_builtins(attention),
        "top": wanted.top,
    }
    found = await link.ask(card.name, "expected", given, client=client)
    return {"what": "next token", "bars": found["next"]}, msgspec.convert(found["attention"], Seen | None)


async def _of_task(
    link: EngineLink,
    card: Card,
    wanted: LookRequest,
    interventions: Sequence[Any],
    client: list[str],
    attention: Attention | None,
) -> tuple[Any, Any]:
    """A task's answer, and its attention where it is asked for."""
    given = _asked(card, wanted, interventions, attention)
    route = given["route"]
    found = await link.ask(card.name, "task", given, client=client)
    if attention is None:
        return shown_answer(route, found), None
    return shown_answer(route, found["answer"]), msgspec.convert(found["attention"], Seen)


def _asked(
    card: Card,
    wanted: LookRequest,
    interventions: Sequence[Any],
    attention: Attention | None,
    **parameters: Any,
) -> dict[str, Any]:
    """The engine's request for a task's answer; `parameters` are added to those that the page has fields for."""
    route, inputs = _inputs(card, wanted)
    if (language := _language(card, wanted)) is not None:
        parameters["tgt_lang"] = language
    if route in TOP_ROUTES:
        parameters["top_k"] = wanted.top
    body = {
        "inputs": inputs,
        "attention": attention,
        "interventions": list(interventions),
        "parameters": parameters or None,
    }
    request = msgspec.convert(msgspec.to_builtins(body, builtin_types=(bytes,)), ROUTES[route].request)
    return {"route": route, "request": msgspec.to_builtins(request, builtin_types=(bytes,))}


def _language(card: Card, wanted: LookRequest) -> str | None:
    """The target language; None for a model without a choice.

    Raises:
        BadRequest: where it is missing, or the model does not translate into it.
    """
    if not card.languages:
        if wanted.language is not None:
            raise BadRequest(f"language: the model {card.name!r} has no choice of languages; leave it out", "language")
        return None
    if wanted.language not in card.languages:
        problem = (
            "is missing" if wanted.language is None else f"the model does not translate into {wanted.language!r:.60}"
        )
        raise BadRequest(f"language: {problem}; give one of {', '.join(card.languages)}", "language")
    return wanted.language


def _inputs(card: Card, wanted: LookRequest) -> tuple[str, Any]:
    """The route to use, and its inputs.

    Raises:
        BadRequest: for inputs that the model does not read.
    """
    route = next((name for name in card.routes if name in READS), None)
    if route is None:
        raise BadRequest(f"the model {card.name!r} reads neither a text nor an image", "model")
    if READS[route] == "image":
        if wanted.image is None:
            raise BadRequest(f"the model {card.name!r} reads an image; give one", "image")
        if wanted.text.strip() or wanted.second is not None:
            raise BadRequest("text: the model reads only an image; leave it out", "text")
        return route, wanted.image
    if wanted.image is not None:
        raise BadRequest(f"image: the model {card.name!r} reads no images; leave it out", "image")
    if route == "question-answering":
        if not (wanted.second or "").strip():
            raise BadRequest("second: is empty; give the context in which the answer is", "second")
        return route, {"question": wanted.text, "context": wanted.second}
    if wanted.second is not None:
        if route != "text-classification":
            raise BadRequest(f"second: a model for {route} reads one text; leave it out", "second")
        return route, {"text": wanted.text, "text_pair": wanted.second}
    return route, wanted.text


def shown_answer(route: str, answer: Any) -> dict[str, Any]:
    """A task's answer in the form that the page shows: bars of probabilities, or a text.

    >>> shown_answer("text-classification", [[{"label": "yes", "score": 0.9}, {"label": "no", "score": 0.1}]])["bars"][0]
    {'label': 'yes', 'probability': 0.9}
    """
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    rows = answer if isinstance(answer, list) else [answer]
    named = [(_name(row), row["score"]) for row in rows if isinstance(row, dict) and "score" in row]
    if named:
        return {"what": route, "bars": [{"label": label, "probability": score} for label, score in named]}
    texts = [value for row in rows if isinstance(row, dict) for name, value in row.items() if name.endswith("_text")]
    if texts:
        return {"what": route, "text": texts[0]}
    return {"what": route}


def _name(row: dict[str, Any]) -> str:
    """The label of a score."""
    word, kind = row.get("word"), row.get("entity_group") or row.get("entity")
    if word is not None:
        return f"{word}: {kind}"
    return str(next((row[name] for name in ("label", "token_str", "answer") if name in row), ""))


CALLS = (
    Call("GET", "/studio", studio, "The studio's page.", str, media="text/html", key=False),
    Call("GET", "/studio/map", maps.map_page, "The page of a map of texts.", str, media="text/html", key=False),
    Call("GET", "/studio/training", training, "The page of a run's training.", str, media="text/html", key=False),
    Call("GET", "/static/{path:path}", static, "A file of the studio's page.", str, media="text/javascript", key=False),
    Call("POST", "/studio/training/log", training_log, "New lines of a run's log, for that page.", dict, LogRequest),
    Call(
        "POST",
        "/studio/training/attention",
        training_attention,
        "Attention on the watched examples at a step, for that page.",
        bytes,
        WatchedRequest,
    ),
    *(
        Call("POST", f"/studio/{name}", answer(kind, respond), summary, shape, kind)
        for name, kind, respond, shape, summary in (
            ("look", LookRequest, look, bytes, "An answer and its attention, for the page."),
            ("effects", EffectsRequest, effects, dict, "The effect of ablating each head of a layer, for the page."),
            ("beam", BeamRequest, beam, dict, "The tree of a beam search, for the page."),
            ("write", playing.PlayRequest, playing.write, bytes, "A generated text, for the page."),
            ("lens", playing.LensRequest, playing.lens, dict, "The logit lens, for the page."),
            ("map/points", maps.MapRequest, maps.points, bytes, "Texts as points of a map, for that page."),
        )
    ),
)
"""The routes of the studio."""
