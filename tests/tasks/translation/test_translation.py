"""Translation: strings in, translations out, whatever the batch; and the batches that training reads."""

from __future__ import annotations

import contextlib
import random
import threading
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from regard.errors import InputError
from regard.generation import GenerationSettings, search
from regard.tasks.translation import Translation, TranslationTask
from regard.text import Tokenizer

FAMILIES = pytest.mark.parametrize("family", ["bahdanau", "transformer"])
WAYS = {
    "greedy": GenerationSettings(maximum_length=9),
    "beam": GenerationSettings(maximum_length=9, beam=3, n_best=3),
    "covered": GenerationSettings(maximum_length=9, beam=3, coverage_penalty=0.2),
}


def assert_same(one: Translation, other: Translation) -> None:
    assert (one.text, one.source, one.source_tokens, one.target_tokens) == (
        other.text,
        other.source,
        other.source_tokens,
        other.target_tokens,
    )
    assert [text for text, _ in one.alternatives] == [text for text, _ in other.alternatives]
    assert one.score == pytest.approx(other.score, rel=1e-4)
    assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4)


@FAMILIES
@pytest.mark.parametrize("way", WAYS)
def test_answers_do_not_depend_on_order_or_batch(family, way, translator, texts):
    model, settings = translator(family), WAYS[way]
    alone = [model.translate(text, settings) for text in texts]
    assert len({answer.text for answer in alone}) > 3, "the model has to tell texts apart"
    for batch_size in (1, 3, 64):
        order = random.Random(batch_size).sample(range(len(texts)), len(texts))
        together = model.translate_batch([texts[i] for i in order], settings, batch_size=batch_size)
        for place, answer in zip(order, together, strict=True):
            assert_same(answer, alone[place])


@FAMILIES
def test_a_translation_says_what_was_read_and_written(family, translator):
    model = translator(family)
    answer = model.translate("ab c", GenerationSettings(beam=3, n_best=3, maximum_length=9))
    assert answer.source == "ab c"
    assert [answer.source_tokens[place] for place in (0, 1, 3, 4)] == ["a", "b", "c", "</s>"]
    source = model.task.read([model.task.source_tokenizer.encode("ab c")])
    best, *others = search(model.model, source, GenerationSettings(beam=3, n_best=3, maximum_length=9))[0]
    assert answer.text == model.task.target_tokenizer.decode(best.tokens)
    assert (answer.score, answer.log_probability) == (best.score, best.log_probability)
    assert len(answer.target_tokens) == best.length
    assert (answer.target_tokens[-1] == "</s>") is best.finished
    assert [score for _, score in answer.alternatives] == [other.score for other in others]
    scores = [answer.score, *(score for _, score in answer.alternatives)]
    assert scores == sorted(scores, reverse=True)


@FAMILIES
def test_n_best_holds_the_single_best(family, translator):
    model = translator(family)
    one = model.translate("abc", GenerationSettings(beam=4, maximum_length=9))
    many = model.translate("abc", GenerationSettings(beam=4, n_best=4, maximum_length=9))
    assert one.text == many.text
    assert one.alternatives == ()
    assert len(many.alternatives) == 3


def test_samples_of_one_text_are_its_alternatives(translator):
    model = translator()
    settings = GenerationSettings(sample=True, n_best=6, temperature=2.0, maximum_length=9, seed=3)
    answers = model.translate_batch(["abc", "hgf"], settings)
    assert all(len(answer.alternatives) == 5 for answer in answers)
    assert len({answers[0].text, *(text for text, _ in answers[0].alternatives)}) > 1
    assert model.translate_batch(["abc", "hgf"], settings) == answers
    assert model.translate_batch(["abc", "hgf"], replace(settings, seed=4)) != answers


@pytest.mark.parametrize("empty", ["", "  ", "\t\n"])
def test_an_empty_text_is_refused_with_its_place(empty, translator):
    with pytest.raises(InputError, match="text 2 is empty"):
        translator().translate_batch(["abc", empty])
    with pytest.raises(InputError, match="text 1 is empty"):
        translator().translate(empty)


def test_no_texts_no_translations(translator):
    assert translator().translate_batch([]) == []


def test_a_text_longer_than_the_positions_is_refused(translator):
    model = translator("transformer")
    assert model.translate("a" * 29).source == "a" * 29
    with pytest.raises(InputError, match="source"):
        model.translate("a" * 30)


def test_unknown_characters_are_translated_all_the_same(translator):
    assert translator().translate("日本?").source_tokens == ("<unk>", "<unk>", "<unk>", "</s>")


def test_other_defaults_for_decoding(translator):
    model = translator()
    short = model.with_generation(GenerationSettings(maximum_length=2))
    assert len(short.translate("hgfedcba").target_tokens) <= 2
    assert short.model is model.model
    assert model.task.generation.maximum_length == 9


def test_a_batch_is_shifted_padded_and_ended(translator):
    task = translator().task
    tokenizer = task.target_tokenizer
    batch = task.batch([[7, 8, 9], [5]], [[6], [5, 6, 7, 8]])
    end, start = tokenizer.end_id, tokenizer.start_id
    pad, source_pad = tokenizer.padding_id, task.source_tokenizer.padding_id
    assert start == pad != source_pad
    assert batch.source.ids.tolist() == [[7, 8, 9, end], [5, end, source_pad, source_pad]]
    assert batch.source.valid.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.target.ids.tolist() == [[start, 6, pad, pad, pad], [start, 5, 6, 7, 8]]
    assert batch.labels.tolist() == [[6, end, pad, pad, pad], [5, 6, 7, 8, end]]
    assert batch.target.valid.tolist() == [[True, True, False, False, False], [True] * 5]


@FAMILIES
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_a_sum_over_real_tokens(family, smoothing, translator):
    model = translator(family)
    pairs = [("abc", "BA"), ("hgfedcba", "A"), ("l", "GGG FF")]
    batch = model.teacher_forced(pairs)
    found = model.task.loss(model.model, batch, smoothing=smoothing)
    total, correct, tokens = 0.0, 0, 0
    for pair in pairs:
        single = model.teacher_forced([pair])
        logits = model.model(single.source, single.target)[0]
        target = (1 - smoothing) * F.one_hot(single.labels[0], logits.shape[1])
        others = torch.arange(logits.shape[1]) != model.task.target_tokenizer.padding_id
        target = target + smoothing * others / others.sum()  # padding is never right
        total -= (target * logits.log_softmax(dim=-1)).sum().item()
        correct += int((logits.argmax(-1) == single.labels[0]).sum())
        tokens += single.labels.shape[1]
    assert found.tokens == tokens == 3 + 2 + 7
    assert int(found.correct) == correct
    assert found.total.item() == pytest.approx(total, rel=1e-5)
    assert found.total.requires_grad


def test_a_task_is_saved_and_loaded(translator, tmp_path):
    task = translator().task
    values = task.save(tmp_path)
    assert TranslationTask.load(tmp_path, values) == task
    assert not task.shared
    shared = TranslationTask(task.source_tokenizer, task.source_tokenizer)
    (tmp_path / "shared").mkdir()
    loaded = TranslationTask.load(tmp_path / "shared", shared.save(tmp_path / "shared"))
    assert loaded.source_tokenizer is loaded.target_tokenizer


def test_equal_tokenizers_are_one_vocabulary():
    one, two = (Tokenizer.train(["abc"], kind="character", size=9) for _ in range(2))
    assert one is not two
    assert TranslationTask(one, two).shared


class Watcher:
    """Keeps what a search and a task told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def search_started(self, source):
        self.told.append(("started", len(source)))

    def search_finished(self, hypotheses):
        self.told.append(("finished", len(hypotheses)))

    def predicted(self, predictions, hypotheses):
        assert all(isinstance(prediction, Translation) for prediction in predictions)
        self.told.append(("predicted", len(predictions)))


def test_watchers_are_told_of_every_prediction_of_their_thread(translator, texts):
    model, watcher = translator(), Watcher()
    with model.observing(watcher):
        model.translate_batch(texts[:5], batch_size=3)
        other = threading.Thread(target=model.translate, args=("abc",))
        other.start()
        other.join()
    model.translate("abc")
    assert watcher.told == [
        ("started", 3),
        ("finished", 3),
        ("predicted", 3),
        ("started", 2),
        ("finished", 2),
        ("predicted", 2),
    ]


def test_two_watchers_are_both_told_and_leave_after_an_exception(translator):
    model, one, two = translator(), Watcher(), Watcher()
    with contextlib.suppress(InputError), model.observing(one), model.observing(two):
        model.translate("abc")
        model.translate("")
    assert one.told == two.told == [("started", 1), ("finished", 1), ("predicted", 1)]
    model.translate("abc")
    assert len(one.told) == 3


@FAMILIES
def test_a_translator_evaluates_and_leaves_no_gradient(family, translator):
    model = translator(family, dropout=0.9)
    assert not model.model.training
    assert model.translate("abc") == model.translate("abc")
    assert all(parameter.grad is None for parameter in model.model.parameters())


@FAMILIES
def test_half_precision_translates(family, translator):
    model = translator(family).to(torch.bfloat16)
    assert model.translate("abc").source == "abc"
