"""The directions in which pairs of words differ (Bolukbasi et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.vectors.bias.lists import WordSet
from regard.vectors.bias.present import Presence
from regard.vectors.store import WordVectors

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BiasSubspace:
    """What sets of words, such as woman and man, differ in.

    Arguments:
        directions: (k, W) float64, of length one and at right angles, the one that explains most first. Each points towards the
            first word of the first set: the sign is a convention.
        explained: the share of the sets' variance that each principal component has, all of them, the largest first.
        sets: those that were used.
        missing: words of sets that could not be used, because fewer than two of a set have vectors, and others without one.
    """

    directions: Numbers
    explained: tuple[float, ...]
    sets: tuple[WordSet, ...]
    missing: tuple[str, ...] = ()

    @property
    def direction(self) -> Numbers:
        """The first one, g, (W,)."""
        return self.directions[0]

    @property
    def ends(self) -> tuple[str, str]:
        """What lies at its positive and at its negative end, in short: the words of the first set."""
        return self.sets[0][0], self.sets[0][1]

    def projected(self, vectors: NDArray[np.floating]) -> Numbers:
        """The part of vectors (..., W) that lies in the subspace."""
        return (np.asarray(vectors, dtype=np.float64) @ self.directions.T) @ self.directions

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors bias --json` prints it, without the directions."""
        return {
            "components": len(self.directions),
            "explained": list(self.explained),
            "positive": self.ends[0],
            "negative": self.ends[1],
            "sets": [list(words) for words in self.sets],
            "missing": list(self.missing),
        }


def bias_subspace(vectors: WordVectors, sets: Sequence[WordSet], components: int = 1) -> BiasSubspace:
    """The principal components of sets of words that differ in one thing, each set centred (Bolukbasi et al. 2016).

    With unit vectors w and the mean mu_i of the set D_i,

        C = sum over i, and over w in D_i, of (w - mu_i) (w - mu_i)^T / |D_i|

    and the directions are the eigenvectors of C with the largest eigenvalues. The paper's text speaks of the differences of the
    pairs; its code, and this, centre each pair, so that it does not matter which word comes first.

    Arguments:
        sets: pairs, or larger sets; one of which fewer than two words have vectors is left out, and said.
        components: k; 1 for a direction.

    Raises:
        InputError: where no set is left, its words all have the same vectors, or k is more than they span.

    >>> vectors = WordVectors(words=("she", "he", "her", "his"), matrix=np.array(
    ...     [[1, 1, 0], [-1, 1, 0], [1, 0, 1], [-1, 0, 1]], dtype=np.float32))
    >>> found = bias_subspace(vectors, [("she", "he"), ("her", "his")])
    >>> found.direction.round(6).tolist(), found.explained[0].__round__(6)
    ([1.0, 0.0, 0.0], 1.0)
    """
    if components < 1:
        raise InputError(f"components is {components}; give 1 or more")
    here = Presence(vectors)
    used = [found for found in (here.of(dict.fromkeys(words)) for words in sets) if len(found) >= 2]
    if not used:
        raise InputError(
            f"{vectors.name}: no pair of the {len(sets)} has vectors of both its words; give pairs of words that it has"
        )
    centred = [_centred(here.vectors_of(words)) for words in used]
    _, sizes, found = np.linalg.svd(np.concatenate(centred), full_matrices=False)
    variances = sizes**2
    rank = int((sizes > 1e-6 * max(1.0, float(sizes[0]))).sum())
    if rank < components:
        raise InputError(
            f"{vectors.name}: the words of the pairs differ in {rank} directions, and components is {components}; "
            "give more pairs, or fewer components"
        )
    first = centred[0][0]
    directions = found[:components] * np.where(found[:components] @ first < 0, -1.0, 1.0)[:, None]
    return BiasSubspace(
        directions=directions,
        explained=tuple((variances / variances.sum())[:rank].tolist()),
        sets=tuple(used),
        missing=tuple(dict.fromkeys(word for words in sets for word in here.missing(words))),
    )


def _centred(units: Numbers) -> Numbers:
    """A set without its mean, such that the product with itself has the weight 1 / |D|."""
    return (units - units.mean(axis=0)) / np.sqrt(len(units))
