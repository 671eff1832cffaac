"""A linear model of a word and its neighbours, trained on all words at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

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
