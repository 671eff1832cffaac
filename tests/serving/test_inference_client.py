"""`huggingface_hub.InferenceClient` unchanged, over HTTP, against one server with a model of every task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import BadRequestError, HfHubHTTPError
from tests.serving.conftest import Served
from tests.serving.test_tasks import MADE, TEXT, classifier, png, translator, writer

import regard
from regard.serving.tasks import ROUTES

OTHER = {
    "languages": lambda randomize: translator(randomize, languages=("de", "to")),
    "nli": lambda randomize: classifier(randomize, classes=("contradiction", "neutral", "entailment")),
    "summarizer": lambda randomize: writer(randomize, {"": "summarize: "}),
}
"""Models that are served otherwise than the first of their task."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each."""
    import torch

    generator = torch.Generator().manual_seed(4)

    def randomize(module: Any, scale: float = 1.0) -> Any:
        with torch.no_grad():
            for parameter in module.parameters():
                fan = parameter.shape[-1] if parameter.dim() > 1 else 4
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator) / fan**0.5)
        return module

    made = {}
    for name, make in (MADE | OTHER).items():
        made[name] = tmp_path_factory.mktemp("models") / name
        make(randomize).save(made[name])
    return made


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Served], folders: dict[str, Path]) -> Served:
    return start_server(*(f"{name}={folder}" for name, folder in folders.items()))


@pytest.fixture
def client(server: Served) -> Callable[[str], InferenceClient]:
    return lambda name: InferenceClient(f"{server.url}/models/{name}")


@pytest.fixture(scope="module")
def expected(folders: dict[str, Path]) -> Callable[..., Any]:
    """What the same folder answers in this process."""
    import msgspec

    def answer(name: str, route: str, **asked: Any) -> Any:
        chosen = ROUTES[route]
        return chosen.answer(regard.load(folders[name]), msgspec.convert(asked, chosen.request))

    return answer


def told(found: Any) -> Any:
    """Rows as the server tells them; what the client's classes add is null."""
    rows = found if isinstance(found, list) else [found]
    return [{key: value for key, value in dict(row).items() if value is not None} for row in rows]


NUMBER = {"rel": 1e-4, "abs": 1e-6}


def check(found: Any, wanted: Any) -> None:
    for row, right in zip(told(found), wanted, strict=True):
        assert row.pop("score", 0.0) == pytest.approx(right.pop("score", 0.0), **NUMBER)
        assert row == right


@pytest.mark.parametrize(
    "name", ["classification", "multi_label_classification", "regression", "multi_output_regression"]
)
def test_text_classification(client, expected, name):
    check(client(name).text_classification(TEXT), expected(name, "text-classification", inputs=TEXT)[0])
    if name == "classification":
        assert len(client(name).text_classification(TEXT, top_k=2, function_to_apply="softmax")) == 2


@pytest.mark.parametrize("name", ["nli", "language_modelling"])
def test_zero_shot_classification(client, expected, name):
    labels, template = ["cat", "mat"], "a {} sat"
    parameters = {"candidate_labels": labels, "hypothesis_template": template}
    wanted = expected(name, "zero-shot-classification", inputs="Ann saw it", parameters=parameters)
    check(client(name).zero_shot_classification("Ann saw it", labels, hypothesis_template=template), wanted)
    if name == "nli":
        wanted = expected(name, "text-classification", inputs={"text": "cat", "text_pair": "mat"})[0]
        assert len(wanted) == 3
        both = client(name).zero_shot_classification("Ann saw it", labels, multi_label=True)
        assert sum(each.score for each in both) != pytest.approx(1.0)


def test_text_generation_of_a_text_to_text_model(client, expected):
    wanted = expected("text_to_text", "text-generation", inputs=TEXT, parameters={"max_new_tokens": 4, "details": True})
    found = client("text_to_text").text_generation(TEXT, max_new_tokens=4, details=True)
    assert found.generated_text == wanted[0]["generated_text"]
    assert found.details.generated_tokens == len(wanted[0]["details"]["tokens"])
    assert client("text_to_text").text_generation(TEXT, max_new_tokens=4) == wanted[0]["generated_text"]


@pytest.mark.parametrize("strategy", [None, "none", "simple", "first", "average", "max"])
def test_token_classification(client, expected, strategy):
    given = {} if strategy is None else {"parameters": {"aggregation_strategy": strategy}}
    wanted = expected("tagging", "token-classification", inputs=TEXT, **given)
    check(client("tagging").token_classification(TEXT, aggregation_strategy=strategy), wanted)


def test_question_answering(client, expected):
    asked = {"question": "who sat ?", "context": TEXT}
    check(
        client("question_answering").question_answering(**asked),
        [expected("question_answering", "question-answering", inputs=asked)],
    )
    assert len(client("question_answering").question_answering(**asked, top_k=2)) == 2


def test_fill_mask(client, expected):
    text = "the [MASK] sat"
    check(
        client("masked_language_modelling").fill_mask(text, top_k=3),
        expected("masked_language_modelling", "fill-mask", inputs=text)[:3],
    )


def test_translation_and_summarization(client, expected):
    assert told(client("translation").translation(TEXT)) == expected("translation", "translation", inputs=TEXT)
    assert told(client("languages").translation(TEXT, src_lang="", tgt_lang="de")) == expected(
        "languages", "translation", inputs=TEXT, parameters={"tgt_lang": "de"}
    )
    assert told(client("summarizer").summarization(TEXT)) == expected("summarizer", "summarization", inputs=TEXT)
    assert client("summarizer").summarization(TEXT, generate_parameters={"max_new_tokens": 2}).summary_text is not None


def test_feature_extraction_and_sentence_similarity(client, expected):
    wanted = expected("sentence_embedding", "feature-extraction", inputs=TEXT, truncate=True)
    found = client("sentence_embedding").feature_extraction(TEXT, truncate=True)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    asked = {"source_sentence": "a cat", "sentences": ["a mat", "Paris"]}
    wanted = expected("sentence_embedding", "sentence-similarity", inputs=asked)
    found = client("sentence_embedding").sentence_similarity("a cat", other_sentences=["a mat", "Paris"])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_images(client, expected, tmp_path):
    path = tmp_path / "one.png"
    path.write_bytes(png())
    for given in (png(), path):
        found = client("image_classification").image_classification(given, top_k=3)
        check(found, expected("image_classification", "image-classification", inputs=png(), parameters={"top_k": 3}))
        assert told(client("captioning").image_to_text(given)) == expected("captioning", "image-to-text", inputs=png())


@pytest.mark.parametrize("name", ["text_to_text", "span_corruption", "denoising"])
def test_texts_from_texts_are_asked_for_by_a_plain_request(server, expected, name):
    import httpx

    text = TEXT if name == "text_to_text" else "the <extra_id_0> sat" if name == "span_corruption" else "the <mask> sat"
    found = httpx.post(f"{server.url}/models/{name}", json={"inputs": text})
    assert found.status_code == 200, found.text
    assert found.json() == expected(name, "text2text-generation", inputs=text)


def test_what_is_wrong_reaches_the_client_in_words(client):
    with pytest.raises(BadRequestError, match="no_such"):
        client("tagging").token_classification(TEXT, ignore_labels=["no_such"])
    with pytest.raises(HfHubHTTPError, match="is not served at 'fill-mask', but at text-generation"):
        client("language_modelling/pipeline/fill-mask").fill_mask("the [MASK]")
    with pytest.raises(HfHubHTTPError, match="is not served at 'zero-shot-classification', but at text-classification"):
        client("classification/pipeline/zero-shot-classification").zero_shot_classification(TEXT, ["cat", "mat"])
