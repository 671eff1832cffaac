"""Two-dimensional maps of vectors, with the nearest neighbours of each vector in the original space.

A two-dimensional plot loses information. PCA is a projection with a known share of the variance; UMAP and t-SNE only preserve
which vectors are close, so the sizes of groups and the distances between them mean little. Therefore neighbours are not taken
from the plot: they are the vectors with the largest cosines, found by exact search.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import Nearest, nearest
from regard.errors import InputError
from regard.errors import nearest as nearest_name

Vectors = NDArray[np.float32]
Method = Literal["pca", "umap", "tsne"]
"""The methods of dimensionality reduction:

`pca`   the first two principal components; exact and fast.
`umap`  McInnes et al. 2018, by umap-learn, with cosine distances.
`tsne`  van der Maaten and Hinton 2008, by openTSNE, with cosine distances.
"""
METHODS: tuple[Method, ...] = get_args(Method)

Progress = Callable[[int, int | None, str], None]
"""Is called with the number of items that are done, their total (None if unknown), and the name of the stage."""

CHUNK = 1 << 13
"""The number of vectors that are converted to float64 at a time."""
BLOCK, AMONG = 2048, 1 << 14
"""The number of vectors whose neighbours are searched at a time, and the number of candidates at a time."""
UMAP_NEIGHBOURS = 15
PERPLEXITY = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorMap:
    """A map of N vectors: their points, labels, neighbours and further columns.

    Arguments:
        title: the title.
        labels: the label of each vector, such as a word or a text.
        points: (N, 2) float32, the coordinates.
        method: the method that computed the points.
        width: the width of the vectors.
        shares: the shares of variance explained by the two axes, for PCA; None for other methods.
        neighbours: rows (N, K) int64 and cosines (N, K) float32 of the nearest other vectors in the original space. The rows of
            a zero vector are -1, because it has no direction. None if neighbours were not computed.
        columns: further data, by name, N values each: texts, or float64 numbers with NaN for unknown ones.

    Raises:
        InputError: for sizes that do not fit together.
    """

    title: str
    labels: Sequence[str]
    points: Vectors
    method: Method
    width: int
    shares: tuple[float, float] | None = None
    neighbours: Nearest | None = None
    columns: Mapping[str, Sequence[str] | NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {"labels": len(self.labels), **{repr(name): len(values) for name, values in self.columns.items()}}
        for name, size in sizes.items():
            if size != len(self.points):
                raise InputError(f"{self.title}: there are {len(self.points):,} vectors and {size:,} of {name}")

    def __len__(self) -> int:
        return len(self.points)


def map_vectors(
    vectors: Vectors,
    labels: Sequence[str],
    *,
    method: Method = "pca",
    neighbours: int = 10,
    columns: Mapping[str, Sequence[str] | NDArray[np.float64]] | None = None,
    title: str = "vectors",
    seed: int = 0,
    progress: Progress = lambda done, total, stage: None,
) -> VectorMap:
    """Compute a two-dimensional map of vectors, and the nearest neighbours of each vector.

    Arguments:
        vectors: (N, W) float32, finite.
        labels: N labels.
        method: `pca`, `umap` or `tsne`.
        neighbours: K, the number of neighbours of each vector; 0 for none. The search computes N x N cosines.
        columns: further data, see `VectorMap`.
        title: the title of the map.
        seed: random seed of UMAP and t-SNE; PCA is deterministic.
        progress: is called with the progress.

    Raises:
        InputError: if vectors are not finite or too few, sizes do not fit together, the method is unknown, or its library is not
            installed (the message has the command that installs it).

    >>> found = map_vectors(np.array([[3, 0], [-3, 0], [0, 1], [0, -1]], dtype=np.float32), ["a", "b", "c", "d"], neighbours=1)
    >>> found.points.tolist(), found.shares
    ([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], (0.9, 0.1))
    """
    library = check_method(method)
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"{title}: the vectors have the shape {vectors.shape}; give (N, W), with N and W at least 1")
    if neighbours < 0:
        raise InputError(f"neighbours is {neighbours}; give 0 or more")
    if len(labels) != len(vectors):
        raise InputError(f"{title}: there are {len(vectors):,} vectors and {len(labels):,} labels; give one for each")
    for start in range(0, len(vectors), CHUNK):
        if not np.isfinite(vectors[start : start + CHUNK]).all():
            raise InputError(f"{title}: a vector has a number that is not finite; leave it out")
    flat = principal_components(vectors)
    wanted = neighbours if method == "pca" else max(neighbours, _needed(method, len(vectors), title))
    near = all_neighbours(vectors, wanted, progress=progress) if wanted else None
    points = flat.points
    if library is not None and near is not None:
        progress(0, None, "computing the layout")
        points = {"umap": _umap, "tsne": _tsne}[method](library, vectors, near, flat.points, seed)
    return VectorMap(
        title=title,
        labels=labels,
        points=points,
        method=method,
        width=vectors.shape[1],
        shares=flat.shares if method == "pca" else None,
        neighbours=Nearest(near.rows[:, :neighbours], near.cosines[:, :neighbours]) if near and neighbours else None,
        columns=columns or {},
    )


class Components(NamedTuple):
    """The first two principal components.

    Arguments:
        points: (N, 2) float32, the coordinates of the centred vectors.
        shares: the share of variance explained by each of the two.
        directions: (2, W) float64, unit vectors; zeros for a direction without variance.
    """

    points: Vectors
    shares: tuple[float, float]
    directions: NDArray[np.float64]


def principal_components(vectors: Vectors) -> Components:
    """The first two principal components of vectors: exact, computed in float64.

    The sign of a direction is arbitrary; it is chosen such that the entry with the largest absolute value (the first one in a
    tie) is positive, so that results are reproducible.

    Arguments:
        vectors: (N, W), finite.

    >>> found = principal_components(np.array([[0, 2], [0, -2], [0, 0]], dtype=np.float32))
    >>> found.points.tolist(), found.shares
    ([[2.0, 0.0], [-2.0, 0.0], [0.0, 0.0]], (1.0, 0.0))
    """
    count, width = vectors.shape
    mean = np.zeros(width)
    for start in range(0, count, CHUNK):
        mean += vectors[start : start + CHUNK].sum(axis=0, dtype=np.float64)
    mean /= count

    def centred(start: int) -> NDArray[np.float64]:
        return vectors[start : start + CHUNK].astype(np.float64) - mean

    if count < width:
        _, lengths, found = np.linalg.svd(np.concatenate([centred(start) for start in range(0, count, CHUNK)]), False)
        variances = lengths**2
    else:
        spread = np.zeros((width, width))
        for start in range(0, count, CHUNK):
            piece = centred(start)
            spread += piece.T @ piece
        rising, columns = np.linalg.eigh(spread)
        variances, found = rising[::-1].clip(0), columns.T[::-1]
    total = float(variances.sum())
    directions = np.zeros((2, width))
    shares = [0.0, 0.0]
    for place in range(min(2, len(variances))):
        # Smaller variances are rounding errors.
        if variances[place] <= 1e-12 * total or not total:
            continue
        direction = found[place]
        directions[place] = direction * np.sign(direction[np.abs(direction).argmax()])
        shares[place] = float(variances[place]) / total
    points = np.empty((count, 2), dtype=np.float32)
    for start in range(0, count, CHUNK):
        points[start : start + CHUNK] = centred(start) @ directions.T
    return Components(points, (shares[0], shares[1]), directions)


def all_neighbours(
    vectors: Vectors, count: int, *, progress: Progress = lambda done, total, stage: None, block: int = BLOCK
) -> Nearest:
    """The nearest other vectors of every vector by cosine, nearest first, by exact search.

    Arguments:
        vectors: (N, W), finite.
        count: K, at most N - 1 are returned.
        progress: is called with the number of vectors that are done.
        block: the number of queries at a time, which affects memory and speed.

    Returns:
        Rows and cosines, (N, K) each. The rows of a zero vector are -1, because it has no direction; as a neighbour of others
        it has cosine 0.

    >>> found = all_neighbours(np.array([[1, 0], [1, 1], [0, 1]], dtype=np.float32), 1)
    >>> found.rows.tolist(), found.cosines.round(3).tolist()
    ([[1], [0], [1]], [[0.7070000171661377], [0.7070000171661377], [0.7070000171661377]])
    """
    kept = min(count, len(vectors) - 1)
    rows = np.empty((len(vectors), kept), dtype=np.int64)
    cosines = np.empty((len(vectors), kept), dtype=np.float32)
    for start in range(0, len(vectors) if kept else 0, block):
        progress(start, len(vectors), "neighbours, vectors")
        asked = vectors[start : start + block]
        found = nearest(vectors, asked, kept + 1, chunk=AMONG)
        own = np.arange(start, start + len(asked))[:, None]
        # A vector usually finds itself, but not necessarily first, and not at all if many vectors are equal to it.
        others = found.rows != own
        others[others.all(axis=1), -1] = False
        here = slice(start, start + len(asked))
        rows[here] = found.rows[others].reshape(len(asked), kept)
        cosines[here] = found.cosines[others].reshape(len(asked), kept)
        nowhere = ~asked.any(axis=1)
        rows[here][nowhere], cosines[here][nowhere] = -1, 0
    if kept:
        progress(len(vectors), len(vectors), "neighbours, vectors")
    return Nearest(rows, cosines.clip(-1, 1))


# UMAP and t-SNE, by external libraries. Both are initialised with PCA and get the exact neighbours.


def check_method(method: str) -> Any:
    """The library of a method; None for PCA, which needs none.

    Raises:
        InputError: for an unknown method, or if its library is not installed (the message has the command that installs it).
    """
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {nearest_name(str(method), METHODS)}")
    if method == "pca":
        return None
    name = "umap-learn" if method == "umap" else "openTSNE"
    try:
        if method == "umap":
            import umap as library  # pyright: ignore[reportMissingImports]
        else:
            import openTSNE as library  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(f"the method {method} needs {name}: pip install 'regard[map]'; pca needs nothing") from None
    return library


def _needed(method: Method, count: int, title: str) -> int:
    """The number of neighbours of each vector that a method needs."""
    if count < 5:
        raise InputError(f"{title}: {count} vectors are too few for {method}; use method pca")
    return min(count - 1, UMAP_NEIGHBOURS - 1 if method == "umap" else round(3 * PERPLEXITY))


def _known(near: Nearest) -> Nearest:
    """The neighbours with the -1 of zero vectors replaced by the first other rows, with cosine 0."""
    others = np.where(np.arange(len(near.rows))[:, None] > np.arange(near.rows.shape[1]), 0, 1)
    spread = np.arange(near.rows.shape[1])[None, :] + others
    return Nearest(np.where(near.rows < 0, spread, near.rows), near.cosines)


def _umap(umap: Any, vectors: Vectors, near: Nearest, start: Vectors, seed: int) -> Vectors:
    near = _known(near)
    count = min(UMAP_NEIGHBOURS, near.rows.shape[1] + 1)
    own = np.arange(len(vectors))[:, None]
    rows = np.concatenate([own, near.rows[:, : count - 1]], axis=1)
    distances = np.concatenate([np.zeros((len(vectors), 1)), 1 - near.cosines[:, : count - 1]], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # about running in one thread, which a seed requires, and about not mapping new vectors
        layout = umap.UMAP(
            n_neighbors=count,
            metric="cosine",
            precomputed_knn=(rows.astype(np.int32), distances.astype(np.float32), None),
            force_approximation_algorithm=True,  # otherwise UMAP searches neighbours itself for few vectors
            init=_rescaled(start, 10),
            random_state=seed,
        )
        found = layout.fit_transform(vectors)
    return np.ascontiguousarray(found, dtype=np.float32)


def _tsne(tsne: Any, vectors: Vectors, near: Nearest, start: Vectors, seed: int) -> Vectors:
    near = _known(near)
    known = min(near.rows.shape[1], round(3 * PERPLEXITY))
    index = tsne.nearest_neighbors.PrecomputedNeighbors(
        near.rows[:, :known], (1 - near.cosines[:, :known]).astype(np.float64).clip(0)
    )
    affinities = tsne.affinity.PerplexityBasedNN(perplexity=known / 3, knn_index=index, random_state=seed)
    layout = tsne.TSNE(random_state=seed, perplexity=known / 3)
    found = layout.fit(affinities=affinities, initialization=_rescaled(start, 1e-4))
    return np.ascontiguousarray(found, dtype=np.float32)


def _rescaled(points: Vectors, deviation: float) -> NDArray[np.float64]:
    """Points scaled such that the first axis has this standard deviation."""
    wide = points.astype(np.float64)
    return wide * (deviation / (wide[:, 0].std() or 1.0))
