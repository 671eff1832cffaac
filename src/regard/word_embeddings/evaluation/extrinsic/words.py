"""What extrinsic evaluations share: the words of a task and their vectors, labelled texts, linear models, results.

Unknown words are dealt with here alone.
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
from regard.errors import InputError, nearest
from regard.metrics.regression import Interval
from regard.word_embeddings.evaluation.lookup import Case, Lookup
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
        """The same words with vectors drawn from a normal distribution, for just those that have one."""
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
        floors: the same of what needs no such vectors, by its name: vectors drawn at random for the same words, and the best
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
