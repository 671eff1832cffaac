"""Whether a word's association goes with a number that the world has about it (WEFAT: Caliskan, Bryson and Narayanan 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.metrics.regression import pearson
from regard.vectors.bias import cautions
from regard.vectors.bias.association_lists import NamedWords
from regard.vectors.bias.present import Presence
from regard.vectors.store import WordVectors


@dataclass(frozen=True, kw_only=True, slots=True)
class PropertyAssociation:
    """Associations of words beside a number of each.

    Arguments:
        correlation: Pearson's of the two; nan where either does not vary.
        associations: of each word, its difference of mean cosines over the deviation of its cosines.
        missing: words without a vector.
        cautions: what this does not show.
    """

    correlation: float
    associations: Mapping[str, float]
    missing: tuple[str, ...]
    cautions: tuple[str, ...] = (cautions.NO_ABSENCE, cautions.ENGLISH_AND_BINARY)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "correlation": self.correlation,
            "associations": dict(self.associations),
            "missing": list(self.missing),
            "cautions": list(self.cautions),
        }


def property_association(
    vectors: WordVectors, numbers: Mapping[str, float], attributes: tuple[NamedWords, NamedWords], *, ddof: int = 0
) -> PropertyAssociation:
    """The word embedding factual association test: such as occupations, and what share of those who have one are women.

        s(w) = (mean over a in A of cos(w, a) - mean over b in B of cos(w, b)) / deviation over A and B of cos(w, .)

    Arguments:
        numbers: of each word.
        attributes: A and B, such as female and male terms.
        ddof: of the deviation, 0 or 1.

    Raises:
        InputError: where fewer than two words have vectors, or none of A or of B.

    >>> vectors = WordVectors(words=("nurse", "smith", "she", "he"), matrix=np.array(
    ...     [[3, 4], [4, 3], [0, 1], [1, 0]], dtype=np.float32))
    >>> found = property_association(vectors, {"nurse": 0.9, "smith": 0.1}, (
    ...     NamedWords(name="female", words=("she",)), NamedWords(name="male", words=("he",))))
    >>> round(found.correlation, 6), round(found.associations["nurse"], 6)
    (1.0, 2.0)
    """
    if ddof not in (0, 1):
        raise InputError(f"ddof is {ddof!r}; give 0 for the population's deviation, or 1 for the sample's")
    here = Presence(vectors)
    forms = here.forms(numbers)
    words, first, second = tuple(forms.values()), *(here.of(each.words) for each in attributes)
    for found, least, name in ((words, 2, "the numbers"), *zip((first, second), (1, 1), ("A", "B"), strict=True)):
        if len(found) < least:
            raise InputError(f"{vectors.name}: has {len(found)} of the words of {name}, and {least} are needed")
    units = here.vectors_of(words)
    one, other = units @ here.vectors_of(first).T, units @ here.vectors_of(second).T
    deviations = np.concatenate([one, other], axis=1).std(axis=1, ddof=ddof)
    values = (one.mean(axis=1) - other.mean(axis=1)) / np.where(deviations > 0, deviations, 1.0)
    return PropertyAssociation(
        correlation=pearson([numbers[word] for word in forms], values),
        associations=dict(zip(words, values.tolist(), strict=True)),
        missing=here.missing(numbers),
    )
