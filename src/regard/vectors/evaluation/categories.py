"""Words of a few categories: whether clusters of their vectors are these categories again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.data.malformed import MalformedRow, MalformedRows
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.metrics.classification import check_alike
from regard.vectors.evaluation.builtin import CATEGORIES
from regard.vectors.evaluation.lookup import Case, Lookup
from regard.vectors.evaluation.reading import set_name, text_lines
from regard.vectors.store import WordVectors

STARTS: Any = 10  # scikit-learn's stubs want a word here


@dataclass(frozen=True, kw_only=True, slots=True)
class CategorySet:
    """Words by the category they belong to, under a name.

    Raises:
        InputError: for fewer than two categories, or one without words.
    """

    name: str
    categories: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        if len(self.categories) < 2 or not all(self.categories.values()):
            raise InputError(
                f"{self.name}: has fewer than two categories with words; give lines of a word and a category"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class CategoryResult:
    """What `evaluate_categories` found.

    Arguments:
        name: of the set.
        categories: of which a word has a vector, and so clusters.
        words: in the set.
        unknown: without a vector.
        purity: of the clusters; None where fewer than two categories have words.
        clusters: the words that came together.
    """

    name: str
    categories: int
    words: int
    unknown: int
    purity: float | None
    clusters: tuple[tuple[str, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def builtin_categories() -> CategorySet:
    """Ten categories of ten common words: animals, body, buildings, colours, countries, family, food, music, ..."""
    return CategorySet(name="built-in", categories=CATEGORIES)


def read_categories(path: Path | str, malformed: MalformedRows | None = None) -> CategorySet:
    r"""Words with their categories from a file: a word, a tab, its category on each line; gzip or not.

    Arguments:
        path: the file; its name without ending is the set's.
        malformed: where to count other lines.

    Raises:
        InputError: for a file that cannot be read, or has fewer than two categories.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "small.tsv"
    >>> _ = file.write_text("dog\tanimal\nred\tcolour\ncat\tanimal\n")
    >>> read_categories(file).categories
    {'animal': ('dog', 'cat'), 'colour': ('red',)}
    """
    path, malformed = Path(path), MalformedRows() if malformed is None else malformed
    found: dict[str, list[str]] = {}
    for number, line in text_lines(path, malformed):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            row = MalformedRow(
                file=str(path), line=number, reason="not a word, a tab and a category", detail=repr(line[:60])
            )
            malformed.record(row)
            continue
        found.setdefault(parts[1], []).append(parts[0])
    if len(found) < 2:
        raise InputError(
            f"{path}: has {len(found)} categories; give lines of a word, a tab and its category, of two at least"
        )
    return CategorySet(name=set_name(path), categories={name: tuple(words) for name, words in found.items()})


def purity(clusters: ArrayLike, classes: ArrayLike) -> float:
    """The share of items that are of the class most frequent in their cluster: 1/n sum_k max_c |cluster k and class c|.

    It is 1 where every cluster is of one class, and cannot fall below the share of the largest class.

    Raises:
        InputError: for nothing to compare, or different numbers of items.

    >>> purity([0, 0, 0, 1], ["a", "a", "b", "b"])
    0.75
    """
    one, other = np.asarray(clusters), np.asarray(classes)
    check_alike(one, other)  # type: ignore[arg-type]
    largest = (np.unique(other[one == cluster], return_counts=True)[1].max() for cluster in np.unique(one))
    return int(sum(largest)) / len(one)


def evaluate_categories(
    vectors: WordVectors,
    categories: CategorySet,
    *,
    case: Case = "ignore",
    among: int | None = None,
    seed: int = 0,
) -> CategoryResult:
    """The purity of k-means clusters of unit vectors, as many as there are categories (Schnabel et al. 2015, section 3).

    Of ten starts the one with the least inertia is taken. Words without a vector are left out and counted.

    Arguments:
        case, among: how words are found, see `Lookup`.
        seed: of the starts.

    Raises:
        InputError: where scikit-learn is missing.

    >>> table = WordVectors(words=("dog", "cat", "red", "blue"), matrix=np.array(
    ...     [[1, 0], [1, 0.1], [0, 1], [0.1, 1]], dtype=np.float32))
    >>> two = CategorySet(name="two", categories={"animals": ("dog", "cat"), "colours": ("red", "blue", "pink")})
    >>> found = evaluate_categories(table, two)
    >>> found.purity, found.unknown
    (1.0, 1)
    """
    lookup = Lookup(vectors=vectors, case=case, among=among)
    asked = [(word, name) for name, words in categories.categories.items() for word in words]
    found = [(word, name, lookup.vector(word)) for word, name in asked]
    known = [(word, name, vector) for word, name, vector in found if vector is not None]
    names = [name for _, name, _ in known]
    count = len(set(names))
    clusters: list[int] = []
    if count >= 2:
        clusters = _clusters(unit(np.stack([vector for _, _, vector in known])), count, seed)
    members: dict[int, list[str]] = {}
    for cluster, (word, _, _) in zip(clusters, known if clusters else (), strict=True):
        members.setdefault(cluster, []).append(word)
    return CategoryResult(
        name=categories.name,
        categories=count,
        words=len(asked),
        unknown=len(asked) - len(known),
        purity=purity(clusters, names) if clusters else None,
        clusters=tuple(tuple(members[cluster]) for cluster in sorted(members)),
    )


def _clusters(points: np.ndarray, count: int, seed: int) -> list[int]:
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise InputError("clusters are made by scikit-learn: pip install 'regard[eval]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # words with the very same vector
        return KMeans(count, n_init=STARTS, random_state=seed).fit_predict(points).tolist()
