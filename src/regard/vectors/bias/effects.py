"""What debiasing changed: the bias it removed, what it left, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from regard.errors import InputError
from regard.vectors.bias import cautions
from regard.vectors.bias.association import Association, association_test
from regard.vectors.bias.association_lists import AssociationTest
from regard.vectors.bias.audit import Audit
from regard.vectors.bias.clusters import cluster_test
from regard.vectors.bias.debiasing import leftover
from regard.vectors.bias.present import Presence
from regard.vectors.bias.projections import direct_bias
from regard.vectors.bias.subspace import BiasSubspace
from regard.vectors.evaluation.analogies import AnalogySet, evaluate_analogies
from regard.vectors.evaluation.lookup import Case
from regard.vectors.evaluation.similarity import SimilaritySet, evaluate_similarity
from regard.vectors.store import WordVectors

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
    """

    name: str
    before: float | None
    after: float | None
    count: int
    unit: str = "words"


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
        seed: of the clusters, and of partitions that are drawn.

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
    return DebiasingEffects(
        bias=tuple(bias),
        clusters=clusters,
        utility=_utility(before, after, similarity, analogies),
        tests=tuple(made),
        skipped=tuple(skipped),
        cautions=(*CAUTIONS, *about_tests),
    )


def _utility(
    before: WordVectors, after: WordVectors, similarity: Sequence[SimilaritySet], analogies: Sequence[AnalogySet]
) -> tuple[Change, ...]:
    changes = []
    for judged in similarity:
        one, other = (evaluate_similarity(each, judged, resamples=0) for each in (before, after))
        changes.append(
            Change(
                name=f"Spearman, {judged.name}", before=one.spearman, after=other.spearman, count=one.used, unit="pairs"
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
            )
        )
    return tuple(changes)
