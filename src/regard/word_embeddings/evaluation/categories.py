"""Evaluation by groups of words: clustering words of known categories, and finding intruders among neighbours."""

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

STARTS: Any = 10  # scikit-learn's type stubs accept only a string here


@dataclass(frozen=True, kw_only=True, slots=True)
class CategorySet:
    """A named set of words grouped by category.

    Arguments:
        name: the name of the set.
        categories: the words of each category.

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
    """The result of `evaluate_categories`.

    Arguments:
        name: the name of the set.
        categories: the number of categories with a known word, which is also the number of clusters.
        words: the number of words in the set.
        unknown: the number of words without a vector.
        purity: the purity of the clusters; None if fewer than two categories have known words.
        clusters: the words of each cluster.
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
    r"""Read words with their categories from a file with a word, a tab and its category on each line; plain or gzip.

    Arguments:
        path: the path of the file; its name without ending becomes the name of the set.
        malformed: where malformed lines are recorded.

    Raises:
        InputError: if the file cannot be read, or has fewer than two categories.

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
            f"{path}: has {len(found)} categories; give lines of a word, a tab and its category, with at least two categories"
        )
    return CategorySet(name=set_name(path), categories={name: tuple(words) for name, words in found.items()})


def purity(clusters: ArrayLike, classes: ArrayLike) -> float:
    """The purity of a clustering: 1/n sum_k max_c |cluster k and class c|.

    It is the share of items whose class is the most frequent one in their cluster. It is 1 if every cluster contains one class,
    and at least the share of the largest class.

    Arguments:
        clusters: (n,), the cluster of each item.
        classes: (n,), the class of each item.

    Raises:
        InputError: for no items, or different numbers of items.

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
    """The purity of k-means clusters of the words' unit vectors (Schnabel et al. 2015, section 3).

    There are as many clusters as categories. The best of ten random initialisations (the one with the least inertia) is used.
    Words without a vector are left out and counted.

    Arguments:
        vectors: the word embeddings.
        categories: the words and their categories.
        case, among: how words are looked up, see `Lookup`.
        seed: seed of the initialisations.

    Raises:
        InputError: if scikit-learn is not installed.

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
    """The cluster of each point, (N,) integers: the best k-means clustering of ten random initialisations.

    Arguments:
        points: (N, W).
        count: the number of clusters.
        seed: seed of the initialisations.

    Raises:
        InputError: if scikit-learn is not installed.
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise InputError("clustering needs scikit-learn: pip install 'regard[eval]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # occurs if words have identical vectors
        return KMeans(count, n_init=STARTS, random_state=seed).fit_predict(points)


# Coherence: an unrelated word among a word's neighbours should be easy to find.

NEIGHBOURS = 2
WINDOW = 100
"""The largest difference of frequency rank between a query and its intruder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IntruderItem:
    """A query word, its two nearest neighbours, and an intruder, which is not a neighbour.

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
    """The result of `evaluate_coherence`.

    Arguments:
        judge: the name of the embeddings that looked for the intruders.
        items: the number of items.
        used: the number of items whose words the judge all has.
        found: the number of intruders that the judge found.
        accuracy: found / used; guessing gives 1/4. None if no item is used.
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
    """For each query its two nearest neighbours and an intruder of similar frequency (Schnabel et al. 2015, section 4).

    The intruder is sampled from the words whose rank in the table differs from the query's by at most 100, without the query's
    hundred nearest neighbours (in a small table, without the nearest quarter of all words).

    Arguments:
        vectors: the word embeddings, with frequent words first.
        queries: the query words; words that are not in the table are skipped.
        among: the number of words from the beginning of the table that neighbours and intruders are taken from; None for all.
        seed: seed of the sampling.

    Raises:
        InputError: for a table of fewer than four words.

    >>> rows = np.eye(3, dtype=np.float32).repeat(3, axis=0) + 0.01 * np.arange(27, dtype=np.float32).reshape(9, 3)
    >>> item = intruder_items(WordVectors(words=tuple("abcdefghi"), matrix=rows), ["a"])[0]
    >>> item.neighbours, item.intruder in "defghi"
    (('b', 'c'), True)
    """
    size = len(vectors) if among is None else min(among, len(vectors))
    if size <= NEIGHBOURS + 1:
        raise InputError(f"{vectors.name}: {size} words are too few for intruders; give at least four")
    rng = np.random.default_rng([seed, 0x0DD])
    items = []
    for query in dict.fromkeys(query for query in queries if query in vectors):
        near = [each.word for each in neighbours(vectors, query, min(100, max(NEIGHBOURS, size // 4)), among=size)]
        row = min(vectors.rows[query], size - 1)
        around = range(max(0, row - WINDOW), min(size, row + WINDOW + 1))
        strangers = [vectors.words[at] for at in around if vectors.words[at] not in {query, *near}]
        if not strangers:  # in a small table all words of similar rank may be neighbours
            strangers = [word for word in vectors.words[:size] if word not in {query, *near[:NEIGHBOURS]}]
        items.append(
            IntruderItem(
                query=query, neighbours=(near[0], near[1]), intruder=strangers[int(rng.integers(len(strangers)))]
            )
        )
    return items


def evaluate_coherence(items: Sequence[IntruderItem], judge: WordVectors) -> CoherenceResult:
    """The share of items whose intruder is the odd one out of the four words by the judge's vectors (see `odd_one_out`).

    In Schnabel et al. people are the judges; here word embeddings are. The embeddings that the items were made from usually find
    their own intruders, so other embeddings are more informative: they show whether both agree on what is near.

    Arguments:
        items: items made from the embeddings that are evaluated.
        judge: other embeddings, or the same ones.

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


# Builtin test words: frequent ones, so that embeddings trained on little text have them too.


def word_list(text: str) -> tuple[str, ...]:
    """The words of a text that is separated by spaces."""
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
"""The nouns that coherence and robustness are evaluated on by default."""
