"""What becomes of words that are spelt a little otherwise: whether they have a vector, and whether it is near the word's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.vectors.evaluation.builtin import NOUNS, SPELLINGS
from regard.vectors.evaluation.variants import KINDS, Kind, variant
from regard.vectors.neighbours import cosines
from regard.vectors.store import WordVectors

COSINES = 1 << 23
"""That are in memory together."""
NEAR = 10


class VariantFound(NamedTuple):
    """A word and its variant.

    Arguments:
        word: that has a row in the table.
        variant: of it.
        made: whether its vector is one of subwords.
        cosine: of the two.
        rank: of the word among the variant's neighbours, from 1.
    """

    word: str
    variant: str
    made: bool
    cosine: float
    rank: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustnessResult:
    """What `evaluate_robustness` found of one kind of variant.

    Arguments:
        kind: of the variants.
        words: with a row in the table, and a variant of that kind.
        unknown: words without a row, which are left out.
        covered: whose variant has a vector, a row of the table or one made of subwords.
        made: of these, made of subwords.
        cosine: mean, over those covered; None where there are none.
        median_rank: of the word among the neighbours of its variant; likewise.
        hits: words among the ten nearest neighbours of their variant.
        hit_rate: hits over covered; likewise.
        found: each that is covered; not in the JSON.
    """

    kind: Kind
    words: int
    unknown: int
    covered: int
    made: int
    cosine: float | None
    median_rank: float | None
    hits: int
    hit_rate: float | None
    found: tuple[VariantFound, ...]

    @property
    def coverage(self) -> float | None:
        """Covered over words."""
        return self.covered / self.words if self.words else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        del values["found"]
        return values | {"coverage": self.coverage}


def evaluate_robustness(
    vectors: WordVectors, words: Sequence[str] | None = None, *, kinds: Sequence[Kind] = KINDS, seed: int = 0
) -> tuple[RobustnessResult, ...]:
    """How variants of words fare, kind by kind: typing errors, plurals, capitals, British spellings.

    A table alone has no vector for most typing errors; one with subwords makes one for nearly all, and it may be near the word's.
    A typing error that is a row of the table counts as covered, be it a word of its own or an error the training text had too.

    Arguments:
        words: in small letters; None: common nouns, and for spellings a list of words that differ.
        kinds: of variants.
        seed: of the typing errors.

    Raises:
        InputError: for a kind that does not exist.

    >>> table = WordVectors(words=("dog", "dogs", "red"), matrix=np.array([[1, 0], [1, 0.2], [0, 1]], dtype=np.float32))
    >>> found = evaluate_robustness(table, ["dog", "cat"], kinds=["plural"])[0]
    >>> found.words, found.unknown, found.covered, found.hits
    (1, 1, 1, 1)
    """
    results = []
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"there is no kind of variant {kind!r}; choose from {', '.join(KINDS)}")
        own = words if words is not None else NOUNS if kind != "British spelling" else tuple(SPELLINGS)
        draw = np.random.default_rng([seed, KINDS.index(kind)])
        forms = [(word, variant(word, kind, draw)) for word in dict.fromkeys(own)]
        asked = [(word, form) for word, form in forms if form is not None]
        results.append(_result(vectors, kind, asked))
    return tuple(results)


def _result(vectors: WordVectors, kind: Kind, asked: Sequence[tuple[str, str]]) -> RobustnessResult:
    there = [(word, form) for word, form in asked if word in vectors]
    found = tuple(_found(vectors, there))
    hits = sum(each.rank <= NEAR for each in found)
    return RobustnessResult(
        kind=kind,
        words=len(there),
        unknown=len(asked) - len(there),
        covered=len(found),
        made=sum(each.made for each in found),
        cosine=float(np.mean([each.cosine for each in found])) if found else None,
        median_rank=float(np.median([each.rank for each in found])) if found else None,
        hits=hits,
        hit_rate=hits / len(found) if found else None,
        found=found,
    )


def _found(vectors: WordVectors, pairs: Sequence[tuple[str, str]]) -> Iterator[VariantFound]:
    known = [(word, form, vector) for word, form in pairs if (vector := vectors.get(form)) is not None]
    together = max(1, COSINES // len(vectors)) if known else 1
    for start in range(0, len(known), together):
        here = known[start : start + together]
        scores = cosines(vectors, np.stack([vector for _, _, vector in here]))
        for (word, form, vector), row in zip(here, scores, strict=True):
            yield VariantFound(
                word,
                form,
                form not in vectors,
                float(unit(vector) @ unit(vectors[word])),
                _rank(vectors, row, word, form),
            )


def _rank(vectors: WordVectors, scores: NDArray[np.float32], word: str, form: str) -> int:
    """How many words are nearer than the word, the variant itself left out, and one."""
    nearer = int((scores > scores[vectors.rows[word]]).sum())
    own = vectors.rows.get(form)
    return 1 + nearer - int(own is not None and scores[own] > scores[vectors.rows[word]])
