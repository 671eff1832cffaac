"""The studio's routes: its page and files, and the attention and answers it asks for. The page itself: `tests/browser`."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from tests.serving.test_attention import PROMPT, InProcess, language_model, read_tokens
from tests.serving.test_tasks import (
    answerer,
    captioner,
    classifier,
    masked,
    png,
    sentence_encoder,
    tagger,
    translator,
    viewer,
)

import regard
from regard.attention import BatchInvariant
from regard.data.images import decoded_image
from regard.inspection import ScaleHeads, SetOutput, SetWeights, ablate, attention_addresses, change
from regard.inspection.analysis import LogitLens
from regard.layers import Tokens
from regard.serving.app import create_app
from regard.serving.first_texts import first_texts
from regard.serving.server import Server
from regard.serving.studio import CALLS
from regard.tasks.images import frames_of


def asked(link: InProcess, method: str, path: str, *, keys: tuple[str, ...] = (), **given: Any) -> httpx.Response:
    async def call() -> httpx.Response:
        app = create_app(Server(link=link, more=CALLS, api_keys=keys))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
            return await client.request(method, path, **given)

    return asyncio.run(call())


def looked(link: InProcess, path: str = "/studio/look", **body: Any) -> tuple[Any, list[np.ndarray]]:
    """What the page reads of an answer: the object, and the weights of each map."""
    answer = asked(link, "POST", path, json={"model": "m", **body})
    assert answer.status_code == 200, answer.text
    (length,) = struct.unpack("<I", answer.content[:4])
    head, rest = json.loads(answer.content[4 : 4 + length]), answer.content[4 + length :]
    found = []
    for each in head["maps"]:
        queries, keys = (len(head["sides"][each[side]]["tokens"]) for side in ("query", "key"))
        count = each["heads"] * each["size"] * queries * keys
        planes = np.frombuffer(rest[:count], np.uint8).reshape(each["heads"], each["size"], queries, keys)
        numbers = sum(planes[:, place].astype(np.int64) << 8 * place for place in range(each["size"])) - each["zero"]
        size = each["knee"] * np.expm1(each["step"] * np.maximum(np.abs(numbers) - 1, 0))
        found.append(np.sign(numbers) * size)
        rest = rest[count:]
    assert not rest
    return head, found


def test_what_is_shown_of_a_language_model_is_what_look_sees(randomize: Any) -> None:
    predictor = language_model(randomize)
    head, weights = looked(InProcess(m=predictor), text=PROMPT)
    with torch.no_grad(), regard.look(predictor.model) as seen:
        logits = predictor.model.read(read_tokens(predictor, PROMPT), predictor.model.start(1))[0][0, -1]
    assert [each["address"] for each in head["maps"]] == seen.addresses
    for each, own in zip(weights, (seen.weights(address)[0] for address in seen.addresses), strict=True):
        np.testing.assert_allclose(each, own.numpy(), rtol=2e-3, atol=1e-6)
    top = logits.log_softmax(-1).topk(10).values.tolist()
    assert [bar["log_probability"] for bar in head["answer"]["bars"]] == pytest.approx(top, abs=1e-5)
    assert head["plain"] is None


def test_an_answer_under_changes_stands_beside_the_one_without(randomize: Any) -> None:
    link = InProcess(m=language_model(randomize))
    scale = {"kind": "scale", "address": "layers.0.attention", "heads": [1], "factor": 0}
    plain, _ = looked(link, text=PROMPT)
    head, _ = looked(link, text=PROMPT, interventions=[scale])
    assert head["plain"] == plain["answer"]
    assert head["answer"] != head["plain"]


def test_the_answer_without_changes_asks_for_no_attention(randomize: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    link, asked_for = InProcess(m=classifier(randomize)), []
    ask = link.ask

    async def watched(model: str, what: str, given: Any, **more: Any) -> Any:
        asked_for.append(given["request"].get("attention"))
        return await ask(model, what, given, **more)

    monkeypatch.setattr(link, "ask", watched)
    scale = {"kind": "scale", "address": "layers.0.attention", "heads": [1], "factor": 0}
    looked(link, text="the cat sat", interventions=[scale])
    assert [each is not None for each in asked_for] == [True, False]


def test_a_model_begins_with_a_text_that_it_is_made_for(randomize: Any, tmp_path: Path) -> None:
    def first(make: Any, **recipe: Any) -> list[str]:
        predictor = make(randomize)
        predictor.recipe = recipe
        return first_texts(predictor, tmp_path)

    assert first(translator, data={"dates": {"languages": ["de", "en"]}}) == ["Dienstag, 9. Mai 2017"]
    assert "[MASK]" in first(masked)[0]
    assert len(first(answerer)) == 2
    assert first(captioner) == []
    assert first(language_model) == ["The animal did not cross the street because it was too tired."]
    (tmp_path / "README.md").write_text(
        "---\nwidget:\n- text: Wo wohnt Ada?\n  context: Ada wohnt in Oslo.\n---\n# A model\n"
    )
    assert first(answerer) == ["Wo wohnt Ada?", "Ada wohnt in Oslo."]
    (tmp_path / "README.md").write_text("---\nwidget: [}\n---\n")
    assert len(first(tagger)) == 1


def test_a_chat_model_begins_with_a_turn_of_its_template(writer_folder: Path) -> None:
    assert first_texts(regard.load(writer_folder), writer_folder) == ["u Who are you? line"]


@pytest.mark.parametrize(
    ("make", "body", "shown"),
    [
        (classifier, {"text": "the cat sat"}, "bars"),
        (classifier, {"text": "the cat sat", "second": "a mat"}, "bars"),
        (tagger, {"text": "Ann Lee saw Paris"}, "what"),
        (answerer, {"text": "who sat ?", "second": "the cat sat on a mat in Paris"}, "bars"),
        (masked, {"text": "the [MASK] sat"}, "bars"),
        (translator, {"text": "abc def"}, "text"),
        (sentence_encoder, {"text": "the cat sat"}, "what"),
    ],
)
def test_models_of_texts_are_shown_with_their_answers(make: Any, body: Any, shown: str, randomize: Any) -> None:
    head, weights = looked(InProcess(m=make(randomize)), **body)
    assert head["answer"][shown]
    assert weights[0].max() > 0


def test_what_the_page_cannot_show_is_refused(randomize: Any) -> None:
    def said(link: InProcess, **body: Any) -> str:
        answer = asked(link, "POST", "/studio/look", json={"model": "m", **body})
        assert answer.status_code == 400
        return answer.json()["error"]["message"]

    assert "reads an image" in said(InProcess(m=captioner(randomize)), text="a")
    assert said(InProcess(m=answerer(randomize)), text="who ?").startswith("second: is empty")
    assert "reads one text" in said(InProcess(m=masked(randomize)), text="a [MASK]", second="b")
    assert said(InProcess(m=masked(randomize)), text=" ").startswith("text: is empty")


def test_the_page_and_its_files_need_no_key_and_what_it_asks_does(randomize: Any) -> None:
    link = InProcess(m=classifier(randomize))
    page = asked(link, "GET", "/studio", keys=("secret",))
    assert page.status_code == 200
    assert "default-src &#39;none&#39;" in page.text
    module = asked(link, "GET", "/static/studio/studio.js", keys=("secret",))
    assert module.headers["content-type"].startswith("text/javascript")
    body = {"model": "m", "text": "the cat"}
    assert asked(link, "POST", "/studio/look", keys=("secret",), json=body).status_code == 401
    key = {"authorization": "Bearer secret"}
    assert asked(link, "POST", "/studio/look", keys=("secret",), json=body, headers=key).status_code == 200


@pytest.mark.parametrize(
    "path", ["../templates/shell.html", "%2e%2e/pages.py", "/etc/passwd", "pages", "viewer/types.d.ts"]
)
def test_nothing_but_modules_and_style_sheets_is_a_file_of_the_page(path: str, randomize: Any) -> None:
    assert asked(InProcess(m=classifier(randomize)), "GET", f"/static/{path}").status_code == 404


def test_the_command_prints_a_link_that_works(writer_folder: Any) -> None:
    command = [
        sys.executable,
        "-m",
        "regard",
        "studio",
        f"w={writer_folder}",
        "--no-browser",
        "--threads",
        "1",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            printed = "".join(iter(running.stdout.readline, "}\n")) + "}"
            url, _, key = json.loads(printed)["url"].partition("#token=")
            assert httpx.get(url).status_code == 200
            look = f"{url}/look"
            body = {"model": "w", "text": "line number"}
            assert httpx.post(look, json=body).status_code == 401
            assert httpx.post(look, json=body, headers={"authorization": f"Bearer {key}"}).status_code == 200
        finally:
            running.terminate()


def test_what_is_written_is_told_step_by_step_with_the_map_of_all_of_it(randomize: Any) -> None:
    predictor = language_model(randomize)
    link = InProcess(m=predictor)
    head, weights = looked(link, "/studio/write", text=PROMPT, tokens=6)
    steps, prompt = head["steps"], head["prompt"]
    ids = predictor.task.prompted(predictor.task.tokenizer.encode(PROMPT))
    assert prompt == len(ids)
    assert 1 <= len(steps) <= 6
    whole = [*ids, *(step["id"] for step in steps[:-1])]
    with torch.no_grad(), regard.look(predictor.model) as seen:
        logits = predictor.model.read(Tokens.pad([whole]), predictor.model.start(1))[0][0, prompt - 1 :]
    for each, own in zip(weights, (seen.weights(address)[0] for address in seen.addresses), strict=True):
        np.testing.assert_allclose(each, own.numpy(), rtol=2e-3, atol=1e-6)
    for step, logs in zip(steps, logits.log_softmax(-1), strict=True):
        assert step["log_probability"] == pytest.approx(float(logs[step["id"]]), abs=1e-5)
        assert [each["id"] for each in step["top"]] == logs.topk(10).indices.tolist()
        assert step["id"] in [
            each["id"] for each in step["top"][:2]
        ]  # nothing is drawn; the first may be a padding token


def test_another_token_is_taken_and_draws_follow_their_seed(randomize: Any) -> None:
    link = InProcess(m=language_model(randomize))
    plain, _ = looked(link, "/studio/write", text=PROMPT, tokens=4)
    other = plain["steps"][0]["top"][3]["id"]
    head, _ = looked(link, "/studio/write", text=PROMPT, written=[other], tokens=3)
    assert head["prompt"] == plain["prompt"]
    assert len(head["sides"][0]["tokens"]) == head["prompt"] + len(head["steps"])
    drawn = [
        looked(link, "/studio/write", text=PROMPT, tokens=8, temperature=2.0, top_k=9, top_p=0.95, seed=seed)[0][
            "steps"
        ]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    refusal = asked(link, "POST", "/studio/write", json={"model": "m", "text": PROMPT, "top_k": 3})
    assert "temperature is 0" in refusal.json()["error"]["message"]
    refusal = asked(InProcess(m=classifier(randomize)), "POST", "/studio/write", json={"model": "m", "text": PROMPT})
    assert "generates no text" in refusal.json()["error"]["message"]


@pytest.mark.parametrize("changed", [False, True])
def test_the_lens_says_what_each_layer_would_say_under_the_changes_too(changed: bool, randomize: Any) -> None:
    predictor = language_model(randomize)
    link, tokenizer = InProcess(m=predictor), predictor.task.tokenizer
    scale = {"kind": "scale", "address": "layers.0.attention", "heads": [1], "factor": 0}
    more = {"interventions": [scale]} if changed else {}
    written = tokenizer.encode(" on")
    found = asked(link, "POST", "/studio/lens", json={"model": "m", "text": PROMPT, "written": written, **more}).json()
    ids = [*predictor.task.prompted(tokenizer.encode(PROMPT)), *written]
    edits = [ScaleHeads(address="layers.0.attention", heads=[1])] if changed else []
    with change(predictor.model, *edits):
        own = LogitLens.of_run(predictor.model, lambda: predictor.model(Tokens.pad([ids])), top=3)
    assert found["addresses"] == list(own.addresses)
    assert len(found["places"]) == len(written) + 1
    first = len(ids) - len(written) - 1
    for place, layers in enumerate(found["places"], start=first):
        for n, layer in enumerate(layers):
            shares = [each["probability"] for each in layer["top"]]
            assert shares == pytest.approx(own.probabilities[n, place].tolist(), rel=1e-5)
            assert layer["rank"] == own.rank[n, place]


HEAD = {"kind": "scale", "address": "layers.0.attention", "heads": [1], "factor": 0}
SWITCHED = {"kind": "scale", "address": "decoder.attention", "factor": 0}


def effects(link: InProcess, **body: Any) -> Any:
    answer = asked(link, "POST", "/studio/effects", json={"model": "m", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("changed", [False, True])
def test_heads_switched_off_one_by_one_are_those_of_ablate(changed: bool, randomize: Any) -> None:
    predictor = language_model(randomize)
    address = "layers.1.attention"
    found = effects(
        InProcess(m=predictor), text=PROMPT, address=address, **({"interventions": [HEAD]} if changed else {})
    )

    def logs() -> torch.Tensor:
        read = predictor.model.read(read_tokens(predictor, PROMPT), predictor.model.start(1))
        return read[0][0, -1].log_softmax(-1)

    edits = [ScaleHeads(address="layers.0.attention", heads=[1])] if changed else []
    with torch.no_grad(), change(predictor.model, *edits):
        best = int(logs().argmax())
        own = ablate(predictor, lambda: logs()[best].item(), [address])
    assert found["baseline"] == own.baseline
    rows = [(row["address"], row["head"], row["score"], row["effect"]) for row in found["rows"]]
    assert rows == [(row.address, row.part, row.score, row.effect) for row in own.rows]


def test_the_head_of_a_captioner_is_ranked_by_the_caption_that_it_wrote(randomize: Any) -> None:
    predictor, image = captioner(randomize), np.asarray(decoded_image(png(), "a.png", colour=True))
    found = effects(InProcess(m=predictor), image=base64.b64encode(png()).decode(), address="attention")
    caption = predictor.caption(image)
    assert found["about"] == f"log p({caption.text})"
    assert found["baseline"] == pytest.approx(caption.log_probability, abs=1e-5)
    batch = predictor.task.batch(
        [frames_of(image, predictor.task.size)], [predictor.task.tokenizer.encode(caption.text)]
    )
    with torch.no_grad(), change(predictor.model, ScaleHeads(address="attention", factor=0)):
        logs = predictor.model(batch.images, batch.target).logits[0].log_softmax(-1)
    own = logs.gather(-1, batch.labels[0][:, None])[: len(caption.tokens)].sum().item()
    assert [row["score"] for row in found["rows"]] == pytest.approx([own], abs=1e-5)
    assert abs(found["rows"][0]["effect"]) > 1e-3


def test_a_translator_of_several_languages_is_asked_for_one(randomize: Any) -> None:
    predictor = translator(randomize, ("german", "french"))
    link = InProcess(m=predictor)
    listed = asked(link, "GET", "/v1/models").json()["data"][0]
    assert listed["languages"] == ["german", "french"]
    written = {}
    for language in listed["languages"]:
        head, _ = looked(link, text="abc", language=language, interventions=[SWITCHED])
        written[language] = head["plain"]["text"]
        assert written[language] == predictor.translate("abc", to=language).text
    assert len(set(written.values())) == 2
    scores = {
        language: effects(link, text="abc", language=language, address="decoder.attention")["baseline"]
        for language in written
    }
    assert scores["french"] == pytest.approx(predictor.translate("abc", to="french").log_probability, abs=1e-5)
    assert scores["german"] != scores["french"]
    tried = asked(link, "POST", "/studio/beam", json={"model": "m", "text": "abc", "language": "french"}).json()
    assert (
        tried["hypotheses"][0]["text"]
        == predictor.translate("abc", replace(predictor.task.generation, beam=4), to="french").text
    )
    for body, said in (
        ({}, "language: is missing; give one of german, french"),
        ({"language": "de"}, "language: the model does not translate into 'de'; give one of german, french"),
    ):
        answer = asked(link, "POST", "/studio/look", json={"model": "m", "text": "abc", **body})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == said
    for make in (translator, classifier):
        answer = asked(
            InProcess(m=make(randomize)), "POST", "/studio/look", json={"model": "m", "text": "abc", "language": "de"}
        )
        assert "has no choice of languages; leave it out" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("make", "body"),
    [
        (language_model, {"text": PROMPT}),
        (masked, {"text": "the [MASK] sat"}),
        (viewer, {"image": base64.b64encode(png()).decode()}),
    ],
)
def test_as_many_candidates_are_told_as_are_asked_for(make: Any, body: Any, randomize: Any) -> None:
    link = InProcess(m=make(randomize))
    few, _ = looked(link, **body, top=3)
    many, _ = looked(link, **body, top=7)
    assert (len(few["answer"]["bars"]), len(many["answer"]["bars"])) == (3, 7)
    assert few["answer"]["bars"] == many["answer"]["bars"][:3]
    answer = asked(link, "POST", "/studio/look", json={"model": "m", **body, "top": 101})
    assert "top" in answer.json()["error"]["message"]


def test_heads_are_ranked_under_a_patch_of_a_task_too(randomize: Any) -> None:
    patch = {"kind": "patch", "address": "layers.0", "from": "a mat in Paris", "positions": [1]}
    link, address = InProcess(m=classifier(randomize)), "layers.0.attention"
    plain = effects(link, text="the cat sat", address=address)
    patched = effects(link, text="the cat sat", address=address, interventions=[patch])
    assert patched["baseline"] != plain["baseline"]


@pytest.mark.parametrize(
    ("make", "body", "about"),
    [
        (classifier, {"text": "the cat sat"}, "log p("),
        (classifier, {"text": "the cat sat", "second": "a mat"}, "log p("),
        (tagger, {"text": "Ann Lee saw Paris"}, "log p("),
        (answerer, {"text": "who sat ?", "second": "the cat sat on a mat in Paris"}, "log p("),
        (masked, {"text": "the [MASK] sat"}, "log p("),
        (translator, {"text": "abc def"}, "log p("),
        (sentence_encoder, {"text": "the cat sat"}, "cosine"),
        (viewer, {"image": base64.b64encode(png()).decode()}, "log p("),
    ],
)
def test_every_answer_with_a_score_tells_what_its_heads_do(make: Any, body: Any, about: str, randomize: Any) -> None:
    predictor = make(randomize)
    (address, *_) = attention_addresses(predictor.model)
    found = effects(InProcess(m=predictor), address=address, **body)
    assert found["about"].startswith(about)
    assert all(row["effect"] == row["score"] - found["baseline"] for row in found["rows"])
    assert any(row["effect"] for row in found["rows"])


def test_an_image_is_looked_at_and_what_reads_none_takes_none(randomize: Any) -> None:
    image = base64.b64encode(png()).decode()
    head, weights = looked(InProcess(m=viewer(randomize)), image=image)
    assert len(head["answer"]["bars"]) == 7  # all classes
    assert head["images"][0]
    assert weights[0].max() > 0
    head, _ = looked(InProcess(m=captioner(randomize)), image=image)
    assert head["answer"]["text"]
    for make, body in (
        (classifier, {"image": image}),
        (viewer, {"image": image, "text": "a"}),
        (viewer, {"text": "a"}),
    ):
        answer = asked(InProcess(m=make(randomize)), "POST", "/studio/look", json={"model": "m", **body})
        assert answer.status_code == 400
        assert "image" in answer.json()["error"]["message"]


def test_a_patch_is_that_of_change(randomize: Any) -> None:
    predictor = language_model(randomize)
    other = "the cat sat on a mat"
    patch = {"kind": "patch", "address": "layers.1", "from": other, "positions": [4], "from_positions": [6]}
    head, _ = looked(InProcess(m=predictor), text=PROMPT, interventions=[patch])
    start, model = predictor.model.start, predictor.model
    with torch.no_grad(), BatchInvariant():
        with regard.look(model, hidden=["layers.1"]) as seen:
            model.prefill(read_tokens(predictor, other), start(1))
        theirs = seen.hidden("layers.1")

        def patched(output: torch.Tensor) -> torch.Tensor:
            changed = output.clone()
            changed[:, 4] = theirs[:, 6]
            return changed

        with change(model, SetOutput(address="layers.1", to=patched)):
            logits = model.read(read_tokens(predictor, PROMPT), start(1))[0][0, -1]
    top = logits.log_softmax(-1).topk(10)
    assert [bar["log_probability"] for bar in head["answer"]["bars"]] == pytest.approx(top.values.tolist(), abs=1e-6)
    assert head["plain"] != head["answer"]


def test_what_a_beam_tried_is_told_with_its_hypotheses(randomize: Any) -> None:
    predictor = translator(randomize)
    body = {"model": "m", "text": "abc def", "beam": 3}
    found = asked(InProcess(m=predictor), "POST", "/studio/beam", json=body).json()
    own = predictor.translate("abc def", replace(predictor.task.generation, beam=3))
    assert found["hypotheses"][0]["text"] == own.text
    assert found["hypotheses"][0]["score"] == own.score
    assert {each["fate"] for each in found["tried"]} == {"kept", "ended", "dropped"}
    link, image = InProcess(m=captioner(randomize)), base64.b64encode(png()).decode()
    assert asked(link, "POST", "/studio/beam", json={"model": "m", "image": image}).json()["tried"]
    refusal = asked(InProcess(m=classifier(randomize)), "POST", "/studio/beam", json=body)
    assert "no beam" in refusal.json()["error"]["message"]


@pytest.mark.parametrize("make", [language_model, classifier])
def test_weights_set_by_hand_are_those_of_change(make: Any, randomize: Any) -> None:
    predictor, address, row = make(randomize), "layers.0.attention", 3
    text = PROMPT if make is language_model else "the cat sat on a mat"
    plain, _ = looked(InProcess(m=predictor), text=text)
    count = row + 1 if make is language_model else len(plain["sides"][0]["tokens"])
    given = [1.0] + [0.0] * (count - 1)
    edit = {"kind": "weights", "address": address, "head": 1, "row": row, "weights": given}
    head, _ = looked(InProcess(m=predictor), text=text, interventions=[edit])

    def set_row(weights: torch.Tensor) -> torch.Tensor:
        changed = weights.clone()
        changed[:, 1, row] = 0
        changed[:, 1, row, 0] = 1
        return changed

    with torch.no_grad(), change(predictor.model, SetWeights(address=address, to=set_row, heads=[1])):
        if make is language_model:
            logits = predictor.model.read(read_tokens(predictor, text), predictor.model.start(1))[0][0, -1]
            own = logits.log_softmax(-1).topk(10).values.tolist()
        else:
            own = sorted(predictor.classify(text).probabilities.values(), reverse=True)
    said = [bar.get("log_probability", bar.get("probability")) for bar in head["answer"]["bars"]]
    assert said == pytest.approx(own, abs=1e-5)
    assert head["answer"] != head["plain"]
    refusal = {**edit, "weights": [1.0, 0.0]}
    answer = asked(
        InProcess(m=predictor), "POST", "/studio/look", json={"model": "m", "text": text, "interventions": [refusal]}
    )
    assert f"attends to {count} keys" in answer.json()["error"]["message"]
