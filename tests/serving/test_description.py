"""The description of the routes beside the routes, and real answers beside the shapes that it is made of."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest
from tests.serving.conftest import Served

from regard.serving import answers, attention, requests, task_requests
from regard.serving.calls import CALLS
from regard.serving.description import described
from regard.serving.messages import Card
from regard.serving.tasks import OF_TASK, ROUTES


def card(name: str, task: str) -> Card:
    writes = task == "language_modelling"
    return Card(
        name=name,
        task=task,
        created=0,
        positions=9,
        chats=writes,
        width=None,
        parameters=1,
        routes=list(OF_TASK[task]),
        rows=4 if writes else None,
    )


WRITER = card("writer", "language_modelling")
CARDS = [WRITER, *(card(task, task) for task in OF_TASK if task != "language_modelling")]


def test_every_route_is_described() -> None:
    made = described(CALLS, CARDS, keys=True)
    for call in CALLS:
        if not call.tasks:
            operation = made["paths"][call.path.replace(":path", "")][call.method.lower()]
            assert operation["summary"] == call.summary
            assert ("requestBody" in operation) == (call.method == "POST")
            assert ("401" in operation["responses"]) == call.key
    for each in CARDS:
        assert f"/models/{each.name}" in made["paths"]
        for route in each.routes:
            content = made["paths"][f"/models/{each.name}/pipeline/{route}"]["post"]["requestBody"]["content"]
            assert content["application/json"]["schema"]["$ref"].endswith(ROUTES[route].request.__name__)
    names = [each["operationId"] for path in made["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))
    assert json.loads(json.dumps(made)) == made


def test_every_reference_leads_somewhere_and_no_two_classes_share_a_name() -> None:
    made = described(CALLS, CARDS, keys=False)
    referred = set(json.dumps(made).split('"#/components/schemas/')[1:])
    names = {each.partition('"')[0] for each in referred}
    assert names <= set(made["components"]["schemas"])
    structs: dict[str, Any] = {}
    for module in (answers, attention, requests, task_requests):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
                assert name not in structs
                structs[name] = value


def test_a_field_of_a_request_is_described_by_itself() -> None:
    schemas = described(CALLS, CARDS, keys=False)["components"]["schemas"]
    for kind in (requests.CompletionRequest, requests.ChatRequest, requests.EmbeddingRequest):
        schema = schemas[kind.__name__]
        assert set(schema["properties"]) == set(kind.__struct_fields__)
        assert schema["additionalProperties"] is False
    assert schemas["CompletionRequest"]["properties"]["model"]["enum"] == ["writer"]
    assert schemas["TagParameters"]["properties"]["stride"]["type"] == "null"


SHAPES = {(call.method, call.path.replace("{name:path}", "writer")): call for call in CALLS}
CHAT = {"model": "writer", "messages": [{"role": "user", "content": "line"}], "max_tokens": 4}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/health", None),
        ("/ready", None),
        ("/openapi.json", None),
        ("/v1/models", None),
        ("/v1/models/writer", None),
        ("/v1/completions", {"model": "writer", "prompt": ["li", "of"], "max_tokens": 3, "logprobs": 2, "echo": True}),
        ("/v1/completions", {"model": "writer", "prompt": "li", "max_tokens": 3}),
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2, "n": 2}),
        ("/v1/embeddings", {"model": "vectors", "input": "cat"}),
        ("/v1/embeddings", {"model": "vectors", "input": ["cat", "mat"], "encoding_format": "base64"}),
        ("/tokenize", {"model": "writer", "prompt": "line", "return_token_strs": True}),
        ("/tokenize", {"model": "vectors", "prompt": "line"}),
        ("/detokenize", {"model": "writer", "tokens": [5, 6]}),
    ],
)
def test_an_answer_is_what_is_described(server: Served, path: str, body: dict[str, Any] | None) -> None:
    method = "GET" if body is None else "POST"
    call = SHAPES[method, path]
    answer = httpx.request(method, server.url + path, json=body, timeout=30)
    assert answer.status_code == 200, answer.text
    fits(answer.json(), call.answer)
    assert answer.headers["content-type"].startswith(call.media)
    if call.event is not None:
        lines = httpx.post(server.url + path, json={**(body or {}), "stream": True}, timeout=30).text.splitlines()
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line and line != "data: [DONE]"]
        assert len(events) > 1
        for event in events:
            fits(event, call.event)


def fits(value: Any, shape: Any) -> None:
    """That a value is of a shape, and has no field beside it."""
    assert msgspec.to_builtins(msgspec.convert(value, shape)) == value


def test_errors_are_what_is_described(server: Served) -> None:
    for path, body in (("/v1/completions", {"model": "nobody"}), ("/v1/nothing", {}), ("/tokenize", {"model": 3})):
        fits(httpx.post(server.url + path, json=body).json(), answers.Refusal)
    for path, body in (("/models/nobody", {}), ("/models/vectors", {"inputs": 3})):
        fits(httpx.post(server.url + path, json=body).json(), answers.TaskRefusal)


@pytest.mark.parametrize(
    ("kind", "path", "body", "status"),
    [
        ("EmbeddingRequest", "/v1/embeddings", {"input": ""}, 400),
        ("EmbeddingRequest", "/v1/embeddings", {"input": []}, 400),
        ("EmbeddingRequest", "/v1/embeddings", {"input": [[]]}, 400),
        ("EmbeddingRequest", "/v1/embeddings", {"input": ["cat", 3]}, 400),
        ("EmbeddingRequest", "/v1/embeddings", {"input": ["cat", "mat"]}, 200),
        ("CompletionRequest", "/v1/completions", {"prompt": []}, 400),
        ("CompletionRequest", "/v1/completions", {"prompt": ["li", 3]}, 400),
        ("CompletionRequest", "/v1/completions", {"prompt": "li", "logit_bias": {"3": 101}}, 400),
        ("CompletionRequest", "/v1/completions", {"prompt": "", "max_tokens": 1}, 200),
        ("ChatRequest", "/v1/chat/completions", {"messages": [{"role": "nobody", "content": "line"}]}, 400),
        ("ChatRequest", "/v1/chat/completions", {"messages": [{"role": "user", "audio": 1}]}, 400),
        (
            "ChatRequest",
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "text": "a"}]}]},
            400,
        ),
        (
            "ChatRequest",
            "/v1/chat/completions",
            {"messages": CHAT["messages"], "response_format": {"type": "json"}},
            400,
        ),
        ("ChatRequest", "/v1/chat/completions", {"messages": CHAT["messages"], "max_tokens": 2}, 200),
    ],
)
def test_the_description_allows_what_the_server_answers(
    server: Served, kind: str, path: str, body: dict[str, Any], status: int
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    body = {"model": "vectors" if "embeddings" in path else "writer", **body}
    schemas = httpx.get(server.url + "/openapi.json").json()["components"]["schemas"]
    schema = {**schemas[kind], "components": {"schemas": schemas}}
    answer = httpx.post(server.url + path, json=body, timeout=30)
    assert answer.status_code == status, answer.text
    assert jsonschema.Draft202012Validator(schema).is_valid(body) == (status == 200)


def test_whole_numbers_may_be_written_with_a_point(server: Served) -> None:
    body = {"model": "writer", "prompt": [5, 6], "max_tokens": 3, "temperature": 0, "attention": {"heads": [0]}}
    written = {
        "model": "writer",
        "prompt": [5.0, 6.0],
        "max_tokens": 3.0,
        "temperature": 0.0,
        "attention": {"heads": [0.0]},
    }
    plain, other = (
        httpx.post(server.url + "/v1/completions", json=each, timeout=30).json() for each in (body, written)
    )
    assert plain["choices"] == other["choices"]
    half = httpx.post(server.url + "/v1/completions", json={**body, "max_tokens": 3.5})
    assert (half.status_code, half.json()["error"]["param"]) == (400, "max_tokens")


def test_what_no_model_follows_is_described_as_such(server: Served) -> None:
    made = described(CALLS, [*CARDS, msgspec.structs.replace(WRITER, name="wide", rows=5)], keys=False)
    schemas = made["components"]["schemas"]
    for name in ("n", "best_of"):
        assert schemas["CompletionRequest"]["properties"][name]["anyOf"][0]["maximum"] == 5
    assert schemas["VectorRequest"]["properties"]["encoding_format"]["enum"] == ["float", None]
    assert schemas["Scale"]["properties"]["address"]["minLength"] == 1
    content = made["paths"]["/v1/completions"]["post"]["responses"]["200"]["content"]
    assert set(content["text/event-stream"]["schema"]) == {"description"}  # a type would be read as that of each event
    served = httpx.get(server.url + "/openapi.json").json()["components"]["schemas"]
    assert served["ChatRequest"]["properties"]["n"]["anyOf"][0]["maximum"] == 16
