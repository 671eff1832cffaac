"""Texts and pairs of texts on the means of their words' vectors: a classifier, cosines, a linear model of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.labelled import LabelledText
from regard.embeddings.pooling import unit
from regard.errors import InputError, nearest
from regard.metrics.classification import class_score
from regard.metrics.regression import Interval, bootstrap_interval, pearson, spearman
from regard.word_embeddings.evaluation.extrinsic.words import (
    ExtrinsicResult,
    Parting,
    TaskWords,
    Unknown,
    both,
    classes,
    gathered,
    logistic,
    numbers,
    ridge,
    usual,
    words_of,
)
from regard.word_embeddings.evaluation.lookup import Case
from regard.word_embeddings.store import Matrix, WordVectors


def evaluate_classification(
    vectors: WordVectors,
    train: Sequence[LabelledText],
    test: Sequence[LabelledText],
    *,
    words: Parting = words_of,
    c: float = 0.1,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """The accuracy of logistic regression on the mean vectors of texts (an extrinsic task of Schnabel et al. 2015).

    The vectors are frozen; each of the mean's numbers is brought to mean 0 and variance 1 over the training texts. Floors:
    vectors drawn at random for the same words, which still tell words apart, and the commonest class of the training texts.

    Arguments:
        train, test: as `regard.data.labelled.read_labelled` gives them.
        words: parts a text into words.
        c: one over the weight of the penalty.
        unknown, case: how words are found, see `gathered`.
        resamples: of the bootstrap, over test texts.
        seed: of the bootstrap and the random vectors.

    Raises:
        InputError: for data without examples, labels or a second class; where no word has a vector; and where scikit-learn is
            missing.
    """
    gold = classes(train, "train"), classes(test, "test")
    commonest = usual(gold[0])
    texts = [words(each.text) for each in train], [words(each.text) for each in test]
    task = gathered(vectors, [*texts[0], *texts[1]], unknown=unknown, case=case)

    def accuracy(predicted: Sequence[str]) -> dict[str, Interval]:
        right = np.array([a == b for a, b in zip(gold[1], predicted, strict=True)], dtype=np.float64)
        return {"accuracy": bootstrap_interval(right, resamples=resamples, seed=seed)}

    return ExtrinsicResult(
        task="classification",
        vectors=vectors.name,
        scores=accuracy(_predicted(task, texts, gold[0], c)),
        floors={
            "random vectors": accuracy(_predicted(task.redrawn(seed), texts, gold[0], c)),
            "commonest class": accuracy([commonest] * len(test)),
        },
        coverage=task.coverage(texts[1]),
        train=len(train),
        test=len(test),
        unknown=unknown,
        settings={"model": "logistic regression on the mean", "c": c, "case": case, "seed": seed},
    )


def _predicted(task: TaskWords, texts: tuple[Any, Any], gold: Sequence[str], c: float) -> list[str]:
    model = logistic(c).fit(task.means(texts[0]), gold)
    return [str(each) for each in model.predict(task.means(texts[1]))]


# Pairs: the cosine alone, and a linear model of what the two texts have in common.

Scores = dict[str, Interval]


def evaluate_cosines(
    vectors: WordVectors,
    test: Sequence[LabelledText],
    *,
    words: Parting = words_of,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """Pearson's and Spearman's correlation of cos(u, v) with what people say, u and v the mean vectors; nothing is trained.

    The floor is vectors drawn at random for the same words: what the share of common words says.

    Arguments:
        test: pairs with a number, as `regard.data.labelled.read_labelled` gives them.
        words, unknown, case, resamples, seed: as for `evaluate_classification`.

    Raises:
        InputError: for data without examples, pairs or numbers, and where no word has a vector.
    """
    gold = numbers(test, "test")
    texts = both(test, words)
    task = gathered(vectors, [*texts[0], *texts[1]], unknown=unknown, case=case)

    def scores(task: TaskWords) -> Scores:
        left, right = (unit(task.means(side)) for side in texts)
        return _correlations(gold, (left * right).sum(axis=1), resamples, seed)

    return ExtrinsicResult(
        task="cosines of pairs",
        vectors=vectors.name,
        scores=scores(task),
        floors={"random vectors": scores(task.redrawn(seed))},
        coverage=task.coverage([*texts[0], *texts[1]]),
        train=0,
        test=len(test),
        unknown=unknown,
        settings={"model": "cosine of the means", "case": case, "seed": seed},
    )


def evaluate_pairs(
    vectors: WordVectors,
    train: Sequence[LabelledText],
    test: Sequence[LabelledText],
    *,
    words: Parting = words_of,
    c: float = 0.1,
    positive: str | None = None,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """A linear model on |u - v| and u * v, u and v the mean vectors of two texts.

    Where the labels are numbers it is ridge regression, judged by Pearson's and Spearman's correlation; where they are classes,
    logistic regression, judged by accuracy, and by the F1 of one of them where it is named. Floors: random vectors for the same
    words, and the commonest class.

    Arguments:
        train, test: pairs, as `regard.data.labelled.read_labelled` gives them.
        positive: the class whose F1 is told, such as MRPC's "equivalent"; None for none.
        words, c, unknown, case, resamples, seed: as for `evaluate_classification`.

    Raises:
        InputError: for data without examples, pairs or labels; a class that does not exist; where no word has a vector; and where
            scikit-learn is missing.
    """
    texts = both(train, words), both(test, words)
    rated = bool(train) and not isinstance(train[0].label, str | None)
    spread = resamples, seed
    model = _of_numbers(train, test, *spread) if rated else _of_classes(train, test, c, positive, *spread)
    task = gathered(vectors, [text for part in texts for side in part for text in side], unknown=unknown, case=case)

    def scores(task: TaskWords) -> Scores:
        fitted = model.make().fit(_features(task, texts[0]), model.gold)
        return model.judged(fitted.predict(_features(task, texts[1])))

    return ExtrinsicResult(
        task="features of pairs",
        vectors=vectors.name,
        scores=scores(task),
        floors={"random vectors": scores(task.redrawn(seed)), **model.floors},
        coverage=task.coverage([*texts[1][0], *texts[1][1]]),
        train=len(train),
        test=len(test),
        unknown=unknown,
        settings={"model": f"{model.name} on |u - v| and u * v", "case": case, "seed": seed}
        | ({} if rated else {"c": c}),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Model:
    """What is fitted to which labels, and how its answers are judged."""

    name: str
    make: Callable[[], Any]
    gold: Any
    judged: Callable[[NDArray], Scores]
    floors: dict[str, Scores]


def _of_numbers(train: Sequence[LabelledText], test: Sequence[LabelledText], resamples: int, seed: int) -> _Model:
    right = numbers(test, "test")
    return _Model(
        name="ridge regression",
        make=ridge,
        gold=numbers(train, "train"),
        judged=lambda said: _correlations(right, said, resamples, seed),
        floors={},
    )


def _of_classes(
    train: Sequence[LabelledText],
    test: Sequence[LabelledText],
    c: float,
    positive: str | None,
    resamples: int,
    seed: int,
) -> _Model:
    gold, right = classes(train, "train"), classes(test, "test")
    commonest = usual(gold)
    if positive is not None and positive not in gold:
        raise InputError(f"there is no class {positive!r}; {nearest(positive, sorted(set(gold)))}")

    def judged(said: NDArray) -> Scores:
        return _class_scores(right, [str(each) for each in said], positive, resamples, seed)

    return _Model(
        name="logistic regression",
        make=lambda: logistic(c),
        gold=gold,
        judged=judged,
        floors={"commonest class": judged(np.array([commonest] * len(test)))},
    )


def _features(task: TaskWords, texts: tuple[Sequence[Any], Sequence[Any]]) -> Matrix:
    left, right = (task.means(side) for side in texts)
    return np.concatenate([np.abs(left - right), left * right], axis=1)


def _correlations(gold: NDArray, said: NDArray, resamples: int, seed: int) -> Scores:
    rows = np.stack([gold, np.asarray(said, dtype=np.float64)], axis=1)
    return {
        name: bootstrap_interval(
            rows, lambda drawn, of=of: of(drawn[:, 0], drawn[:, 1]), resamples=resamples, seed=seed
        )
        for name, of in (("pearson", pearson), ("spearman", spearman))
    }


def _class_scores(gold: list[str], said: list[str], positive: str | None, resamples: int, seed: int) -> Scores:
    right = np.array([a == b for a, b in zip(gold, said, strict=True)], dtype=np.float64)
    found = {"accuracy": bootstrap_interval(right, resamples=resamples, seed=seed)}
    if positive is not None:
        rows = np.array([[a == positive, b == positive, a == b == positive] for a, b in zip(gold, said, strict=True)])
        found["f1"] = bootstrap_interval(rows, count_f1, resamples=resamples, seed=seed)
    return found


def count_f1(rows: NDArray) -> float:
    """F1 of rows (N, 3) of how many are gold, predicted, and both.

    >>> count_f1(np.array([[1, 1, 1], [1, 0, 0]]))
    0.6666666666666666
    """
    return class_score(*(int(count) for count in rows.sum(axis=0))).f1
