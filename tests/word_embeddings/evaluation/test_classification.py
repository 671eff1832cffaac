"""Classifying texts by their words' vectors, against scikit-learn by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from regard.data.labelled import LabelledText
from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.extrinsic import evaluate_classification, gathered, words_of

GOOD, BAD = ["fine", "bright", "warm", "sweet"], ["dull", "grim", "cold", "sour"]
REST = ["film", "plot", "scene", "actor", "line", "shot"]


def texts(count: int, seed: int) -> list[LabelledText]:
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        kind = int(draw.integers(2))
        words = [*draw.choice(BAD if kind else GOOD, 2), *draw.choice(REST, 3), "unheard"]
        found.append(
            LabelledText(text=" ".join(map(str, words)), label="bad" if kind else "good", file="made", line=number + 1)
        )
    return found


@pytest.fixture
def vectors() -> WordVectors:
    words = (*GOOD, *BAD, *REST)
    matrix = np.random.default_rng(1).normal(size=(len(words), 5)).astype(np.float32)
    return WordVectors(words=words, matrix=matrix, name="drawn")


def test_the_accuracy_is_scikit_learns_on_means_made_by_hand(vectors):
    train, test = texts(120, 1), texts(80, 2)
    found = evaluate_classification(vectors, train, test, c=0.5)
    means = [
        np.stack([np.mean([vectors[word] for word in each.text.split() if word in vectors], axis=0) for each in part])
        for part in (train, test)
    ]
    scaler = StandardScaler().fit(means[0])
    model = LogisticRegression(C=0.5, max_iter=2000).fit(scaler.transform(means[0]), [each.label for each in train])
    right = model.predict(scaler.transform(means[1])) == [each.label for each in test]
    assert found.scores["accuracy"].value == right.mean()
    assert found.scores["accuracy"].low <= right.mean() <= found.scores["accuracy"].high


def test_floors_and_coverage_are_told(vectors):
    train, test = texts(120, 1), texts(80, 2)
    found = evaluate_classification(vectors, train, test)
    labels = [each.label for each in train]
    usual = max(set(labels), key=labels.count)
    assert found.floors["commonest class"]["accuracy"].value == np.mean([each.label == usual for each in test])
    assert found.coverage.share == pytest.approx(5 / 6)
    assert (found.coverage.tokens, found.coverage.types, found.coverage.made) == (480, 15, 0)
    assert (found.train, found.test) == (120, 80)
    assert json.loads(json.dumps(found.to_json()))["floors"]["random vectors"]["accuracy"]["level"] == 0.95
    assert evaluate_classification(vectors, train, test).to_json() == found.to_json()


def test_vectors_that_know_the_classes_beat_random_ones_for_words_not_seen_in_training():
    words = (*GOOD, *BAD, *REST)
    matrix = np.random.default_rng(3).normal(size=(len(words), 8)).astype(np.float32)
    matrix[:, 0] = [3] * 4 + [-3] * 4 + [0] * 6
    knowing = WordVectors(words=words, matrix=matrix)

    def only(part: list[LabelledText], kinds: set[str]) -> list[LabelledText]:
        return [each for each in part if not kinds & set(each.text.split())]

    train, test = only(texts(900, 4), {*GOOD[2:], *BAD[2:]}), only(texts(900, 5), {*GOOD[:2], *BAD[:2]})
    found = evaluate_classification(knowing, train, test)
    assert found.scores["accuracy"].value > 0.95
    assert found.floors["random vectors"]["accuracy"].value < 0.8


class Doubled:
    """A vector for every word."""

    def vector(self, word: str) -> np.ndarray | None:
        return np.full(2, len(word), dtype=np.float32)


def test_words_without_a_vector_are_made_of_subwords_or_left_out_of_the_mean():
    table = WordVectors(words=("a", "b"), matrix=np.array([[1, 0], [0, 1]], dtype=np.float32), subwords=Doubled())
    made, left = (gathered(table, [["A", "ccc"]], unknown=way) for way in ("subwords", "zero"))
    assert made.means([["A", "ccc"]]).tolist() == [[2.0, 1.5]]
    assert left.means([["A", "ccc"]]).tolist() == [[1.0, 0.0]]
    assert (made.coverage([["A", "ccc"]]).made, left.coverage([["A", "ccc"]]).known) == (1, 1)
    random = left.with_random_vectors(1)
    assert random.matrix[1].tolist() == [0.0, 0.0], "what is unknown stays so"
    assert random.matrix[0].tolist() != [1.0, 0.0]


def test_text_that_is_parted_already_stays():
    given = "it 's 1,000.5 km , is n't it ?"
    assert words_of(given) == given.split()
    assert words_of("Don\u2019t!") == ["Do", "n't", "!"]


def test_data_that_cannot_be_used_is_refused(vectors):
    train, test = texts(20, 1), texts(10, 2)
    bare = LabelledText(text="fine film", file="a.tsv", line=3)
    other = WordVectors(words=("x",), matrix=np.ones((1, 2), dtype=np.float32))
    for one, two, table, message in (
        ([], test, vectors, "train: holds no examples"),
        (train, [], vectors, "test: holds no examples"),
        (train, [*test, bare], vectors, r"a.tsv, line 3: has no label"),
        ([each for each in train if each.label == "good"], test, vectors, "two classes"),
        (train, test, other, "no vector for any word"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_classification(table, one, two)
    with pytest.raises(InputError, match="did you mean 'subwords'"):
        evaluate_classification(vectors, train, test, unknown="subword")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0"):
        evaluate_classification(vectors, train, test, c=0.0)
