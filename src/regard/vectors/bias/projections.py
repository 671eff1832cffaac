"""How much of words lies along a direction: projections, direct and indirect bias (Bolukbasi et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.vectors.bias.present import Presence, unit64
from regard.vectors.bias.subspace import BiasSubspace
from regard.vectors.store import WordVectors

Numbers = NDArray[np.float64]


class Projection(NamedTuple):
    """A word on a direction.

    Arguments:
        word: it.
        cosine: of its vector and the direction; positive towards the direction's first word.
    """

    word: str
    cosine: float


def projections(vectors: WordVectors, direction: Numbers, words: Sequence[str]) -> list[Projection]:
    """The cosine of each word's vector with a direction, from the positive end to the negative one.

    The lists of he and she occupations in the paper's Figure 1 are the two ends of this. They are no analogies: those are
    `analogy_answers` and `analogy_pairs`.

    Arguments:
        words: those without a vector are left out.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [-4, 3]], dtype=np.float32))
    >>> projections(vectors, np.array([1.0, 0.0]), ["smith", "nurse", "unheard"])
    [Projection(word='nurse', cosine=0.6), Projection(word='smith', cosine=-0.8)]
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(words))
    if not present:
        return []
    cosines = (here.vectors_of(present) @ unit64(direction)).tolist()
    found = [Projection(word, cosine) for word, cosine in zip(present, cosines, strict=True)]
    return sorted(found, key=lambda each: -each.cosine)


def direct_bias(vectors: WordVectors, direction: Numbers, words: Sequence[str], strictness: float = 1.0) -> float:
    """DB_c = mean over words of |cos(w, g)|^c.

    Arguments:
        words: gender-neutral ones; those without a vector are left out.
        strictness: c; the smaller, the more small cosines count.

    Raises:
        InputError: where no word has a vector, or c is not above 0.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [-4, 3]], dtype=np.float32))
    >>> round(direct_bias(vectors, np.array([1.0, 0.0]), ["nurse", "smith"]), 6)
    0.7
    """
    if not strictness > 0:
        raise InputError(f"strictness is {strictness}; give a number above 0")
    found = projections(vectors, direction, words)
    if not found:
        raise InputError(f"{vectors.name}: has a vector of none of the {len(words)} words; give words that it has")
    return float(np.mean(np.abs([each.cosine for each in found]) ** strictness))


def random_direct_bias(
    vectors: WordVectors, words: Sequence[str], strictness: float = 1.0, *, directions: int = 100, seed: int = 0
) -> float:
    """The mean direct bias along random directions: what a direction that means nothing would have.

    Raises:
        InputError: as `direct_bias`.
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(words))
    if not present:
        raise InputError(f"{vectors.name}: has a vector of none of the {len(words)} words; give words that it has")
    drawn = unit64(np.random.default_rng(seed).normal(size=(directions, vectors.width)))
    return float(np.mean(np.abs(here.vectors_of(present) @ drawn.T) ** strictness))


def indirect_bias(vectors: WordVectors, subspace: BiasSubspace, word: str, others: Sequence[str]) -> list[Projection]:
    """beta(w, v): the share of the inner product of two words that comes from the subspace, for each other word.

        beta(w, v) = (w.v - w'.v' / (|w'| |v'|)) / w.v

    with unit vectors, and w' what is left of w without its part in the subspace. 0 where nothing comes from it; nan where w.v is
    0, or nothing is left.

    Raises:
        InputError: for a word without a vector; of the others those are left out.

    >>> vectors = WordVectors(words=("nurse", "softball"), matrix=np.array([[1, 1, 0], [1, 0, 1]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> round(indirect_bias(vectors, axis, "softball", ["nurse"])[0].cosine, 6)
    1.0
    """
    here = Presence(vectors)
    present = here.of(dict.fromkeys(others))
    one = unit64(vectors[word])
    many = here.vectors_of(present) if present else np.empty((0, vectors.width))
    whole = many @ one
    left = unit64(_without(many, subspace)) @ unit64(_without(one, subspace))
    gone = ~(_without(many, subspace).any(axis=1) & bool(_without(one, subspace).any()))
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = np.where(gone | (whole == 0), np.nan, (whole - left) / whole)
    return [Projection(word, value) for word, value in zip(present, beta.tolist(), strict=True)]


def _without(units: Numbers, subspace: BiasSubspace) -> Numbers:
    """What is left without the part in the subspace; exactly zero where that is all."""
    left = units - subspace.projected(units)
    lengths = np.linalg.norm(left, axis=-1, keepdims=True)
    return np.where(lengths > 1e-7, left, 0.0)
