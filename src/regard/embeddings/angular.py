"""How alike two vectors are by the angle between them."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError, nearest

SimilarityMeasure = Literal["cosine", "angular"]


def angular(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """One minus the angle in half turns (Cer et al. 2018, section 5, equation 1).

        sim(u, v) = 1 - arccos(u . v / (|u| |v|)) / pi

    1 for the same direction, 0.5 for a right angle, 0 for opposite ones. It orders as the cosine does, and spreads what is nearly
    the same: close to 1 the cosine hardly moves.

    Arguments:
        cosines: of any shape; what rounding put outside [-1, 1] is brought back.

    >>> angular(np.array([1.0, 0.0, -1.0], dtype=np.float32)).tolist()
    [1.0, 0.5, 0.0]
    """
    angles = np.arccos(np.clip(cosines, -1.0, 1.0).astype(np.float64))
    return (1.0 - angles / np.pi).astype(np.float32)


def check_measure(measure: str) -> None:
    """Refuse what is no measure of similarity.

    Raises:
        InputError: with the nearest.
    """
    known = get_args(SimilarityMeasure)
    if measure not in known:
        raise InputError(f"there is no measure {measure!r}; {nearest(str(measure), known)}")
