"""Hard debiasing (Bolukbasi et al. 2016), the bias that remains (Gonen and Goldberg 2019), and other effects of debiasing."""

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
"""A vector shorter than this is a rounding error of float32 unit vectors."""


def hard_debiased(
    vectors: WordVectors,
    subspace: BiasSubspace,
    *,
    specific: Iterable[str] = (),
    equalize: Sequence[WordSet] = (),
) -> WordVectors:
    """Hard debiasing: neutralise words, and make sets of words differ only in the subspace (Bolukbasi et al. 2016).

    In the order of the published code, on unit vectors, where w_B is the projection of w onto the subspace:

        neutralise every word that is not specific      w = (w - w_B) / |w - w_B|
        equalise each set with the mean mu              nu = mu - mu_B;   w = nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B|

    Each set is equalised in lower case, in Title Case and in UPPER CASE, if at least two of its words are in the table. If
    neutralising left no difference in the subspace, the side of each word is taken from the original vectors (the published
    code takes it from rounding errors). The words of the pairs are neutralised too unless they are specific.

    Arguments:
        vectors: the word embeddings.
        subspace: the bias subspace.
        specific: words that are not neutralised, such as she, mother and queen; looked up unchanged, or else in lower case.
        equalize: pairs or larger sets of words, such as grandmother and grandfather.

    Returns:
        Unit vectors of the same words, without subwords; `metadata["debiased"]` has the settings and the words concerned.

    Raises:
        InputError: if the subspace has another width than the vectors.

    >>> vectors = WordVectors(words=("she", "he", "nurse"), matrix=np.array([[3, 4], [-4, 3], [3, 4]], dtype=np.float32))
    >>> axis = BiasSubspace(directions=np.array([[1.0, 0]]), explained=(1.0,), sets=(("she", "he"),))
    >>> hard_debiased(vectors, axis, specific=["she", "he"], equalize=[("she", "he")]).matrix.round(3).tolist()
    [[0.7139999866485596, 0.699999988079071], [-0.7139999866485596, 0.699999988079071], [0.0, 1.0]]
    """
    if subspace.directions.shape[1] != vectors.width:
        raise InputError(
            f"{vectors.name}: the vectors have width {vectors.width}, and the directions {subspace.directions.shape[1]}; "
            "compute the directions from the same vectors"
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
    """How much of the subspace remains in words.

    Arguments:
        largest: the largest norm of a unit vector's projection onto the subspace.
        mean: the mean of these norms.
        words: the number of words.
    """

    largest: float
    mean: float
    words: int


def leftover(vectors: WordVectors, subspace: BiasSubspace, leave_out: Iterable[str] = ()) -> Leftover:
    """How much of the subspace remains in all words except `leave_out`, such as the specific and the equalised words.

    Raises:
        InputError: if all words are left out.

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
    """A set of words in lower case, Title Case and UPPER CASE, each reduced to known words, if at least two are known.

    >>> vectors = WordVectors(words=("she", "he", "She", "He", "HE"), matrix=np.eye(5, dtype=np.float32))
    >>> spellings(vectors, ("she", "he"))
    [('she', 'he'), ('She', 'He')]
    """
    made = (tuple(change(word) for word in words) for change in (str.lower, str.title, str.upper))
    there = (tuple(word for word in dict.fromkeys(each) if word in vectors.rows) for each in made)
    return [each for each in dict.fromkeys(there) if len(each) >= 2]


def _neutralised(vectors: WordVectors, subspace: BiasSubspace, kept: set[int]) -> tuple[Matrix, list[int]]:
    """The neutralised matrix, and the rows of vectors that lay completely in the subspace, which become zero."""
    matrix = np.empty((len(vectors), vectors.width), dtype=np.float32)
    gone: list[int] = []
    for start in range(0, len(vectors), CHUNK):
        units = unit64(vectors.matrix[start : start + CHUNK])
        left = units - subspace.projected(units)
        left -= subspace.projected(left)  # a second time, to remove the rounding error of the first
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
    """Equalise a set of words in `matrix`; False if the words do not differ in the subspace, not even originally."""
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


# What remains after debiasing: words of the two sides of the direction can still be distinguished.

CANDIDATES = 50_000

SHARE = 10
"""At most one in this many words is used for each side; the others have little of the direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTest:
    """How well two clusters agree with the two sides of a direction.

    Arguments:
        accuracy: the share of words in the cluster of their side; about 0.5 if clusters and sides are unrelated.
        count: the number of words of each side.
        positive, negative: the words of each side, the largest |cosine| first.
        cautions: sentences on what this does not show.
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
    """Whether the most biased words of both sides still form two clusters after debiasing (Gonen and Goldberg 2019).

    The `count` words (at most a tenth of all) with the largest cosine with the direction in the original vectors, and as many
    with the smallest, are clustered into two clusters by k-means on their debiased unit vectors. The accuracy is the share of
    words in the cluster of their side, for the better assignment of clusters to sides. For comparison, pass the original
    vectors as `vectors` too.

    Arguments:
        vectors: the debiased vectors.
        original: the vectors before debiasing, with the same words.
        subspace: the bias subspace.
        count: the number of words of each side.
        leave_out: words that legitimately have the direction, such as specific words.
        among: the number of words from the beginning of the table that are used.
        seed: seed of k-means.

    Raises:
        InputError: for fewer than 20 words, or if the vectors have different words.
    """
    if tuple(vectors.words[:among]) != tuple(original.words[:among]):
        raise InputError(
            f"{vectors.name} and {original.name} have different words; give the same vectors before and after debiasing"
        )
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


# The effects of debiasing: removed bias, remaining bias, and the change of similarity and analogies.

FEWEST = 100
"""The fewest neutral words for the cluster test."""

CAUTIONS = (
    cautions.ONE_DIRECTION,
    cautions.CLUSTERS_SURVIVE,
    cautions.UTILITY,
    cautions.ENGLISH_AND_BINARY,
)
"""The cautions about all figures on debiasing."""

CLUSTERS = "two clusters tell the sides apart"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A number before and after debiasing.

    Arguments:
        name: the name of the measure.
        before, after: the values; nan or None if undefined.
        count: the number of words, pairs or questions it is computed from.
        unit: "words", "pairs" or "questions".
        equalised: how many of these contain a word that was equalised. Equalising moves the words of a set so that they differ
            only in the direction, so gains on such items do not apply to other words.
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
    """The effects of debiasing.

    Arguments:
        bias: measures of bias along the direction.
        clusters: the accuracy of the cluster test; None with too few words.
        utility: the scores on similarity and analogy sets.
        tests: association tests before and after.
        skipped: for each test that was not possible, a sentence with the reason.
        cautions: sentences on what this does not show.
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
    """Compare vectors before and after debiasing with the same measures.

    Arguments:
        before, after: the vectors before and after debiasing, with the same words.
        subspace: the subspace that was removed.
        occupations: words whose direct bias is measured; if none has a vector, this measure is left out.
        leave_out: words that may have the direction: the specific and the equalised words.
        similarity, analogies: test sets that measure the quality of the vectors.
        tests: association tests; `skipped` of the result has the reasons for tests that are not possible.
        ddof, case: as for `association_test`.
        seed: seed of the clusters and of sampled partitions.

    Raises:
        InputError: if the vectors have different words, or too few to cluster.
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
    # The cautions of the tests after debiasing; those before can differ only if words are missing.
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
