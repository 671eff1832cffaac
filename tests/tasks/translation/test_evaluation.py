"""Evaluation equals what sacreBLEU says of the same texts, by length too; the loss is that of the equation."""

from __future__ import annotations

import math
import sys

import pytest
import torch

import regard
from regard.generation import GenerationSettings
from regard.tasks.pairs import compared
from regard.tasks.translation import Translator, teacher_forced


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
    assert [answer.text for answer in found.predictions] == texts
    with pytest.warns(DeprecationWarning, match="called predictions"):
        assert found.translations == found.predictions
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
    assert max(len(answer.target_tokens) for answer in found.predictions) <= 2


def test_without_sacrebleu_there_is_exact_match_and_a_note(model, pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    found = regard.evaluate(model, pairs)
    assert found.metrics.keys() == {"exact_match", "position_accuracy", "length_ratio"}
    assert "pip install 'regard[eval]'" in found.note


def test_nothing_to_evaluate_is_one_sentence(translator):
    with pytest.raises(regard.InputError, match="nothing to evaluate"):
        regard.evaluate(translator(), [])


# --- by length ----------------------------------------------------------------------------------------------------


@pytest.fixture
def lengths() -> list[tuple[str, str]]:
    """Sources of one to three and of six words."""
    sources = ["abc", "l k", "ab ab ab", "b", "ah g", "a b c d e f", "hgf e", "dcba hg fe"]
    return [(source, "A B C D E F"[: 2 * len(source.split()) - 1]) for source in sources]


def test_bins_hold_what_the_pairs_in_them_give_alone(model, lengths):
    found = regard.evaluate(model, lengths, bins=[1, 2, 4])
    assert [(each.name, each.count) for each in found.bins] == [("1", 2), ("2", 3), ("3-4", 2), ("5+", 1)]
    assert [(each.shortest, each.longest) for each in found.bins] == [(1, 1), (2, 2), (3, 4), (5, None)]
    for each in found.bins:
        within = [pair for pair in lengths if each.shortest <= len(pair[0].split()) <= (each.longest or len(pair[0]))]
        assert each.metrics == regard.evaluate(model, within).metrics
    assert found.metrics == regard.evaluate(model, lengths).metrics
    assert sum(each.count for each in found.bins) == found.count


def test_an_empty_bin_has_no_metrics(model, lengths):
    empty = [each for each in regard.evaluate(model, lengths, bins=[3, 5, 40]).bins if not each.count]
    assert [(each.name, each.metrics) for each in empty] == [("4-5", {}), ("41+", {})]


@pytest.mark.parametrize("bins", [[3, 2], [2, 2], [0, 4], [1.5], [True]])
def test_bins_that_do_not_rise_are_refused(bins, model, lengths):
    with pytest.raises(regard.InputError, match="give rising numbers of words, such as 10,15,20"):
        regard.evaluate(model, lengths, bins=bins)


def test_position_accuracy_counts_places_of_the_longer_one(model):
    tokenizer = model.task.target_tokenizer
    found = [
        compared([text], [reference], tokenizer)[0]["position_accuracy"]
        for text, reference in (("ABCD", "ABCD"), ("ABXD", "ABCD"), ("AB", "ABCD"), ("ABCDE", "AB"), ("BCD", "ABC"))
    ]
    assert found == [1.0, 0.75, 0.5, 0.4, 0.0]
    both = compared(["AB", "ABCD"], ["AB", "ABXD"], tokenizer)[0]["position_accuracy"]
    assert both == 5 / 6, "places of all texts count alike"


def test_tokenised_text_is_told_once_and_in_our_words(model, caplog):
    """sacreBLEU warns from a hundred such lines on, at every validation."""
    pytest.importorskip("sacrebleu")
    texts = ["a dog runs ."] * 120
    tokenizer = model.task.target_tokenizer
    *_, note = compared(texts, texts, tokenizer)
    assert "look tokenised" in note
    assert not caplog.records
    assert not compared(["a dog runs."] * 120, texts, tokenizer)[2]


# --- by teacher forcing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bahdanau", "transformer"])
def test_teacher_forced_numbers_are_those_of_the_equation(family, translator):
    model = translator(family)
    pairs = [("abc", "BA"), ("hgfedcba", "A"), ("l", "GGG FF"), ("abc", "BA")]
    total, right, tokens = 0.0, 0, 0
    for pair in pairs:
        batch = model.teacher_forced([pair])
        with torch.no_grad():
            logits = model.model(batch.source, batch.target)[0]
        total -= logits.log_softmax(-1).gather(1, batch.labels[0][:, None]).sum().item()
        right += int((logits.argmax(-1) == batch.labels[0]).sum())
        tokens += len(batch.labels[0])
    for batch_tokens in (1, 30, 16_384):
        found = teacher_forced(model, pairs, batch_tokens=batch_tokens)
        assert found.tokens == tokens == 3 + 2 + 7 + 3
        assert found.loss == pytest.approx(total / tokens, rel=1e-5)
        assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-4)
        assert found.token_accuracy == right / tokens


def test_teacher_forcing_faults_are_one_sentence(translator):
    with pytest.raises(regard.InputError, match="nothing to evaluate"):
        teacher_forced(translator(), [])
    with pytest.raises(regard.InputError, match="31 tokens and the model has positions for 30"):
        teacher_forced(translator("transformer"), [("a" * 30, "B")])
    with pytest.raises(regard.InputError, match="one language only"):
        teacher_forced(translator(), [("a", "B")], to="de")
