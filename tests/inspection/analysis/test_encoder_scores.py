"""Attributions of what encoders say: each score is what the model itself says, and the attributions account for it."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.inspection.analysis import (
    AnswerProbability,
    ChoiceProbability,
    ClassProbability,
    GradientTimesInput,
    IntegratedGradients,
    Likeness,
    MaskProbability,
    PredictedValue,
    TagProbability,
    attribute,
)
from regard.models import Bert, BertConfig
from regard.tasks.classification import ClassificationTask, Classifier
from regard.tasks.masked_language_modelling import MaskedLanguageModel, MaskedLanguageModellingTask
from regard.tasks.multiple_choice import MultipleChoice, MultipleChoiceTask
from regard.tasks.question_answering import QuestionAnswerer, QuestionAnsweringTask
from regard.tasks.regression import RegressionTask, Regressor
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.tasks.tagging import Tagger, TaggingTask
from regard.text import Tokenizer

WORDS = "the film was fine but cafe banks lend money near rivers"
METHOD = IntegratedGradients(steps=100)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([WORDS, "a bee film bees"] * 3, kind="bert", size=90, lowercase=True)


@pytest.fixture
def predictor(tokenizer, randomize) -> Callable[..., Any]:
    """Of a task and its class, with random parameters."""

    def make(kind: Any, task: Any, **settings: Any) -> Any:
        made = task(tokenizer=tokenizer, **{"maximum_length": 24, **settings})
        sizes = {"width": 12, "heads": 3, "feedforward_width": 10, "layers": 2, "maximum_positions": 24}
        return kind(randomize(Bert(BertConfig(**sizes, **made.model_settings()))), made)

    return make


def accounted(found: Any) -> None:
    assert found.error is not None
    assert abs(found.error) < 0.02
    total = sum(float(part.scores.sum()) for part in found.read)
    assert total == pytest.approx(found.score - found.baseline_score, abs=0.03)


def test_a_class_comes_from_the_tokens_of_one_or_two_texts(predictor):
    model = predictor(Classifier, ClassificationTask, classes=("no", "yes", "perhaps"), pairs=None)
    for text in ("the film was fine", ("the film", "was fine")):
        said = model.classify(text)
        found = attribute(model, ClassProbability(text=text), method=METHOD)
        assert found.target == said.label
        assert found.score == pytest.approx(log(said.probability), abs=1e-5)
        other = attribute(model, ClassProbability(text=text, label="perhaps"), method=METHOD)
        assert other.score == pytest.approx(log(said.probabilities["perhaps"]), abs=1e-5)
        accounted(found)
        accounted(other)
    assert found.of("text").tokens == ("[CLS]", "the", "film", "[SEP]", "was", "fine", "[SEP]")
    with pytest.raises(InputError, match=r"no class 'yess'.*yes"):
        attribute(model, ClassProbability(text="fine", label="yess"))


def test_a_number_comes_in_the_units_of_the_data(predictor):
    model = predictor(Regressor, RegressionTask, mean=3.0, spread=2.0)
    found = attribute(model, PredictedValue(text="the film was fine"), method=METHOD)
    assert found.score == pytest.approx(model.rate("the film was fine").value, abs=1e-5)
    assert found.quantity == "value"
    accounted(found)


def test_a_word_at_a_mask(predictor, tokenizer):
    model = predictor(MaskedLanguageModel, MaskedLanguageModellingTask)
    text = "the [MASK] was [MASK]"
    filled = model.fill(text, top=90)
    for mask in (0, 1, -1):
        best = filled.masks[mask][0]
        found = attribute(model, MaskProbability(text=text, mask=mask), method=METHOD)
        assert found.target == best.token
        assert found.score == pytest.approx(log(best.probability), abs=1e-4)
        accounted(found)
    named = attribute(model, MaskProbability(text=text, token="film"), method=GradientTimesInput())
    wanted = next(each.probability for each in filled.masks[0] if each.token == "film")
    assert exp(named.score) == pytest.approx(wanted, rel=1e-4)
    for question, said in (
        (MaskProbability(text="the film"), r"\[MASK\]"),
        (MaskProbability(text=text, mask=2), "has 2, counted from 0"),
        (MaskProbability(text=text, token="xyzzy"), "no token 'xyzzy'"),
    ):
        with pytest.raises(InputError, match=said):
            attribute(model, question)


def test_a_words_tag_also_of_a_text_longer_than_the_model(predictor):
    model = predictor(Tagger, TaggingTask, tags=("O", "B-LOC", "I-LOC"))
    long = WORDS.split() * 4
    for text, word in (("banks lend money", "lend"), (long, 0), (long, 17), (long, -1)):
        tagging = model.tag(text)
        scores = model.scores([tagging.words])[0]
        place = tagging.words.index(word) if isinstance(word, str) else word
        found = attribute(model, TagProbability(text=text, word=word, tag="B-LOC"), method=METHOD)
        assert found.score == pytest.approx(float(scores[place, 1]), abs=1e-5)
        assert found.target == f"{tagging.words[place]}: B-LOC"
        accounted(found)
        assert attribute(model, TagProbability(text=text, word=word)).target.endswith(tagging.tags[place])
    with pytest.raises(InputError, match="no tag 'B-LOK'"):
        attribute(model, TagProbability(text="banks lend", word=0, tag="B-LOK"))
    with pytest.raises(InputError, match="occurs 4 times"):
        attribute(model, TagProbability(text=long, word="lend"))


@pytest.mark.parametrize("unanswerable", [True, False])
def test_an_answer_in_the_window_in_which_it_stands(predictor, unanswerable):
    model = predictor(
        QuestionAnswerer,
        QuestionAnsweringTask,
        maximum_length=16,
        stride=4,
        unanswerable=unanswerable,
        maximum_question=4,
    )
    context = "the film was fine but banks lend money near rivers a bee bees cafe"
    for answer in ("the film", "money near", "cafe"):
        question = AnswerProbability(question="was it", context=context, answer=answer)
        found = attribute(model, question, method=METHOD)
        read = found.of("text").tokens
        assert found.target == answer
        assert set(answer.split()) <= set(read)
        assert found.score < 0
        accounted(found)
    own = AnswerProbability(question="was it", context="banks lend money")
    said = model.answer(own.question, own.context)
    if said.text:
        assert attribute(model, own, method=METHOD).target == said.text
    else:
        with pytest.raises(InputError, match="there is no answer"):
            attribute(model, own)
    for wrong in ("ee", "gold", ""):
        with pytest.raises(InputError, match="occurs once"):
            attribute(model, AnswerProbability(question="was it", context=context, answer=wrong))


def test_answers_probabilities_are_those_of_all_passages(predictor):
    """Over all first and all last tokens the two factors sum to one each, so over all pairs of them their product does."""
    model = predictor(QuestionAnswerer, QuestionAnsweringTask, unanswerable=False, maximum_question=4, stride=4)
    words = ["banks", "lend", "money", "near", "rivers"]
    context = " ".join(words)
    found = {
        (a, b): attribute(model, AnswerProbability(question="was it", context=context, answer=" ".join(words[a : b + 1])),
                          method=GradientTimesInput()).score
        for a in range(5)
        for b in range(a, 5)
    }  # fmt: skip
    first = [found[a, 4] - found[0, 4] for a in range(5)]
    last = [found[0, b] - found[0, 4] for b in range(5)]
    total = found[0, 4] + log(sum(map(exp, first))) + log(sum(map(exp, last)))
    assert total == pytest.approx(0, abs=1e-4)


def test_a_choice_reads_each_choice_by_itself(predictor):
    model = predictor(MultipleChoice, MultipleChoiceTask)
    choices = ["the film was fine", "banks lend", "a bee"]
    said = model.choose("money near rivers", choices)
    for number in (None, 2):
        found = attribute(
            model, ChoiceProbability(context="money near rivers", choices=choices, choice=number), method=METHOD
        )
        place = said.index if number is None else number
        assert found.target == choices[place]
        assert found.score == pytest.approx(log(said.probabilities[place]), abs=1e-5)
        assert [part.name for part in found.read] == ["choice 0", "choice 1", "choice 2"]
        accounted(found)
    with pytest.raises(InputError, match="choice 3"):
        attribute(model, ChoiceProbability(context="money", choices=choices, choice=3))


def test_the_cosine_of_two_texts(predictor):
    model = predictor(SentenceEncoder, SentenceEmbeddingTask, pooling=("mean", "max"))
    one, other = "the film was fine", "banks lend money"
    found = attribute(model, Likeness(first=one, second=other), method=METHOD)
    assert found.score == pytest.approx(float(model.similarity([one], [other])[0, 0]), abs=1e-5)
    assert [part.name for part in found.read] == ["first", "second"]
    accounted(found)
    alone = attribute(model, Likeness(first=one, second=other), method=METHOD, inputs=["second"])
    assert [part.name for part in alone.read] == ["second"]
    same = attribute(model, Likeness(first=one, second=one), method=GradientTimesInput())
    assert same.score == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match="empty"):
        attribute(model, Likeness(first=" ", second="a"))


def test_looking_leaves_the_model_as_it_was(predictor):
    model = predictor(Classifier, ClassificationTask, classes=("no", "yes"))
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    found = attribute(model, ClassProbability(text="fine"), method=METHOD)
    assert np.isfinite(found.of("text").values).all()
    assert all(torch.equal(value, before[name]) for name, value in model.model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.model.parameters())
