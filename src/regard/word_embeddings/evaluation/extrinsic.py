"""Extrinsic tasks on frozen word embeddings: linear models of mean word vectors that classify texts or score pairs of texts.

Unknown words are handled only in `gathered`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data.labelled import LabelledText
from regard.embeddings.pooling import unit
from regard.errors import InputError, nearest
from regard.metrics.classification import class_score
from regard.metrics.regression import Interval, bootstrap_interval, pearson, spearman
from regard.word_embeddings.evaluation.similarity import Case, Lookup
from regard.word_embeddings.store import Matrix, WordVectors

Unknown = Literal["subwords", "zero"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
"""How words that are not in the table are treated: `subwords` computes their vectors from subwords, if the embeddings have
subwords; `zero` does not. A word without a vector is a zero vector for a tagger, and is left out of the mean of a text; the mean
of a text without known words is zero."""

Words = Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskWords:
    """The vectors of all words of a task.

    Arguments:
        words: the V different words.
        matrix: (V, W) float32, zeros for words without a vector.
        known: (V,) bool, True = the word has a vector.
        made: (V,) bool, True = the vector was computed from subwords.
        name: the name of the embeddings.
    """

    words: tuple[str, ...]
    matrix: Matrix
    known: NDArray[np.bool_]
    made: NDArray[np.bool_]
    name: str

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def numbers(self, text: Words) -> NDArray[np.int64]:
        """The rows of a text's words, (L,) int64."""
        return np.array([self.rows[word] for word in text], dtype=np.int64)

    def means(self, texts: Sequence[Words]) -> Matrix:
        """The mean of the vectors of each text's known words, (N, W) float32; zeros for a text without known words."""
        found = np.zeros((len(texts), self.matrix.shape[1]), dtype=np.float32)
        for number, text in enumerate(texts):
            rows = self.numbers(text)
            rows = rows[self.known[rows]]
            if len(rows):
                found[number] = self.matrix[rows].mean(axis=0)
        return found

    def coverage(self, texts: Iterable[Words]) -> Coverage:
        """How many words of these texts have a vector."""
        counts = np.zeros(len(self.words), dtype=np.int64)
        for text in texts:
            np.add.at(counts, self.numbers(text), 1)
        there = counts > 0
        return Coverage(
            tokens=int(counts.sum()),
            known=int(counts[self.known].sum()),
            types=int(there.sum()),
            known_types=int((there & self.known).sum()),
            made=int(counts[self.made].sum()),
        )

    def with_random_vectors(self, seed: int = 0) -> TaskWords:
        """The same words, with the vectors of known words sampled from a standard normal distribution."""
        sampled = np.random.default_rng(seed).standard_normal(self.matrix.shape, dtype=np.float32)
        return replace(self, matrix=np.where(self.known[:, None], sampled, np.float32(0)), name="random vectors")


def gathered(
    vectors: WordVectors, texts: Iterable[Words], *, unknown: Unknown = "subwords", case: Case = "lower"
) -> TaskWords:
    """The vectors of all words in these texts.

    Arguments:
        vectors: the word embeddings.
        texts: lists of words.
        unknown: how words that are not in the table are treated, see `UNKNOWN`.
        case: how words are looked up; `lower`: unchanged, or else in lower case.

    Raises:
        InputError: for an unknown value of `unknown` or `case`, and if no word has a vector.

    >>> table = WordVectors(words=("a", "b"), matrix=np.array([[1, 0], [0, 3]], dtype=np.float32))
    >>> gathered(table, [["A", "c"], ["b"]]).means([["A", "b", "c"], ["c"]]).tolist()
    [[0.5, 1.5], [0.0, 0.0]]
    """
    if unknown not in UNKNOWN:
        raise InputError(f"there is no way {unknown!r} to treat unknown words; {nearest(unknown, UNKNOWN)}")
    words = tuple(dict.fromkeys(word for text in texts for word in text))
    lookup = Lookup(vectors=vectors, case=case)
    matrix = np.zeros((len(words), vectors.width), dtype=np.float32)
    known, made = np.zeros(len(words), dtype=bool), np.zeros(len(words), dtype=bool)
    for number, word in enumerate(words):
        own = lookup.row(word) is not None
        vector = lookup.vector(word) if own or unknown == "subwords" else None
        if vector is not None:
            matrix[number], known[number], made[number] = vector, True, not own
    if not known.any():
        shown = ", ".join(map(repr, words[:3]))
        raise InputError(f"{vectors.name}: has no vector for any word of the task, such as {shown}; use other vectors")
    return TaskWords(words=words, matrix=matrix, known=known, made=made, name=vectors.name)


# Words and labels of texts.

_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:[.,]\d+)*|[^\w\s]", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """Split a text into words, numbers and punctuation marks, with English contractions split as in the Penn Treebank.

    Text that is already tokenized in this way is not changed.

    >>> words_of("It's 3.5 km, and he can't. He could n't!")
    ['It', "'s", '3.5', 'km', ',', 'and', 'he', 'ca', "n't", '.', 'He', 'could', "n't", '!']
    """
    return _WORD.findall(text.replace("\u2019", "'"))


WordSplitter = Callable[[str], Sequence[str]]
"""A function from a text to its words, such as `words_of`, or `str.split` for tokenized text."""


def classes(examples: Sequence[LabelledText], where: str) -> list[str]:
    """The labels of the examples as class names; `where` names the examples in messages.

    Raises:
        InputError: for no examples, and for an example without a label.
    """
    _check(examples, where)
    return [str(each.label) for each in examples]


def numbers(examples: Sequence[LabelledText], where: str) -> np.ndarray:
    """The labels of the examples as numbers, (N,) float64; `where` names the examples in messages.

    Raises:
        InputError: for no examples, and for an example whose label is not a number.
    """
    _check(examples, where)
    wrong = next((each for each in examples if not isinstance(each.label, int | float)), None)
    if wrong is not None:
        raise InputError(f"{wrong.file}, line {wrong.line}: the label is {wrong.label!r}, not a number; read it as one")
    return np.array([each.label for each in examples], dtype=np.float64)


def usual(train: Sequence[str]) -> str:
    """The most frequent class; in a tie the first in alphabetical order.

    Raises:
        InputError: if there is only one class.
    """
    counts = Counter(train)
    if len(counts) < 2:
        raise InputError(f"train: all examples have the class {next(iter(counts))!r}; give at least two classes")
    return min(counts, key=lambda name: (-counts[name], name))


def both(examples: Sequence[LabelledText], words: WordSplitter) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """The words of the first text and of the second text of each example.

    Raises:
        InputError: for an example with only one text.
    """
    single = next((each for each in examples if each.pair is None), None)
    if single is not None:
        raise InputError(f"{single.file}, line {single.line}: has only one text; give pairs of texts")
    return [words(each.text) for each in examples], [words(each.pair or "") for each in examples]


def _check(examples: Sequence[LabelledText], where: str) -> None:
    if not examples:
        raise InputError(f"{where}: holds no examples; give at least one")
    without = next((each for each in examples if each.label is None), None)
    if without is not None:
        raise InputError(f"{without.file}, line {without.line}: has no label; read the file with labels")


# The linear models on top of the vectors.

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""The penalties that ridge regression chooses from, by leave-one-out cross-validation on the training data."""


def logistic(c: float) -> Any:
    """Logistic regression on features that are standardized to mean 0 and variance 1, so that their scale has no effect.

    Arguments:
        c: the inverse of the regularization strength, as scikit-learn's C.

    Raises:
        InputError: if scikit-learn is not installed, or c is not above 0.
    """
    if not c > 0:
        raise InputError(f"c is {c}; give a number above 0")
    return _scaled("LogisticRegression", C=c, max_iter=2000)


def ridge() -> Any:
    """Ridge regression on features that are standardized to mean 0 and variance 1, with the best penalty of `RIDGES`.

    Raises:
        InputError: if scikit-learn is not installed.
    """
    return _scaled("RidgeCV", alphas=RIDGES)


def _scaled(model: str, **settings: Any) -> Any:
    """One of scikit-learn's linear models after standardization of the features."""
    try:
        from sklearn import linear_model
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise InputError("scikit-learn is not installed; pip install 'regard[eval]'") from error
    return make_pipeline(StandardScaler(), getattr(linear_model, model)(**settings))


# Results.


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How many words of a text have a vector.

    Arguments:
        tokens, known: the number of words, and of those with a vector.
        types, known_types: the number of different words, and of those with a vector.
        made: the number of known tokens whose vector was computed from subwords.

    >>> Coverage(tokens=10, known=9, types=5, known_types=4, made=0).share
    0.9
    """

    tokens: int
    known: int
    types: int
    known_types: int
    made: int

    @property
    def share(self) -> float:
        """The share of tokens with a vector."""
        return self.known / self.tokens if self.tokens else 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"share": self.share}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtrinsicResult:
    """The scores of a small model on top of word embeddings.

    Arguments:
        task: `classification`, `tagging`, `cosines of pairs` or `features of pairs`.
        vectors: the name of the embeddings.
        scores: for each metric the score with its bootstrap interval over the test examples.
        floors: the scores of baselines, by name: random vectors for the same words, and a prediction that ignores the input.
        coverage: how many words of the test texts have a vector.
        train, test: the number of examples.
        unknown: how words that are not in the table were treated.
        settings: the settings of the model.
    """

    task: str
    vectors: str
    scores: Mapping[str, Interval]
    floors: Mapping[str, Mapping[str, Interval]]
    coverage: Coverage
    train: int
    test: int
    unknown: str
    settings: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As JSON values; an undefined score is None."""
        return {
            "task": self.task,
            "vectors": self.vectors,
            "scores": _intervals(self.scores),
            "floors": {name: _intervals(scores) for name, scores in self.floors.items()},
            "coverage": self.coverage.to_json(),
            "train": self.train,
            "test": self.test,
            "unknown": self.unknown,
            "settings": dict(self.settings),
        }


def _intervals(scores: Mapping[str, Interval]) -> dict[str, Any]:
    return {
        name: {key: value if math.isfinite(value) else None for key, value in asdict(interval).items()}
        for name, interval in scores.items()
    }


# Texts.


def evaluate_classification(
    vectors: WordVectors,
    train: Sequence[LabelledText],
    test: Sequence[LabelledText],
    *,
    words: WordSplitter = words_of,
    c: float = 0.1,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """The accuracy of logistic regression on mean word vectors of texts (an extrinsic task of Schnabel et al. 2015).

    The word vectors are frozen; the features of the means are standardized over the training texts. The baselines are random
    vectors for the same words, which still distinguish words, and the most frequent class of the training texts.

    Arguments:
        vectors: the word embeddings.
        train, test: labelled texts, as from `regard.data.labelled.read_labelled`.
        words: a function that splits a text into words.
        c: the inverse of the regularization strength.
        unknown, case: how words are looked up, see `gathered`.
        resamples: the number of bootstrap resamples of the test texts.
        seed: seed of the bootstrap and of the random vectors.

    Raises:
        InputError: for data without examples, without labels or with a single class; if no word has a vector; and if
            scikit-learn is not installed.
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
            "random vectors": accuracy(_predicted(task.with_random_vectors(seed), texts, gold[0], c)),
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


# Pairs of texts: their cosine, and a linear model of their mean vectors.

Scores = dict[str, Interval]


def evaluate_cosines(
    vectors: WordVectors,
    test: Sequence[LabelledText],
    *,
    words: WordSplitter = words_of,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """Pearson's and Spearman's correlation of cos(u, v) with people's scores, where u and v are mean word vectors.

    Nothing is trained. The baseline is random vectors for the same words, whose cosine measures the overlap of words.

    Arguments:
        vectors: the word embeddings.
        test: pairs of texts with a number, as from `regard.data.labelled.read_labelled`.
        words, unknown, case, resamples, seed: as for `evaluate_classification`.

    Raises:
        InputError: for data without examples, pairs or numbers, and if no word has a vector.
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
        floors={"random vectors": scores(task.with_random_vectors(seed))},
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
    words: WordSplitter = words_of,
    c: float = 0.1,
    positive: str | None = None,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """The scores of a linear model on |u - v| and u * v, where u and v are the mean word vectors of two texts.

    If the labels are numbers, the model is ridge regression, evaluated by Pearson's and Spearman's correlation. If they are
    classes, it is logistic regression, evaluated by accuracy and, if `positive` is given, by the F1 of that class. The
    baselines are random vectors for the same words and, for classes, the most frequent class.

    Arguments:
        vectors: the word embeddings.
        train, test: labelled pairs of texts, as from `regard.data.labelled.read_labelled`.
        positive: the class whose F1 is computed, such as MRPC's "equivalent"; None for no F1.
        words, c, unknown, case, resamples, seed: as for `evaluate_classification`.

    Raises:
        InputError: for data without examples, pairs or labels; for an unknown class; if no word has a vector; and if scikit-learn
            is not installed.
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
        floors={"random vectors": scores(task.with_random_vectors(seed)), **model.floors},
        coverage=task.coverage([*texts[1][0], *texts[1][1]]),
        train=len(train),
        test=len(test),
        unknown=unknown,
        settings={"model": f"{model.name} on |u - v| and u * v", "case": case, "seed": seed}
        | ({} if rated else {"c": c}),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Model:
    """A model, the labels it is fitted to, and the function that scores its predictions."""

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
        judged=lambda predicted: _correlations(right, predicted, resamples, seed),
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

    def judged(predicted: NDArray) -> Scores:
        return _class_scores(right, [str(each) for each in predicted], positive, resamples, seed)

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


def _correlations(gold: NDArray, predicted: NDArray, resamples: int, seed: int) -> Scores:
    rows = np.stack([gold, np.asarray(predicted, dtype=np.float64)], axis=1)
    return {
        name: bootstrap_interval(
            rows, lambda sample, of=of: of(sample[:, 0], sample[:, 1]), resamples=resamples, seed=seed
        )
        for name, of in (("pearson", pearson), ("spearman", spearman))
    }


def _class_scores(gold: list[str], predicted: list[str], positive: str | None, resamples: int, seed: int) -> Scores:
    right = np.array([a == b for a, b in zip(gold, predicted, strict=True)], dtype=np.float64)
    found = {"accuracy": bootstrap_interval(right, resamples=resamples, seed=seed)}
    if positive is not None:
        rows = np.array(
            [[a == positive, b == positive, a == b == positive] for a, b in zip(gold, predicted, strict=True)]
        )
        found["f1"] = bootstrap_interval(rows, count_f1, resamples=resamples, seed=seed)
    return found


def count_f1(rows: NDArray) -> float:
    """F1 from counts, (N, 3): the numbers of gold items, of predicted items, and of items that are both, summed over rows.

    >>> count_f1(np.array([[1, 1, 1], [1, 0, 0]]))
    0.6666666666666666
    """
    return class_score(*(int(count) for count in rows.sum(axis=0))).f1
