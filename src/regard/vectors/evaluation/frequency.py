"""Whether a word's vector tells how frequent the word is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.vectors.store import WordVectors

FOLDS = 5
FEWEST = 10
"""Words of each class below which nothing is trained."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyProbe:
    """What `frequency_probe` found.

    Arguments:
        accuracy: on the words that were held out, where guessing gives 0.5; None where there are too few words.
        folds: the accuracy on each fifth of the words.
        words: frequent and rare ones together, as many of each.
        by: what says how frequent a word is: its count, or its place in the table.
        share: of the words that are called frequent.
    """

    accuracy: float | None
    folds: tuple[float, ...]
    words: int
    by: str
    share: float

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def frequency_probe(vectors: WordVectors, *, share: float = 0.1, most: int = 20_000, seed: int = 0) -> FrequencyProbe:
    """How well logistic regression tells frequent from rare words by their unit vectors (Schnabel et al. 2015, section 5).

    The most frequent words, a tenth of them unless told otherwise, are held against as many drawn from the others; five folds,
    each held out once; scikit-learn's regression with its own settings.

    Arguments:
        share: of all words, how many are frequent.
        most: words of each class, drawn where there are more.
        seed: of what is drawn, and of the folds.

    Raises:
        InputError: for a share that is none, or where scikit-learn is missing.

    >>> matrix = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
    >>> matrix[:40, 0] += 6
    >>> table = WordVectors(words=tuple(map(str, range(400))), matrix=matrix)
    >>> frequency_probe(table).accuracy > 0.9
    True
    """
    if not 0 < share <= 0.5:
        raise InputError(f"share is {share}; it must lie above 0 and be at most 0.5, such as 0.1")
    counted = vectors.counts is not None
    order = np.argsort(-vectors.counts, kind="stable") if vectors.counts is not None else np.arange(len(vectors))
    draw = np.random.default_rng(seed)
    border = round(share * len(order))
    size = min(border, most)
    rows = np.concatenate([draw.permutation(part)[:size] for part in (order[:border], order[border:])])
    labels = np.repeat([1, 0], size)
    folds = _folds(unit(np.asarray(vectors.matrix[rows])), labels, seed) if size >= FEWEST else ()
    return FrequencyProbe(
        accuracy=float(np.mean(folds)) if folds else None,
        folds=folds,
        words=len(rows),
        by="counts" if counted else "order",
        share=share,
    )


def _folds(points: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float, ...]:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_score
    except ImportError as error:
        raise InputError("the probe is trained by scikit-learn: pip install 'regard[eval]'") from error
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found: Iterable[float] = cross_val_score(LogisticRegression(max_iter=1000), points, labels, cv=folds)
    return tuple(float(each) for each in found)
