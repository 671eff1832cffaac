"""No answer is read off NaN or infinity: weights are finite numbers, and what is computed with them is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import InputError
from regard.generation import GenerationSettings
from regard.layers.embeddings import NotFinite, check_finite, check_number
from regard.models import (
    GPT2,
    NTM,
    Bert,
    BertConfig,
    ELMo,
    ELMoConfig,
    GPT2Config,
    NTMConfig,
    ShowAttendAndTell,
    ShowAttendAndTellConfig,
    ViT,
    ViTConfig,
)
from regard.prompting.evaluation import token_log_likelihoods
from regard.prompting.template import Continued
from regard.tasks.bidirectional_language_modelling import BidirectionalLanguageModel, BidirectionalLanguageModellingTask
from regard.tasks.captioning import Captioner, CaptioningTask
from regard.tasks.classification import ClassificationTask, Classifier
from regard.tasks.copying import Copier, CopyingTask
from regard.tasks.image_classification import ImageClassificationTask, ImageClassifierPredictor
from regard.tasks.images import ImageSize
from regard.tasks.language_modelling import LanguageModel
from regard.tasks.language_task import LanguageModellingTask
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.tasks.multiple_choice import MultipleChoice, MultipleChoiceTask
from regard.tasks.question_answering import QuestionAnswerer, QuestionAnsweringTask
from regard.tasks.regression import RegressionTask, Regressor
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.tasks.tagging import Tagger, TaggingTask
from regard.text import Tokenizer
from regard.text.word_list import WordList

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "un", "##aff", "##able", "is", "not", "."]
ENCODER: dict[str, Any] = {"width": 12, "heads": 3, "feedforward_width": 10, "layers": 1, "maximum_positions": 30}
TEXT = "the cat is not unaffable."
FRAME = np.zeros((8, 12, 3), np.uint8)


def encoder(kind: Any, task: Any) -> Any:
    return kind(Bert(BertConfig(**ENCODER, **task.model_settings())), task)


def language_model() -> LanguageModel:
    task = LanguageModellingTask(Tokenizer.train([TEXT], kind="character", size=60))
    sizes = {"width": 8, "heads": 2, "feedforward_width": 12, "layers": 1, "maximum_positions": 30}
    return LanguageModel(GPT2(GPT2Config(**sizes, **task.model_settings())), task)


def both_ways() -> BidirectionalLanguageModel:
    words = WordList.counted([TEXT.split()], size=8)
    task = BidirectionalLanguageModellingTask(
        tokenizer=Tokenizer.train([], kind="spelling", size=259), words=words, length=6
    )
    sizes: dict[str, Any] = {
        "projection": 6,
        "cells": 8,
        "character_width": 4,
        "filters": ((1, 5), (2, 6)),
        "highways": 1,
        "maximum_characters": 9,
    }
    return BidirectionalLanguageModel(ELMo(ELMoConfig(**sizes, **task.model_settings())), task)


def images() -> ImageClassifierPredictor:
    task = ImageClassificationTask(size=ImageSize(height=8, width=8), classes=("0", "1"))
    config = ViTConfig(**task.model_settings(), patch=4, width=8, heads=2, layers=1, feedforward_width=8)
    return ImageClassifierPredictor(ViT(config), task)


def captioner() -> Captioner:
    task = CaptioningTask(Tokenizer.train([TEXT], kind="word", size=20), ImageSize(height=8, width=12))
    sizes: dict[str, Any] = {"convolutions": (4, 6), "feature_width": 5, "embedding_width": 6, "hidden_width": 7}
    config = ShowAttendAndTellConfig(**task.model_settings(), **sizes, attention_width=3)
    return Captioner(ShowAttendAndTell(config), task)


def copier() -> Copier:
    return Copier(NTM(NTMConfig(inputs=4, outputs=3, slots=5, slot_width=4, controller_width=6)), CopyingTask(3))


MADE: dict[str, Any] = {
    "classify": (
        lambda t: encoder(
            Classifier, ClassificationTask(tokenizer=t, classes=("no", "yes"), maximum_length=20, pairs=None)
        ),
        lambda model: model.classify(TEXT),
    ),
    "rate": (
        lambda t: encoder(Regressor, RegressionTask(tokenizer=t, maximum_length=20, pairs=None)),
        lambda model: model.rate(TEXT),
    ),
    "tag": (
        lambda t: encoder(Tagger, TaggingTask(tokenizer=t, tags=("O", "B-A", "I-A"), maximum_length=20)),
        lambda model: model.tag(TEXT),
    ),
    "fill": (
        lambda t: encoder(MaskedLanguageModel, MaskedLanguageModellingTask(tokenizer=t)),
        lambda model: model.fill("the [MASK] is not."),
    ),
    "choose": (
        lambda t: encoder(MultipleChoice, MultipleChoiceTask(tokenizer=t, maximum_length=20)),
        lambda model: model.choose("the cat", ["is not", "is"]),
    ),
    "answer": (
        lambda t: encoder(
            QuestionAnswerer,
            QuestionAnsweringTask(
                tokenizer=t, unanswerable=False, maximum_length=16, stride=4, maximum_question=5, maximum_answer=4
            ),
        ),
        lambda model: model.answer("is the cat", TEXT),
    ),
    "embed": (
        lambda t: encoder(SentenceEncoder, SentenceEmbeddingTask(tokenizer=t)),
        lambda model: model.embed([TEXT, "cat"]),
    ),
    "similarity": (
        lambda t: encoder(SentenceEncoder, SentenceEmbeddingTask(tokenizer=t)),
        lambda model: model.similarity([TEXT], ["cat"]),
    ),
    "features": (
        lambda t: encoder(SentenceEncoder, SentenceEmbeddingTask(tokenizer=t)),
        lambda model: model.features([TEXT, "cat"], layers="all"),
    ),
    "score": (lambda t: language_model(), lambda model: model.score(TEXT)),
    "generate": (lambda t: language_model(), lambda model: model.generate("the cat")),
    "likelihood": (lambda t: language_model(), lambda model: token_log_likelihoods(model, [[Continued((1, 3, 4), 2)]])),
    "both ways": (lambda t: both_ways(), lambda model: model.score(TEXT)),
    "words": (lambda t: both_ways(), lambda model: model.word_states([TEXT])),
    "images": (lambda t: images(), lambda model: model.classify(np.zeros((8, 8, 3), np.uint8))),
    "caption": (lambda t: captioner(), lambda model: model.caption(FRAME)),
    "caption by a beam": (lambda t: captioner(), lambda model: model.caption(FRAME, GenerationSettings(beam=2))),
    "captions against others": (lambda t: captioner(), lambda model: regard.evaluate(model, [(FRAME, TEXT)])),
    "copy": (lambda t: copier(), lambda model: model.copy([[1, 0, 1], [0, 1, 1]])),
}


@pytest.mark.parametrize("name", MADE)
def test_no_answer_is_read_off_numbers_that_are_not_finite(name, seeded):
    make, ask = MADE[name]
    model = make(Tokenizer.from_vocabulary(PIECES))
    ask(model)  # it answers
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.copy_(torch.where(torch.rand_like(parameter) < 0.5, -3e38, 3e38))
    assert all(bool(parameter.isfinite().all()) for parameter in model.model.parameters())
    with pytest.raises(
        InputError, match=r"the model's numbers for .* are not finite; its weights overflow or contain NaN"
    ):
        ask(model)


def test_translations_and_their_evaluation(translator):
    model = translator("transformer")
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.mul_(1e37)
    for ask in (lambda: model.translate("abc"), lambda: regard.evaluate(model, [("abc", "ABC")])):
        with pytest.raises(InputError, match="not finite"):
            ask()


def test_rows_that_count_are_looked_at_and_single_tokens_may_be_forbidden():
    values = torch.tensor([[1.0, -torch.inf], [torch.nan, 1.0], [-torch.inf, -torch.inf], [torch.inf, 0.0]])
    assert check_finite(values[:1], "x") is not None
    for row in (1, 2, 3):
        with pytest.raises(NotFinite, match="numbers for x"):
            check_finite(values[: row + 1], "x", where=torch.arange(row + 1) == row)
    check_finite(values, "x", where=torch.tensor([True, False, False, False]))
    check_finite(torch.empty(0, 3), "x")
    assert check_number(1.5, "x") == 1.5
    with pytest.raises(NotFinite):
        check_number(float("nan"), "x")
