"""Folders that `transformers` wrote, every parameter drawn anew: the same logits, and places in texts of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import InputError
from regard.tasks.question_answering import QuestionAnswerer
from regard.tasks.question_data import encoded_contexts, windows
from regard.text import Tokenizer

TEXTS = [
    "The café is in München.",
    "cafe\u0301 naïve — 中文 in the middle",
    "住在北京 and 東京 😀 with 👩‍👩‍👧 emoji",
    "tabs\tand\nlines \u00a0 and \u200b controls \x07 here",
    "Ünïcödé ½ ﬁ İstanbul straße ΑΒΓ ελληνικά",
    "한국어 العربية עברית",
]
SIZES: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 10, "num_hidden_layers": 2},
    "distilbert": {"dim": 12, "n_heads": 3, "hidden_dim": 10, "n_layers": 2},
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(TEXTS)] * 3, kind="bert", size=400, lowercase=True)


@pytest.fixture
def elsewhere(tokenizer, generator, tmp_path) -> Callable[..., tuple[Path, Any]]:
    """A folder as `save_pretrained` writes it."""
    transformers = pytest.importorskip("transformers")

    def make(family: str, kind: str = "QuestionAnswering") -> tuple[Path, Any]:
        name = {"bert": "Bert", "distilbert": "DistilBert"}[family]
        config = getattr(transformers, f"{name}Config")(
            vocab_size=tokenizer.size, max_position_embeddings=40, pad_token_id=tokenizer.padding_id, **SIZES[family]
        )
        model = getattr(transformers, f"{name}For{kind}")(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
        model.save_pretrained(tmp_path / family)
        tokenizer.save(tmp_path / family)
        return tmp_path / family, model

    return make


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_logits_and_places_are_theirs(elsewhere, tokenizer, family):
    transformers = pytest.importorskip("transformers")
    folder, theirs = elsewhere(family)
    model = regard.load(folder)
    assert isinstance(model, QuestionAnswerer)
    assert (model.task.unanswerable, model.task.maximum_length, model.task.maximum_question) == (None, 40, 10)
    read = transformers.BertTokenizer.from_pretrained(folder)
    for question, context in zip(TEXTS[1:] + TEXTS[:1], TEXTS, strict=True):
        ids = tokenizer.encode(question)[:9]
        (encoded,) = encoded_contexts(tokenizer, [context])
        (window,) = windows(tokenizer, ids, encoded, maximum_length=len(ids) + len(encoded.ids) + 3, stride=99)
        if len(window.joined.ids) > 40:
            (window, *_) = windows(tokenizer, ids, encoded, maximum_length=40, stride=9)
        for _, tokens, found in model.encoded([window.joined]):
            given = {"input_ids": tokens.ids, "attention_mask": tokens.valid.long()}
            if family == "bert":
                given["token_type_ids"] = (torch.arange(len(window.joined.ids)) >= window.joined.second).long()[None]
            with torch.no_grad():
                logits = theirs(**given)
            torch.testing.assert_close(found.logits[..., 0], logits.start_logits, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(found.logits[..., 1], logits.end_logits, rtol=1e-5, atol=1e-5)
        offsets = read(context, add_special_tokens=False, return_offsets_mapping=True)
        assert offsets["input_ids"] == encoded.ids.tolist()
        for ours, hers in zip(encoded.spans.tolist(), offsets["offset_mapping"], strict=True):
            # An accent that was stripped is ours, and nobody's there.
            assert context[ours[0] : ours[1]].rstrip("\u0301") == context[hers[0] : hers[1]]


def test_an_answer_of_a_foreign_model_stands_in_the_context(elsewhere):
    folder, _ = elsewhere("bert")
    model = regard.load(folder, task="question_answering")
    for context in (*TEXTS, " ".join(TEXTS * 3)):
        said = model.answer("café?", context, n_best=5)
        assert said.text
        for passage in said.passages:
            assert context[passage.start : passage.end] == passage.text


def test_a_model_for_another_task_is_not_one_for_this(elsewhere):
    folder, _ = elsewhere("bert", "SequenceClassification")
    with pytest.raises(InputError, match="question answering is wanted"):
        regard.load(folder, task="question_answering")
