"""Words on a plane: where vectors of many numbers lie, drawn with two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError, nearest
from regard.vectors.store import WordVectors

MapMethod = Literal["pca", "tsne"]
METHODS: tuple[MapMethod, ...] = get_args(MapMethod)

SMALLEST = 5
"""Words that a map is worth drawing for."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WordMap:
    """Places of words on a plane.

    Arguments:
        words: those that have a vector, in the order asked for.
        places: (n, 2) float64, centred.
        method: how they were found.
        kept: the share of the vectors' variance that the plane holds; None where the method has no such thing.
    """

    words: tuple[str, ...]
    places: NDArray[np.float64]
    method: MapMethod
    kept: float | None


def word_map(vectors: WordVectors, words: Sequence[str], method: MapMethod = "pca", *, seed: int = 1) -> WordMap:
    """A map of some words by their unit vectors.

    `pca` is a shadow: distances on it are never larger than they are, and what lies along other axes is lost. `tsne` (van der
    Maaten and Hinton 2008) keeps who is near to whom and little
    else: distances between groups, and their sizes, mean nothing.

    Arguments:
        words: those without a vector are left out, as is a word given again.
        method: `pca` or `tsne`.
        seed: of t-SNE, which begins with the PCA.

    Raises:
        InputError: for a method that does not exist, fewer than five words with a vector, or a missing scikit-learn.

    >>> axes = WordVectors(words=tuple("abcdef"), matrix=np.eye(6, dtype=np.float32))
    >>> drawn = word_map(axes, list("abcdef"))
    >>> drawn.places.shape, round(drawn.kept, 2)
    ((6, 2), 0.4)
    """
    if method not in METHODS:
        raise InputError(f"there is no map by {method!r}; {nearest(method, METHODS)}")
    here = tuple(word for word in dict.fromkeys(words) if vectors.has(word))
    if len(here) < SMALLEST:
        raise InputError(f"{vectors.name}: has vectors of {len(here)} of the words; a map needs {SMALLEST} at least")
    units = unit(vectors.of(here)).astype(np.float64)
    if method == "pca":
        places, kept = _principal(units)
        return WordMap(words=here, places=places, method=method, kept=kept)
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError("a map by t-SNE needs scikit-learn: pip install 'regard[eval]'; or take pca") from None
    perplexity = min(30.0, (len(here) - 1) / 3)
    drawn = TSNE(metric="cosine", init="random", perplexity=perplexity, random_state=seed).fit_transform(units)
    return WordMap(words=here, places=_steady(np.asarray(drawn, dtype=np.float64)), method=method, kept=None)


def _principal(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Places along the first two principal components, and the share of the variance that is there."""
    centred = rows - rows.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    total = float((sizes**2).sum())
    return _steady(left[:, :2] * sizes[:2]), float((sizes[:2] ** 2).sum()) / total if total else 0.0


def _steady(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred, and turned over where the farthest place of an axis is negative: the sign of an axis is nobody's choice."""
    places = places - places.mean(axis=0)
    farthest = places[np.abs(places).argmax(axis=0), np.arange(places.shape[1])]
    return places * np.where(farthest < 0, -1.0, 1.0)
