"""A bias audit of word embeddings or of a text encoder: all measures together, with their cautions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError
from regard.word_embeddings.bias import cautions
from regard.word_embeddings.bias.association import (
    Association,
    Embed,
    association_test,
    association_test_of_texts,
    sentence_means,
)
from regard.word_embeddings.bias.direction import (
    AnalogyAnswer,
    AnalogyPair,
    BiasSubspace,
    Projection,
    analogy_answers,
    analogy_pairs,
    bias_subspace,
    direct_bias,
    projections,
    random_direct_bias,
)
from regard.word_embeddings.bias.lists import AssociationTest, Presence, WordSet, missing_words_note
from regard.word_embeddings.evaluation.similarity import Case
from regard.word_embeddings.store import WordVectors

LEAST = 0.005
"""The smallest cosine that counts for a side. Smaller ones are 0.00 to two digits, such as rounding errors after debiasing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectionAudit:
    """The bias along the direction in which pairs of words differ.

    Arguments:
        subspace: the direction.
        occupations: the projections of the occupations, sorted from the positive to the negative end.
        missing: occupations without a vector.
        specific: occupations that legitimately have the direction, which the direct bias leaves out.
        missing_specific: specific words without a vector.
        specific_words: the number of specific words that were given.
        direct_bias: DB_1 of the occupations that are not specific.
        random_direct_bias: the mean DB_1 along random directions.
        judged: the number of occupations in the direct bias.
        answers: the answers to negative end : occupation = positive end : ?.
        pairs: pairs of words with a similar difference as the two ends.
        cautions: sentences on what this does not show.
    """

    subspace: BiasSubspace
    occupations: tuple[Projection, ...]
    missing: tuple[str, ...]
    specific: tuple[str, ...]
    missing_specific: tuple[str, ...]
    specific_words: int
    direct_bias: float
    random_direct_bias: float
    judged: int
    answers: tuple[AnalogyAnswer, ...]
    pairs: tuple[AnalogyPair, ...]
    cautions: tuple[str, ...] = (
        cautions.ONE_DIRECTION,
        cautions.CLUSTERS_SURVIVE,
        cautions.LEAVING_OUT,
        cautions.ENGLISH_AND_BINARY,
    )

    def side(self, sign: int) -> tuple[Projection, ...]:
        """The occupations on the positive side (sign 1) or the negative side (sign -1), the largest |cosine| first."""
        turned = self.occupations if sign > 0 else self.occupations[::-1]
        return tuple(each for each in turned if sign * each.cosine >= LEAST)

    def dropped_words(self) -> tuple[str, ...]:
        """A sentence for each list that has words without a vector, listing the first of them."""
        pairs = self.subspace.missing
        return (
            *([f"pairs: no vector for {', '.join(pairs)}"] if pairs else []),
            *missing_words_note("occupations", self.missing, len(self.missing) + len(self.occupations)),
            *missing_words_note("specific words", self.missing_specific, self.specific_words),
        )

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors bias --json` prints it."""
        return {
            "direction": self.subspace.to_json(),
            "occupations": [each._asdict() for each in self.occupations],
            "missing": list(self.missing),
            "specific": list(self.specific),
            "missing_specific": list(self.missing_specific),
            "direct_bias": self.direct_bias,
            "random_direct_bias": self.random_direct_bias,
            "judged": self.judged,
            "analogy_answers": [each.to_json() for each in self.answers],
            "analogy_pairs": [each._asdict() for each in self.pairs],
            "cautions": list(self.cautions),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The result of an audit.

    Arguments:
        name: the name of the vectors or the model.
        direction: the bias along a direction; None for a text encoder, or if the vectors lack all pairs or occupations.
        tests: the results of the association tests that were possible.
        skipped: for each test that was not possible, a sentence with the reason.
    """

    name: str
    direction: DirectionAudit | None
    tests: tuple[Association, ...]
    skipped: tuple[str, ...]

    @property
    def cautions(self) -> tuple[str, ...]:
        """The cautions about all results, each once; a caution that is about some tests only names them."""
        about: dict[str, list[str]] = {} if self.direction is None else {each: [] for each in self.direction.cautions}
        for test in self.tests:
            for sentence in test.cautions:
                about.setdefault(sentence, []).append(test.test)
        return tuple(
            sentence if not tests or sentence in cautions.OF_EVERY_TEST else f"{', '.join(tests)}: {sentence}"
            for sentence, tests in about.items()
        )

    def dropped_words(self) -> tuple[str, ...]:
        """A sentence for each list and each test that has words without a vector, listing them."""
        lists = () if self.direction is None else self.direction.dropped_words()
        return (
            *lists,
            *(f"{test.test}: no vector for {', '.join(test.missing)}" for test in self.tests if test.missing),
        )

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors bias --json` prints it."""
        return {
            "name": self.name,
            "direction": None if self.direction is None else self.direction.to_json(),
            "tests": [each.to_json() for each in self.tests],
            "skipped": list(self.skipped),
            "cautions": list(self.cautions),
        }


def audit(
    vectors: WordVectors,
    *,
    pairs: Sequence[WordSet],
    occupations: Sequence[str],
    specific: Iterable[str] = (),
    word_tests: Sequence[AssociationTest] = (),
    sentence_tests: Sequence[AssociationTest] = (),
    ddof: Literal[0, 1] = 0,
    case: Case = "lower",
    seed: int = 0,
) -> Audit:
    """Audit word embeddings: the bias along the direction of some pairs, and association tests.

    Arguments:
        vectors: the word embeddings.
        pairs: pairs of words that define the direction, such as `GENDER_PAIRS`.
        occupations: words to measure along the direction, such as `OCCUPATIONS`.
        specific: words that legitimately have the direction (such as actress); they are left out of the direct bias.
        word_tests: association tests of words.
        sentence_tests: association tests of texts, whose vectors are the means of their words' vectors.
        ddof, case, seed: as for `association_test`; `case` is used for `word_tests`.

    Raises:
        InputError: if no part of the audit is possible.
    """
    asked = [(lambda test: association_test(vectors, test, ddof=ddof, case=case, seed=seed), word_tests)]
    embed = sentence_means(vectors)
    asked.append((lambda test: association_test_of_texts(embed, test, ddof=ddof, seed=seed), sentence_tests))
    tests, skipped = _tested(asked)
    try:
        direction = direction_audit(vectors, pairs, occupations, specific, seed=seed)
    except InputError as error:
        direction, skipped = None, [str(error), *skipped]
    return _audit(vectors.name, direction, tests, skipped)


def audit_of_texts(
    name: str, embed: Embed, tests: Sequence[AssociationTest], *, ddof: Literal[0, 1] = 0, seed: int = 0
) -> Audit:
    """Audit a text encoder with association tests.

    Arguments:
        name: the name of the model.
        embed: a function from texts to their vectors.
        tests: association tests of sentences, or of words, each of which is then encoded as a text.
        ddof, seed: as for `association_test`.

    Raises:
        InputError: if no test is possible.
    """
    made, skipped = _tested(
        [(lambda test: association_test_of_texts(embed, test, ddof=ddof, seed=seed), tests)],
    )
    return _audit(name, None, made, skipped)


def direction_audit(
    vectors: WordVectors,
    pairs: Sequence[WordSet],
    occupations: Sequence[str],
    specific: Iterable[str] = (),
    *,
    seed: int = 0,
) -> DirectionAudit:
    """The bias along the direction in which the pairs differ.

    Arguments:
        vectors, pairs, occupations, specific: as for `audit`.
        seed: seed of the random directions.

    Raises:
        InputError: if the vectors lack all pairs, or all occupations that are not specific.
    """
    subspace, here = bias_subspace(vectors, pairs), Presence(vectors)
    asked, named = tuple(dict.fromkeys(occupations)), tuple(dict.fromkeys(specific))
    apart = {*here.of(named)}
    judged = tuple(word for word in here.of(asked) if word not in apart)
    if not judged:
        there = "all that have a vector are specific" if here.of(asked) else "none has a vector"
        raise InputError(f"{vectors.name}: of the {len(asked)} occupations, {there}; give others")
    positive, negative = subspace.ends
    return DirectionAudit(
        subspace=subspace,
        occupations=tuple(projections(vectors, subspace.direction, asked)),
        missing=here.missing(asked),
        specific=tuple(word for word in here.of(asked) if word in apart),
        missing_specific=here.missing(named),
        specific_words=len(named),
        direct_bias=direct_bias(vectors, subspace.direction, judged),
        random_direct_bias=random_direct_bias(vectors, judged, seed=seed),
        judged=len(judged),
        answers=tuple(analogy_answers(vectors, negative, positive, judged)),
        pairs=tuple(analogy_pairs(vectors, positive, negative)),
    )


def _tested(
    asked: Sequence[tuple[Callable[[AssociationTest], Association], Sequence[AssociationTest]]],
) -> tuple[list[Association], list[str]]:
    """The results of the possible tests, and the reasons why the others were not possible."""
    made: list[Association] = []
    skipped: list[str] = []
    for make, tests in asked:
        for test in tests:
            try:
                made.append(make(test))
            except InputError as error:
                skipped.append(str(error))
    return made, skipped


def _audit(name: str, direction: DirectionAudit | None, tests: Sequence[Association], skipped: Sequence[str]) -> Audit:
    if direction is None and not tests:
        raise InputError("; ".join(skipped) if skipped else f"{name}: no test is given; give some")
    return Audit(name=name, direction=direction, tests=tuple(tests), skipped=tuple(skipped))
