"""How good a tagger is, by spans and by words, in whatever scheme the data is."""

from __future__ import annotations

import pytest

import regard
from regard.data.tagged import TaggedSentence, read_tagged
from regard.data.tags import convert, spans_of
from regard.errors import InputError
from regard.metrics.classification import chunk_scores
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.tagging import Tagger, evaluate_tags, prepare_tags
from regard.tasks.tagging_data import SENTENCES, TaggedData

GOLD = [
    (["Angela", "Merkel", "visited", "Paris"], ["B-PER", "I-PER", "O", "B-LOC"]),
    (["Ann", "Lee", "x"], ["B-PER", "B-PER", "O"]),
    (["New", "York", "y", "z", "1"], ["B-LOC", "I-LOC", "O", "O", "O"]),
]


def test_the_figures_are_those_of_its_own_answers(tagger):
    model = tagger()
    found = evaluate_tags(model, GOLD)
    predicted = [prediction.tags for prediction in found.predictions]
    assert predicted == [model.tag(words).tags for words, _ in GOLD]
    scores = chunk_scores([spans_of(tags) for _, tags in GOLD], [spans_of(tags) for tags in predicted])
    assert found.metrics["f1"] == scores.overall.f1
    assert found.classes == scores.types
    right = sum(
        a == b for (_, tags), other in zip(GOLD, predicted, strict=True) for a, b in zip(tags, other, strict=True)
    )
    assert found.metrics["accuracy"] == right / 12
    assert (found.count, found.words, found.note) == (3, 12, "")


@pytest.mark.parametrize("scheme", ["IOB1", "BIOES", "BILOU"])
def test_the_scheme_of_the_data_makes_no_difference(tagger, scheme):
    model = tagger()
    others = [(words, convert(tags, "BIO", scheme)) for words, tags in GOLD]
    assert evaluate_tags(model, others).metrics == evaluate_tags(model, GOLD).metrics


def test_what_is_right_counts_in_full(tagger):
    model = tagger()
    texts = [words for words, _ in GOLD]
    gold = [(words, model.tag(words).tags) for words in texts]
    found = evaluate_tags(model, gold)
    assert found.metrics == {"f1": 1.0, "precision": 1.0, "recall": 1.0, "accuracy": 1.0}


def test_types_that_the_model_does_not_have_count_as_missed_and_are_told(tagger):
    found = evaluate_tags(tagger(), [*GOLD, (["x"], ["B-WORK"])])
    assert "WORK" in found.note
    assert found.classes["WORK"].recall == 0


def test_tags_without_spans_are_judged_by_accuracy(tagger):
    model = tagger(tags=("NN", "VB", "JJ", "DT", "IN"), scheme=None)
    found = evaluate_tags(model, [(["Ann", "visited"], ["NN", "VB"])])
    assert list(found.metrics) == ["accuracy"]
    assert found.classes["NN"].gold == 1


def test_greedy_tags_are_judged_likewise(tagger):
    model = tagger()
    greedy = evaluate_tags(model, GOLD, decoding="greedy")
    assert [p.tags for p in greedy.predictions] == [model.tag(words, decoding="greedy").tags for words, _ in GOLD]


@pytest.mark.parametrize(
    ("sentences", "sentence"),
    [
        ([], "there is nothing to evaluate"),
        ("Ann", "there is nothing to evaluate"),
        ([(["a"], ["B-WORK"])], "sentences: the model has none of the tags there, such as 'WORK'; it has LOC, PER"),
        ([(["a"], ["NN"])], "do not encode spans in any known scheme"),
        ([(["a", "b"], ["O"])], "2 words and 1 tags"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(tagger, sentences, sentence):
    with pytest.raises(InputError, match=sentence):
        evaluate_tags(tagger(), sentences)


def test_the_house_evaluates_files_of_a_recipes_section(tagger, tmp_path):
    path = tmp_path / "dev.conll"
    path.write_text("Ann B-PER\nLee I-PER\n\nx O\n")
    model = tagger()
    from regard.data.malformed import MalformedRows

    sentences = list(SENTENCES.named(TaggedData(train=str(path)), MalformedRows()))
    assert sentences == list(read_tagged(path))
    assert isinstance(sentences[0], TaggedSentence)
    assert regard.evaluate(model, sentences).count == 2
    with pytest.raises(InputError, match="no file"):
        SENTENCES.named(TaggedData(), MalformedRows())


@pytest.mark.parametrize(("maximum", "context"), [(40, 0), (6, 0), (20, 4)])
def test_judging_in_training_is_evaluation(tagger, tmp_path, maximum, context):
    given = [*GOLD, (["x"] * 20, ["O"] * 19 + ["B-PER"])]
    data = TaggedData(maximum_length=maximum, context=context, tags=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"))
    model = tagger(maximum_length=maximum, context=context)
    model.task.tokenizer.save(tmp_path / "tokenizer")
    prepared = prepare_tags(
        data,
        EncoderTokenizerSettings(path=str(tmp_path / "tokenizer")),
        tmp_path / "data",
        seed=1,
        given=given,
        given_validation=given,
    )
    judged = Tagger(model.model, prepared.task).validate(prepared.validation, 10_000)
    assert judged == pytest.approx(evaluate_tags(model, given).metrics)
    assert set(judged) == set(Tagger.metric_names)
