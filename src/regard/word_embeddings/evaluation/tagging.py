"""A tagger on frozen word embeddings: logistic regression on the vectors of a word and its neighbours, trained in one batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.tagged import TaggedSentence
from regard.data.tags import Scheme, convert, scheme_of, spans_of
from regard.errors import InputError
from regard.metrics.regression import Interval, bootstrap_interval
from regard.word_embeddings.evaluation.extrinsic import ExtrinsicResult, TaskWords, Unknown, count_f1, gathered
from regard.word_embeddings.evaluation.similarity import Case
from regard.word_embeddings.store import WordVectors

Tags = Sequence[str]


def evaluate_tagging(
    vectors: WordVectors,
    train: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    *,
    reach: int = 2,
    c: float = 0.1,
    unknown: Unknown = "subwords",
    case: Case = "lower",
    resamples: int = 1000,
    seed: int = 0,
) -> ExtrinsicResult:
    """Span F1 and accuracy of a tagger: logistic regression on the vectors of a word and its neighbours.

    This is an extrinsic task as in Schnabel et al. (2015). The vectors are frozen, and standardized over the known training
    words; words without a vector and positions beyond the ends of a sentence are zeros. Each word is tagged independently. If
    the tags encode spans, F1 is that of conlleval; for other tags, such as parts of speech, there is only the accuracy. The
    baselines are random vectors for the same words, and each word's most frequent training tag (for unseen words the most
    frequent tag overall).

    Arguments:
        vectors: the word embeddings.
        train, test: tagged sentences, as from `regard.data.tagged.read_tagged`.
        reach: the number of neighbours on each side.
        c: the inverse of the regularization strength.
        unknown, case, resamples, seed: as for `evaluate_classification`; the bootstrap resamples sentences.

    Raises:
        InputError: for data without sentences or with a single tag; for spans in `test` that are not in the scheme of `train`; if
            no word has a vector; and if scipy is not installed.
    """
    if reach < 0:
        raise InputError(f"reach is {reach}; give 0 or more neighbours")
    data = _Tagged.of(train, test)
    task = gathered(vectors, [each.words for each in (*train, *test)], unknown=unknown, case=case)

    def scores(task: TaskWords) -> tuple[dict[str, Interval], int]:
        predicted, steps = _predicted(task, train, data.train, test, reach, c)
        return data.scores(predicted, resamples, seed), steps

    found, steps = scores(task)
    return ExtrinsicResult(
        task="tagging",
        vectors=vectors.name,
        scores=found,
        floors={
            "random vectors": scores(task.with_random_vectors(seed))[0],
            "commonest tag of the word": data.scores(_commonest(train, data.train, test), resamples, seed),
        },
        coverage=task.coverage(each.words for each in test),
        train=len(train),
        test=len(test),
        unknown=unknown,
        settings={
            "model": "logistic regression on a window",
            "reach": reach,
            "c": c,
            "case": case,
            "seed": seed,
            "steps": steps,
        },
    )


@dataclass(frozen=True, slots=True)
class _Tagged:
    """The tags of the sentences: converted to BIO if they encode spans, else unchanged."""

    train: list[Tags]
    test: list[Tags]
    scheme: Scheme | None

    @classmethod
    def of(cls, train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]) -> _Tagged:
        for name, part in (("train", train), ("test", test)):
            if not part:
                raise InputError(f"{name}: holds no sentences; give at least one")
            bare = next((each for each in part if len(each.tags) != len(each.words)), None)
            if bare is not None:
                raise InputError(
                    f"{bare.file}, line {bare.line}: has no tag for each word; read the file with its tags"
                )
        if len({tag for each in train for tag in each.tags}) < 2:
            raise InputError("train: all words have the same tag; give at least two tags")
        try:
            scheme = scheme_of(each.tags for each in train)
        except InputError:  # tags that do not encode spans, such as parts of speech
            return cls([each.tags for each in train], [each.tags for each in test], None)
        whole = [[convert(each.tags, scheme, "BIO") for each in part] for part in (train, test)]
        return cls(list(whole[0]), list(whole[1]), scheme)

    def scores(self, predicted: Sequence[Tags], resamples: int, seed: int) -> dict[str, Interval]:
        """The scores of predicted tags, which are in the same scheme."""
        pairs = list(zip(self.test, predicted, strict=True))
        words = np.array([[sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])] for pair in pairs])
        found: dict[str, Interval] = {}
        if self.scheme is not None:
            rows = np.array([_counts(*pair) for pair in pairs])
            found["f1"] = bootstrap_interval(rows, count_f1, resamples=resamples, seed=seed)
        found["accuracy"] = bootstrap_interval(words, _share, resamples=resamples, seed=seed)
        return found


def _counts(gold: Tags, predicted: Tags) -> tuple[int, int, int]:
    """The numbers of gold spans, of predicted spans, and of spans that are both."""
    right, found = set(spans_of(gold)), set(spans_of(predicted))
    return len(right), len(found), len(right & found)


def _share(rows: NDArray) -> float:
    right, all_ = rows.sum(axis=0)
    return float(right / all_)


def _predicted(
    task: TaskWords,
    train: Sequence[TaggedSentence],
    tags: Sequence[Tags],
    test: Sequence[TaggedSentence],
    reach: int,
    c: float,
) -> tuple[list[Tags], int]:
    """The predicted tags of each test sentence, and the number of training steps."""
    names = sorted({tag for sentence in tags for tag in sentence})
    numbers = {tag: number for number, tag in enumerate(names)}
    rows = [task.numbers(each.words) for each in train]
    matrix = scaled(task, np.concatenate(rows))
    classes = np.array([numbers[tag] for sentence in tags for tag in sentence], dtype=np.int64)
    padding = len(matrix) - 1
    model = fit_windows(matrix, windows_around(rows, reach, padding), classes, len(names), c=c)
    windows = windows_around([task.numbers(each.words) for each in test], reach, padding)
    best = model.logits(matrix, windows).argmax(axis=1).tolist()
    ends = np.cumsum([0, *(len(each.words) for each in test)]).tolist()
    predicted: list[Tags] = [tuple(names[number] for number in best[start:end]) for start, end in pairwise(ends)]
    return predicted, model.steps


def scaled(task: TaskWords, seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """The standardized vectors of all words and a row of zeros for padding, (V + 1, W) float64.

    Arguments:
        task: the words and their vectors.
        seen: the rows of the training words; mean and variance are computed over the known ones.
    """
    counts = np.bincount(seen, minlength=len(task.words)) * task.known
    matrix = task.matrix.astype(np.float64)
    mean = counts @ matrix / max(counts.sum(), 1)
    deviation = np.sqrt(counts @ (matrix - mean) ** 2 / max(counts.sum(), 1))
    matrix = (matrix - mean) / np.where(deviation > 0, deviation, 1.0)
    matrix[~task.known] = 0.0
    return np.concatenate([matrix, np.zeros((1, matrix.shape[1]))])


def _commonest(
    train: Sequence[TaggedSentence], tags: Sequence[Tags], test: Sequence[TaggedSentence]
) -> list[Sequence[str]]:
    """Each word's most frequent training tag; in a tie the first in alphabetical order."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    overall = Counter[str]()
    for sentence, right in zip(train, tags, strict=True):
        for word, tag in zip(sentence.words, right, strict=True):
            counts[word][tag] += 1
            overall[tag] += 1

    def best(found: Counter[str]) -> str:
        return min(found, key=lambda tag: (-found[tag], tag))

    usual = best(overall)
    known = {word: best(found) for word, found in counts.items()}
    return [tuple(known.get(word, usual) for word in each.words) for each in test]


# The linear model of a word and its neighbours.

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WindowModel:
    """Multinomial logistic regression on windows: logits = b + sum over k of x_k W_k, with the vector x_k at window position k.

    Arguments:
        weights: (K, W, T) float64, the weights for each window position.
        bias: (T,) float64.
        steps: the number of L-BFGS iterations.
    """

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    steps: int

    def logits(self, matrix: NDArray, windows: Rows) -> NDArray[np.float64]:
        """The logits, (N, T), of windows (N, K) of row indices into `matrix` (V, W)."""
        logits = np.tile(self.bias, (len(windows), 1))
        for place, weight in enumerate(self.weights):
            logits += (matrix @ weight)[windows[:, place]]
        return logits


def windows_around(texts: Sequence[Rows], reach: int, padding: int) -> Rows:
    """The rows of each word and its neighbours, (N, 2 reach + 1) int64, with `padding` beyond the ends of a text.

    >>> windows_around([np.array([4, 5]), np.array([6])], 1, padding=9).tolist()
    [[9, 4, 5], [4, 5, 9], [9, 6, 9]]
    """
    found = []
    for rows in texts:
        wide = np.pad(rows, reach, constant_values=padding)
        found.append(np.lib.stride_tricks.sliding_window_view(wide, 2 * reach + 1))
    return np.concatenate(found) if found else np.empty((0, 2 * reach + 1), dtype=np.int64)


def fit_windows(
    matrix: NDArray,
    windows: Rows,
    classes: Rows,
    count: int,
    *,
    c: float = 1.0,
    maximum_steps: int = 300,
    tolerance: float = 1e-4,
) -> WindowModel:
    """Fit a `WindowModel`: minimize c * (sum of cross entropies) + 1/2 * (sum of squared weights), as scikit-learn does.

    The result equals logistic regression on the concatenated vectors of each window, but these are never built: the
    contribution of each word to the logits is computed once for all its occurrences. One pass costs V W K T operations
    instead of N W K T.

    Arguments:
        matrix: (V, W), the vector of each word.
        windows: (N, K) integers, rows of `matrix`.
        classes: (N,) integers below `count`.
        count: T, the number of classes.
        c: the inverse of the regularization strength.
        maximum_steps: the most L-BFGS iterations.
        tolerance: training ends when no component of the gradient of the mean loss is larger than this, or when the loss
            decreases by less than a thousandth of it.

    Raises:
        InputError: if scipy is not installed, or c is not above 0.
    """
    if not c > 0:
        raise InputError(f"c is {c}; give a number above 0")
    try:
        from scipy.optimize import minimize
        from scipy.sparse import csr_matrix
    except ImportError as error:
        raise InputError("scipy is not installed; pip install 'regard[eval]'") from error
    matrix = np.asarray(matrix, dtype=np.float64)
    (words, places), (rows, width) = windows.shape, matrix.shape
    each = np.arange(words)
    # The logits of a word are a sum of one row of `shares` for each window position.
    columns = (windows * places + np.arange(places)).ravel()
    picked: Any = csr_matrix(
        (np.ones(columns.size), columns, np.arange(0, columns.size + 1, places)), shape=(words, places * rows)
    )
    spread: Any = csr_matrix(picked.T)
    penalty = 1 / (c * words)

    def objective(flat: NDArray) -> tuple[float, NDArray]:
        weights, bias = flat[:-count].reshape(places, width, count), flat[-count:]
        shares = matrix @ weights.transpose(1, 0, 2).reshape(width, places * count)
        logits = picked @ shares.reshape(rows * places, count) + bias
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[each, classes]
        np.exp(logits, out=logits)
        sums = logits.sum(axis=1)
        loss = float(np.mean(np.log(sums) - chosen) + penalty / 2 * np.sum(weights**2))
        logits /= sums[:, None]
        logits[each, classes] -= 1
        logits /= words
        gathered = (spread @ logits).reshape(rows, places * count)
        gradient = (matrix.T @ gathered).reshape(width, places, count).transpose(1, 0, 2) + penalty * weights
        return loss, np.concatenate([gradient.ravel(), logits.sum(axis=0)])

    start = np.zeros(places * width * count + count)
    options = {"maxiter": maximum_steps, "maxfun": 2 * maximum_steps, "gtol": tolerance, "ftol": tolerance * 1e-3}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    weights = found.x[:-count].reshape(places, width, count)
    return WindowModel(weights=weights, bias=found.x[-count:], steps=int(found.nit))
