"""The web application by itself: keys, limits, routes, over an engine that is not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from regard.errors import InputError
from regard.serving import responses
from regard.serving.app import create_app
from regard.serving.link import EngineLost, Rejected
from regard.serving.messages import Began, Card, Load, Piece, Token
from regard.serving.responses import MOST_UNSENT
from regard.serving.run import WebOptions
from regard.serving.server import Limits, Server

CARD = Card(name="writer", task="language_modelling", created=0, positions=9, chats=False, width=None, parameters=1)


class Engine:
    """Answers as told, where a real one would answer."""

    def __init__(self, *replies: Began | Piece | Exception, wait: float = 0) -> None:
        self.replies = replies
        self.wait = wait
        self.clients: list[list[str]] = []
        self.models = {"writer": CARD}
        self.ready = True
        self.restarts = 0
        self.fullness = Load(writing={}, waiting={})

    async def write(self, **asked: Any) -> AsyncGenerator[Began | Piece]:
        self.clients.append(asked["client"])
        for reply in self.replies:
            await asyncio.sleep(self.wait)
            if isinstance(reply, Exception):
                raise reply
            yield reply


BEGAN = Began(key=1, prompt_tokens=2, reused=0, text="a", tokens=[])
LAST = Piece(key=1, copy=0, text="b", tokens=[], end="stop")
BODY = {"model": "writer", "prompt": "a"}


def called(server: Server, *calls: tuple[str, str, dict[str, Any]], together: bool = False) -> list[httpx.Response]:
    """The answers of an application to some calls: method, path, and arguments of httpx."""

    async def call() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=create_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            made = [client.request(method, path, **given) for method, path, given in calls]
            return list(await asyncio.gather(*made)) if together else [await each for each in made]

    return asyncio.run(call())


def server_of(engine: Engine, **given: Any) -> Server:
    return Server(link=engine, **given)  # type: ignore[arg-type]


def test_a_key_is_asked_for_but_of_health() -> None:
    server = server_of(Engine(BEGAN, LAST), api_keys=("secret", "other"))
    paths = [("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/metrics")]
    for method, path in paths:
        given: dict[str, Any] = {"json": BODY} if method == "POST" else {}
        for header in (None, "Bearer wrong", "Bearer ", "Basic secret", "secret", "Bearer secrets", "Bearer \xe9"):
            headers = {} if header is None else {"authorization": header.encode("latin-1")}
            (answer,) = called(server, (method, path, {**given, "headers": headers}))
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        for key in ("secret", "other"):
            (answer,) = called(server, (method, path, {**given, "headers": {"authorization": f"bearer {key}"}}))
            assert answer.status_code == 200
    assert [answer.status_code for answer in called(server, ("GET", "/health", {}), ("GET", "/ready", {}))] == [
        200,
        200,
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_one_request_too_many_is_turned_away(stream: bool) -> None:
    server = server_of(Engine(BEGAN, LAST, wait=0.05), limits=Limits(waiting=2))
    calls = [("POST", "/v1/completions", {"json": BODY | {"stream": stream}})] * 4
    answers = called(server, *calls, together=True)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert server.open == 0
    assert called(server, calls[0])[0].status_code == 200


def test_bodies_and_times_are_limited() -> None:
    server = server_of(Engine(BEGAN, LAST, wait=5), limits=Limits(body=100, seconds=0.05))
    long, slow = called(
        server,
        ("POST", "/v1/completions", {"content": b" " * 101}),
        ("POST", "/v1/completions", {"json": BODY}),
    )
    assert (long.status_code, slow.status_code) == (413, 504)
    (streamed,) = called(server, ("POST", "/v1/completions", {"json": BODY | {"stream": True}}))
    assert streamed.status_code == 504
    assert server.open == 0


@pytest.mark.parametrize(("error", "status"), [(EngineLost("it died"), 503), (Rejected("too long"), 400)])
def test_errors_of_the_engine_are_told(error: Exception, status: int) -> None:
    whole, refused = called(
        server_of(Engine(error)),
        ("POST", "/v1/completions", {"json": BODY}),
        ("POST", "/v1/completions", {"json": BODY | {"stream": True}}),
    )
    assert whole.status_code == refused.status_code == status
    (broken,) = called(
        server_of(Engine(BEGAN, LAST, error)), ("POST", "/v1/completions", {"json": BODY | {"stream": True}})
    )
    assert broken.status_code == 200
    assert str(error) in broken.text
    assert broken.text.endswith("data: [DONE]\n\n")


def test_errors_of_tasks_are_all_of_one_shape() -> None:
    def said(answer: httpx.Response) -> str:
        found = answer.json()
        assert list(found) == ["error"]
        assert isinstance(found["error"], str)
        return found["error"]

    ask = ("POST", "/models/writer", {"json": {"inputs": "a"}})
    (keyless,) = called(server_of(Engine(), api_keys=("secret",)), ask)
    assert (keyless.status_code, keyless.headers["www-authenticate"]) == (401, "Bearer")
    assert said(keyless).startswith("the API key is missing")
    full = server_of(Engine(), limits=Limits(waiting=0))
    (refused,) = called(full, ask)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "ask again later" in said(refused)
    closing = server_of(Engine())
    closing.closing = True
    (closed,) = called(closing, ask)
    assert (closed.status_code, said(closed)) == (503, "the server is shutting down")
    server = server_of(Engine(), limits=Limits(body=10))
    long, nobody, wrong, other = called(
        server,
        ("POST", "/models/writer", {"content": b" " * 11}),
        ("POST", "/models/nobody", {}),
        ("GET", "/models/writer", {}),
        ("POST", "/v1/models/nobody", {}),
    )
    assert [each.status_code for each in (long, nobody, wrong)] == [413, 404, 405]
    assert "this server has writer" in said(nobody)
    assert all(map(said, (long, wrong)))
    assert isinstance(other.json()["error"], dict)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"stream_options": {"usage": True}},
            "stream_options: there is no field 'usage'; choose from include_obfuscation, include_usage",
        ),
        ({"tempereture": 1}, "the body: there is no field 'tempereture'; did you mean 'temperature'?"),
        ({"top_k": 2**80}, "top_k: is a number of more than 64 bits; change it"),
    ],
)
def test_a_field_is_called_by_its_place_and_only_fields_of_that_place_are_advised(
    body: dict[str, Any], said: str
) -> None:
    (answer,) = called(server_of(Engine()), ("POST", "/v1/completions", {"json": BODY | body}))
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, said)


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.message) for record in caplog.records if record.name == "regard.access"]


def counted(server: Server, name: str) -> float:
    (answer,) = called(server, ("GET", "/metrics", {}))
    found = [
        line for line in answer.text.splitlines() if line.startswith(f'regard:{name}_total{{model_name="writer"}}')
    ]
    return float(found[0].split()[-1]) if found else 0.0


def piece(text: str, end: str = "") -> Piece:
    return Piece(key=1, copy=0, text=text, tokens=[Token(3, text, text.encode(), -1.0, [])], end=end)


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_under_way_when_the_server_has_waited_long_enough(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "regard.access")
    server = server_of(Engine(BEGAN, piece("b"), *[piece("c")] * 99, wait=0.03))

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            asyncio.get_running_loop().call_later(0.15, server.deadlines.cut)
            return await client.post("/v1/completions", json=BODY | {"stream": stream})

    answer = asyncio.run(call())
    if stream:
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        assert (answer.status_code, events[-1]) == (200, "[DONE]")
        assert json.loads(events[0])["choices"][0]["text"] == "b"
        error = json.loads(events[-2])["error"]
    else:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "shut_down")
    assert [line["ended"] for line in logged(caplog)] == ["shut_down"]
    assert server.open == 0


def test_the_time_of_a_stream_is_for_all_of_it() -> None:
    server = server_of(Engine(BEGAN, *[piece("b")] * 9, wait=0.1), limits=Limits(seconds=0.35))
    (answer,) = called(server, ("POST", "/v1/completions", {"json": BODY | {"stream": True}}))
    events = [line for line in answer.text.splitlines() if line]
    assert 1 <= answer.text.count('"text":') <= 3  # the first comes after 0.2 seconds, the others by 0.1 later
    assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "timeout"


@pytest.mark.parametrize(
    ("replies", "ended", "tokens"),
    [
        ([piece("b"), piece("c", "stop")], "done", 2),
        ([piece("b"), EngineLost("it died")], "error", 1),
        ([piece("b"), ZeroDivisionError("x")], "error", 1),
        ([piece("b"), piece("c"), *[piece("d")] * 99], "timed_out", None),
    ],
)
def test_a_stream_is_logged_and_counted_at_its_end(
    replies: list[Any], ended: str, tokens: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "regard.access")
    server = server_of(Engine(BEGAN, *replies, wait=0.02), limits=Limits(seconds=0.2))
    (answer,) = called(server, ("POST", "/v1/completions", {"json": BODY | {"stream": True}}))
    (line,) = logged(caplog)
    told = answer.text.count('"text":')
    assert line["ended"] == ended
    assert line["seconds"] >= 0.02 * (1 + told)
    assert (line["model"], line["prompt_tokens"], line["completion_tokens"]) == ("writer", 2, tokens or told)
    assert (counted(server, "prompt_tokens"), counted(server, "generation_tokens")) == (2, tokens or told)
    assert counted(server, "request_success") == (ended == "done")
    assert "ZeroDivision" not in answer.text


class Endless(Engine):
    """Writes for ever, and remembers that it was told to stop."""

    written = 0
    stopped = False

    async def write(self, **asked: Any) -> AsyncGenerator[Began | Piece]:
        yield BEGAN
        try:
            while True:
                self.written += 1
                yield piece("text " * 200)
                await asyncio.sleep(0)
        finally:
            self.stopped = True


@contextlib.contextmanager
def listening(server: Server) -> Iterator[tuple[str, int]]:
    """An application behind a real socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web = uvicorn.Server(uvicorn.Config(create_app(server), log_level="critical", lifespan="off"))
        thread = threading.Thread(target=asyncio.run, args=(web.serve(sockets=[listener]),))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            web.should_exit = web.force_exit = True
            thread.join(10)


@pytest.mark.parametrize("leaves", [False, True])
def test_who_does_not_read_or_goes_away_ends_the_stream(
    leaves: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "READ_SECONDS", 0.2)
    caplog.set_level("INFO", "regard.access")
    engine = Endless()
    server = server_of(engine)
    body = json.dumps(BODY | {"stream": True, "user": "x"}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    with listening(server) as address, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(head + body)
        if leaves:
            assert client.recv(12) == b"HTTP/1.1 200"
            client.close()
        end = time.monotonic() + 20
        while server.open or not engine.written:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert engine.stopped
    (line,) = logged(caplog)
    assert line["ended"] == ("disconnected" if leaves else "slow_reader")
    assert line["completion_tokens"] == engine.written == counted(server, "generation_tokens")
    if not leaves:
        assert engine.written * 1000 > MOST_UNSENT


def test_a_reader_who_keeps_up_gets_all_of_a_long_stream() -> None:
    pieces = [piece("text " * 200) for _ in range(3000)]
    server = server_of(Engine(BEGAN, *pieces, piece("", "stop")))
    with listening(server) as (host, port):
        answer = httpx.post(f"http://{host}:{port}/v1/completions", json=BODY | {"stream": True})
    assert answer.text.count('"text":"text text') == 3000
    assert len(answer.content) > 2 * MOST_UNSENT
    assert answer.text.endswith("data: [DONE]\n\n")


def test_a_fault_of_the_program_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = called(server_of(Engine(ZeroDivisionError("x"))), ("POST", "/v1/completions", {"json": BODY}))
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_what_there_is_no_route_for() -> None:
    server = server_of(Engine())
    missing, wrong, closing = called(
        server, ("GET", "/v1/nothing", {}), ("GET", "/v1/completions", {}), ("GET", "/v1/models/nobody", {})
    )
    assert (missing.status_code, wrong.status_code, closing.status_code) == (404, 405, 404)
    server.closing = True
    refused, ready = called(server, ("POST", "/v1/completions", {"json": BODY}), ("GET", "/ready", {}))
    assert (refused.status_code, ready.status_code) == (503, 503)


@pytest.mark.parametrize(
    ("headers", "origins", "status"),
    [
        ({"host": "127.0.0.1:8000"}, (), 200),
        ({"host": "localhost"}, (), 200),
        ({"host": "[::1]:8000"}, (), 200),
        ({"host": "evil.example:8000"}, (), 403),
        ({"host": "a b"}, (), 400),
        ({"host": "[::1"}, (), 400),
        ({"host": "127.0.0.1:80:80"}, (), 400),
        ({"host": "127.0.0.1:8o"}, (), 400),
        ({"host": "me@127.0.0.1"}, (), 400),
        ({"host": ""}, (), 400),
        ({"host": "127.0.0.1.evil.example"}, (), 403),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}, (), 200),
        ({"host": "127.0.0.1:8000", "origin": "https://evil.example"}, (), 403),
        ({"host": "127.0.0.1:8000", "origin": "null"}, (), 403),
        ({"host": "127.0.0.1:8000", "origin": "https://mine.example"}, ("https://mine.example",), 200),
        ({"host": "127.0.0.1:8000", "origin": "https://evil.example"}, ("*",), 200),
    ],
)
def test_web_pages_reach_it_only_where_they_are_let(headers: dict[str, str], origins: Any, status: int) -> None:
    server = server_of(Engine(BEGAN, LAST), loopback=True, origins=origins)
    call = ("POST", "/v1/completions", {"json": BODY, "headers": headers})
    (answer,) = called(server, call)
    assert answer.status_code == status


def test_every_call_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    server = server_of(Engine(BEGAN, LAST), api_keys=("secret",))
    caplog.set_level("INFO", "regard.access")
    calls = [
        ("GET", "/health", 200),
        ("GET", "/health/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/completions", 401),
    ]
    answers = called(server, *[(method, path, {}) for method, path, _ in calls])
    assert [answer.status_code for answer in answers] == [status for *_, status in calls]
    assert answers[3].headers["allow"] == "POST"
    lines = [json.loads(record.message) for record in caplog.records]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == calls
    counts = server.metrics.text(server.link, 0)[0].decode()
    for route, status, count in (("/health", 200, 1), ("none", 404, 2), ("none", 405, 1), ("/v1/completions", 401, 1)):
        assert f'regard:http_requests_total{{route="{route}",status="{status}"}} {count}.0' in counts


def test_a_key_that_is_there_twice_is_refused_by_name() -> None:
    body = b'{"model": "writer", "prompt": "a", "prompt": "b"}'
    (answer,) = called(server_of(Engine(BEGAN, LAST)), ("POST", "/v1/completions", {"content": body}))
    assert answer.status_code == 400
    assert "the key 'prompt' is there twice" in answer.json()["error"]["message"]


def test_a_user_is_one_below_the_client_whatever_else_is_said() -> None:
    engine = Engine(BEGAN, LAST)
    users = [{"user": "one"}, {"user": "other\n"}, {}]
    called(server_of(engine), *[("POST", "/v1/completions", {"json": BODY | user}) for user in users])
    assert engine.clients == [["127.0.0.1", "one"], ["127.0.0.1", "other\n"], ["127.0.0.1", ""]]
    engine.clients.clear()
    server = server_of(engine, api_keys=("secret", "other"))
    for header in ("Bearer secret", "bearer   secret", "BEARER other"):
        called(server, ("POST", "/v1/completions", {"json": BODY | users[0], "headers": {"authorization": header}}))
    assert engine.clients == [[key, "127.0.0.1", "one"] for key in ("key 0", "key 0", "key 1")]


def test_others_reach_it_only_with_a_key() -> None:
    with pytest.raises(InputError, match="REGARD_API_KEY"):
        WebOptions(host="0.0.0.0")
    assert WebOptions(host="0.0.0.0", api_keys=("long",)).port == 8000
    with pytest.raises(InputError, match="empty"):
        WebOptions(api_keys=("",))


@pytest.mark.parametrize(
    "origin", ["foo", "example.org", "https://a.org/", "https://A.org", "https://a.org:443", "null", ""]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    """A browser never sends it, so nothing would be let in, or not what was meant."""
    with pytest.raises(InputError, match="is no origin"):
        WebOptions(origins=(origin,))
    good = ("https://a.org", "http://localhost:3000", "http://[::1]:8080", "chrome-extension://abc", "*")
    assert WebOptions(origins=good).origins == good
