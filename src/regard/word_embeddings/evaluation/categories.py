"""Words that belong together: clusters of the vectors of known categories, and strangers among neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.data.malformed import MalformedRows
from regard.embeddings.pooling import unit
from regard.errors import InputError
from regard.metrics.classification import check_alike
from regard.word_embeddings.evaluation.similarity import Case, Lookup, record_line, set_name, text_lines
from regard.word_embeddings.neighbours import neighbours, odd_one_out
from regard.word_embeddings.store import WordVectors

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
            record_line(malformed, path, number, line, "not a word, a tab and a category")
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
        clusters = k_means(unit(np.stack([vector for _, _, vector in known])), count, seed).tolist()
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


def k_means(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The cluster of each point, (N,): the best of ten starts.

    Raises:
        InputError: where scikit-learn is missing.
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise InputError("clusters are made by scikit-learn: pip install 'regard[eval]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # words with the very same vector
        return KMeans(count, n_init=STARTS, random_state=seed).fit_predict(points)


# Coherence: a stranger among a word's neighbours should be easy to find.

NEIGHBOURS = 2
WINDOW = 100
"""How many places of the table apart a query and its intruder may stand: they are about as frequent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IntruderItem:
    """A word, its two nearest neighbours, and one word that is none.

    >>> IntruderItem(query="cat", neighbours=("dog", "horse"), intruder="tax").words
    ('cat', 'dog', 'horse', 'tax')
    """

    query: str
    neighbours: tuple[str, str]
    intruder: str

    @property
    def words(self) -> tuple[str, str, str, str]:
        """All four."""
        return self.query, *self.neighbours, self.intruder


@dataclass(frozen=True, kw_only=True, slots=True)
class CoherenceResult:
    """What `evaluate_coherence` found.

    Arguments:
        judge: whose vectors looked for the intruders.
        items: that were made.
        used: of which the judge has all words.
        found: intruders it found.
        accuracy: found over used, where guessing gives 1/4; None where none is used.
    """

    judge: str
    items: int
    used: int
    found: int
    accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def intruder_items(
    vectors: WordVectors, queries: Sequence[str], *, among: int | None = None, seed: int = 0
) -> list[IntruderItem]:
    """For each word its two nearest neighbours and an intruder that is about as frequent (Schnabel et al. 2015, section 4).

    The intruder is sampled from the words at most 100 places before or after the query in the table, none of them among its
    hundred nearest neighbours (in a small table, among the nearest quarter of all words).

    Arguments:
        queries: words of the table; others are left out.
        among: neighbours and intruders are among so many words from the top; None for all.
        seed: of what is sampled.

    Raises:
        InputError: for a table of fewer than four words.

    >>> rows = np.eye(3, dtype=np.float32).repeat(3, axis=0) + 0.01 * np.arange(27, dtype=np.float32).reshape(9, 3)
    >>> item = intruder_items(WordVectors(words=tuple("abcdefghi"), matrix=rows), ["a"])[0]
    >>> item.neighbours, item.intruder in "defghi"
    (('b', 'c'), True)
    """
    size = len(vectors) if among is None else min(among, len(vectors))
    if size <= NEIGHBOURS + 1:
        raise InputError(f"{vectors.name}: {size} words are too few for intruders; give four at least")
    draw = np.random.default_rng([seed, 0x0DD])
    items = []
    for query in dict.fromkeys(query for query in queries if query in vectors):
        near = [each.word for each in neighbours(vectors, query, min(100, max(NEIGHBOURS, size // 4)), among=size)]
        row = min(vectors.rows[query], size - 1)
        around = range(max(0, row - WINDOW), min(size, row + WINDOW + 1))
        strangers = [vectors.words[at] for at in around if vectors.words[at] not in {query, *near}]
        if not strangers:  # a table of which all around is near
            strangers = [word for word in vectors.words[:size] if word not in {query, *near[:NEIGHBOURS]}]
        items.append(
            IntruderItem(
                query=query, neighbours=(near[0], near[1]), intruder=strangers[int(draw.integers(len(strangers)))]
            )
        )
    return items


def evaluate_coherence(items: Sequence[IntruderItem], judge: WordVectors) -> CoherenceResult:
    """The share of items whose intruder is the word that by a judge's vectors belongs least to the four.

    People are the judges in Schnabel et al.; here it is a table of vectors. Those that made the items mostly find their own
    intruders, so that another table tells more: whether what is near in one is near in the other.

    Arguments:
        items: made from the vectors that are evaluated.
        judge: other vectors, or the same.

    >>> table = WordVectors(words=("cat", "dog", "cow", "tax"), name="small", matrix=np.array(
    ...     [[1, 0], [1, 0.1], [1, 0.2], [0, 1]], dtype=np.float32))
    >>> evaluate_coherence([IntruderItem(query="cat", neighbours=("dog", "cow"), intruder="tax")], table).accuracy
    1.0
    """
    used = [item for item in items if all(judge.has(word) for word in item.words)]
    found = sum(odd_one_out(judge, item.words)[0].word == item.intruder for item in used)
    return CoherenceResult(
        judge=judge.name, items=len(items), used=len(used), found=found, accuracy=found / len(used) if used else None
    )


# Words to try vectors on where the user has no test set: common ones, so that vectors of little text have them too.


def word_list(text: str) -> tuple[str, ...]:
    """The words between spaces."""
    return tuple(text.split())


CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "animals": word_list("dog cat horse cow bird fish sheep lion bear wolf"),
        "body": word_list("head hand arm leg foot eye nose mouth ear heart"),
        "buildings": word_list("house church school hospital castle tower palace hotel prison temple"),
        "colours": word_list("red blue green yellow black white brown grey orange purple"),
        "countries": word_list("France Germany Italy Spain China Japan India Canada Brazil Egypt"),
        "family": word_list("mother father brother sister son daughter uncle aunt husband wife"),
        "food": word_list("bread meat cheese rice soup fruit sugar milk butter egg"),
        "music": word_list("piano guitar violin drum flute trumpet song singer album orchestra"),
        "professions": word_list("teacher doctor lawyer writer painter actor engineer farmer soldier judge"),
        "vehicles": word_list("car train ship boat bus truck plane bicycle helicopter submarine"),
    }
)
"""Ten categories of ten words."""

NOUNS: tuple[str, ...] = (
    *(word for name, words in CATEGORIES.items() if name not in ("colours", "countries") for word in words),
    *word_list("king city river book game story child woman man war village company army bridge country"),
)
"""Nouns whose variants are looked for."""
