"""`text_generation` of the unchanged `InferenceClient`: each of its parameters followed, or refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import BadRequestError, GenerationError
from huggingface_hub.inference._common import _format_text_generation_stream_output
from tests.serving.conftest import Served
from tests.serving.test_tasks import ask, writer

import regard
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.serving.answers import ContinuationPiece, Continuations
from regard.serving.responses import Ending
from regard.serving.text_generation import error_event


@pytest.fixture(scope="module")
def loaded(writer_folder: Path) -> Any:
    return regard.load(writer_folder)


@pytest.fixture
def client(server: Served) -> InferenceClient:
    return InferenceClient(f"{server.url}/models/writer")


def posted(server: Served, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/models/writer", json=body, timeout=60)


def test_a_text_goes_on_as_the_model_generates(client, loaded):
    plain = loaded.generate("line nu", GenerationSettings(maximum_length=12))
    assert client.text_generation("line nu", max_new_tokens=12) == plain.text
    assert client.text_generation("line nu", max_new_tokens=12, return_full_text=True) == "line nu" + plain.text
    usual = loaded.generate("line nu", GenerationSettings(maximum_length=100))
    assert client.text_generation("line nu") == usual.text
    long = "line " * 28  # 100 more are more than the model has positions for
    most = loaded.generate(long, GenerationSettings(maximum_length=160))
    assert client.text_generation(long) == most.text


@pytest.mark.parametrize(
    ("asked", "settings"),
    [
        ({"do_sample": True, "seed": 5}, {"sample": True, "seed": 5}),
        ({"temperature": 1.4, "seed": 6}, {"sample": True, "seed": 6, "temperature": 1.4}),
        ({"top_k": 3, "seed": 7}, {"sample": True, "seed": 7, "top_k": 3}),
        ({"top_p": 0.8, "seed": 8}, {"sample": True, "seed": 8, "top_p": 0.8}),
        ({"repetition_penalty": 1.8}, {"repetition_penalty": 1.8}),
        ({"frequency_penalty": 1.5}, {"frequency_penalty": 1.5}),
        ({"do_sample": False, "seed": 9, "watermark": False}, {}),
    ],
)
def test_what_the_client_calls_a_setting_is_followed(client, loaded, asked, settings):
    written = loaded.generate("line", GenerationSettings(maximum_length=20, **settings))
    assert client.text_generation("line", max_new_tokens=20, **asked) == written.text
    plain = loaded.generate("line", GenerationSettings(maximum_length=20))
    assert settings == {} or written.text != plain.text


def test_details_tell_of_every_token(client, loaded):
    written = loaded.generate("line nu", GenerationSettings(maximum_length=9), top=2)
    found = client.text_generation(
        "line nu", max_new_tokens=9, details=True, top_n_tokens=2, decoder_input_details=True
    )
    assert found.generated_text == written.text
    assert found.details.finish_reason == ("eos_token" if written.finished else "length")
    assert found.details.generated_tokens == len(written.tokens) == 9
    assert found.details.seed is None
    assert tuple(each["id"] for each in found.details.tokens) == written.ids
    assert "".join(each["text"] for each in found.details.tokens) == written.text
    assert [each["logprob"] for each in found.details.tokens] == pytest.approx(written.log_probabilities, abs=1e-4)
    for place, top in zip(found.details.top_tokens, written.top, strict=True):
        assert [each["logprob"] for each in place] == pytest.approx([value for _, value in top], abs=1e-4)
    scored = loaded.score("line nu")
    assert "".join(each["text"] for each in found.details.prefill) == "line nu"
    logs = [each["logprob"] for each in found.details.prefill]
    assert logs == pytest.approx(list(scored.log_probabilities[:-1]), abs=1e-4)


def test_a_stream_is_the_same_text_and_ends_with_all_of_it(client):
    asked = {"max_new_tokens": 30, "temperature": 1.2, "seed": 3}
    whole = client.text_generation("line nu", **asked, details=True)
    assert "".join(client.text_generation("line nu", **asked, stream=True)) == whole.generated_text
    events = list(client.text_generation("line nu", **asked, stream=True, details=True, top_n_tokens=2))
    assert [each.token.id for each in events] == [each["id"] for each in whole.details.tokens]
    assert [each.index for each in events] == list(range(1, len(events) + 1))
    assert all(len(each.top_tokens) == 2 for each in events)
    assert {each.generated_text for each in events[:-1]} == {None}
    assert events[-1].generated_text == whole.generated_text
    assert events[-1].details.seed == 3
    assert events[-1].details.finish_reason == whole.details.finish_reason
    assert events[-1].details.input_length == 8  # the end token that stands before every text among them
    full = list(client.text_generation("line nu", **asked, stream=True, details=True, return_full_text=True))
    assert full[-1].generated_text == "line nu" + whole.generated_text


def test_a_text_ends_at_a_stop_by_itself_or_at_the_limit(client, loaded):
    plain = loaded.generate("line nu", GenerationSettings(maximum_length=20)).text
    stop = plain[5:7]
    found = client.text_generation("line nu", max_new_tokens=20, stop=[stop], details=True)
    assert found.generated_text == plain[: plain.index(stop)]
    assert found.details.finish_reason == "stop_sequence"
    assert (
        "".join(client.text_generation("line nu", max_new_tokens=20, stop=[stop], stream=True)) == found.generated_text
    )
    ends = [
        client.text_generation("line", max_new_tokens=140, do_sample=True, seed=seed, details=True).details
        for seed in range(6)
    ]
    assert {each.finish_reason for each in ends} <= {"eos_token", "length"}
    for each in ends:
        assert each.tokens[-1]["special"] == (each.finish_reason == "eos_token")
    ended = next(place for place, each in enumerate(ends) if each.finish_reason == "eos_token")
    asked = {"max_new_tokens": 140, "do_sample": True, "seed": ended, "stream": True}
    last = list(client.text_generation("line", **asked, details=True))[-1]
    assert (last.token.special, last.token.text) == (True, "</s>")
    assert list(client.text_generation("line", **asked))[-1] == ""  # which is no part of the text


def test_the_best_of_several_and_the_others(client, loaded):
    found = client.text_generation("li", max_new_tokens=8, temperature=2.0, seed=4, best_of=5, details=True)
    settings = GenerationSettings(maximum_length=8, sample=True, temperature=2.0, seed=4, n_best=5)
    drawn = loaded.generate("li", settings)
    others = [each["generated_text"] for each in found.details.best_of_sequences]
    assert sorted([found.generated_text, *others]) == sorted([drawn.text, *drawn.alternatives])

    def mean(tokens: Any) -> float:
        return sum(each["logprob"] for each in tokens) / len(tokens)

    means = [mean(found.details.tokens), *(mean(each["tokens"]) for each in found.details.best_of_sequences)]
    assert means == sorted(means, reverse=True)


def test_of_a_prompt_the_end_is_read_where_it_is_truncated(client):
    whole = client.text_generation(
        "text line nu", max_new_tokens=9, truncate=7, details=True, decoder_input_details=True
    )
    assert "".join(each["text"] for each in whole.details.prefill) == "line nu"
    assert whole.generated_text == client.text_generation("line nu", max_new_tokens=9)
    assert whole.generated_text == client.text_generation("line nu", max_new_tokens=9, truncate=100)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"adapter_id": "x"}, "parameters.adapter_id: is 'x', and is not supported here"),
        ({"grammar": {"type": "regex", "value": "a"}}, "parameters.grammar: is .*, and is not supported here"),
        ({"typical_p": 0.5}, "parameters.typical_p: is 0.5, and is not supported here"),
        ({"watermark": True}, "parameters.watermark: is True, and is not supported here"),
        ({"do_sample": False, "top_k": 3}, "parameters.top_k: changes nothing without do_sample"),
        ({"temperature": 0.0}, "parameters.temperature: expected float >= 1e-05"),
        ({"max_new_tokens": 0}, "parameters.max_new_tokens: expected int >= 1"),
        ({"max_new_tokens": 200}, "this model's maximum context length is 160 tokens"),
        ({"best_of": 17, "do_sample": True}, r"parameters.best_of: is 17; give 1 to 16 \(--rows\)"),
        ({"best_of": 2}, "parameters.best_of: is 2; all are the same without do_sample"),
        ({"best_of": 2, "do_sample": True, "stream": True}, "parameters.best_of: is 2; the best is only known"),
        (
            {"details": True, "decoder_input_details": True, "stream": True},
            "parameters.decoder_input_details: is True; not in a stream",
        ),
    ],
)
def test_what_is_not_followed_is_refused_by_its_name(client, asked, message):
    with pytest.raises(BadRequestError, match=message):
        client.text_generation("line", **asked)


def test_attention_and_interventions_stand_beside_it(server):
    plain = posted(server, inputs="line nu", parameters={"max_new_tokens": 4}).json()
    found = posted(
        server, inputs="line nu", parameters={"max_new_tokens": 4}, attention={"layers": [1], "heads": [0]}
    ).json()
    assert found["answer"] == plain
    assert len(found["attention"]["maps"][0]["rows"]) == 4
    scale = {"kind": "scale", "address": "layers.*.attention", "factor": 0}
    scored = {"max_new_tokens": 4, "details": True}
    changed, same = (
        posted(server, inputs="line nu", parameters=scored, interventions=each).json() for each in ([scale], [])
    )
    assert changed[0]["details"]["tokens"][0]["logprob"] != same[0]["details"]["tokens"][0]["logprob"]
    refused = posted(server, inputs="line", stream=True, attention={})
    assert (refused.status_code, refused.json()["error"].split(":")[0]) == (400, "attention")


def test_answers_are_what_is_described(server):
    asked = {"details": True, "top_n_tokens": 1, "best_of": 2, "do_sample": True, "max_new_tokens": 3}
    fits(posted(server, inputs="line", parameters=asked).json(), Continuations)
    fits(posted(server, inputs="line").json(), Continuations)
    lines = posted(server, inputs="line", parameters={"top_n_tokens": 1}, stream=True).text.splitlines()
    events = [line.removeprefix("data: ") for line in lines if line]
    assert events.pop() == "[DONE]"
    for event in events:
        fits(msgspec.json.decode(event), ContinuationPiece)


def fits(value: Any, shape: Any) -> None:
    assert msgspec.to_builtins(msgspec.convert(value, shape)) == value


def test_a_stream_that_ends_early_says_so_to_the_client():
    lost = Ending(503, "the engine's process ended", "engine_lost", "error")
    line = "data: " + msgspec.json.encode(error_event(lost)).decode()
    with pytest.raises(GenerationError, match="the engine's process ended"):
        _format_text_generation_stream_output(line, details=False)


def test_what_is_written_is_counted(server, client):
    def counted() -> float:
        text = httpx.get(f"{server.url}/metrics").text
        return float(text.partition('regard:generation_tokens_total{model_name="writer"} ')[2].partition("\n")[0] or 0)

    before = counted()
    client.text_generation("line", max_new_tokens=7)
    list(client.text_generation("line", max_new_tokens=5, stream=True))
    assert counted() == before + 12


Make = Callable[..., Any]


def test_a_text_to_text_model_is_asked_so_too(randomize: Make):
    model = writer(randomize)
    plain = model.generate("the cat sat on", GenerationSettings(maximum_length=5))
    body = {"inputs": "the cat sat on", "parameters": {"max_new_tokens": 5, "details": True}}
    (found,) = ask(model, body)
    assert found["generated_text"] == plain.text
    assert [each["logprob"] for each in found["details"]["tokens"]] == pytest.approx(plain.log_probabilities)
    tokenizer = model.task.tokenizer
    assert tuple(tokenizer.tokens([each["id"] for each in found["details"]["tokens"]])) == plain.tokens
    assert found["details"]["finish_reason"] == ("eos_token" if plain.finished else "length")
    drawn = GenerationSettings(maximum_length=5, sample=True, seed=3, top_k=9, frequency_penalty=0.5)
    asked = {"max_new_tokens": 5, "top_k": 9, "seed": 3, "frequency_penalty": 0.5}
    assert (
        ask(model, {"inputs": "the cat", "parameters": asked})[0]["generated_text"]
        == model.generate("the cat", drawn).text
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"parameters": {"truncate": 3}}, "parameters.truncate: is 3, and texts are not truncated"),
        ({"parameters": {"best_of": 2}}, "parameters.best_of: is 2, and one text is generated"),
        ({"parameters": {"return_full_text": True}}, "parameters.return_full_text: is True, and the output does not"),
        ({"parameters": {"top_n_tokens": 2}}, "parameters.top_n_tokens: is 2"),
        ({"parameters": {"decoder_input_details": True}}, "parameters.decoder_input_details: is True"),
        ({"parameters": {"max_new_tokens": 5000}}, "parameters.max_new_tokens: is 5000, and at most 1,024"),
        ({"parameters": {"details": False}, "stream": True}, "stream: is true, and the model returns whole texts"),
    ],
)
def test_what_a_text_to_text_model_does_not_follow(randomize: Make, asked: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        ask(writer(randomize), {"inputs": "cat", **asked})
