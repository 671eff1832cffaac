"""What debiasing leaves: the words that had a direction can still be told apart without it (Gonen and Goldberg 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.vectors.bias import cautions
from regard.vectors.bias.present import rows_of, unit64
from regard.vectors.bias.subspace import BiasSubspace
from regard.vectors.store import CHUNK, WordVectors

AMONG = 50_000

SHARE = 10
"""The words of a side are at most so many-th of all: others have little of the direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTest:
    """How well two clusters are the two sides of a direction.

    Arguments:
        accuracy: the share of words in the cluster of their side; about 0.5 where these have nothing to do with each other.
        count: words of each side.
        positive, negative: the words with the largest cosines on either side, the largest first.
        cautions: what this does not show.
    """

    accuracy: float
    count: int
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    cautions: tuple[str, ...] = (cautions.CLUSTERS_SURVIVE,)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the words."""
        return {"accuracy": self.accuracy, "count": self.count, "cautions": list(self.cautions)}


def cluster_test(
    vectors: WordVectors,
    original: WordVectors,
    subspace: BiasSubspace,
    *,
    count: int = 500,
    leave_out: Iterable[str] = (),
    among: int = AMONG,
    seed: int = 0,
) -> ClusterTest:
    """Whether the words that had most of a direction before still stand in two groups after (Gonen and Goldberg 2019).

    The `count` words (at most a tenth of all) with the largest cosines with the direction in the original vectors, and as many
    with the smallest, are put into two clusters by k-means of their unit vectors as they are now. Accuracy is the share that the
    better naming of the clusters gets right; with the original vectors themselves it says how far the sides could be told.

    Arguments:
        vectors, original: debiased, and as they were, of the same words.
        leave_out: words that should have the direction, such as specific ones.
        among: so many words from the top of the table.

    Raises:
        InputError: where there are fewer than 20 words, or the vectors are of other words.
    """
    if tuple(vectors.words[:among]) != tuple(original.words[:among]):
        raise InputError(f"{vectors.name} and {original.name} have other words; give the same vectors before and after")
    rows = _candidates(original, leave_out, among)
    count = min(count, len(rows) // SHARE)
    if count < 2:
        raise InputError(f"{original.name}: {len(rows)} words are left to cluster; leave fewer out")
    along = np.concatenate([unit64(original.matrix[piece]) @ subspace.direction for piece in _pieces(rows)])
    order = rows[np.argsort(-along, kind="stable")]
    positive, negative = order[:count], order[-count:][::-1]
    labels = _two_clusters(unit64(vectors.matrix[np.concatenate([positive, negative])]), seed)
    right = float(np.mean(labels == np.repeat([0, 1], count)))
    return ClusterTest(
        accuracy=max(right, 1.0 - right),
        count=count,
        positive=_words(original, positive),
        negative=_words(original, negative),
    )


def _candidates(original: WordVectors, leave_out: Iterable[str], among: int) -> np.ndarray:
    wanted = original.lengths[:among] > 0
    wanted[[row for row in rows_of(original, leave_out) if row < len(wanted)]] = False
    return np.flatnonzero(wanted)


def _pieces(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]


def _words(vectors: WordVectors, rows: np.ndarray) -> tuple[str, ...]:
    return tuple(str(vectors.words[row]) for row in rows.tolist())


def _two_clusters(units: np.ndarray, seed: int) -> np.ndarray:
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        raise InputError("clusters need scikit-learn: pip install 'regard[eval]'") from None
    return KMeans(n_clusters=2, n_init=10, random_state=seed).fit_predict(units)  # type: ignore[arg-type]
