"""A map of vectors: each one a point of an image, with its nearest neighbours in the space that the image is of.

Two numbers cannot say what hundreds do. PCA's image is a shadow of the space and says how much of the variance is in it; UMAP's
and t-SNE's keep those together that are near, and nothing else: sizes of groups and distances between them mean little. So the
neighbours of a point are never read off the plot: they are those with the largest cosines, every vector looked at.
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
"""How vectors become points:

`pca`   the two directions in which they differ most. Exact, at once.
`umap`  McInnes et al. 2018, by umap-learn: those near one another by cosine are drawn together.
`tsne`  van der Maaten and Hinton 2008, by openTSNE: likewise, with other forces.
"""
METHODS: tuple[Method, ...] = get_args(Method)

Progress = Callable[[int, int | None, str], None]
"""Is called with how many are done, of how many where that is known, and of which stage."""

CHUNK = 1 << 13
"""Vectors that are made float64 together."""
BLOCK, AMONG = 2048, 1 << 14
"""Vectors whose neighbours are looked for together, and among how many at once."""
UMAP_NEIGHBOURS = 15
PERPLEXITY = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorMap:
    """Points for vectors, with what is told of each.

    Arguments:
        title: what a page calls it.
        labels: of the N points: words, texts.
        points: (N, 2) float32.
        method: how they were laid out.
        width: of the vectors.
        shares: of the variance that the image's two directions have, of PCA; None of another method.
        neighbours: rows (N, K) int64 and cosines (N, K) float32 of the vectors nearest to each in the whole space, itself left
            out; rows of -1 for a vector of zeros, which is in no direction. None where they were not looked for.
        columns: what else is known of the points, by name; each has N values. Numbers are float, an unknown one NaN.

    Raises:
        InputError: for sizes that do not fit.
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
    """Lay vectors out as points, and find the neighbours of each.

    Arguments:
        vectors: (N, W) float32, finite.
        labels: one for each.
        method: `pca`, `umap` or `tsne`.
        neighbours: K, how many of each vector are kept; 0 for none. With all others compared, N times N cosines.
        columns: as of `VectorMap`.
        title: of the map.
        seed: of what UMAP and t-SNE draw; PCA draws nothing.
        progress: is called with how far it is.

    Raises:
        InputError: for vectors that are not finite or too few, sizes that do not fit, an unknown method, or where the method's
            library is missing: with the command that installs it.

    >>> found = map_vectors(np.array([[3, 0], [-3, 0], [0, 1], [0, -1]], dtype=np.float32), ["a", "b", "c", "d"], neighbours=1)
    >>> found.points.tolist(), found.shares
    ([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], (0.9, 0.1))
    """
    library = check_method(method)
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"{title}: vectors of the shape {vectors.shape} make no map; give (N, W), one or more of each")
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
        progress(0, None, "points are laid out")
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
        points: (N, 2) float32, of the vectors less their mean.
        shares: of the variance, of each of the two.
        directions: (2, W) float64, of length one; of zeros where there is no second one.
    """

    points: Vectors
    shares: tuple[float, float]
    directions: NDArray[np.float64]


def principal_components(vectors: Vectors) -> Components:
    """The image of vectors in the two directions in which they vary most: exact, in float64.

    A direction and its opposite are alike. Here the entry with the largest magnitude, of equal ones the first, is above zero, so
    that the image is the same every time.

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
        # Below what rounding leaves there is no direction.
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
    """The nearest neighbours of every vector by cosine, itself left out, the nearest first; every other vector is looked at.

    Arguments:
        vectors: (N, W), finite.
        count: K; fewer where there are not so many others.
        progress: is called with how many are done.
        block: vectors that are looked up together; it changes memory and speed.

    Returns:
        (N, K) each; the rows of a vector of zeros, which is in no direction, are -1, and it is nobody's neighbour before
        others whose cosine is above zero.

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
        # A vector is its own nearest but for rounding, and for others that are the same; with those it may not be found at all.
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


# UMAP and t-SNE, by others' libraries. Both begin with PCA's image and are given the exact neighbours.


def check_method(method: str) -> Any:
    """The library that lays vectors out by a method; None for PCA, which needs none.

    Raises:
        InputError: for an unknown method, with the nearest; where the library is missing, with the command that installs it.
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
    """How many neighbours of each vector a method is laid out by."""
    if count < 5:
        raise InputError(f"{title}: {count} vectors are too few for {method}; take --method pca")
    return min(count - 1, UMAP_NEIGHBOURS - 1 if method == "umap" else round(3 * PERPLEXITY))


def _known(near: Nearest) -> Nearest:
    """The neighbours without the -1 of vectors of zeros: these are drawn next to the first ones, as at a right angle to them."""
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
        )  # that it runs on one thread, as a seed wants, and learns no map for other vectors
        layout = umap.UMAP(
            n_neighbors=count,
            metric="cosine",
            precomputed_knn=(rows.astype(np.int32), distances.astype(np.float32), None),
            force_approximation_algorithm=True,  # or it looks for neighbours again where there are few vectors
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
    """Points whose first direction has a given deviation."""
    wide = points.astype(np.float64)
    return wide * (deviation / (wide[:, 0].std() or 1.0))
