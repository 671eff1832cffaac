"""Looking up test words in word embeddings, reading test sets, and correlating cosines with human similarity scores."""

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
"""How words are looked up. `exact`: unchanged. `lower`: unchanged, else in lower case. `ignore`: as the first word of the table
that is equal in upper case, as gensim does by default."""

Unknown = Literal["skip", "zero"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
"""How an item is treated if one of its words has no vector: `skip` leaves it out and counts it; `zero` counts it as similarity 0,
or as a wrong answer (gensim's `dummy4unknown`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """Looks up the words of a test set in word embeddings.

    Arguments:
        vectors: the word embeddings.
        case: how words are looked up, see `CASES`.
        among: only use this many words from the beginning of the table, in most files the most frequent; None for all.

    Raises:
        InputError: for an unknown case, or `among` below 1.

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
        """The number of words that can be found."""
        return len(self.vectors) if self.among is None else min(self.among, len(self.vectors))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """For each row the first row with the same word (by `case`), (size,) int64."""
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
        """The row of a word; None if it is not in the table."""
        if self.case == "ignore":
            return self._first.get(word.upper())
        forms = (word,) if self.case == "exact" else (word, word.lower())
        found = (self.vectors.rows.get(form) for form in forms)
        return next((row for row in found if row is not None and row < self.size), None)

    def vector(self, word: str) -> Matrix | None:
        """The vector of a word, (W,) float32, from the table or else from its subwords; None if it has none."""
        row = self.row(word)
        if row is not None:
            return np.asarray(self.vectors.matrix[row])
        if self.vectors.subwords is None or word in self.vectors:  # words beyond the first `among` are not used
            return None
        return self.vectors.subwords.vector(word)

    @cached_property
    def _first(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for row, word in enumerate(self.vectors.words[: self.size]):
            found.setdefault(word.upper(), row)
        return found


def known_case(case: str) -> Case:
    """Check that this is one of `CASES`, and return it.

    Raises:
        InputError: for an unknown case; the message names the most similar one.
    """
    for known in CASES:
        if case == known:
            return known
    raise InputError(f"there is no case {case!r}; {nearest(case, CASES)}")


def check_unknown(unknown: str) -> None:
    """Check that this is one of `UNKNOWN`.

    Raises:
        InputError: for another value; the message names the most similar one.
    """
    if unknown not in UNKNOWN:
        raise InputError(f"there is no way {unknown!r} to treat unknown words; {nearest(unknown, UNKNOWN)}")


# Files of test sets.


class Text(NamedTuple):
    """A line that is not empty, with its number from 1."""

    number: int
    text: str


def text_lines(path: Path, malformed: MalformedRows) -> Iterator[Text]:
    """The lines of a file without empty lines and comments (#); lines that are not UTF-8 or too long are recorded as malformed.

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
    """Record a malformed line, with its beginning."""
    malformed.record(MalformedRow(file=str(path), line=number, reason=reason, detail=repr(line[:60])))


def fields(line: str) -> list[str]:
    r"""The columns of a line, separated by tabs, else by commas or semicolons, else by spaces.

    >>> fields("New York\tcity\t3"), fields("a,b,1"), fields("a  b 1")
    (['New York', 'city', '3'], ['a', 'b', '1'], ['a', 'b', '1'])
    """
    for separator in ("\t", ",", ";"):
        if line.count(separator) >= 2:
            return [field.strip() for field in line.split(separator)]
    return line.split()


def set_name(path: Path) -> str:
    """The name of a test set: the name of its file without endings.

    >>> set_name(Path("sets/EN-RG-65.txt.gz"))
    'EN-RG-65'
    """
    name = path.name.removesuffix(".gz")
    return Path(name).stem or name


def set_files(paths: Iterable[Path]) -> list[Path]:
    """The given files, with folders replaced by their *.txt and *.txt.gz files, sorted by name.

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


# Pairs of words with human similarity scores.


FEWEST = 5
"""The fewest pairs for an interval; with fewer, many bootstrap samples have no correlation."""


class JudgedPair(NamedTuple):
    """Two words and their similarity or relatedness as judged by people, on any scale."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilaritySet:
    """A named set of judged pairs.

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
    """The result of `evaluate_similarity`.

    Arguments:
        name: the name of the set.
        pairs: the number of pairs in the set.
        used: the number of pairs in the correlations.
        unknown: the number of pairs with a word that has no vector.
        made: the number of pairs with a vector that was computed from subwords.
        spearman, pearson: correlations with the human scores; nan with fewer than two pairs, or if all cosines are equal.
        interval: bootstrap interval of Spearman's correlation over pairs; None with few pairs, or if it is undefined.
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
    r"""Read pairs from a file with two words and a score per line, separated by tabs, commas or spaces; plain or gzip.

    The column of the score is the first column after the words that contains a number, in the first line with such a number. A
    first line without one is the header. Other lines without two words and a score are malformed.

    Arguments:
        path: the path of the file; its name without ending becomes the name of the set.
        malformed: where malformed lines are recorded.

    Raises:
        InputError: if the file cannot be read, or has no pair.

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
    """Spearman's and Pearson's correlation of cosines with human similarity scores (Schnabel et al. 2015, section 3).

    With the defaults the figures equal those of gensim's `evaluate_word_pairs`.

    Arguments:
        vectors: the word embeddings.
        judged: the pairs with human scores.
        unknown: how a pair with a word that has no vector is treated, see `UNKNOWN`.
        case, among: how words are looked up, see `Lookup`.
        resamples: the number of bootstrap resamples for the interval; 0 for none.
        seed: seed of the bootstrap.

    Raises:
        InputError: for an unknown value of `unknown` or `case`.

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
    """The cosine of a pair; nan for an unknown word. In float64, so that it does not depend on the order of the words."""
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
    """The bootstrap interval; None if the correlation of a sample is undefined, for example if all its cosines are equal."""
    found = bootstrap_interval(rows, lambda sample: _correlation(sample, spearman), resamples=resamples, seed=seed)
    return None if math.isnan(found.low) else found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
