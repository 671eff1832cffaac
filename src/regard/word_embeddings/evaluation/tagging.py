"""A tagger of words on their vectors and those of their neighbours: logistic regression, trained on all words at once."""

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
    """The F1 of spans of logistic regression on a word's vector next to its neighbours'.

    An extrinsic task as those of Schnabel et al. (2015). The vectors are frozen, and brought to mean 0 and variance 1 over the
    training words that have one; words that have none, and places beyond the ends of a sentence, are zeros. Every word is tagged
    by itself. F1 is conlleval's, where the tags mark spans; else, as of parts of speech, the accuracy is all there is. Floors:
    vectors random for the same words, and the tag that each word has most often in training, for an unseen one the
    commonest.

    Arguments:
        train, test: as `regard.data.tagged.read_tagged` gives them.
        reach: neighbours on each side.
        c: one over the weight of the penalty.
        unknown, case, resamples, seed: as for `evaluate_classification`; the bootstrap samples sentences.

    Raises:
        InputError: for data without sentences or a second tag; spans in `test` that are not in the scheme of `train`; where no
            word has a vector; and where scipy is missing.
    """
    if reach < 0:
        raise InputError(f"reach is {reach}; give 0 or more neighbours")
    data = _Tagged.of(train, test)
    task = gathered(vectors, [each.words for each in (*train, *test)], unknown=unknown, case=case)

    def scores(task: TaskWords) -> tuple[dict[str, Interval], int]:
        said, steps = _predicted(task, train, data.train, test, reach, c)
        return data.scores(said, resamples, seed), steps

    found, steps = scores(task)
    return ExtrinsicResult(
        task="tagging",
        vectors=vectors.name,
        scores=found,
        floors={
            "random vectors": scores(task.redrawn(seed))[0],
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
    """The tags of the sentences: in BIO where they mark spans, else as they stand."""

    train: list[Tags]
    test: list[Tags]
    scheme: Scheme | None

    @classmethod
    def of(cls, train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]) -> _Tagged:
        for name, part in (("train", train), ("test", test)):
            if not part:
                raise InputError(f"{name}: holds no sentences; give one at least")
            bare = next((each for each in part if len(each.tags) != len(each.words)), None)
            if bare is not None:
                raise InputError(
                    f"{bare.file}, line {bare.line}: has no tag for each word; read the file with its tags"
                )
        if len({tag for each in train for tag in each.tags}) < 2:
            raise InputError("train: all words have one tag; give two tags at least")
        try:
            scheme = scheme_of(each.tags for each in train)
        except InputError:  # parts of speech, say
            return cls([each.tags for each in train], [each.tags for each in test], None)
        whole = [[convert(each.tags, scheme, "BIO") for each in part] for part in (train, test)]
        return cls(list(whole[0]), list(whole[1]), scheme)

    def scores(self, said: Sequence[Tags], resamples: int, seed: int) -> dict[str, Interval]:
        """Of predicted tags, in the same form."""
        pairs = list(zip(self.test, said, strict=True))
        words = np.array([[sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])] for pair in pairs])
        found: dict[str, Interval] = {}
        if self.scheme is not None:
            rows = np.array([_counts(*pair) for pair in pairs])
            found["f1"] = bootstrap_interval(rows, count_f1, resamples=resamples, seed=seed)
        found["accuracy"] = bootstrap_interval(words, _share, resamples=resamples, seed=seed)
        return found


def _counts(gold: Tags, said: Tags) -> tuple[int, int, int]:
    """Spans that are gold, predicted, and both."""
    right, told = set(spans_of(gold)), set(spans_of(said))
    return len(right), len(told), len(right & told)


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
    """The tags of each test sentence, and the steps of training."""
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
    said: list[Tags] = [tuple(names[number] for number in best[start:end]) for start, end in pairwise(ends)]
    return said, model.steps


def scaled(task: TaskWords, seen: NDArray[np.int64]) -> NDArray[np.float64]:
    """The vectors with mean 0 and variance 1 over the words seen that have one, and a row of zeros for no word, (V + 1, W)."""
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
    """Each word with the tag it has most often in training; of those alike the first by name."""
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
    """Multinomial logistic regression: the logits of a word are b + sum over k of x_k W_k, x_k the vector k places further.

    Arguments:
        weights: (K, W, T) float64, of each place in the window.
        bias: (T,).
        steps: of L-BFGS that were taken.
    """

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    steps: int

    def logits(self, matrix: NDArray, windows: Rows) -> NDArray[np.float64]:
        """(N, T) of windows (N, K) of rows of a matrix (V, W)."""
        logits = np.tile(self.bias, (len(windows), 1))
        for place, weight in enumerate(self.weights):
            logits += (matrix @ weight)[windows[:, place]]
        return logits


def windows_around(texts: Sequence[Rows], reach: int, padding: int) -> Rows:
    """Each word's row with those of its neighbours, (N, 2 reach + 1); `padding` beyond the ends of a text.

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
    """The minimum of C times the sum of cross entropies plus half the squares of the weights, as scikit-learn's.

    It is what logistic regression finds on the window's vectors one after another. These are never made: a word's share of the
    logits is computed once for all its occurrences, so a pass over all words costs V W K T and not N W K T.

    Arguments:
        matrix: (V, W).
        windows: (N, K) rows of it.
        classes: (N,), below `count`.
        count: T, of classes.
        c: one over the weight of the penalty.
        maximum_steps: of L-BFGS.
        tolerance: training ends where no part of the gradient of the mean loss is larger, or the loss falls by less than a
            thousandth of it.

    Raises:
        InputError: where scipy is missing, or C is not above 0.
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
    # Where a word's logits come from: for each place, one row of the table of shares.
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
