"""Pairs of texts by their words' vectors: cosines by hand, and scikit-learn on features made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from regard.data.labelled import LabelledText
from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.extrinsic import RIDGES, evaluate_cosines, evaluate_pairs

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture
def vectors() -> WordVectors:
    return WordVectors(words=tuple(WORDS), matrix=np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32))


def pairs(count: int, seed: int, *, rated: bool) -> list[LabelledText]:
    """The more words two texts have in common, the more alike they are said to be."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        same = int(draw.integers(0, 6))
        first = draw.choice(WORDS, 6, replace=False)
        second = [*first[:same], *draw.choice(WORDS, 6 - same)]
        score = same + float(draw.normal(0, 0.5))
        label: float | str = score if rated else ("same" if score > 2.5 else "other")
        found.append(LabelledText(text=" ".join(first), pair=" ".join(second), label=label, file="made", line=number))
    return found


def means(vectors: WordVectors, texts: list[str]) -> np.ndarray:
    return np.stack([np.mean([vectors[word] for word in text.split()], axis=0) for text in texts])


def sides(vectors: WordVectors, part: list[LabelledText]) -> tuple[np.ndarray, np.ndarray]:
    return means(vectors, [each.text for each in part]), means(vectors, [each.pair or "" for each in part])


def features(vectors: WordVectors, part: list[LabelledText]) -> np.ndarray:
    u, v = sides(vectors, part)
    return np.hstack([np.abs(u - v), u * v])


def test_correlations_of_cosines_are_scipys(vectors):
    part = pairs(90, 1, rated=True)
    u, v = sides(vectors, part)
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    gold = [each.label for each in part]
    found = evaluate_cosines(vectors, part)
    assert found.scores["pearson"].value == pytest.approx(stats.pearsonr(gold, cosines).statistic, abs=1e-6)
    assert found.scores["spearman"].value == pytest.approx(stats.spearmanr(gold, cosines).statistic, abs=1e-6)
    assert found.coverage.tokens == 90 * 12
    assert found.coverage.share == 1.0


def test_ridge_regression_is_scikit_learns_on_features_by_hand(vectors):
    train, test = pairs(150, 1, rated=True), pairs(90, 2, rated=True)
    scaler = StandardScaler().fit(features(vectors, train))
    model = RidgeCV(alphas=RIDGES).fit(scaler.transform(features(vectors, train)), [each.label for each in train])
    said = model.predict(scaler.transform(features(vectors, test)))
    found = evaluate_pairs(vectors, train, test)
    gold = [each.label for each in test]
    assert found.scores["pearson"].value == pytest.approx(stats.pearsonr(gold, said).statistic, abs=1e-5)
    assert found.scores["pearson"].value > 0.4, "there is something to learn"
    assert "commonest class" not in found.floors


def test_classes_of_pairs_are_logistic_regressions(vectors):
    train, test = pairs(150, 1, rated=False), pairs(90, 2, rated=False)
    scaler = StandardScaler().fit(features(vectors, train))
    labels = [each.label for each in train]
    model = LogisticRegression(C=0.1, max_iter=2000).fit(scaler.transform(features(vectors, train)), labels)
    said = model.predict(scaler.transform(features(vectors, test)))
    gold = [each.label for each in test]
    found = evaluate_pairs(vectors, train, test, positive="same")
    assert found.scores["accuracy"].value == np.mean(said == gold)
    assert found.scores["f1"].value == pytest.approx(f1_score(gold, said, pos_label="same"))
    assert set(found.floors) == {"random vectors", "commonest class"}


def test_single_texts_and_labels_of_the_wrong_kind_are_refused(vectors):
    rated, classed = pairs(30, 1, rated=True), pairs(30, 1, rated=False)
    alone = LabelledText(text="w1", label=1.0, file="a.tsv", line=7)
    with pytest.raises(InputError, match=r"a.tsv, line 7: has only one text"):
        evaluate_cosines(vectors, [alone])
    with pytest.raises(InputError, match="not a number"):
        evaluate_cosines(vectors, classed)
    with pytest.raises(InputError, match="not a number"):
        evaluate_pairs(vectors, rated, classed)
    with pytest.raises(InputError, match="did you mean 'same'"):
        evaluate_pairs(vectors, classed, classed, positive="sam")
    with pytest.raises(InputError, match="train: holds no examples"):
        evaluate_pairs(vectors, [], classed)
