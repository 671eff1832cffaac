"""Pre-training by span corruption: from text to token stores, what a model reads and writes, resumed and measured."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.data.pretraining import spans_of_target
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.models import MODELS
from regard.tasks.span_corruption import (
    STRETCH,
    SentinelTokenizerSettings,
    SpanCorruptionTask,
    SpanFiller,
    SpanTextData,
    prepare_spans,
)
from regard.text import Tokenizer

SIZES: dict[str, dict[str, Any]] = {
    "t5": {"width": 16, "heads": 2, "head_width": 8, "feedforward_width": 24, "encoder_layers": 1, "decoder_layers": 1},
    "transformer": {
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "maximum_positions": 64,
    },
}


def documents(count: int, seed: int = 3) -> list[list[str]]:
    draw = random.Random(seed)
    nouns = ["dog", "cat", "bird", "horse", "fish"]
    return [
        [f"the {draw.choice(nouns)} sees the {draw.choice(nouns)} today." for _ in range(draw.randint(3, 9))]
        for _ in range(count)
    ]


def recipe(family: str = "t5", data: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    return {
        "task": "span_corruption",
        "seed": 5,
        "model": {"name": family, "dropout": 0.0, **SIZES[family]},
        "data": {"length": 24, "validation_share": 0.2} | (data or {}),
        "tokenizer": {"kind": "word", "size": 40, "sentinels": 8},
        "training": {
            "steps": 6,
            "batch_tokens": 200,
            "learning_rate": 1e-2,
            "warmup": 3,
            "precision": "float32",
            "evaluate_every": 3,
            "save_every": 3,
        }
        | training,
    }


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([line for each in documents(9) for line in each], kind="word", size=40, sentinels=8)


@pytest.fixture
def filler(tokenizer) -> SpanFiller:
    task = SpanCorruptionTask(tokenizer)
    return SpanFiller(MODELS["t5"].model(MODELS["t5"].config(**SIZES["t5"], **task.model_settings())), task)


class Writes(nn.Module):
    """Stands for a model that has learnt by heart: it writes the same tokens, whatever it reads."""

    def __init__(self, model: Any, tokens: list[int]) -> None:
        super().__init__()
        self.inner, self.tokens, self.config = model, tokens, model.config
        self.maximum_source_length, self.maximum_target_length = 20, 64
        self.length_setting, self.has_alignment = "model.maximum_positions", False

    def start(self, source):
        return self.inner.start(source)

    def step(self, tokens, state):
        logits, after = self.inner.step(tokens, state)
        told = torch.full_like(logits, -50.0)
        told[:, self.tokens[min(state.length, len(self.tokens) - 1)]] = 0.0
        return told, after

    def alignment(self, state):
        return self.inner.alignment(state)


def prepared(folder: Path, data: dict[str, Any] | None = None, **tokenizer: Any):
    settings = SentinelTokenizerSettings(**({"kind": "word", "size": 40, "sentinels": 8} | tokenizer))
    own = SpanTextData(**({"length": 24, "validation_share": 0.2} | (data or {})))
    return prepare_spans(own, settings, folder, seed=2, given=documents(30))


def test_stretches_are_the_text_laid_end_to_end(tmp_path):
    found = prepared(tmp_path)
    corruption, tokenizer = found.task.corruption, found.task.tokenizer
    room = corruption.stretch(24)
    for store in (found.train, found.validation):
        lengths = store.lengths(STRETCH)
        assert (lengths[:-1] == room).all()
        assert 2 <= lengths[-1] <= room
    tokens = [int(each) for row in range(len(found.train)) for each in found.train.sequence(STRETCH, row)]
    rest = [int(each) for row in range(len(found.validation)) for each in found.validation.sequence(STRETCH, row)]
    every = [each for document in documents(30) for line in document for each in tokenizer.encode(line)]
    assert len(every) - 1 <= len(tokens) + len(rest) <= len(every)
    assert np.bincount(tokens + rest, minlength=40).sum() == len(tokens + rest)
    kept = iter(every)  # in the order of the text, documents that are held out left out
    assert all(token in kept for token in tokens[:-1])


def test_what_is_said_of_the_data_is_so(tmp_path):
    found = prepared(tmp_path)
    noise, spans = found.task.corruption.counts(found.train.lengths(STRETCH))
    note = next(each for each in found.notes if each.startswith("train: "))
    assert f"{len(found.train):,} stretches" in note
    assert f"in {spans.sum():,} spans" in note
    assert f"{noise.sum() / found.train.lengths(STRETCH).sum():.1%} are removed" in note


def test_a_batch_is_what_is_left_and_what_was_taken_out(tmp_path):
    found = prepared(tmp_path)
    task, rows = found.task, [4, 0, 2]
    batch = task.training_batch(found.train, rows, 3)
    lengths = task.lengths(found.train)[rows]
    assert batch.source.lengths.tolist() == lengths[:, 0].tolist()
    assert batch.target.lengths.tolist() == lengths[:, 1].tolist() == task.labels(found.train)[rows].tolist()
    assert (batch.target.ids[:, 0] == task.tokenizer.start_id).all()
    for row, source, labels, (read, told) in zip(rows, batch.source.ids, batch.labels, lengths.tolist(), strict=True):
        assert source[read - 1] == labels[told - 1] == task.tokenizer.end_id
        spans = spans_of_target(labels[: told - 1].tolist(), task.tokenizer.sentinels)
        whole = [
            each
            for token in source[: read - 1].tolist()
            for each in (
                spans[task.tokenizer.sentinels.index(token)] or [] if token in task.tokenizer.sentinels else [token]
            )
        ]
        assert whole == found.train.sequence(STRETCH, row).tolist()


def test_other_spans_are_taken_in_each_epoch_and_the_same_in_validation(tmp_path):
    several = {"mean_span": 1.0}  # one span would always be the end of its stretch
    found = prepared(tmp_path, several)
    task, store = found.task, found.train

    def read(draw: int | None) -> list[list[int]]:
        batch = task.read_batch(store, [0, 1]) if draw is None else task.training_batch(store, [0, 1], draw)
        return batch.source.ids.tolist()

    assert read(0) == read(0) != read(1)
    assert read(None) == read(None)
    static = prepared(tmp_path / "static", several | {"corruption": "static"}).task
    first, other = (static.training_batch(store, [0, 1], draw).source.ids for draw in (0, 1))
    assert torch.equal(first, other)


@pytest.mark.parametrize("family", sorted(SIZES))
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, family):
    texts = documents(20)
    whole = regard.train(recipe(family), output=tmp_path / "whole", data=texts)
    regard.train(recipe(family, steps=3), output=tmp_path / "parts", data=texts)
    again = regard.train(recipe(family), output=tmp_path / "parts", data=texts, resume=True)
    assert again.metrics == whole.metrics
    one, other = (run.load().model.state_dict() for run in (whole, again))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_folder_is_loaded_as_it_was_saved(tmp_path):
    run = regard.train(recipe(), output=tmp_path / "run", data=documents(20))
    model = regard.load(run.folder, task="span_corruption")
    assert model.task == SpanCorruptionTask(model.task.tokenizer, model.task.corruption)
    assert model.task.corruption.seed == 5
    assert {"loss", "perplexity", "token_accuracy"} <= run.metrics.keys()
    found = regard.evaluate(model, ["the dog sees the cat today.\n\nthe cat sees the fish today."] * 9)
    again = regard.evaluate(model, ["the dog sees the cat today.\n\nthe cat sees the fish today."] * 9, batch_tokens=60)
    assert found.metrics == pytest.approx(again.metrics)
    assert found.metrics["loss"] > 0


def test_evaluation_is_the_loss_of_the_validation_set(tmp_path):
    texts, held_out = documents(20), documents(6, seed=9)
    run = regard.train(recipe(), output=tmp_path / "run", data=texts, validation=held_out)
    found = regard.evaluate(run.load(), held_out)
    store = TokenStore.open(run.folder / "data" / "validation")
    assert found.count == len(store)
    model = run.load()
    model.task = SpanCorruptionTask(model.task.tokenizer, model.task.corruption)
    assert found.metrics["loss"] == pytest.approx(run.metrics["loss"], rel=1e-4)


# --- filling gaps -----------------------------------------------------------------------------------------


def test_gaps_are_filled_with_what_the_model_writes_for_each(filler, tokenizer):
    zero, one, two, *_ = tokenizer.sentinels
    said = [zero, *tokenizer.encode("sees the"), one, *tokenizer.encode("fish"), two, tokenizer.end_id]
    model = SpanFiller(Writes(filler.model, said), filler.task)
    found = model.fill("the dog <extra_id_0> cat, <extra_id_1>.")
    assert found.best == "the dog sees the cat, fish."
    assert found.spans == ("sees the", "fish")
    assert found.tokens == tuple(tokenizer.tokens(said))
    assert found.log_probability == pytest.approx(0.0, abs=1e-4)


def test_a_gap_that_the_model_leaves_out_is_told(filler, tokenizer):
    model = SpanFiller(
        Writes(filler.model, [tokenizer.sentinels[1], tokenizer.encode("cat")[0], tokenizer.end_id]), filler.task
    )
    found = model.fill("the <extra_id_0> sees the <extra_id_1>")
    assert found.spans == (None, "cat")
    assert found.best == "the  sees the cat"


def test_a_text_with_gaps_is_read_as_a_corrupted_one(filler, tokenizer):
    ids = filler.encode("the dog <extra_id_0> the cat <extra_id_1> today.")
    zero, one, *_ = tokenizer.sentinels
    encode = tokenizer.encode
    assert ids == [*encode("the dog"), zero, *encode("the cat"), one, *encode("today.")]


def test_the_batch_changes_no_answer(filler, randomize):
    randomize(filler.model, scale=2.0)
    texts = ["the dog <extra_id_0> the cat", "<extra_id_0> sees the <extra_id_1>", "the fish <extra_id_0>"]
    settings = GenerationSettings(maximum_length=7)
    together = filler.fill_batch(texts, settings)
    assert [each.tokens for each in together] == [filler.fill(text, settings).tokens for text in texts]
    assert [each.tokens for each in filler.fill_batch(texts[::-1], settings)][::-1] == [
        each.tokens for each in together
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the dog", "has no <extra_id_0>"),
        ("the <extra_id_1>", "has no <extra_id_0>"),
        ("<extra_id_0> and <extra_id_2>", "has <extra_id_2> out of its place"),
        ("<extra_id_1> and <extra_id_0>", "has <extra_id_1> out of its place"),
        ("<extra_id_0> and <extra_id_0>", "has <extra_id_0> out of its place"),
        ("the dog sees the cat today " * 5 + "<extra_id_0>", "and the model has positions for 20"),
        (7, "give strings"),
    ],
)
def test_texts_that_cannot_be_filled(filler, text, words):
    model = SpanFiller(Writes(filler.model, [1]), filler.task)
    with pytest.raises(InputError, match=words):
        model.fill_batch(["<extra_id_0>", text])


# --- bad input --------------------------------------------------------------------------------------------


def test_a_tokenizer_without_sentinels_is_refused(tmp_path):
    with pytest.raises(InputError, match="the tokenizer has no sentinels"):
        prepared(tmp_path, sentinels=0)


def test_too_few_sentinels_are_told_before_the_text_is_read_into_tokens(tmp_path):
    with pytest.raises(
        InputError, match=r"removed spans, and the tokenizer has 2 sentinels; raise tokenizer\.sentinels"
    ):
        prepared(tmp_path, {"length": 200}, sentinels=2)


def test_one_document_cannot_be_divided(tmp_path):
    data, settings = SpanTextData(length=24), SentinelTokenizerSettings(kind="word", size=40, sentinels=8)
    with pytest.raises(InputError, match="is one document"):
        prepare_spans(data, settings, tmp_path, seed=2, given=documents(1))
    with pytest.raises(InputError, match=r"data\.train is missing"):
        prepare_spans(data, settings, tmp_path, seed=2)


def test_a_model_with_too_few_positions_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"lower data\.length, to 64 at most"):
        regard.train(recipe("transformer", {"length": 90}), output=tmp_path / "run", data=documents(40))


def test_files_are_read_line_by_line_and_held_out_document_by_document(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join("\n".join(each) for each in documents(12)), encoding="utf-8")
    own = SpanTextData(train=str(path), length=24, validation_share=0.25)
    settings = SentinelTokenizerSettings(kind="word", size=40, sentinels=8)
    found = prepare_spans(own, settings, tmp_path / "data", seed=2)
    assert len(found.train) > len(found.validation) > 0
    again = prepare_spans(own, settings, tmp_path / "data", seed=2)
    assert again.notes == found.notes
