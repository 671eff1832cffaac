"""Tasks on frozen word vectors: classify texts and score pairs of texts by linear models of the means of their words' vectors.

Unknown words are dealt with in `gathered` alone.
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
"""What becomes of a word that the table does not have: `subwords` asks these for a vector, where the vectors have any; `zero`
does not. A word without a vector is a vector of zeros to a tagger, and is left out of a text's mean; a text of such words
alone has a mean of zeros."""

Words = Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskWords:
    """Every word of a task once.

    Arguments:
        words: all different.
        matrix: (V, W) float32, zeros for a word without a vector.
        known: (V,) bool, whether it has one.
        made: (V,) bool, whether it is made of subwords.
        name: of the vectors.
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
        """The rows of a text's words, (L,)."""
        return np.array([self.rows[word] for word in text], dtype=np.int64)

    def means(self, texts: Sequence[Words]) -> Matrix:
        """Of each text the mean of the vectors of its words that have one, (N, W); zeros where none has."""
        found = np.zeros((len(texts), self.matrix.shape[1]), dtype=np.float32)
        for number, text in enumerate(texts):
            rows = self.numbers(text)
            rows = rows[self.known[rows]]
            if len(rows):
                found[number] = self.matrix[rows].mean(axis=0)
        return found

    def coverage(self, texts: Iterable[Words]) -> Coverage:
        """How many words of some texts have a vector."""
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

    def redrawn(self, seed: int = 0) -> TaskWords:
        """The same words with vectors sampled from a normal distribution, for just those that have one."""
        drawn = np.random.default_rng(seed).standard_normal(self.matrix.shape, dtype=np.float32)
        return replace(self, matrix=np.where(self.known[:, None], drawn, np.float32(0)), name="random vectors")


def gathered(
    vectors: WordVectors, texts: Iterable[Words], *, unknown: Unknown = "subwords", case: Case = "lower"
) -> TaskWords:
    """The vectors of all words in some texts.

    Arguments:
        texts: lists of words.
        unknown: what becomes of a word that the table does not have, see `UNKNOWN`.
        case: how words are found; `lower`: as they stand, or else in small letters.

    Raises:
        InputError: for a way that does not exist, and where no word at all has a vector.

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
        raise InputError(f"{vectors.name}: has no vector of any word of the task, such as {shown}; take other vectors")
    return TaskWords(words=words, matrix=matrix, known=known, made=made, name=vectors.name)


# Words and labels of texts.

_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:[.,]\d+)*|[^\w\s]", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """Words, numbers and marks, English contractions parted as in the Penn Treebank; text that is parted so already stays.

    >>> words_of("It's 3.5 km, and he can't. He could n't!")
    ['It', "'s", '3.5', 'km', ',', 'and', 'he', 'ca', "n't", '.', 'He', 'could', "n't", '!']
    """
    return _WORD.findall(text.replace("\u2019", "'"))


Parting = Callable[[str], Sequence[str]]
"""From a text to its words, such as `words_of`, or `str.split` for text that is parted already."""


def classes(examples: Sequence[LabelledText], where: str) -> list[str]:
    """The labels, as names of classes.

    Raises:
        InputError: for no examples, and one without a label.
    """
    _check(examples, where)
    return [str(each.label) for each in examples]


def numbers(examples: Sequence[LabelledText], where: str) -> np.ndarray:
    """The labels, as numbers (N,).

    Raises:
        InputError: for no examples, and one whose label is none.
    """
    _check(examples, where)
    wrong = next((each for each in examples if not isinstance(each.label, int | float)), None)
    if wrong is not None:
        raise InputError(f"{wrong.file}, line {wrong.line}: the label is {wrong.label!r}, not a number; read it as one")
    return np.array([each.label for each in examples], dtype=np.float64)


def usual(train: Sequence[str]) -> str:
    """The commonest class; of those alike the first by name.

    Raises:
        InputError: where there is but one.
    """
    counts = Counter(train)
    if len(counts) < 2:
        raise InputError(f"train: all examples are of the class {next(iter(counts))!r}; give two classes at least")
    return min(counts, key=lambda name: (-counts[name], name))


def both(examples: Sequence[LabelledText], words: Parting) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """The words of the first texts and of the second.

    Raises:
        InputError: for an example with one text.
    """
    single = next((each for each in examples if each.pair is None), None)
    if single is not None:
        raise InputError(f"{single.file}, line {single.line}: has one text only; give pairs of texts")
    return [words(each.text) for each in examples], [words(each.pair or "") for each in examples]


def _check(examples: Sequence[LabelledText], where: str) -> None:
    if not examples:
        raise InputError(f"{where}: holds no examples; give one at least")
    without = next((each for each in examples if each.label is None), None)
    if without is not None:
        raise InputError(f"{without.file}, line {without.line}: has no label; read the file with labels")


# The linear models that vectors are judged with.

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""Penalties of which ridge regression takes the best on the training data, each example left out once."""


def logistic(c: float) -> Any:
    """Logistic regression on features of mean 0 and variance 1, so that no method's scale counts.

    Arguments:
        c: one over the weight of the penalty, as scikit-learn's C.

    Raises:
        InputError: where scikit-learn is missing, or C is not above 0.
    """
    if not c > 0:
        raise InputError(f"c is {c}; give a number above 0")
    return _scaled("LogisticRegression", C=c, max_iter=2000)


def ridge() -> Any:
    """Ridge regression on features of mean 0 and variance 1, with the best of `RIDGES`.

    Raises:
        InputError: where scikit-learn is missing.
    """
    return _scaled("RidgeCV", alphas=RIDGES)


def _scaled(model: str, **settings: Any) -> Any:
    """One of scikit-learn's linear models, behind its scaler."""
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
    """How much of a text has vectors.

    Arguments:
        tokens, known: words in a row, and those with a vector.
        types, known_types: different words, and those with a vector.
        made: of the tokens known, those whose vector was made of subwords.

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
        """Of the tokens that have a vector."""
        return self.known / self.tokens if self.tokens else 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"share": self.share}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtrinsicResult:
    """How well a small model does on top of some vectors.

    Arguments:
        task: what was done: `classification`, `tagging`, `cosines of pairs`, `features of pairs`.
        vectors: their name.
        scores: by the metric's name, each with its bootstrap interval over the test examples.
        floors: the same of what needs no such vectors, by its name: vectors random for the same words, and the best
            that can be said without looking.
        coverage: of the test texts.
        train, test: how many examples.
        unknown: what became of words without a vector of their own.
        settings: of the model.
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
        """As JSON values; a score that is not defined is None."""
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
    words: Parting = words_of,
    c: float = 0.1,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """The accuracy of logistic regression on the mean text embeddings (an extrinsic task of Schnabel et al. 2015).

    The vectors are frozen; each of the mean's numbers is brought to mean 0 and variance 1 over the training texts. Floors:
    vectors random for the same words, which still distinguish words, and the commonest class of the training texts.

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

    The floor is vectors random for the same words: what the share of common words says.

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
