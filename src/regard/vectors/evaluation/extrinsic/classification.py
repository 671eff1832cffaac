"""A classifier of texts on the mean of their words' vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.data.labelled import LabelledText
from regard.metrics.bootstrap import Interval, bootstrap_interval
from regard.vectors.evaluation.extrinsic.examples import Parting, classes, usual
from regard.vectors.evaluation.extrinsic.linear import logistic
from regard.vectors.evaluation.extrinsic.result import ExtrinsicResult
from regard.vectors.evaluation.extrinsic.task_words import TaskWords, Unknown, gathered
from regard.vectors.evaluation.extrinsic.text_words import words_of
from regard.vectors.evaluation.lookup import Case
from regard.vectors.store import WordVectors


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
