"""Tagging words by their vectors and their neighbours', against scikit-learn on windows written out, and conlleval's counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from regard.data.tagged import TaggedSentence
from regard.data.tags import convert, spans_of
from regard.errors import InputError
from regard.metrics.classification import chunk_scores
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.extrinsic import count_f1, gathered
from regard.word_embeddings.evaluation.tagging import _counts, evaluate_tagging, fit_windows, scaled, windows_around

PLACES, PEOPLE, REST = ["Rome", "Oslo", "Lima"], ["Ann", "Bob", "Eve"], ["went", "to", "and", "saw", "the", "old"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC"]


def sentences(count: int, seed: int) -> list[TaggedSentence]:
    """People have a title before them at times, which begins the span and is a plain word elsewhere."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        words, tags = [], []
        for _ in range(int(draw.integers(1, 6))):
            kind = int(draw.integers(4))
            if kind == 0:
                words.append(str(draw.choice(PLACES)))
                tags.append("I-LOC")
            elif kind == 1:
                words += ["old", str(draw.choice(PEOPLE))]
                tags += ["I-PER", "I-PER"]
            else:
                words.append(str(draw.choice(REST)))
                tags.append("O")
            words.append("stop")
            tags.append("O")
        found.append(TaggedSentence(words=tuple(words), tags=tuple(tags), file="made", line=number + 1))
    return found


@pytest.fixture
def vectors() -> WordVectors:
    words = (*PLACES, *PEOPLE, *REST)  # "stop" has none
    matrix = np.random.default_rng(1).normal(2, 3, size=(len(words), 4)).astype(np.float32)
    return WordVectors(words=words, matrix=matrix, name="drawn")


def written_out(matrix: np.ndarray, windows: np.ndarray) -> np.ndarray:
    return matrix[windows].reshape(len(windows), -1)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 2), st.integers(3, 4), st.sampled_from([0.05, 1.0]))
def test_the_model_is_scikit_learns_on_windows_written_out(seed, reach, count, c):
    draw = np.random.default_rng(seed)
    matrix = np.concatenate([draw.normal(size=(9, 3)), np.zeros((1, 3))])
    texts = [draw.integers(0, 9, size=int(draw.integers(1, 7))) for _ in range(25)]
    windows = windows_around(texts, reach, padding=9)
    classes = np.concatenate([np.arange(count), draw.integers(0, count, len(windows) - count)])
    model = fit_windows(matrix, windows, classes, count, c=c, tolerance=1e-9, maximum_steps=2000)
    theirs = LogisticRegression(C=c, tol=1e-8, max_iter=5000).fit(written_out(matrix, windows), classes)
    scores = model.logits(matrix, windows)
    right = theirs.decision_function(written_out(matrix, windows))
    ours = scores - scores.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(ours, right - right.mean(axis=1, keepdims=True), atol=2e-3)
    np.testing.assert_allclose(model.weights.reshape(-1, count), theirs.coef_.T, atol=1e-3)


def test_the_gradient_vanishes_where_training_ends():
    draw = np.random.default_rng(2)
    matrix, windows = draw.normal(size=(9, 3)), draw.integers(0, 9, size=(60, 3))
    classes = draw.integers(0, 3, 60)
    model = fit_windows(matrix, windows, classes, 3, c=0.5, tolerance=1e-9)

    def loss(weights: np.ndarray) -> float:
        logits = written_out(matrix, windows) @ weights.reshape(9, 3) + model.bias
        spread = np.log(np.exp(logits).sum(axis=1))
        return 0.5 * float((spread - logits[np.arange(60), classes]).sum()) + float((weights**2).sum()) / 2

    least = loss(model.weights)
    for _ in range(20):
        assert loss(model.weights + draw.normal(0, 0.05, model.weights.shape)) > least


def test_windows_end_with_their_sentence_and_unknown_words_are_zeros(vectors):
    part = sentences(40, 1)
    task = gathered(vectors, [each.words for each in part])
    rows = [task.numbers(each.words) for each in part]
    matrix = scaled(task, np.concatenate(rows))
    windows = windows_around(rows, 2, len(matrix) - 1)
    at = 0
    for each in part:
        for place in range(len(each.words)):
            for offset, row in zip(range(-2, 3), windows[at], strict=True):
                other = place + offset
                outside = not 0 <= other < len(each.words)
                if outside or each.words[other] == "stop":
                    assert not matrix[row].any()
                else:
                    assert task.words[row] == each.words[other]
            at += 1
    seen = np.concatenate([matrix[task.numbers(each.words)] for each in part])
    known = seen[[word != "stop" for each in part for word in each.words]]
    np.testing.assert_allclose(known.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(known.std(axis=0), 1, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1), min_size=1))
def test_counts_of_sentences_add_up_to_conllevals(pairs):
    gold, said = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    rows = np.array([_counts(*pair) for pair in zip(gold, said, strict=True)])
    right = chunk_scores([spans_of(each) for each in gold], [spans_of(each) for each in said]).overall
    assert count_f1(rows) == right.f1
    assert rows.sum(axis=0).tolist() == [right.gold, right.predicted, right.correct]


def test_neighbours_tell_what_a_word_alone_does_not(vectors):
    train, test = sentences(200, 1), sentences(120, 2)
    found, alone = (evaluate_tagging(vectors, train, test, reach=reach, c=10.0) for reach in (2, 0))
    assert found.scores["f1"].value > 0.95
    assert alone.scores["f1"].value < found.scores["f1"].value - 0.05
    assert found.settings["steps"] > 1
    assert found.coverage.share == pytest.approx(
        np.mean([word != "stop" for each in test for word in each.words]), abs=1e-12
    )


def test_the_floor_of_words_commonest_tags_is_a_count(vectors):
    train, test = sentences(200, 1), sentences(120, 2)
    found = evaluate_tagging(vectors, train, test).floors["commonest tag of the word"]["f1"].value
    most = {"Rome": "B-LOC", "Oslo": "B-LOC", "Lima": "B-LOC", "Ann": "I-PER", "Bob": "I-PER", "Eve": "I-PER"}
    olds = [tag for each in train for word, tag in zip(each.words, each.tags, strict=True) if word == "old"]
    most["old"] = "B-PER" if olds.count("I-PER") > olds.count("O") else "O"
    said = [[most.get(word, "O") for word in each.words] for each in test]
    gold = [convert(each.tags, "IOB1", "BIO") for each in test]
    assert found == chunk_scores([spans_of(each) for each in gold], [spans_of(each) for each in said]).overall.f1


def test_tags_that_mark_no_spans_are_judged_by_accuracy(vectors):
    part = [
        TaggedSentence(words=("Ann", "saw", "Rome"), tags=("NNP", "VBD", "NNP"), file="made", line=1),
        TaggedSentence(words=("went", "to", "Oslo"), tags=("VBD", "TO", "NNP"), file="made", line=2),
    ] * 3
    found = evaluate_tagging(vectors, part, part, c=100.0)
    assert list(found.scores) == ["accuracy"]
    assert found.scores["accuracy"].value == 1.0


def test_data_that_cannot_be_used_is_refused(vectors):
    part = sentences(20, 1)
    bare = TaggedSentence(words=("Ann",), tags=(), file="a.conll", line=5)
    plain = TaggedSentence(words=("went",), tags=("O",), file="a.conll", line=5)
    for train, test, message in (
        ([], part, "train: holds no sentences"),
        (part, [bare], "a.conll, line 5: has no tag for each word"),
        ([plain], part, "two tags"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_tagging(vectors, train, test)
    with pytest.raises(InputError, match="reach is -1"):
        evaluate_tagging(vectors, part, part, reach=-1)
