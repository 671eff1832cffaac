"""Text embeddings from token vectors (pooling, linear maps, normalisation), and nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.errors import nearest as nearest_names

PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_length", "weighted_mean", "last", "pooler"]
"""How token vectors are combined to one vector:

`cls`               the vector of the first token.
`max`               the maximum of each component.
`mean`              the mean.
`mean_sqrt_length`  the sum, divided by the square root of the number of tokens.
`weighted_mean`     the mean, with weight n for token n.
`last`              the vector of the last token.
`pooler`            no pooling: the model's own vector of the text.
"""

POOLER: tuple[PoolingMode, ...] = ("pooler",)
"""The model's own vector, which cannot be combined with other modes."""

MODES: tuple[PoolingMode, ...] = tuple(mode for mode in get_args(PoolingMode) if mode not in POOLER)
"""The modes of `pool`."""


def pool(hidden: Tensor, valid: Tensor | None, modes: Sequence[PoolingMode]) -> Tensor:
    """One vector of each text. Special tokens count as all others; padding never counts.

    Sums are computed in float32, or in float64 for float64 vectors.

    Arguments:
        hidden: (B, L, D), the token vectors.
        valid: (B, L) bool, True = a real token; None = all. Padding can be on either side.
        modes: one or more, whose vectors are concatenated.

    Returns:
        (B, D times the number of modes), float32 or float64.

    >>> hidden = torch.tensor([[[1.0, 4.0], [3.0, 2.0], [9.0, 9.0]]])
    >>> pool(hidden, torch.tensor([[True, True, False]]), ["mean", "max"]).tolist()
    [[2.0, 3.0, 3.0, 4.0]]
    """
    check_modes(modes)
    return torch.cat([_pooled(hidden, valid, mode) for mode in modes], dim=-1)


def normalised(vectors: Tensor) -> Tensor:
    """Vectors (..., D) divided by their norm; zero vectors stay zero."""
    return F.normalize(vectors, dim=-1)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """`normalised` for arrays: inner products of the results are cosines.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.all((lengths > 1e-15) & (lengths < 1e18)):  # their squares may be out of range for float32
        wide = vectors.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
        return (wide / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32, copy=False)


def check_modes(modes: Sequence[str]) -> None:
    """Refuse an unknown pooling mode.

    Raises:
        InputError: with the nearest mode.
    """
    known = (*MODES, *POOLER)
    if isinstance(modes, str) or not modes:
        raise InputError(f"pooling is {modes!r}; give a list of one or more of {', '.join(known)}")
    for mode in modes:
        if mode not in known:
            raise InputError(f"there is no pooling {mode!r}; {nearest_names(str(mode), known)}")
    if len(set(modes)) < len(modes):
        raise InputError(f"pooling is {', '.join(modes)}; give each once")
    if "pooler" in modes and len(modes) > 1:
        raise InputError(f"pooling is {', '.join(modes)}; pooler is the model's own vector and cannot be combined")


def _pooled(hidden: Tensor, valid: Tensor | None, mode: PoolingMode) -> Tensor:
    if mode == "pooler":
        raise ValueError("mode pooler is the model's own vector, which is not computed from token vectors")
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    if mode in ("cls", "last"):
        return _one(hidden, valid, mode).to(exact)
    if mode == "max":
        if valid is not None:
            hidden = hidden.masked_fill(~valid.unsqueeze(-1), float("-inf"))
        return hidden.amax(dim=1).to(exact)
    weights = torch.ones(hidden.shape[:2], dtype=exact, device=hidden.device) if valid is None else valid.to(exact)
    if mode == "weighted_mean":
        weights = weights * weights.cumsum(dim=1)
    if valid is not None:  # vectors at padding may be NaN
        hidden = hidden.masked_fill(~valid.unsqueeze(-1), 0.0)
    total = torch.einsum("bl,bld->bd", weights, hidden.to(exact))
    count = weights.sum(dim=1, keepdim=True).clamp_min(1.0)
    return total / (count.sqrt() if mode == "mean_sqrt_length" else count)


def _one(hidden: Tensor, valid: Tensor | None, mode: PoolingMode) -> Tensor:
    if valid is None:
        return hidden[:, 0] if mode == "cls" else hidden[:, -1]
    real = valid.long()
    length = valid.shape[1]
    place = real.argmax(dim=1) if mode == "cls" else length - 1 - real.flip(1).argmax(dim=1)
    return hidden[torch.arange(len(hidden), device=hidden.device), place]


DenseActivation = Literal["identity", "tanh", "relu", "gelu"]

FUNCTIONS: dict[DenseActivation, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
}


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """f(W v + b), in float32. It is not trained.

    Arguments:
        weight: W, (outputs, inputs).
        bias: b, (outputs,), or None.
        activation: f.

    >>> Dense(torch.ones(1, 3), torch.tensor([1.0]), "identity")(torch.ones(2, 3)).tolist()
    [[4.0], [4.0]]
    """

    weight: Tensor
    bias: Tensor | None
    activation: DenseActivation

    def __call__(self, vectors: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        weight = self.weight.to(vectors)
        return FUNCTIONS[self.activation](
            F.linear(vectors, weight, None if self.bias is None else self.bias.to(vectors))
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense) or self.activation != other.activation:
            return False
        if (self.bias is None) != (other.bias is None) or not torch.equal(self.weight, other.weight):
            return False
        return self.bias is None or other.bias is None or torch.equal(self.bias, other.bias)

    def __hash__(self) -> int:
        return hash((tuple(self.weight.shape), self.activation))


SimilarityMeasure = Literal["cosine", "angular"]


def angular(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Angular similarity: one minus the angle divided by pi (Cer et al. 2018, section 5, equation 1).

        sim(u, v) = 1 - arccos(u . v / (|u| |v|)) / pi

    It is 1 for the same direction, 0.5 for a right angle and 0 for opposite directions. It has the same order as the cosine, and
    distinguishes very similar vectors better, because the cosine is flat near 1.

    Arguments:
        cosines: of any shape; they are clipped to [-1, 1].

    >>> angular(np.array([1.0, 0.0, -1.0], dtype=np.float32)).tolist()
    [1.0, 0.5, 0.0]
    """
    angles = np.arccos(np.clip(cosines, -1.0, 1.0).astype(np.float64))
    return (1.0 - angles / np.pi).astype(np.float32)


def check_measure(measure: str) -> None:
    """Refuse an unknown measure of similarity.

    Raises:
        InputError: with the nearest measure.
    """
    known = get_args(SimilarityMeasure)
    if measure not in known:
        raise InputError(f"there is no measure {measure!r}; {nearest_names(str(measure), known)}")


SEARCHED_AT_ONCE = 1 << 16
"""The number of rows compared at once; an array in a file is read in pieces."""


class Nearest(NamedTuple):
    """The nearest vectors of some queries, the best first.

    Arguments:
        rows: (Q, K) int64, the indices of the vectors.
        cosines: (Q, K) float32.
    """

    rows: NDArray[np.int64]
    cosines: NDArray[np.float32]


def nearest(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], count: int, *, chunk: int = SEARCHED_AT_ONCE
) -> Nearest:
    """The vectors with the largest cosines to each query; ties are ordered by index.

    The search is exact: all vectors are compared. A memory-mapped array is read once, in pieces.

    Arguments:
        vectors: (N, W), not normalised; a zero vector has cosine 0 with all.
        queries: (Q, W).
        count: K; N if there are fewer vectors.
        chunk: the number of rows compared at once, which affects memory and speed.

    Raises:
        InputError: for different widths, or a count below 1.

    >>> found = nearest(np.eye(3, dtype=np.float32), np.array([[0.0, 2.0, 1.0]], dtype=np.float32), 2)
    >>> found.rows.tolist(), found.cosines.round(3).tolist()
    ([[1, 2]], [[0.8939999938011169, 0.44699999690055847]])
    """
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1]:
        raise InputError(
            f"vectors have the shape {vectors.shape} and queries {queries.shape}; give (N, W) and (Q, W) from the same model"
        )
    if count < 1:
        raise InputError(f"count is {count}; give 1 or more")
    wanted = unit(np.asarray(queries, dtype=np.float32))
    rows = np.empty((len(queries), 0), dtype=np.int64)
    cosines = np.empty((len(queries), 0), dtype=np.float32)
    for start in range(0, len(vectors), chunk):
        piece = unit(np.asarray(vectors[start : start + chunk], dtype=np.float32))
        found, there = _largest(wanted @ piece.T, count)
        # Earlier rows come first, so a stable sort orders ties by index.
        rows = np.concatenate([rows, there + start], axis=1)
        cosines = np.concatenate([cosines, found], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        rows, cosines = np.take_along_axis(rows, best, axis=1), np.take_along_axis(cosines, best, axis=1)
    return Nearest(rows, cosines)


def _largest(numbers: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The largest values of each row and their indices, in descending order; ties are ordered by index."""
    if numbers.shape[1] > count:
        values, places = (each.numpy() for each in torch.topk(torch.from_numpy(numbers), count, dim=1))
        # If there are ties at the last rank, `topk` may select any of them; sorting the whole row selects the first ones.
        for row in np.flatnonzero((numbers >= values[:, -1:]).sum(axis=1) > count):
            places[row] = np.argsort(-numbers[row], kind="stable")[:count]
        places.sort(axis=1)
    else:
        places = np.broadcast_to(np.arange(numbers.shape[1]), numbers.shape)
    values = np.take_along_axis(numbers, places, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)
