"""Hard debiasing (Bolukbasi et al. 2016), what it leaves (Gonen and Goldberg 2019), and what it changes and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from regard.errors import InputError
from regard.word_embeddings.bias import cautions
from regard.word_embeddings.bias.association import Association, association_test
from regard.word_embeddings.bias.audit import Audit
from regard.word_embeddings.bias.direction import BiasSubspace, direct_bias
from regard.word_embeddings.bias.lists import AssociationTest, Presence, WordSet, rows_of, unit64
from regard.word_embeddings.evaluation.analogies import AnalogySet, evaluate_analogies
from regard.word_embeddings.evaluation.categories import k_means
from regard.word_embeddings.evaluation.similarity import Case, Lookup, SimilaritySet, evaluate_similarity
from regard.word_embeddings.store import CHUNK, Matrix, WordVectors

NOISE = 1e-6
"""Of a unit vector: what is shorter is the rounding of float32."""


def hard_debiased(
    vectors: WordVectors,
    subspace: BiasSubspace,
    *,
    specific: Iterable[str] = (),
    equalize: Sequence[WordSet] = (),
) -> WordVectors:
    """The vectors without the subspace: neutralised, and sets of words made to differ in it alone (Bolukbasi et al. 2016).

    In the order of the published code, on unit vectors, w_B being the part in the subspace:

        neutralise every word that is not specific      w = (w - w_B) / |w - w_B|
        equalise each set E, its mean mu                nu = mu - mu_B;   w = nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B|

    Each set is equalised in lower case, in Title Case and in UPPER CASE, wherever two of its words or more are there. Where
    neutralising left no difference in the subspace, which word lies on which side is taken from the vectors as they were (the
    published code takes it from the rounding). The words of the pairs themselves are neutralised too unless they are specific.

    Arguments:
        specific: words that may keep what they have in the subspace, such as she, mother and queen; found as they are written,
            or else in lower case.
        equalize: pairs, or larger sets, such as grandmother and grandfather.

    Returns:
        Unit vectors of the same words, without subwords; `metadata["debiased"]` says how.

    Raises:
        InputError: where the subspace is of another width.

    >>> vectors = WordVectors(words=("she", "he", "nurse"), matrix=np.array([[3, 4], [-4, 3], [3, 4]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> hard_debiased(vectors, axis, specific=["she", "he"], equalize=[("she", "he")]).matrix.round(3).tolist()
    [[0.7139999866485596, 0.699999988079071], [-0.7139999866485596, 0.699999988079071], [0.0, 1.0]]
    """
    if subspace.directions.shape[1] != vectors.width:
        raise InputError(
            f"{vectors.name}: has vectors of {vectors.width}, and the directions are of {subspace.directions.shape[1]}; "
            "find the directions in the same vectors"
        )
    kept = {*rows_of(vectors, specific)}
    matrix, gone = _neutralised(vectors, subspace, kept)
    sets = [found for words in equalize for found in spellings(vectors, words)]
    done = [words for words in dict.fromkeys(sets) if _equalise(vectors, matrix, subspace, words)]
    about = {
        "method": "hard",
        "pairs": [list(words) for words in subspace.sets],
        "components": len(subspace.directions),
        "explained": list(subspace.explained[: len(subspace.directions)]),
        "specific": len(kept),
        "neutralised": len(vectors) - len(kept),
        "nothing_left": [vectors.words[row] for row in gone],
        "equalised": [list(words) for words in done],
    }
    return vectors.with_matrix(matrix, metadata={**vectors.metadata, "debiased": about})


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """What debiasing left of the subspace in the words it neutralised.

    Arguments:
        largest: the largest length of a unit vector's part in the subspace.
        mean: their mean.
        words: how many there are.
    """

    largest: float
    mean: float
    words: int


def leftover(vectors: WordVectors, subspace: BiasSubspace, leave_out: Iterable[str] = ()) -> Leftover:
    """How much of the subspace is in all words but some, such as the specific and the equalised ones.

    >>> vectors = WordVectors(words=("nurse", "smith"), matrix=np.array([[3, 4], [0, 2]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> leftover(vectors, axis)
    Leftover(largest=0.6, mean=0.3, words=2)
    """
    wanted = np.ones(len(vectors), dtype=bool)
    wanted[rows_of(vectors, leave_out)] = False
    pieces = [
        np.linalg.norm(unit64(vectors.matrix[start : start + CHUNK]) @ subspace.directions.T, axis=1)
        for start in range(0, len(vectors), CHUNK)
    ]
    found = np.concatenate(pieces)[wanted] if pieces else np.empty(0)
    if not len(found):
        raise InputError(f"{vectors.name}: all words are left out; leave fewer out")
    return Leftover(largest=float(found.max()), mean=float(found.mean()), words=len(found))


def spellings(vectors: WordVectors, words: WordSet) -> list[WordSet]:
    """A set in lower case, Title Case and UPPER CASE: of each the words that are there, where they are two or more.

    >>> vectors = WordVectors(words=("she", "he", "She", "He", "HE"), matrix=np.eye(5, dtype=np.float32))
    >>> spellings(vectors, ("she", "he"))
    [('she', 'he'), ('She', 'He')]
    """
    made = (tuple(change(word) for word in words) for change in (str.lower, str.title, str.upper))
    there = (tuple(word for word in dict.fromkeys(each) if word in vectors.rows) for each in made)
    return [each for each in dict.fromkeys(there) if len(each) >= 2]


def _neutralised(vectors: WordVectors, subspace: BiasSubspace, kept: set[int]) -> tuple[Matrix, list[int]]:
    """The matrix, and the rows of which nothing is left: vectors that lay completely in the subspace."""
    matrix = np.empty((len(vectors), vectors.width), dtype=np.float32)
    gone: list[int] = []
    for start in range(0, len(vectors), CHUNK):
        units = unit64(vectors.matrix[start : start + CHUNK])
        left = units - subspace.projected(units)
        left -= subspace.projected(left)  # once more, for what the first subtraction rounded
        lengths = np.linalg.norm(left, axis=1)
        inside = (lengths < NOISE) & units.any(axis=1)
        left[lengths < NOISE] = 0.0
        specific = [row - start for row in kept if start <= row < start + len(units)]
        left[specific] = units[specific]
        inside[specific] = False
        gone += (start + np.flatnonzero(inside)).tolist()
        matrix[start : start + CHUNK] = unit64(left)
    return matrix, gone


def _equalise(vectors: WordVectors, matrix: Matrix, subspace: BiasSubspace, words: WordSet) -> bool:
    """Write the words of a set so that they differ in the subspace alone; False where nothing says how."""
    rows = [vectors.rows[word] for word in words]
    units = matrix[rows].astype(np.float64)
    mean = units.mean(axis=0)
    common = mean - subspace.projected(mean)
    differences = subspace.projected(units - mean)
    if np.linalg.norm(differences, axis=1).min() < NOISE:
        before = unit64(np.asarray(vectors.matrix[rows]))
        differences = subspace.projected(before - before.mean(axis=0))
        if np.linalg.norm(differences, axis=1).min() < NOISE:
            return False
    height = np.sqrt(max(0.0, 1.0 - float(common @ common)))
    matrix[rows] = unit64(common + height * unit64(differences))
    return True


# What debiasing leaves: the words that had a direction can still be distinguished without it.

CANDIDATES = 50_000

SHARE = 10
"""The words of a side are at most so many-th of all: others have little of the direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTest:
    """How well two clusters are the two sides of a direction.

    Arguments:
        accuracy: the share of words in the cluster of their side; about 0.5 where these have nothing to do with each other.
        count: words of each side.
        positive, negative: the words with the largest cosines on either side, the largest first.
        cautions: what this does not show.
    """

    accuracy: float
    count: int
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    cautions: tuple[str, ...] = (cautions.CLUSTERS_SURVIVE,)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the words."""
        return {"accuracy": self.accuracy, "count": self.count, "cautions": list(self.cautions)}


def cluster_test(
    vectors: WordVectors,
    original: WordVectors,
    subspace: BiasSubspace,
    *,
    count: int = 500,
    leave_out: Iterable[str] = (),
    among: int = CANDIDATES,
    seed: int = 0,
) -> ClusterTest:
    """Whether the words that had most of a direction before still are in two groups after (Gonen and Goldberg 2019).

    The `count` words (at most a tenth of all) with the largest cosines with the direction in the original vectors, and as many
    with the smallest, are put into two clusters by k-means of their unit vectors as they are now. Accuracy is the share that the
    better naming of the clusters gets right; with the original vectors themselves it says how far the sides could be told.

    Arguments:
        vectors, original: debiased, and as they were, of the same words.
        leave_out: words that should have the direction, such as specific ones.
        among: so many words from the top of the table.

    Raises:
        InputError: where there are fewer than 20 words, or the vectors are of other words.
    """
    if tuple(vectors.words[:among]) != tuple(original.words[:among]):
        raise InputError(f"{vectors.name} and {original.name} have other words; give the same vectors before and after")
    rows = _candidates(original, leave_out, among)
    count = min(count, len(rows) // SHARE)
    if count < 2:
        raise InputError(f"{original.name}: {len(rows)} words are left to cluster; leave fewer out")
    along = np.concatenate([unit64(original.matrix[piece]) @ subspace.direction for piece in _pieces(rows)])
    order = rows[np.argsort(-along, kind="stable")]
    positive, negative = order[:count], order[-count:][::-1]
    labels = k_means(unit64(vectors.matrix[np.concatenate([positive, negative])]), 2, seed)
    right = float(np.mean(labels == np.repeat([0, 1], count)))
    return ClusterTest(
        accuracy=max(right, 1.0 - right),
        count=count,
        positive=_words_at(original, positive),
        negative=_words_at(original, negative),
    )


def _candidates(original: WordVectors, leave_out: Iterable[str], among: int) -> np.ndarray:
    wanted = original.lengths[:among] > 0
    wanted[[row for row in rows_of(original, leave_out) if row < len(wanted)]] = False
    return np.flatnonzero(wanted)


def _pieces(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK)]


def _words_at(vectors: WordVectors, rows: np.ndarray) -> tuple[str, ...]:
    return tuple(str(vectors.words[row]) for row in rows.tolist())


# What debiasing changed: the bias it removed, what it left, and what it cost.

FEWEST = 100
"""Neutral words below which two clusters say nothing."""

CAUTIONS = (
    cautions.ONE_DIRECTION,
    cautions.CLUSTERS_SURVIVE,
    cautions.UTILITY,
    cautions.ENGLISH_AND_BINARY,
)
"""What no figure about debiasing shows."""

CLUSTERS = "two clusters tell the sides apart"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A number before and after.

    Arguments:
        name: what it is.
        before, after: its values; nan or None where it has none.
        count: of words, pairs or questions it is of.
        unit: which of these.
        equalised: how many of these have a word that was equalised, and so moved to where the set differs in the direction
            alone; a gain in them says nothing of other words.
    """

    name: str
    before: float | None
    after: float | None
    count: int
    unit: str = "words"
    equalised: int = 0


class AssociationChange(NamedTuple):
    """An association test before and after."""

    before: Association
    after: Association


@dataclass(frozen=True, kw_only=True, slots=True)
class DebiasingEffects:
    """What debiasing changed.

    Arguments:
        bias: along the direction.
        clusters: what can still be told without it.
        utility: similarity and analogies.
        tests: association tests, made before and after.
        skipped: why others could not be made.
        cautions: what this does not show.
    """

    bias: tuple[Change, ...]
    clusters: Change | None
    utility: tuple[Change, ...]
    tests: tuple[AssociationChange, ...] = ()
    skipped: tuple[str, ...] = ()
    cautions: tuple[str, ...] = CAUTIONS

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors debias --json` prints it."""
        return {
            "bias": [asdict(each) for each in self.bias],
            "clusters": None if self.clusters is None else asdict(self.clusters),
            "utility": [asdict(each) for each in self.utility],
            "tests": [{"before": each.before.to_json(), "after": each.after.to_json()} for each in self.tests],
            "skipped": list(self.skipped),
            "cautions": list(self.cautions),
        }


def debiasing_effects(
    before: WordVectors,
    after: WordVectors,
    subspace: BiasSubspace,
    *,
    occupations: Sequence[str] = (),
    leave_out: Iterable[str] = (),
    similarity: Sequence[SimilaritySet] = (),
    analogies: Sequence[AnalogySet] = (),
    tests: Sequence[AssociationTest] = (),
    ddof: Literal[0, 1] = 0,
    case: Case = "lower",
    seed: int = 0,
) -> DebiasingEffects:
    """Vectors before and after debiasing, measured alike.

    Arguments:
        subspace: that was taken out.
        occupations: words whose direct bias is told; where none has a vector it is left out.
        leave_out: words that may have the direction: the specific and the equalised ones.
        similarity, analogies: sets that say how useful the vectors are.
        tests: association tests to make before and after; one that cannot be made is left out, and said.
        ddof, case: as for `association_test`.
        seed: of the clusters, and of partitions that are sampled.

    Raises:
        InputError: where the vectors are of different words, or too few to cluster.
    """
    here = Presence(before)
    apart = {*here.of(leave_out)}
    judged = tuple(word for word in here.of(dict.fromkeys(occupations)) if word not in apart)
    first, second = leftover(before, subspace, apart), leftover(after, subspace, apart)
    bias = [
        Change(name="largest cosine of a neutral word", before=first.largest, after=second.largest, count=first.words),
        Change(name="mean cosine of neutral words", before=first.mean, after=second.mean, count=first.words),
    ]
    if judged:
        one, other = (direct_bias(each, subspace.direction, judged) for each in (before, after))
        bias.append(Change(name="direct bias of occupations", before=one, after=other, count=len(judged)))
    clusters = None
    if first.words >= FEWEST:
        found, left = (cluster_test(each, before, subspace, leave_out=apart, seed=seed) for each in (before, after))
        clusters = Change(name=CLUSTERS, before=found.accuracy, after=left.accuracy, count=2 * found.count)
    made: list[AssociationChange] = []
    skipped: list[str] = []
    for test in tests:
        try:
            made.append(
                AssociationChange(
                    *(association_test(each, test, ddof=ddof, case=case, seed=seed) for each in (before, after))
                )
            )
        except InputError as error:
            skipped.append(str(error))
    # What is said of a test is said of the vectors as they are now; of those before it can differ only where words are gone.
    about_tests = Audit(name=after.name, direction=None, tests=tuple(each.after for each in made), skipped=()).cautions
    utility = _utility(before, after, similarity, analogies)
    equalised = (cautions.EQUALISED,) if any(each.equalised for each in utility) else ()
    return DebiasingEffects(
        bias=tuple(bias),
        clusters=clusters,
        utility=utility,
        tests=tuple(made),
        skipped=tuple(skipped),
        cautions=(*CAUTIONS, *equalised, *about_tests),
    )


def _utility(
    before: WordVectors, after: WordVectors, similarity: Sequence[SimilaritySet], analogies: Sequence[AnalogySet]
) -> tuple[Change, ...]:
    lookup = Lookup(vectors=before)
    moved = {lookup.row(word) for words in after.metadata.get("debiased", {}).get("equalised", ()) for word in words}

    def equalised(items: Iterable[Sequence[str]]) -> int:
        rows = ([lookup.row(word) for word in words] for words in items)
        return sum(None not in each and not moved.isdisjoint(each) for each in rows)

    changes = []
    for judged in similarity:
        one, other = (evaluate_similarity(each, judged, resamples=0) for each in (before, after))
        changes.append(
            Change(
                name=f"Spearman, {judged.name}",
                before=one.spearman,
                after=other.spearman,
                count=one.used,
                unit="pairs",
                equalised=equalised((first, second) for first, second, _ in judged.pairs),
            )
        )
    for asked in analogies:
        one, other = (evaluate_analogies(each, asked, resamples=0).total for each in (before, after))
        changes.append(
            Change(
                name=f"accuracy, {asked.name}",
                before=one.accuracy,
                after=other.accuracy,
                count=one.asked,
                unit="questions",
                equalised=equalised(question for _, questions in asked.sections for question in questions),
            )
        )
    return tuple(changes)
