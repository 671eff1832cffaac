"""Pairs of words that people judged: how far cosines rank them alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.metrics.regression import Interval, bootstrap_interval, pearson, spearman
from regard.word_embeddings.evaluation.lookup import (
    Case,
    Lookup,
    Unknown,
    check_unknown,
    fields,
    record_line,
    set_name,
    text_lines,
)
from regard.word_embeddings.store import WordVectors

FEWEST = 5
"""Pairs below which there is no interval: many of its samples would have no correlation."""


class JudgedPair(NamedTuple):
    """Two words and how alike, or how related, people say they are; on whatever scale."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilaritySet:
    """Judged pairs under a name.

    Raises:
        InputError: for no pairs.
    """

    name: str
    pairs: Sequence[JudgedPair]

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InputError(f"{self.name}: has no pairs; give lines of two words and a score")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarityResult:
    """What `evaluate_similarity` found.

    Arguments:
        name: of the set.
        pairs: in the set.
        used: that the correlations are of.
        unknown: of which a word has no vector.
        made: of which a vector was made of subwords.
        spearman, pearson: with people's scores; nan where fewer than two pairs are used, or all cosines are the same.
        interval: of Spearman's, over pairs drawn again; None where few pairs are used, or a sample has none.
    """

    name: str
    pairs: int
    used: int
    unknown: int
    made: int
    spearman: float
    pearson: float
    interval: Interval | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def read_similarity(path: Path | str, malformed: MalformedRows | None = None) -> SimilaritySet:
    r"""Pairs from a file with two words and a score on each line, between tabs, commas or spaces; gzip or not.

    The score is the first column after the words that holds a number in the first line that has one; what stands above is the
    header. Other lines without two words and a number there are malformed.

    Arguments:
        path: the file; its name without ending is the set's.
        malformed: where to count such lines.

    Raises:
        InputError: for a file that cannot be read, or has no pair.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.csv"
    >>> _ = file.write_text("Word 1,Word 2,Human (mean)\ntiger,cat,7.35\n")
    >>> read_similarity(file).pairs
    [JudgedPair(first='tiger', second='cat', score=7.35)]
    """
    path, malformed = Path(path), MalformedRows() if malformed is None else malformed
    pairs: list[JudgedPair] = []
    column = None
    for place, (number, line) in enumerate(text_lines(path, malformed)):
        parts = fields(line)
        if column is None:
            column = next((at for at, part in enumerate(parts) if at >= 2 and _number(part) is not None), None)
            if column is None and place == 0:
                continue  # a header
        score = _number(parts[column]) if column is not None and len(parts) > column else None
        if score is None or not parts[0] or not parts[1] or _number(parts[1]) is not None:
            record_line(malformed, path, number, line, "not two words and a score")
            continue
        pairs.append(JudgedPair(parts[0], parts[1], score))
    if not pairs:
        raise InputError(f"{path}: no line has two words and a score; give such a file")
    return SimilaritySet(name=set_name(path), pairs=pairs)


def evaluate_similarity(
    vectors: WordVectors,
    judged: SimilaritySet,
    *,
    unknown: Unknown = "skip",
    case: Case = "ignore",
    among: int | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> SimilarityResult:
    """Spearman's and Pearson's correlation of cosines with people's scores (Schnabel et al. 2015, section 3).

    With the defaults the figures are those of gensim's `evaluate_word_pairs`.

    Arguments:
        unknown: what becomes of a pair with a word that has no vector.
        case, among: how words are found, see `Lookup`.
        resamples: how often pairs are drawn again for the interval; 0 for none.
        seed: of this drawing.

    Raises:
        InputError: for a way that does not exist.

    >>> table = WordVectors(words=("a", "b", "c"), matrix=np.array([[1, 0], [1, 1], [0, 1]], dtype=np.float32))
    >>> judged = SimilaritySet(name="three", pairs=[JudgedPair("a", "b", 9), JudgedPair("b", "c", 8), JudgedPair("a", "c", 1)])
    >>> found = evaluate_similarity(table, judged)
    >>> found.used, round(found.spearman, 3)
    (3, 0.866)
    """
    check_unknown(unknown)
    lookup = Lookup(vectors=vectors, case=case, among=among)
    cosines = np.array([_cosine(lookup, pair) for pair in judged.pairs])
    known = ~np.isnan(cosines)
    used = known if unknown == "skip" else np.ones_like(known)
    rows = np.stack([np.array([pair.score for pair in judged.pairs]), np.where(known, cosines, 0.0)], axis=1)[used]
    rank, linear = (_correlation(rows, each) for each in (spearman, pearson))
    interval = _interval(rows, resamples, seed) if resamples and len(rows) >= FEWEST else None
    return SimilarityResult(
        name=judged.name,
        pairs=len(judged.pairs),
        used=len(rows),
        unknown=int((~known).sum()),
        made=sum(_made(lookup, pair) for pair, ok in zip(judged.pairs, known.tolist(), strict=True) if ok),
        spearman=rank,
        pearson=linear,
        interval=interval,
    )


def _cosine(lookup: Lookup, pair: JudgedPair) -> float:
    """In double precision, so that it does not depend on which word comes first; nan for an unknown word."""
    first, second = lookup.vector(pair.first), lookup.vector(pair.second)
    if first is None or second is None:
        return math.nan
    one, other = first.astype(np.float64), second.astype(np.float64)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


def _made(lookup: Lookup, pair: JudgedPair) -> bool:
    return any(lookup.row(word) is None for word in (pair.first, pair.second))


def _correlation(rows: NDArray[np.float64], kind: Any) -> float:
    return kind(rows[:, 0], rows[:, 1]) if len(rows) >= 2 else math.nan


def _interval(rows: NDArray[np.float64], resamples: int, seed: int) -> Interval | None:
    """None where a sample has no correlation, such as one of zeros alone."""
    found = bootstrap_interval(rows, lambda drawn: _correlation(drawn, spearman), resamples=resamples, seed=seed)
    return None if math.isnan(found.low) else found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
