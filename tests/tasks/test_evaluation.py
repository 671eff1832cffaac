"""Evaluation equals what sacreBLEU says of the same texts."""

from __future__ import annotations

import sys

import pytest

import regard
from regard.generation import GenerationSettings
from regard.tasks.translation import Translator


@pytest.fixture
def model(translator) -> Translator:
    """One model for the whole test."""
    return translator()


@pytest.fixture
def pairs(model, texts) -> list[tuple[str, str]]:
    """Some references are right, some nearly, some wrong; words enough for four-grams."""
    answers = [answer.text for answer in model.translate_batch(texts)]
    references = [answers[0], answers[1] + " A", *("A B C D E" for _ in texts[2:])]
    return list(zip(texts, references, strict=True))


def test_metrics_equal_sacrebleu(model, pairs):
    sacrebleu = pytest.importorskip("sacrebleu")
    found = regard.evaluate(model, pairs)
    texts = [answer.text for answer in model.translate_batch([source for source, _ in pairs])]
    references = [target for _, target in pairs]
    assert found.metrics["bleu"] == sacrebleu.corpus_bleu(texts, [references], tokenize="13a").score
    assert found.metrics["chrf"] == sacrebleu.corpus_chrf(texts, [references]).score
    assert found.metrics["exact_match"] == sum(map(str.__eq__, texts, references)) / len(pairs) > 0
    words = sum(len(text.split()) for text in texts)
    assert found.metrics["length_ratio"] == words / sum(len(text.split()) for text in references)
    assert "tok:13a" in found.signatures["bleu"]
    assert "case:mixed" in found.signatures["bleu"]
    assert [answer.text for answer in found.translations] == texts
    assert (found.count, found.note) == (len(pairs), "")


def test_a_perfect_translator_has_perfect_scores(model, texts):
    pytest.importorskip("sacrebleu")
    # sacreBLEU has no four-grams to count in shorter texts.
    pairs = [(text, answer.text) for text, answer in zip(texts, model.translate_batch(texts), strict=True)]
    found = regard.evaluate(model, pairs, batch_size=2)
    assert found.metrics["exact_match"] == 1.0
    assert found.metrics["chrf"] == pytest.approx(100.0)
    assert found.metrics["length_ratio"] in (1.0, 0.0)


def test_settings_are_passed_on(model, pairs):
    found = regard.evaluate(model, pairs, GenerationSettings(maximum_length=2))
    assert max(len(answer.target_tokens) for answer in found.translations) <= 2


def test_without_sacrebleu_there_is_exact_match_and_a_note(model, pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    found = regard.evaluate(model, pairs)
    assert found.metrics.keys() == {"exact_match", "length_ratio"}
    assert "pip install 'regard[eval]'" in found.note


def test_nothing_to_evaluate_is_one_sentence(translator):
    with pytest.raises(regard.InputError, match="nothing to evaluate"):
        regard.evaluate(translator(), [])
