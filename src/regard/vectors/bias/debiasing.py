"""Hard debiasing: a direction taken out of the words that should not have it (Bolukbasi et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.vectors.bias.lists import WordSet
from regard.vectors.bias.present import rows_of, unit64
from regard.vectors.bias.subspace import BiasSubspace
from regard.vectors.store import CHUNK, Matrix, WordVectors

Numbers = NDArray[np.float64]

NOISE = 1e-6
"""Of a unit vector: what is shorter is the rounding of float32."""


def hard_debiased(
    vectors: WordVectors,
    subspace: BiasSubspace,
    *,
    specific: Iterable[str] = (),
    equalize: Sequence[WordSet] = (),
) -> WordVectors:
    """The vectors without the subspace: neutralised, and sets of words made to differ in it alone (Bolukbasi et al. 2016).

    In the order of the published code, on unit vectors, w_B being the part in the subspace:

        neutralise every word that is not specific      w = (w - w_B) / |w - w_B|
        equalise each set E, its mean mu                nu = mu - mu_B;   w = nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B|

    Each set is equalised in lower case, in Title Case and in UPPER CASE, wherever two of its words or more are there. Where
    neutralising left no difference in the subspace, which word lies on which side is taken from the vectors as they were (the
    published code takes it from the rounding). The words of the pairs themselves are neutralised too unless they are specific.

    Arguments:
        specific: words that may keep what they have in the subspace, such as she, mother and queen; found as they are written,
            or else in lower case.
        equalize: pairs, or larger sets, such as grandmother and grandfather.

    Returns:
        Unit vectors of the same words, without subwords; `metadata["debiased"]` says how.

    Raises:
        InputError: where the subspace is of another width.

    >>> vectors = WordVectors(words=("she", "he", "nurse"), matrix=np.array([[3, 4], [-4, 3], [3, 4]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> hard_debiased(vectors, axis, specific=["she", "he"], equalize=[("she", "he")]).matrix.round(3).tolist()
    [[0.7139999866485596, 0.699999988079071], [-0.7139999866485596, 0.699999988079071], [0.0, 1.0]]
    """
    if subspace.directions.shape[1] != vectors.width:
        raise InputError(
            f"{vectors.name}: has vectors of {vectors.width}, and the directions are of {subspace.directions.shape[1]}; "
            "find the directions in the same vectors"
        )
    kept = {*rows_of(vectors, specific)}
    matrix, gone = _neutralised(vectors, subspace, kept)
    sets = [found for words in equalize for found in spellings(vectors, words)]
    done = [words for words in dict.fromkeys(sets) if _equalise(vectors, matrix, subspace, words)]
    about = {
        "method": "hard",
        "pairs": [list(words) for words in subspace.sets],
        "components": len(subspace.directions),
        "explained": list(subspace.explained[: len(subspace.directions)]),
        "specific": len(kept),
        "neutralised": len(vectors) - len(kept),
        "nothing_left": [vectors.words[row] for row in gone],
        "equalised": [list(words) for words in done],
    }
    return vectors.with_matrix(matrix, metadata={**vectors.metadata, "debiased": about})


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """What debiasing left of the subspace in the words it neutralised.

    Arguments:
        largest: the largest length of a unit vector's part in the subspace.
        mean: their mean.
        words: how many there are.
    """

    largest: float
    mean: float
    words: int


def leftover(vectors: WordVectors, subspace: BiasSubspace, leave_out: Iterable[str] = ()) -> Leftover:
    """How much of the subspace is in all words but some, such as the specific and the equalised ones.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [0, 2]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> leftover(vectors, axis)
    Leftover(largest=0.6, mean=0.3, words=2)
    """
    wanted = np.ones(len(vectors), dtype=bool)
    wanted[rows_of(vectors, leave_out)] = False
    pieces = [
        np.linalg.norm(unit64(vectors.matrix[start : start + CHUNK]) @ subspace.directions.T, axis=1)
        for start in range(0, len(vectors), CHUNK)
    ]
    found = np.concatenate(pieces)[wanted] if pieces else np.empty(0)
    if not len(found):
        raise InputError(f"{vectors.name}: all words are left out; leave fewer out")
    return Leftover(largest=float(found.max()), mean=float(found.mean()), words=len(found))


def spellings(vectors: WordVectors, words: WordSet) -> list[WordSet]:
    """A set in lower case, Title Case and UPPER CASE: of each the words that are there, where they are two or more.

    >>> vectors = WordVectors(words=("she", "he", "She", "He", "HE"), matrix=np.eye(5, dtype=np.float32))
    >>> spellings(vectors, ("she", "he"))
    [('she', 'he'), ('She', 'He')]
    """
    made = (tuple(change(word) for word in words) for change in (str.lower, str.title, str.upper))
    there = (tuple(word for word in dict.fromkeys(each) if word in vectors.rows) for each in made)
    return [each for each in dict.fromkeys(there) if len(each) >= 2]


def _neutralised(vectors: WordVectors, subspace: BiasSubspace, kept: set[int]) -> tuple[Matrix, list[int]]:
    """The matrix, and the rows of which nothing is left: vectors that lay in the subspace wholly."""
    matrix = np.empty((len(vectors), vectors.width), dtype=np.float32)
    gone: list[int] = []
    for start in range(0, len(vectors), CHUNK):
        units = unit64(vectors.matrix[start : start + CHUNK])
        left = units - subspace.projected(units)
        left -= subspace.projected(left)  # once more, for what the first subtraction rounded
        lengths = np.linalg.norm(left, axis=1)
        inside = (lengths < NOISE) & units.any(axis=1)
        left[lengths < NOISE] = 0.0
        specific = [row - start for row in kept if start <= row < start + len(units)]
        left[specific] = units[specific]
        inside[specific] = False
        gone += (start + np.flatnonzero(inside)).tolist()
        matrix[start : start + CHUNK] = unit64(left)
    return matrix, gone


def _equalise(vectors: WordVectors, matrix: Matrix, subspace: BiasSubspace, words: WordSet) -> bool:
    """Write the words of a set so that they differ in the subspace alone; False where nothing says how."""
    rows = [vectors.rows[word] for word in words]
    units = matrix[rows].astype(np.float64)
    mean = units.mean(axis=0)
    common = mean - subspace.projected(mean)
    differences = subspace.projected(units - mean)
    if np.linalg.norm(differences, axis=1).min() < NOISE:
        before = unit64(np.asarray(vectors.matrix[rows]))
        differences = subspace.projected(before - before.mean(axis=0))
        if np.linalg.norm(differences, axis=1).min() < NOISE:
            return False
    height = np.sqrt(max(0.0, 1.0 - float(common @ common)))
    matrix[rows] = unit64(common + height * unit64(differences))
    return True
