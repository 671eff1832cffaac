"""`regard serve` as other programs meet it: OpenAI's own client, many at once, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serving.conftest import Served

import regard
from regard.generation import GenerationSettings

openai = pytest.importorskip("openai")


def posted(server: Served, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=60)


def test_completions_are_what_the_model_generates(client: Any, writer_folder: Path) -> None:
    loaded = regard.load(writer_folder)
    written = loaded.generate("line nu", GenerationSettings(maximum_length=24), top=2)
    answer = client.completions.create(model="writer", prompt="line nu", max_tokens=24, temperature=0, logprobs=2)
    choice = answer.choices[0]
    assert choice.text == written.text
    assert choice.logprobs.token_logprobs == pytest.approx(list(written.log_probabilities), abs=1e-4)
    assert choice.finish_reason == ("stop" if written.finished else "length")
    assert answer.usage.completion_tokens == len(written.tokens)
    sampled = GenerationSettings(maximum_length=20, sample=True, temperature=1.5, seed=11, n_best=3)
    texts = loaded.generate("line", sampled)
    drawn = client.completions.create(model="writer", prompt="line", max_tokens=20, temperature=1.5, seed=11, n=3)
    assert [each.text for each in drawn.choices] == [texts.text, *texts.alternatives]


def test_a_stream_is_the_text_in_pieces(client: Any) -> None:
    asked = {"model": "writer", "prompt": "line nu", "max_tokens": 24, "temperature": 0.9, "seed": 3}
    whole = client.completions.create(**asked, stop=["t t"])
    pieces = list(client.completions.create(**asked, stop=["t t"], stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == whole.choices[0].text
    assert pieces[-1].usage == whole.usage
    assert len(pieces) > 3


def test_the_prompt_is_echoed_with_its_log_probabilities(client: Any, writer_folder: Path) -> None:
    loaded = regard.load(writer_folder)
    scored = loaded.score("line number")
    answer = client.completions.create(
        model="writer", prompt="line number", max_tokens=0, echo=True, logprobs=1, temperature=0
    )
    logs = answer.choices[0].logprobs
    assert answer.choices[0].text == "line number" == "".join(logs.tokens)
    assert logs.token_logprobs == pytest.approx(list(scored.log_probabilities[:-1]), abs=1e-4)
    assert logs.text_offset == list(range(11))


def test_token_ids_are_prompts_too(client: Any, server: Served) -> None:
    ids = posted(server, "/tokenize", model="writer", prompt="line nu").json()["tokens"]
    assert posted(server, "/detokenize", model="writer", tokens=ids[1:]).json() == {"prompt": "line nu"}
    asked = {"model": "writer", "max_tokens": 9, "temperature": 0}
    texts = [client.completions.create(prompt=prompt, **asked).choices[0].text for prompt in ("line nu", ids, [ids])]
    assert len(set(texts)) == 1
    both = client.completions.create(prompt=["line nu", "of"], n=2, **asked).choices
    assert [choice.index for choice in both] == [0, 1, 2, 3]
    assert both[0].text == both[1].text == texts[0]


def test_the_best_of_several_is_the_most_probable(client: Any) -> None:
    asked = {"model": "writer", "prompt": "li", "max_tokens": 8, "temperature": 2, "seed": 4, "logprobs": 0}
    several = client.completions.create(**asked, n=5).choices
    best = client.completions.create(**asked, n=1, best_of=5).choices
    means = [np.mean(choice.logprobs.token_logprobs) for choice in several]
    assert [best[0].text] == [several[int(np.argmax(means))].text]


def test_chat_is_the_folders_template(client: Any, writer_folder: Path) -> None:
    messages = [{"role": "developer", "content": "of"}, {"role": "user", "content": [{"type": "text", "text": "the"}]}]
    wanted = regard.load(writer_folder).chat(
        [{"role": "system", "content": "of"}, {"role": "user", "content": "the"}], GenerationSettings(maximum_length=12)
    )
    asked: dict[str, Any] = {"model": "writer", "messages": messages, "max_completion_tokens": 12, "temperature": 0}
    answer = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    assert answer.choices[0].message.content == wanted.text
    content = answer.choices[0].logprobs.content
    assert [entry.logprob for entry in content] == pytest.approx(list(wanted.log_probabilities), abs=1e-4)
    assert all(len(entry.top_logprobs) == 2 for entry in content)
    pieces = list(client.chat.completions.create(**asked, stream=True))
    assert pieces[0].choices[0].delta.role == "assistant"
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == wanted.text
    assert pieces[-1].choices[0].finish_reason == answer.choices[0].finish_reason


def test_embeddings_are_the_encoders_vectors(client: Any, minilm: Path) -> None:
    texts = ["A cat sat on the mat.", "Stocks fell."]
    wanted = regard.load(minilm).embed(texts)
    for form in ("float", "base64"):
        answer = client.embeddings.create(model="vectors", input=texts, encoding_format=form)
        data = [each.embedding for each in answer.data]
        if form == "base64":
            data = [np.frombuffer(__import__("base64").b64decode(each), dtype="<f4") for each in data]
        np.testing.assert_allclose(np.array(data), wanted, atol=1e-6)
    short = np.array(
        [each.embedding for each in client.embeddings.create(model="vectors", input=texts, dimensions=7).data]
    )
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(short / short[:, :1], wanted[:, :7] / wanted[:, :1], rtol=1e-4)


def test_the_inference_client_gets_the_predictors_answers(server: Served, minilm: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(f"{server.url}/models/vectors")
    texts = ["A cat sat on the mat.", "Stocks fell."]
    wanted = regard.load(minilm).embed(texts)
    np.testing.assert_allclose(np.array([client.feature_extraction(text) for text in texts]), wanted, atol=1e-6)
    alike = client.sentence_similarity(texts[0], other_sentences=texts)
    np.testing.assert_allclose(alike, wanted @ wanted[0], atol=1e-5)
    wrong = httpx.post(f"{server.url}/models/vectors", json={"inputs": "a", "parameters": {"nothing": 1}})
    assert (wrong.status_code, "nothing" in wrong.json()["error"]) == (400, True)
    for place, status in (("writer/pipeline/fill-mask", 404), ("nobody", 404), ("vectors/pipeline/fill-mask", 404)):
        answer = httpx.post(f"{server.url}/models/{place}", json={"inputs": "a"})
        assert (answer.status_code, type(answer.json()["error"])) == (status, str)


def test_the_inference_client_chats(server: Served, client: Any) -> None:
    from huggingface_hub import InferenceClient

    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "line"}], "max_tokens": 6, "temperature": 0}
    found = InferenceClient(server.url).chat_completion(model="writer", **asked)
    wanted = client.chat.completions.create(model="writer", **asked)
    assert found.choices[0].message.content == wanted.choices[0].message.content


def test_models_are_listed_with_what_they_are_for(client: Any) -> None:
    listed = {model.id: model for model in client.models.list().data}
    assert {name: model.task for name, model in listed.items()} == {  # type: ignore[attr-defined]
        "writer": "language_modelling",
        "vectors": "sentence_embedding",
    }
    assert client.models.retrieve("writer").id == "writer"


@pytest.mark.parametrize(
    ("path", "body", "status", "parameter"),
    [
        ("completions", {"model": "nobody", "prompt": "a"}, 404, "model"),
        ("completions", {"prompt": "a"}, 400, "model"),
        ("completions", {"model": "writer", "prompt": "a", "tempreature": 1}, 400, "tempreature"),
        ("completions", {"model": "writer", "prompt": "a", "temperature": "hot"}, 400, "temperature"),
        ("completions", {"model": "writer", "prompt": "a", "temperature": 3}, 400, "temperature"),
        ("completions", {"model": "writer", "prompt": "a", "suffix": "b"}, 400, "suffix"),
        ("completions", {"model": "writer", "prompt": "a", "n": 0}, 400, "n"),
        ("completions", {"model": "writer", "prompt": "a", "n": 3, "best_of": 2}, 400, "best_of"),
        ("completions", {"model": "writer", "prompt": "a", "n": 99}, 400, "n"),
        ("completions", {"model": "writer", "prompt": ["a", 3]}, 400, "prompt"),
        ("completions", {"model": "writer", "prompt": [10**6]}, 400, "prompt"),
        ("completions", {"model": "writer", "prompt": "a", "logit_bias": {"x": 1}}, 400, "logit_bias"),
        ("completions", {"model": "writer", "prompt": "a", "stream_options": {}}, 400, "stream_options"),
        ("completions", {"model": "writer", "prompt": "a", "max_tokens": 10**6}, 400, "prompt"),
        ("completions", {"model": "writer", "prompt": "a" * 400}, 400, "prompt"),
        ("completions", {"model": "writer", "prompt": "a", "n": 10**6}, 400, "n"),
        ("completions", {"model": "writer", "prompt": "a", "best_of": 2**63}, 400, "best_of"),
        ("completions", {"model": "writer", "prompt": ["a"] * 60, "n": 16}, 400, "n"),
        ("completions", {"model": "writer", "prompt": "a", "temperature": 1e-40}, 400, "temperature"),
        ("completions", {"model": "writer", "prompt": "a", "repetition_penalty": 1e-300}, 400, "repetition_penalty"),
        ("completions", {"model": "writer", "prompt": "a", "seed": 2**70}, 400, "seed"),
        ("completions", {"model": "writer", "prompt": "a", "top_k": 2**70}, 400, "top_k"),
        (
            "chat/completions",
            {"model": "writer", "messages": [{"role": "x", "content": "a"}]},
            400,
            "messages[0].role",
        ),
        (
            "chat/completions",
            {
                "model": "writer",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "a", "image_url": "x"}]}],
            },
            400,
            "messages[0].content[0]",
        ),
        (
            "chat/completions",
            {
                "model": "writer",
                "messages": [{"role": "user", "content": "a"}],
                "chat_template_kwargs": {"messages": []},
            },
            400,
            "chat_template_kwargs",
        ),
        ("completions", {"model": "writer", "prompt": "a", "max_tokens": 2**70}, 400, "max_tokens"),
        ("completions", {"model": "writer", "prompt": [2**70]}, 400, "prompt[0]"),
        ("completions", {"model": "vectors", "prompt": "a"}, 400, "model"),
        ("chat/completions", {"model": "writer", "messages": []}, 400, "messages"),
        (
            "chat/completions",
            {"model": "writer", "messages": [{"role": "user", "content": "a"}], "tools": [{}]},
            400,
            "tools",
        ),
        (
            "chat/completions",
            {"model": "writer", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            400,
            "messages[0].content[0]",
        ),
        ("embeddings", {"model": "writer", "input": "a"}, 400, "model"),
        ("embeddings", {"model": "vectors", "input": "a", "dimensions": 5000}, 400, "dimensions"),
        ("embeddings", {"model": "vectors", "input": []}, 400, "input"),
        ("embeddings", {"model": "vectors", "input": ["a", "cat sat " * 400]}, 400, "input"),
        ("completions", {"model": "writer", "prompt": "a", "logit_bias": {"999": 1}}, 400, "logit_bias"),
        ("completions", {"model": "writer", "prompt": "a", "attention": {"layers": [9]}}, 400, "attention.layers"),
        (
            "chat/completions",
            {"model": "writer", "messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"a": [2**70]}},
            400,
            "chat_template_kwargs.a[0]",
        ),
    ],
)
def test_what_is_not_followed_is_refused_by_name(
    server: Served, path: str, body: dict[str, Any], status: int, parameter: str | None
) -> None:
    answer = posted(server, f"/v1/{path}", **body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, parameter)
    assert "Traceback" not in error["message"]
    assert len(error["message"].splitlines()) == 1
    if body.get("stream_options") is None:
        assert posted(server, f"/v1/{path}", **body | {"stream": True}).status_code in (status, 400)


def test_what_changes_nothing_is_told_to_be_ignored(server: Served) -> None:
    asked: dict[str, Any] = {
        "model": "writer",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0,
        "max_tokens": 3,
    }
    hints = {
        "prediction": {"type": "content", "content": "a"},
        "service_tier": "flex",
        "tools": [{}],
        "tool_choice": "none",
        "stream_options": {"include_obfuscation": True},
        "stream": True,
    }
    plain = posted(server, "/v1/chat/completions", **asked)
    hinted = posted(server, "/v1/chat/completions", **asked, **hints)
    assert "regard-ignored" not in plain.headers
    assert hinted.headers["regard-ignored"] == "stream_options.include_obfuscation, prediction, service_tier, tools"
    assert hinted.status_code == plain.status_code == 200
    for name, value in (("store", True), ("store", 0), ("verbosity", "high"), ("tool_choice", "auto")):
        refused = posted(server, "/v1/chat/completions", **asked, **{name: value})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, name)


def test_texts_that_are_too_long_are_said_to_be(server: Served) -> None:
    for path, body in (
        ("completions", {"model": "writer", "prompt": "line " * 100, "max_tokens": 1}),
        ("completions", {"model": "writer", "prompt": "line " * 10**5, "max_tokens": 1}),
        ("completions", {"model": "writer", "prompt": "line", "max_tokens": 10**6}),
        ("chat/completions", {"model": "writer", "messages": [{"role": "user", "content": "line " * 100}]}),
        ("embeddings", {"model": "vectors", "input": ["a", "cat sat " * 400]}),
    ):
        answer = posted(server, f"/v1/{path}", **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"a"', b"\xff", b"[" * 5000, b'{"model": NaN}'])
def test_a_body_that_is_none_is_refused(server: Served, body: bytes) -> None:
    answer = httpx.post(f"{server.url}/v1/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_every_answer_is_byte_for_byte_what_it_is_alone(server: Served) -> None:
    draw = random.Random(2)
    shared = "line number 1 of the text " * 5
    asked = [
        {
            "model": "writer",
            "prompt": (shared if number % 3 == 0 else "") + TEXT[: draw.randrange(1, 20)],
            "max_tokens": draw.randrange(1, 16),
            "temperature": draw.choice([0, 1]),
            "seed": number,
            "n": draw.choice([1, 2]),
            "logprobs": 2,
            "user": str(number % 5),
        }
        for number in range(24)
    ]

    def answered(body: dict[str, Any]) -> str:
        answer = posted(server, "/v1/completions", **body)
        assert answer.status_code == 200, answer.text
        return json.dumps(answer.json()["choices"])

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(answered, asked))
    assert [answered(body) for body in asked] == together


TEXT = "number of the line text"


def running(server: Served) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("regard:num_requests_running"))


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_who_goes_away_leaves_the_batch(server: Served) -> None:
    body = {"model": "writer", "prompt": "line", "max_tokens": 150, "stream": True, "temperature": 2, "n": 8}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=30) as answer:
        next(answer.iter_lines())
    until(lambda: running(server) == 0)
    with contextlib.suppress(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/completions", json=body | {"stream": False}, timeout=httpx.Timeout(30, read=0.02))
    until(lambda: running(server) == 0)
    until(lambda: "regard:num_requests_open 0.0" in httpx.get(f"{server.url}/metrics").text)


def waiting(server: Served) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("regard:num_requests_open"))


def test_who_waits_in_the_queue_and_goes_away_leaves_it(server: Served) -> None:
    body = {"model": "writer", "prompt": "line", "max_tokens": 150, "stream": True, "temperature": 2, "n": 16}
    quick = httpx.Timeout(30, read=0.02)
    for _ in range(6):
        with (
            contextlib.suppress(httpx.ReadTimeout),
            httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=quick),
        ):
            pass
    until(lambda: waiting(server) == running(server) == 0, 3)


def test_half_a_body_takes_nobodys_place(server: Served) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{"
    with socket.create_connection((host, int(port))) as half:
        half.sendall(head)
        time.sleep(0.2)
        assert waiting(server) == 0
        assert posted(server, "/tokenize", model="writer", prompt="line").status_code == 200


def test_counts_are_told(server: Served) -> None:
    before = httpx.get(f"{server.url}/metrics").text
    posted(server, "/v1/completions", model="writer", prompt="line", max_tokens=7)
    after = httpx.get(f"{server.url}/metrics").text

    def count(text: str, name: str) -> float:
        lines = [line for line in text.splitlines() if line.startswith(f'regard:{name}_total{{model_name="writer"}}')]
        return float(lines[0].split()[-1]) if lines else 0.0

    assert count(after, "generation_tokens") - count(before, "generation_tokens") <= 7
    assert count(after, "request_success") - count(before, "request_success") == 1


@pytest.mark.slow
def test_an_engine_that_dies_fails_its_requests_and_is_started_again(
    start_server: Callable[..., Served], writer_folder: Path
) -> None:
    served = start_server(f"writer={writer_folder}")
    found: list[httpx.Response] = []

    def ask() -> None:
        body = {"prompt": ["line"] * 15, "max_tokens": 150, "temperature": 2, "n": 16}
        found.append(posted(served, "/v1/completions", model="writer", **body))

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: running(served) > 0)
    os.kill(served.engine, signal.SIGKILL)
    killed = time.monotonic()
    asking.join(10)
    assert time.monotonic() - killed < 1
    assert httpx.get(f"{served.url}/health").status_code == 200  # nothing else is lost
    assert found[0].status_code == 503
    assert "started again" in found[0].json()["error"]["message"]
    assert posted(served, "/v1/completions", model="writer", prompt="line", max_tokens=3).status_code == 200
    assert httpx.get(f"{served.url}/ready").json()["restarts"] == 1
    served.process.terminate()
    assert served.process.wait(20) in (0, 143, -signal.SIGTERM)


@pytest.mark.slow
def test_a_stream_is_finished_after_sigterm(start_server: Callable[..., Served], writer_folder: Path) -> None:
    served = start_server(f"writer={writer_folder}", REGARD_API_KEY="secret")
    headers = {"authorization": "Bearer secret"}
    body = {"model": "writer", "prompt": "line", "max_tokens": 120, "stream": True, "temperature": 2, "n": 4}
    assert httpx.post(f"{served.url}/v1/completions", json=body).status_code == 401
    with httpx.stream("POST", f"{served.url}/v1/completions", json=body, headers=headers, timeout=30) as answer:
        lines = answer.iter_lines()
        next(lines)
        served.process.terminate()
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert served.process.wait(20) in (0, 143, -signal.SIGTERM)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{served.url}/health")


@pytest.mark.slow
def test_what_is_under_way_after_the_drain_is_told_so(start_server: Callable[..., Served], writer_folder: Path) -> None:
    served = start_server(f"writer={writer_folder}", "--drain", "0")
    body = {"model": "writer", "prompt": ["line"] * 60, "max_tokens": 150, "temperature": 2, "n": 4}
    found: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: found.append(posted(served, "/v1/completions", **body)))
    with httpx.stream("POST", f"{served.url}/v1/completions", json=body | {"stream": True}, timeout=30) as answer:
        lines = (line for line in answer.iter_lines() if line)
        next(lines)
        asking.start()
        until(lambda: waiting(served) == 2)
        served.process.terminate()
        *_, error, done = lines
    asking.join(10)
    assert done == "data: [DONE]"
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "shut_down"
    assert (found[0].status_code, found[0].json()["error"]["code"]) == (503, "shut_down")
    assert found[0].headers["retry-after"] == "1"
    assert served.process.wait(5) in (0, 143, -signal.SIGTERM)


@pytest.mark.slow
def test_a_second_sigterm_ends_at_once(start_server: Callable[..., Served], writer_folder: Path) -> None:
    served = start_server(f"writer={writer_folder}")
    body = {"model": "writer", "prompt": ["line"] * 60, "max_tokens": 150, "temperature": 2, "n": 4, "stream": True}
    with httpx.stream("POST", f"{served.url}/v1/completions", json=body, timeout=30) as answer:
        next(answer.iter_lines())
        served.process.terminate()
        time.sleep(0.3)
        assert served.process.poll() is None  # it waits for the stream
        served.process.terminate()
        assert served.process.wait(10) in (0, 143, -signal.SIGTERM)
