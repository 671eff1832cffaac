"""Look words of a test set up in a table, read test sets, and correlate cosines with people's judgements of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data.lines import is_utf_8, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.errors import InputError, nearest
from regard.metrics.regression import Interval, bootstrap_interval, pearson, spearman
from regard.word_embeddings.store import Matrix, WordVectors

Case = Literal["exact", "lower", "ignore"]
CASES: tuple[Case, ...] = get_args(Case)
"""`exact`: the word as it stands; `lower`: or else in small letters; `ignore`: the first in the table that is the same
in capital letters, as gensim does by default."""

Unknown = Literal["skip", "zero"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
"""What becomes of an item with a word that has no vector: `skip` leaves it out and counts it; `zero` takes it as a similarity of
0, or a wrong answer (gensim's `dummy4unknown`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """A table as a test set looks into it.

    Arguments:
        vectors: the table.
        case: how words are found.
        among: only the first so many words, in most files the commonest; None for all.

    Raises:
        InputError: for a way that does not exist, or no words at all.

    >>> table = WordVectors(words=("Rome", "rome"), matrix=np.eye(2, dtype=np.float32))
    >>> [Lookup(vectors=table, case=case).row("ROME") for case in CASES]
    [None, 1, 0]
    """

    vectors: WordVectors
    case: Case = "ignore"
    among: int | None = None

    def __post_init__(self) -> None:
        known_case(self.case)
        if self.among is not None and self.among < 1:
            raise InputError(f"among is {self.among}; give 1 or more words, or none for all")

    @property
    def size(self) -> int:
        """How many words there are to find."""
        return len(self.vectors) if self.among is None else min(self.among, len(self.vectors))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Of each row the first row that counts as the same word, (size,)."""
        if self.case != "ignore":
            return np.arange(self.size)
        return np.fromiter((self._first[word.upper()] for word in self.vectors.words[: self.size]), np.int64, self.size)

    @cached_property
    def members(self) -> Mapping[int, list[int]]:
        """All rows of each group that has more than one."""
        found: dict[int, list[int]] = {}
        for row, group in enumerate(self.groups.tolist()):
            found.setdefault(group, []).append(row)
        return {group: rows for group, rows in found.items() if len(rows) > 1}

    def row(self, word: str) -> int | None:
        """The word's row; None where the table does not have it."""
        if self.case == "ignore":
            return self._first.get(word.upper())
        forms = (word,) if self.case == "exact" else (word, word.lower())
        found = (self.vectors.rows.get(form) for form in forms)
        return next((row for row in found if row is not None and row < self.size), None)

    def vector(self, word: str) -> Matrix | None:
        """The word's row, or what subwords make of a word that the table does not have; None for neither."""
        row = self.row(word)
        if row is not None:
            return np.asarray(self.vectors.matrix[row])
        if self.vectors.subwords is None or word in self.vectors:  # a word beyond the first `among` is left out
            return None
        return self.vectors.subwords.vector(word)

    @cached_property
    def _first(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for row, word in enumerate(self.vectors.words[: self.size]):
            found.setdefault(word.upper(), row)
        return found


def known_case(case: str) -> Case:
    """One of `CASES`, by its name.

    Raises:
        InputError: for another name, with the nearest.
    """
    for known in CASES:
        if case == known:
            return known
    raise InputError(f"there is no case {case!r}; {nearest(case, CASES)}")


def check_unknown(unknown: str) -> None:
    """Refuse what is no way to treat unknown words.

    Raises:
        InputError: with the nearest.
    """
    if unknown not in UNKNOWN:
        raise InputError(f"there is no way {unknown!r} to treat unknown words; {nearest(unknown, UNKNOWN)}")


# Files of test sets.


class Text(NamedTuple):
    """A line that is not empty, without the space around it."""

    number: int
    text: str


def text_lines(path: Path, malformed: MalformedRows) -> Iterator[Text]:
    """The lines of a file that hold something, comments (#) left out; those that are no text are counted.

    Raises:
        InputError: for a file that cannot be read.
    """
    for line in read_lines(path):
        if line.too_long or not is_utf_8(line):
            reason = "line too long" if line.too_long else "not UTF-8"
            malformed.record(MalformedRow(file=str(path), line=line.number, reason=reason))
            continue
        text = line.content.decode()
        if text.strip() and not text.startswith("#"):
            yield Text(line.number, text)


def record_line(malformed: MalformedRows, path: Path, number: int, line: str, reason: str) -> None:
    """Count a line that could not be used, with its beginning."""
    malformed.record(MalformedRow(file=str(path), line=number, reason=reason, detail=repr(line[:60])))


def fields(line: str) -> list[str]:
    r"""The columns of a line: between tabs, else commas or semicolons, else spaces.

    >>> fields("New York\tcity\t3"), fields("a,b,1"), fields("a  b 1")
    (['New York', 'city', '3'], ['a', 'b', '1'], ['a', 'b', '1'])
    """
    for separator in ("\t", ",", ";"):
        if line.count(separator) >= 2:
            return [field.strip() for field in line.split(separator)]
    return line.split()


def set_name(path: Path) -> str:
    """What tables call a test set: its file's name without the endings.

    >>> set_name(Path("sets/EN-RG-65.txt.gz"))
    'EN-RG-65'
    """
    name = path.name.removesuffix(".gz")
    return Path(name).stem or name


def set_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are given; of a folder every *.txt (or .txt.gz), by name.

    Raises:
        InputError: for a folder without such files.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(each for each in path.iterdir() if each.is_file() and each.name.endswith((".txt", ".txt.gz")))
        if not inside:
            raise InputError(f"{path}: holds no *.txt; give a file, or a folder with test sets")
        found += inside
    return found


# Pairs of words that people judged.


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
        interval: of Spearman's, over pairs sampled again; None where few pairs are used, or a sample has none.
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

    The score is the first column after the words that holds a number in the first line that has one; what is above is the
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
        resamples: how often pairs are sampled again for the interval; 0 for none.
        seed: of this sampling.

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
