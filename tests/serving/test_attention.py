"""Attention and interventions in answers: what `regard.look` and `change` give in Python, and nobody else's answer is touched."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
import torch
from tests.serving.test_tasks import answerer, captioner, classifier, png, translator

import regard
from regard.inspection import ScaleHeads, SetOutput, change
from regard.layers import Tokens
from regard.models import MODELS
from regard.serving.app import create_app
from regard.serving.attention import Attention, Pages
from regard.serving.engine import Engine, cards
from regard.serving.link import EngineFault, Rejected
from regard.serving.messages import Answer, Ask, Began, Cancel, Card, Failure, Load, Piece, Write
from regard.serving.server import Server
from regard.serving.tasks import routes_of
from regard.serving.text_reading import LastText, read_again
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.language_task import LanguageModellingTask
from regard.text import Tokenizer

PROMPT = "a cat sat on the mat"
SIZES = {"width": 32, "heads": 4, "feedforward_width": 48, "layers": 3, "maximum_positions": 90}


def language_model(randomize: Any, name: str = "gpt2", **changes: Any) -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train([PROMPT], kind="character", size=40))
    config = MODELS[name].config(**SIZES, **changes, **task.model_settings())
    return LanguageModel(randomize(MODELS[name].model(config), 0.6).eval(), task)


class InProcess:
    """An engine in this process, where a server has one in another."""

    def __init__(self, **predictors: Any) -> None:
        self.engine = Engine(predictors, rows=4)
        self.models = {name: card(name, predictor) for name, predictor in predictors.items()}
        self.ready, self.restarts, self.fullness = True, 0, Load(writing={}, waiting={})
        self.replies: dict[int, asyncio.Queue[Any]] = {}
        self.keys = itertools.count(1)
        self.turns = 0

    async def ask(self, model: str, what: str, given: Any, *, client: str = "") -> Any:
        key = next(self.keys)
        async for reply in self._of(Ask(key=key, model=model, what=what, given=given)):
            if isinstance(reply, Answer):
                return reply.value
        return None

    async def write(self, **asked: Any) -> AsyncGenerator[Began | Piece]:
        left = asked["copies"]
        async for reply in self._of(Write(key=next(self.keys), **asked)):
            left -= bool(getattr(reply, "end", ""))
            yield reply
            if not left:
                return

    async def _of(self, request: Any) -> AsyncGenerator[Any]:
        own = self.replies[request.key] = asyncio.Queue()
        try:
            self._deal(self.engine.take(request))
            while True:
                while own.empty():
                    self._deal(self.engine.turn())
                    self.turns += 1
                    await asyncio.sleep(0)
                reply = own.get_nowait()
                if isinstance(reply, Failure):
                    raise (Rejected if reply.blame == "request" else EngineFault)(reply.message)
                yield reply
        finally:
            del self.replies[request.key]
            self.engine.take(Cancel(request.key))

    def _deal(self, replies: Any) -> None:
        for reply in replies:
            if reply.key in self.replies:
                self.replies[reply.key].put_nowait(reply)


def card(name: str, predictor: Any) -> Card:
    (made,) = cards({name: predictor}, {name: Path()}, 4)
    return msgspec.structs.replace(made, created=0, positions=None)


def called(link: InProcess, *calls: tuple[str, dict[str, Any]], server: Server | None = None) -> list[Any]:
    """The answers to some bodies at their routes, sent together."""

    async def call() -> list[httpx.Response]:
        app = create_app(server or Server(link=link))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
            answers = await asyncio.gather(*(client.post(route, json=body) for route, body in calls))
            return list(answers)

    return asyncio.run(call())


def completed(link: InProcess, **body: Any) -> Any:
    (answer,) = called(link, ("/v1/completions", {"model": "m", "prompt": PROMPT, "temperature": 0} | body))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def refused(link: InProcess, route: str, **body: Any) -> str:
    (answer,) = called(link, (route, body))
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    return error if isinstance(error, str) else error["message"]


def read_tokens(predictor: LanguageModel, text: str) -> Tokens:
    return Tokens.pad([predictor.task.prompted(predictor.task.tokenizer.encode(text))])


def told(predictor: LanguageModel, text: str, logits: torch.Tensor) -> list[float]:
    """Log-probabilities of a text's tokens, where (L, V) logits say what was expected of each."""
    ids = predictor.task.tokenizer.encode(text)
    assert len(ids) == len(logits)
    return logits.log_softmax(-1)[torch.arange(len(ids)), ids].tolist()


def check_maps(maps: list[Any], seen: Any, rows: list[int], heads: list[int]) -> None:
    assert [each["address"] for each in maps] == seen.addresses
    for each in maps:
        own = seen.weights(each["address"], heads=heads, queries=rows)[0].numpy()
        assert (each["heads"], each["rows"]) == (heads, rows)
        np.testing.assert_allclose(np.array(each["weights"]), own, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "changes", "asked"),
    [
        ("gpt2", {}, Attention(rows="all")),
        ("gpt2", {}, None),
        ("llama", {"sliding_window": 6, "key_heads": 2}, Attention(rows="all")),
    ],
)
def test_a_typed_text_has_the_bits_that_it_has_when_nothing_was_read_before(
    name: str, changes: Any, asked: Attention | None, randomize: Any
) -> None:
    predictor = language_model(randomize, name, **changes)
    ids = read_tokens(predictor, PROMPT).ids[0].tolist()
    last = LastText()
    other = [*ids[:5], ids[3], *ids[6:]]
    for text in (ids, ids[:-1], ids, [*ids, ids[0]], other, ids[:4], ids[:2], ids):
        *pauses, typed = read_again(predictor, asked, text, len(text), 4, None, last)
        *every, alone = read_again(predictor, asked, text, len(text), 4, None)
        assert len(every) >= len(pauses)
        assert typed is not None
        assert alone is not None
        assert torch.equal(typed.hidden, alone.hidden)
        assert typed.seen == alone.seen
    *pauses, _ = read_again(predictor, asked, [*ids, ids[0]], len(ids) + 1, 4, None, last)
    assert not pauses  # only the last chunk was read


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_completion_carries_what_each_of_its_tokens_looked_at(precision: str, randomize: Any) -> None:
    predictor = language_model(randomize)
    if precision != "float32":
        predictor = predictor.quantised(precision)
    link = InProcess(m=predictor)
    plain = completed(link, max_tokens=9, logprobs=1)
    found = completed(link, max_tokens=9, logprobs=1, attention={"heads": [3, 1]})
    maps = found.pop("attention")["maps"]
    assert found == plain
    text = read_tokens(predictor, PROMPT + plain["text"][:8])
    with torch.no_grad(), regard.look(predictor.model) as seen:
        predictor.model.prefill(text, predictor.model.start(1))
    first = read_tokens(predictor, PROMPT).ids.shape[1] - 1
    check_maps(maps, seen, list(range(first, first + 9)), [3, 1])
    assert maps[0]["query_tokens"] == maps[0]["key_tokens"][first:] == [PROMPT[-1], *plain["text"][:8]]


def test_weights_come_as_numbers_bytes_pages_and_at_the_end_of_streams(randomize: Any) -> None:
    link = InProcess(m=language_model(randomize))
    asked = {"layers": [1], "rows": [-1, 0]}
    (numbers,) = completed(link, max_tokens=4, attention=asked)["attention"]["maps"]
    (packed,) = completed(link, max_tokens=4, attention=asked | {"encoding_format": "base64"})["attention"]["maps"]
    weights = np.frombuffer(base64.b64decode(packed["weights"]), "<f4").reshape(4, 2, -1)
    assert np.array_equal(np.array(numbers["weights"], dtype=np.float32), weights)
    assert weights[:, 1, 1:].max() == 0
    assert np.allclose(weights.sum(-1), 1, atol=1e-6)
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 4, "temperature": 0, "attention": asked}
    (streamed,) = called(link, ("/v1/completions", body | {"stream": True}))
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
    assert [each["choices"][0].get("attention") for each in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["choices"][0]["attention"]["maps"] == [numbers]


def test_a_page_is_kept_under_a_name_nobody_guesses(randomize: Any) -> None:
    link = InProcess(m=language_model(randomize))
    server = Server(link=link)  # type: ignore[arg-type]
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 4, "attention": {"page": True}}
    (answer,) = called(link, ("/v1/completions", body), server=server)
    name = answer.json()["choices"][0]["attention"]["page"].removeprefix("http://server/pages/")
    assert len(name) == 24
    pages = [called_page(server, each) for each in (name, name[:-1])]
    assert [page.status_code for page in pages] == [200, 404]
    assert pages[0].headers["content-type"].startswith("text/html")
    assert pages[0].headers["cache-control"] == "no-store"
    assert "Content-Security-Policy" in pages[0].text


def called_page(server: Server, name: str) -> httpx.Response:
    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.get(f"/pages/{name}")

    return asyncio.run(call())


def test_pages_are_forgotten_after_a_while_and_the_oldest_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pages = Pages(seconds=10, most=25)
    first, second = pages.add(b"a" * 10), pages.add(b"b" * 10)
    assert (pages.get(first), pages.get(second)) == (b"a" * 10, b"b" * 10)
    third = pages.add(b"c" * 10)
    assert (pages.get(first), pages.get(third)) == (None, b"c" * 10)
    now[0] = 10.1
    assert pages.get(third) is None


@pytest.mark.parametrize(("name", "changes"), [("gpt2", {}), ("llama", {"sliding_window": 6, "key_heads": 2})])
def test_reading_in_chunks_gives_the_weights_of_reading_at_once(name: str, changes: Any, randomize: Any) -> None:
    predictor = language_model(randomize, name, **changes)
    ids = read_tokens(predictor, PROMPT).ids[0].tolist()
    asked = Attention(rows="all")
    *pauses, whole = read_again(predictor, asked, ids, 3, len(ids), None)
    assert not pauses
    *pauses, parts = read_again(predictor, asked, ids, 3, 4, None)
    assert len(pauses) == (len(ids) - 1) // 4
    assert whole is not None
    assert parts is not None
    assert whole.seen is not None
    assert parts.seen is not None
    for one, other in zip(whole.seen.maps, parts.seen.maps, strict=True):
        np.testing.assert_allclose(np.frombuffer(one.weights, "<f4"), np.frombuffer(other.weights, "<f4"), atol=1e-6)
    with torch.no_grad(), regard.look(predictor.model) as seen:
        logits = predictor.model(Tokens.pad([ids]))
    torch.testing.assert_close(predictor.model.logits(parts.hidden), logits[0, -1], atol=1e-5, rtol=1e-5)
    for one in whole.seen.maps:
        found = np.frombuffer(one.weights, "<f4").reshape(4, len(ids), len(ids))
        np.testing.assert_allclose(found, seen.weights(one.address)[0].numpy(), atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_head_that_is_scaled_changes_this_text_as_it_does_in_python_and_no_other(
    precision: str, randomize: Any
) -> None:
    predictor = language_model(randomize)
    if precision != "float32":
        predictor = predictor.quantised(precision)
    link = InProcess(m=predictor)
    scale = {"kind": "scale", "address": "layers.1.attention", "heads": [0, 2], "factor": -1.5}
    body = {"model": "m", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 2}
    alone = [completed(link, **body), completed(link, **body, interventions=[scale])]
    (plain, changed, again) = called(
        link,
        ("/v1/completions", body),
        ("/v1/completions", body | {"interventions": [scale], "attention": {"layers": [2]}}),
        ("/v1/completions", body),
    )
    attention = changed.json()["choices"][0]["attention"]["maps"][0]["weights"]
    assert [each.json()["choices"][0] for each in (plain, again)] == [alone[0]] * 2
    assert {k: v for k, v in changed.json()["choices"][0].items() if k != "attention"} == alone[1]
    edit = ScaleHeads(address="layers.1.attention", heads=[0, 2], factor=-1.5)
    ids = read_tokens(predictor, PROMPT + alone[1]["text"][:11])
    first = read_tokens(predictor, PROMPT).ids.shape[1] - 1
    with torch.no_grad(), change(predictor.model, edit), regard.look(predictor.model) as seen:
        logits = predictor.model.read(ids, predictor.model.start(1))[0][0, first:]
    assert alone[0]["logprobs"] != alone[1]["logprobs"]
    chosen = told(predictor, alone[1]["text"], logits)
    assert alone[1]["logprobs"]["token_logprobs"] == pytest.approx(chosen, abs=0.05 if precision == "int8" else 1e-4)
    if precision == "float32":
        own = seen.weights("layers.2.attention", queries=slice(first, None))[0].numpy()
        np.testing.assert_allclose(np.array(attention), own, atol=1e-5)


@pytest.mark.parametrize("place", [2, -1])  # read with the prompt, and with the first step
def test_a_patch_puts_another_texts_vector_at_a_place(place: int, randomize: Any) -> None:
    predictor = language_model(randomize)
    link, other = InProcess(m=predictor), "the hat sat on a mouse"
    patch = {"kind": "patch", "address": "layers.1", "from": other, "positions": [place], "from_positions": [5]}
    found = completed(link, max_tokens=5, logprobs=1, interventions=[patch])
    with torch.no_grad(), regard.look(predictor.model, hidden=["layers.1"]) as seen:
        predictor.model.prefill(read_tokens(predictor, other), predictor.model.start(1))
    ids = read_tokens(predictor, PROMPT + found["text"][:4])
    count = read_tokens(predictor, PROMPT).ids.shape[1]
    edit = SetOutput(address="layers.1", to=seen.hidden("layers.1")[:, 5:6], positions=[place % count])
    with torch.no_grad(), change(predictor.model, edit):
        logits = predictor.model.read(ids, predictor.model.start(1))[0][0, count - 1 :]
    chosen = told(predictor, found["text"], logits)
    assert found["logprobs"]["token_logprobs"] == pytest.approx(chosen, abs=1e-4)
    assert found["logprobs"] != completed(link, max_tokens=5, logprobs=1)["logprobs"]
    ids = predictor.task.prompted(predictor.task.tokenizer.encode(other))
    assert found == completed(link, max_tokens=5, logprobs=1, interventions=[patch | {"from": ids}])


TASKS: dict[str, tuple[Callable[..., Any], Any]] = {
    "classifier": (classifier, "the cat sat"),
    "answerer": (answerer, {"question": "who sat ?", "context": "the cat sat on a mat in Paris"}),
    "translator": (translator, "abc def"),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_tasks_answer_comes_with_the_weights_it_was_made_with(name: str, randomize: Any) -> None:
    make, inputs = TASKS[name]
    predictor = make(randomize)
    link, body = InProcess(m=predictor), {"inputs": inputs}
    plain, found = called(link, ("/models/m", body), ("/models/m", body | {"attention": {}}))
    assert found.json()["answer"] == plain.json()
    maps = found.json()["attention"]["maps"]
    route = routes_of(predictor)[0]
    with regard.look(predictor) as seen:
        route.answer(predictor, msgspec.convert(body, route.request))
    view = seen.view()
    assert [(each["address"], each.get("example", 0)) for each in maps] == [(e.address, e.example) for e in view.maps]
    for each, own in zip(maps, view.maps, strict=True):
        assert (each["query_tokens"], each["key_tokens"]) == (list(own.query_tokens), list(own.key_tokens))
        assert np.array_equal(np.array(each["weights"], dtype=np.float32), own.weights)


def test_interventions_change_a_tasks_answer(randomize: Any) -> None:
    predictor = classifier(randomize)
    link, text = InProcess(m=predictor), "the cat sat on a mat"

    def scores(**more: Any) -> Any:
        (answer,) = called(link, ("/models/m", {"inputs": text} | more))
        assert answer.status_code == 200, answer.text
        return answer.json()[0]

    scaled = scores(interventions=[{"kind": "scale", "address": "layers.*.attention"}])
    with change(predictor, ScaleHeads(address="layers.*.attention")):
        values = dict(zip(predictor.task.classes, predictor.classify(text).probabilities.values(), strict=False))
    assert {each["label"]: each["score"] for each in scaled} == pytest.approx(values)
    assert scaled != scores()
    everything = {"kind": "patch", "address": "layers.1", "from": "who saw Ann Lee ?", "positions": [0]}
    (other,) = called(link, ("/models/m", {"inputs": "who saw Ann Lee ?"}))
    # The class is read off the first token's vector after the last layer.
    assert scores(interventions=[everything]) == other.json()[0]


def test_images_stand_on_the_page_of_a_captioner(randomize: Any) -> None:
    link = InProcess(m=captioner(randomize))
    inputs = base64.b64encode(png()).decode()
    (answer,) = called(link, ("/models/m", {"inputs": inputs, "attention": {"page": True}}))
    assert answer.status_code == 200, answer.text
    assert answer.json()["attention"]["page"].startswith("http://server/pages/")


PATCH = {"kind": "patch", "address": "layers.1", "from": "a cat", "positions": [1]}
REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"attention": {"layers": ["nothing"]}}, "attention.layers: no attention layer is called 'nothing'"),
    ({"attention": {"layers": [3]}}, "attention.layers: no attention layer is called 3"),
    ({"attention": {"heads": [4]}}, "attention.heads: layers.0.attention has heads 0 to 3, and 4 is none of them"),
    ({"attention": {"rows": [90]}}, "attention.rows: row 90 is outside 0 to"),
    ({"attention": {"head": [1]}}, "attention"),
    ({"attention": {"rows": "some"}}, "attention.rows"),
    ({"attention": {"heads": []}}, "attention.heads"),
    (
        {"interventions": [{"kind": "scale", "address": "layers.9.attention"}]},
        "interventions[0]: nothing in the model is called",
    ),
    ({"interventions": [{"kind": "scale", "address": "layers.1.attention", "heads": [7]}]}, "heads [7] are outside"),
    ({"interventions": [{"kind": "scale", "address": "layers.1.attention", "factor": 1e9}]}, "factor"),
    ({"interventions": [{"kind": "swap", "address": "layers.1"}]}, "kind"),
    ({"interventions": [PATCH | {"address": "layers.9"}]}, "interventions[0].address: no module is called"),
    (
        {"interventions": [PATCH | {"positions": [60], "from_positions": [1]}]},
        "interventions[0]: position 60 is outside",
    ),
    ({"interventions": [PATCH | {"from_positions": [60]}]}, "position 60 of the other text is outside"),
    ({"interventions": [PATCH | {"from_positions": [1, 2]}]}, "1 positions and 2 from_positions"),
    ({"interventions": [PATCH | {"from": 7}]}, "interventions[0].from: it is no text, and no list of token ids"),
    ({"interventions": [PATCH | {"from": "a" * 99}]}, "interventions[0].from: this model's maximum context length"),
    ({"interventions": [PATCH | {"from": "a" * 9999}]}, "interventions[0].from: this model's maximum context length"),
    ({"interventions": [PATCH | {"from": [3, 4, 999]}]}, "interventions[0].from: the model has tokens from 0"),
    ({"interventions": [{"kind": "scale", "address": "layers.1"}]}, "nothing in the model is called 'layers.1'"),
    ({"prompt": [[3], [4]], "attention": {}}, "attention: is returned for one prompt at a time"),
    ({"attention": {"layers": [0] * 999}}, "attention.layers"),
    ({"attention": {"heads": [2**70]}}, "attention.heads"),
    ({"interventions": [PATCH] * 65}, "interventions"),
]


@pytest.mark.parametrize(("body", "said"), REFUSALS)
def test_what_cannot_be_looked_at_or_changed_is_refused_by_name(body: Any, said: str, randomize: Any) -> None:
    link = InProcess(m=language_model(randomize))
    assert said in refused(link, "/v1/completions", **{"model": "m", "prompt": PROMPT, "max_tokens": 3, **body})
    assert not link.engine.busy
    assert completed(link, max_tokens=3)["finish_reason"]


def test_more_weights_than_an_answer_holds_are_refused_before_anything_is_written(
    randomize: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.serving.attention.MOST_NUMBERS", 900)
    link = InProcess(m=language_model(randomize))
    count = read_tokens(link.engine.predictors["m"], PROMPT).ids.shape[1]
    said = refused(link, "/v1/completions", model="m", prompt=PROMPT, max_tokens=20, attention={})
    assert said.startswith(f"attention: {3 * 4 * 20 * (count + 19):,} weights are asked for, and an answer holds 900")
    assert link.turns <= 1
    assert completed(link, max_tokens=20, attention={"page": True})["attention"]["page"]
    monkeypatch.setattr("regard.serving.attention.MOST_NUMBERS", 3 * 4 * 20 * (count + 19))
    assert completed(link, max_tokens=20, attention={})["attention"]["maps"]
    said = refused(link, "/v1/completions", model="m", prompt=PROMPT, max_tokens=20, attention={}, n=2)
    assert said.startswith("attention: ")


def test_attention_of_several_inputs_and_of_a_model_without_is_refused(randomize: Any) -> None:
    link = InProcess(m=classifier(randomize))
    assert refused(link, "/models/m", inputs=["a cat", "sat"], attention={}).startswith("inputs: attention and")
    assert "rows: 'written' is for language models" in refused(
        link, "/models/m", inputs="a", attention={"rows": "written"}
    )


def test_a_request_that_is_given_up_while_it_is_looked_at_leaves_nothing(randomize: Any) -> None:
    engine = Engine({"m": language_model(randomize)}, rows=2)
    engine.writing["m"].batch.chunk = 4
    scale = {"interventions": [{"kind": "scale", "address": "layers.1.attention"}]}
    for key, more in enumerate(({}, scale)):
        asked = {"type": "write", "key": key, "model": "m", "prompt": PROMPT, "maximum": 3, "attention": {}, **more}
        assert not engine.take(msgspec.convert(asked, Write))
    for _ in range(9):
        engine.turn()
    for key in (0, 1):
        engine.take(Cancel(key))
    assert not engine.busy
    assert not engine.turn()
