"""The routes of a server in OpenAPI 3.1, described from the classes of requests and the shapes of answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any
from urllib.parse import quote

import msgspec

from regard import __version__
from regard.serving.answers import Refusal, TaskRefusal, WithAttention
from regard.serving.messages import Card
from regard.serving.task_requests import BYTES, JSON, ImageRequest
from regard.serving.tasks import ROUTES

IMAGES = (BYTES, "image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
EVENTS = "text/event-stream"

ALWAYS: dict[int, str] = {
    400: "The request cannot be followed; the message names the field.",
    403: "The request comes from a web page of another origin, or names a host that is not this machine's.",
    500: "The server failed; its log says why.",
}
WITH_KEY: dict[int, str] = {401: "The API key is missing or wrong."}
OF_MODELS: dict[int, str] = {404: "There is no such model, or it is not served at this route."}
OF_WORK: dict[int, str] = {
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    429: "Too many requests wait; ask again later.",
    503: "The engine is being started, or the server shuts down; ask again later.",
    504: "It took too long.",
}


def every_model(card: Card) -> bool:
    """Any model."""
    return True


@dataclass(frozen=True, slots=True)
class Call:
    """A route: its handler and its description. Requests with the method POST count as work, and are limited.

    Arguments:
        method: of HTTP.
        path: in Starlette's syntax.
        handler: answers requests.
        summary: a sentence.
        answer: the shape of the answer, or a tuple of several.
        request: the class of the body, or a tuple of several.
        event: the shape of an event, where the answer may be streamed.
        media: the media type of the answer.
        otherwise: shapes of answers that are no errors but have another status than 200, by status.
        key: whether the server's API key is needed.
        models: whether a model is served at this route.
        tasks: whether the route stands for the tasks of models; each task is then described separately.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    summary: str
    answer: Any = str
    request: type[msgspec.Struct] | tuple[type[msgspec.Struct], ...] | None = None
    _: KW_ONLY
    event: Any = None
    media: str = JSON
    otherwise: Mapping[int, Any] = field(default_factory=dict)
    key: bool = True
    models: Callable[[Card], bool] = every_model
    tasks: bool = False

    @property
    def works(self) -> bool:
        """Whether a request counts as work."""
        return self.method == "POST"


def described(calls: Sequence[Call], cards: Sequence[Card], *, keys: bool) -> dict[str, Any]:
    """The description of a server's routes, including the tasks of its models.

    Arguments:
        calls: all routes.
        cards: the served models.
        keys: whether the server asks for an API key.
    """
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        for each in _of_tasks(call, cards) if call.tasks else [call]:
            served = [card for card in cards if each.models(card)]
            path = re.sub(r":path}", "}", each.path)
            paths.setdefault(path, {})[each.method.lower()] = _operation(each, path, served, schemas, keys=keys)
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard serve", "version": __version__, "description": "See docs/serving.md."},
        "security": [{"key": []}] if keys else [],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _of_tasks(call: Call, cards: Sequence[Card]) -> Iterator[Call]:
    """One route for each model in place of a route of all tasks; one for each of its tasks where the path names the task."""
    for card in cards:
        routes = [ROUTES[name] for name in card.routes]
        for group in [[route] for route in routes] if "{task}" in call.path else [routes] if routes else []:
            names = " or ".join(route.name for route in group)
            path = re.sub(r"{name(:path)?}", quote(card.name), call.path).replace("{task}", names)
            event = next((route.event for route in group if route.event is not None and card.writes), None)
            yield replace(
                call,
                path=path,
                summary=f"{names} by {card.name}",
                request=tuple(dict.fromkeys(route.request for route in group)),
                answer=tuple(route.shape for route in group),
                event=event,
            )


def _operation(call: Call, path: str, served: Sequence[Card], schemas: _Schemas, *, keys: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": "_".join(re.findall(r"\w+", f"{call.method.lower()} {path}"))}
    made["summary"] = call.summary
    if not call.key:
        made["security"] = []
    if names := re.findall(r"{(\w+)}", path):
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if call.request is not None:
        requests = call.request if isinstance(call.request, tuple) else (call.request,)
        content = {JSON: {"schema": _any([schemas.of_request(each, served) for each in requests])}}
        if any(issubclass(each, ImageRequest) for each in requests):
            content |= {kind: {} for kind in IMAGES}
        made["requestBody"] = {"required": True, "content": content}
    shapes = [schemas.of(each) for each in (call.answer if isinstance(call.answer, tuple) else (call.answer,))]
    answers = {call.media: {"schema": _any([*shapes, schemas.of(WithAttention)] if call.tasks else shapes)}}
    description = inspect.cleandoc(call.answer.__doc__ or "") if hasattr(call.answer, "__struct_fields__") else ""
    if call.event is not None:
        event = schemas.of(call.event)["$ref"]
        answers[EVENTS] = {"schema": {"description": f"data: each as {event}, the last [DONE]"}}
    refusals = ALWAYS | (WITH_KEY if call.key and keys else {}) | (OF_WORK if call.works else {})
    if call.works or "parameters" in made:
        refusals |= OF_MODELS
    refusal = {JSON: {"schema": schemas.of(TaskRefusal if call.tasks else Refusal)}}
    made["responses"] = {
        "200": {"description": description or call.summary, "content": answers},
        **{str(status): {"description": text, "content": refusal} for status, text in sorted(refusals.items())},
        **{
            str(status): {"description": call.summary, "content": {JSON: {"schema": schemas.of(shape)}}}
            for status, shape in call.otherwise.items()
        },
    }
    return made


def _any(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a value that matches one of several schemas; duplicates are left out."""
    unique = [schema for place, schema in enumerate(schemas) if schema not in schemas[:place]]
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


class _Schemas:
    """JSON schemas of classes; those of structs are kept by name."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}

    def of(self, shape: Any) -> dict[str, Any]:
        """The schema of a class."""
        (schema,), found = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
        for component in found.values():
            if "description" in component:
                component["description"] = inspect.cleandoc(component["description"])
        self.components = found | self.components
        return schema

    def of_request(self, request: type[msgspec.Struct], served: Sequence[Card]) -> dict[str, Any]:
        """The schema of a body; its field `model` lists the served models that have this route."""
        schema = self.of(request)
        properties = self.components[request.__name__]["properties"]
        if "model" in properties and served:
            properties["model"]["enum"] = [card.name for card in served]
        rows = max((card.rows or 0 for card in served), default=0)
        for name in ("n", "best_of") if rows else ():
            if name in properties:
                whole = next(each for each in properties[name]["anyOf"] if each.get("type") == "integer")
                whole["maximum"] = min(whole["maximum"], rows)
        for name, values in getattr(request, "harmless", {}).items():
            properties[name] = {"enum": [None, *values], "default": None}
        return schema
