"""Association tests for words (WEAT, WEFAT: Caliskan, Bryson and Narayanan 2017) and sentences (SEAT: May et al. 2019)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError
from regard.metrics.regression import pearson
from regard.word_embeddings.bias import cautions
from regard.word_embeddings.bias.lists import AssociationTest, NamedWords, Presence, unit64
from regard.word_embeddings.evaluation.similarity import Case
from regard.word_embeddings.store import Matrix, WordVectors

Numbers = NDArray[np.float64]
Embed = Callable[[Sequence[str]], NDArray[np.floating]]
"""A function from n texts to their vectors, (n, W)."""

ROUNDING = 1e-6
"""If no association is larger, all are rounding errors of equal float32 cosines."""
EXACT_BELOW = 200_000_000_000
"""The most partitions that are counted exactly; enough for 20 + 20 words."""

SAMPLES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Association:
    """The result of an association test.

    Arguments:
        test: the name of the test.
        targets, attributes: the names of X and Y, and of A and B.
        words: the words of X, Y, A and B that were used, in the spelling of the vectors.
        effect_size: d = (mean over X of s - mean over Y of s) / standard deviation of s over both. nan if all s are equal, or 0
            except for rounding errors of float32, as after debiasing, when d would be large but meaningless.
        ddof: 0 for the population's standard deviation, 1 for the sample's.
        statistic: sum over X of s - sum over Y of s. Its sign is only meaningful if X and Y have equally many words; that of d
            always is.
        permutation: the one-sided p-value of the statistic under random partitions of the target words.
        associations: s(w, A, B) of every target word that was used.
        missing: words of the lists that have no vector.
        cautions: sentences on what this does not show.
    """

    test: str
    targets: tuple[str, str]
    attributes: tuple[str, str]
    words: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    effect_size: float
    ddof: int
    statistic: float
    permutation: Permutation
    associations: Mapping[str, float]
    missing: tuple[str, ...]
    cautions: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The numbers of words of X, Y, A and B that were used."""
        first, second, one, other = map(len, self.words)
        return first, second, one, other

    @property
    def p(self) -> float:
        """The one-sided p-value."""
        return self.permutation.p

    def to_json(self) -> dict[str, Any]:
        """As `regard vectors bias --json` prints it."""
        found = self.permutation
        return {
            "test": self.test,
            "targets": list(self.targets),
            "attributes": list(self.attributes),
            "sizes": list(self.sizes),
            "words": [list(words) for words in self.words],
            "effect_size": self.effect_size,
            "ddof": self.ddof,
            "statistic": self.statistic,
            "p": found.p,
            "p_test": f"one-sided permutation test, {found.extent} partitions",
            "p_method": found.method,
            "p_standard_error": found.standard_error,
            "partitions": found.partitions if found.partitions < 1 << 53 else None,
            "samples": found.samples,
            "associations": dict(self.associations),
            "missing": list(self.missing),
            "cautions": list(self.cautions),
        }


def association_test(
    vectors: WordVectors,
    test: AssociationTest,
    *,
    ddof: Literal[0, 1] = 0,
    case: Case = "lower",
    exact_below: int = EXACT_BELOW,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Association:
    """The Word Embedding Association Test (WEAT) of whether X is closer to A, and Y closer to B (Caliskan et al. 2017).

        s(w, A, B) = mean over a in A of cos(w, a) - mean over b in B of cos(w, b)
        d          = (mean over X of s - mean over Y of s) / standard deviation of s over X and Y
        p          = the share of partitions of X and Y into sets of the same sizes whose difference is at least as large

    Words without a vector, or with a zero vector, are left out and listed in the result. In the published test X and Y have
    equally many words. If they do not after leaving words out, all remaining words are used: means and partitions do not need
    equal numbers, and any choice of words to drop would be arbitrary. The result then has a caution about it.

    Arguments:
        vectors: the word embeddings.
        test: the four lists of words.
        ddof: 0 for the population's standard deviation, with which |d| <= 2 if X and Y have equally many words; 1 for the
            sample's. Publications use either; with 8 + 8 words, d is larger by a factor of 1.033 with 0 than with 1.
        case: how words are looked up: `lower` (unchanged, or else in lower case), `exact` (unchanged), or `ignore` (the first
            word of the table that is equal except for case).
        exact_below: count all partitions if there are at most this many (the default suffices for 20 + 20 words); else sample
            `samples` partitions, and p = (r + 1) / (samples + 1), where r of them have a difference at least as large.
        samples: the number of sampled partitions.
        seed: seed of the sampling.

    Raises:
        InputError: for another ddof or an unknown case; if a set of targets has fewer than two words with vectors, or a set of
            attributes none; and if words of two opposite sets have the same vector.

    >>> from regard.word_embeddings.bias import NamedWords
    >>> vectors = WordVectors(
    ...     words=("rose", "lily", "ant", "wasp", "love", "pain"),
    ...     matrix=np.array([[3, 1], [4, 1], [1, 4], [1, 3], [1, 0], [0, 1]], dtype=np.float32))
    >>> found = association_test(vectors, AssociationTest(
    ...     name="flowers",
    ...     targets=(NamedWords(name="flowers", words=("rose", "lily")), NamedWords(name="insects", words=("ant", "wasp"))),
    ...     attributes=(NamedWords(name="pleasant", words=("love",)), NamedWords(name="unpleasant", words=("pain",)))))
    >>> round(found.effect_size, 3), round(found.p, 3), found.permutation.method
    (1.995, 0.167, 'exact')
    """
    return _tested(Presence(vectors, case), test, ddof=ddof, exact_below=exact_below, samples=samples, seed=seed)


def association_test_of_texts(
    embed: Embed,
    test: AssociationTest,
    *,
    ddof: Literal[0, 1] = 0,
    exact_below: int = EXACT_BELOW,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Association:
    """The association test with embeddings of whole texts, such as sentences made from templates (SEAT; May et al. 2019).

    Arguments:
        embed: a function from texts to vectors, such as `regard.load(folder, task="sentence_embedding").embed`; called once.
        test, ddof, exact_below, samples, seed: as for `association_test`.

    Raises:
        InputError: as `association_test`.
    """
    texts = test.words
    found = np.asarray(embed(list(texts)), dtype=np.float32)
    if found.ndim != 2 or len(found) != len(texts):
        raise InputError(
            f"`embed` returned the shape {found.shape} for {len(texts)} texts; it must return one row per text"
        )
    vectors = WordVectors(words=texts, matrix=found, name="the model")
    made = _tested(Presence(vectors, "exact"), test, ddof=ddof, exact_below=exact_below, samples=samples, seed=seed)
    return replace(made, cautions=(*made.cautions, cautions.SENTENCES))


def word_associations(words: Numbers, first: Numbers, second: Numbers) -> Numbers:
    """The association s(w, A, B) of each word, (n,): its mean cosine with A minus its mean cosine with B.

    Arguments:
        words, first, second: (n, W), (a, W) and (b, W), the vectors of the words, of A and of B; not zero.

    >>> word_associations(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])).tolist()
    [1.0]
    """
    units = unit64(words)
    return (units @ unit64(first).T).mean(axis=1) - (units @ unit64(second).T).mean(axis=1)


def effect_size(first: Numbers, second: Numbers, ddof: int = 0) -> float:
    """The effect size d of the associations of X and of Y; nan if all associations are equal.

    Arguments:
        first, second: the associations of the words of X, (m,), and of Y, (n,).
        ddof: 0 for the population's standard deviation, 1 for the sample's.

    Raises:
        InputError: for a ddof other than 0 and 1.

    >>> round(effect_size(np.array([0.3, 0.1]), np.array([0.0, -0.2])), 3)
    1.664
    """
    _check_ddof(ddof)
    both = np.concatenate([first, second])
    deviation = float(both.std(ddof=ddof))
    if deviation <= 1e-12 * float(np.abs(both).max(initial=0.0)):
        return float("nan")
    return float(first.mean() - second.mean()) / deviation


def _check_ddof(ddof: int) -> None:
    if ddof not in (0, 1):
        raise InputError(f"ddof is {ddof!r}; give 0 for the population's deviation, or 1 for the sample's")


def _tested(
    here: Presence, test: AssociationTest, *, ddof: int, exact_below: int, samples: int, seed: int
) -> Association:
    if samples < 1:
        raise InputError(f"samples is {samples}; give 1 or more")
    first, second, one, other = kept = [here.of(words.words) for words in (*test.targets, *test.attributes)]
    for words, found, least in zip((*test.targets, *test.attributes), kept, (2, 2, 1, 1), strict=True):
        if len(found) < least:
            raise InputError(
                f"test {test.name!r}: {here.name} has {len(found)} of the {len(words.words)} words of {words.name}, and "
                f"at least {least} are needed; leave the test out, or give vectors with more words"
            )
    for (one_set, other_set), sides in ((test.targets, (first, second)), (test.attributes, (one, other))):
        both = next((word for word in sides[0] if word in set(sides[1])), None)
        if both is not None:
            raise InputError(
                f"test {test.name!r}: words of both {one_set.name} and {other_set.name} are looked up as {both!r}; leave it out "
                "of one, or use case exact"
            )
    values = word_associations(here.vectors_of((*first, *second)), here.vectors_of(one), here.vectors_of(other))
    if np.abs(values).max() < ROUNDING:
        values = np.zeros_like(values)
    of_first, of_second = values[: len(first)], values[len(first) :]
    permutation = permutation_test(of_first, of_second, exact_below=exact_below, samples=samples, seed=seed)
    d = effect_size(of_first, of_second, ddof)
    return Association(
        test=test.name,
        targets=(test.targets[0].name, test.targets[1].name),
        attributes=(test.attributes[0].name, test.attributes[1].name),
        words=(first, second, one, other),
        effect_size=d,
        ddof=ddof,
        statistic=float(of_first.sum() - of_second.sum()),
        permutation=permutation,
        associations=dict(zip((*first, *second), values.tolist(), strict=True)),
        missing=here.missing(test.words),
        cautions=_cautions(permutation, len(first), len(second), alike=d != d),
    )


def _cautions(permutation: Permutation, first: int, second: int, *, alike: bool) -> tuple[str, ...]:
    found = [cautions.NO_ABSENCE, cautions.ABOUT_WORDS]
    if first != second:
        found.append(cautions.UNEQUAL)
    if 1 / permutation.partitions >= 0.05:
        found.append(cautions.TOO_FEW.format(first=first, second=second, smallest=1 / permutation.partitions))
    if permutation.method == "sampled":
        found.append(cautions.SAMPLED.format(samples=permutation.samples, least=1 / (permutation.samples + 1)))
    if alike:
        found.append(cautions.ALL_ALIKE)
    return tuple(found)


# The one-sided permutation test: the share of partitions of the targets with a difference at least as large as the observed one.

TOLERANCE = 1e-12
"""Relative to the sum of absolute values: smaller differences of sums are rounding errors."""

TOGETHER = 1 << 20
"""The number of random numbers that are sampled at a time."""

LARGEST_EXACT = 1 << 25
"""The most subset sums per half that are held in memory; enough for 25 words per half, so for partitions of 25 + 25 words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Permutation:
    """The result of a one-sided permutation test.

    Arguments:
        p: the one-sided p-value, with equal differences included; never 0.
        method: `exact` if all partitions were counted, `sampled` if a sample was.
        partitions: the number of all partitions.
        samples: the number of sampled partitions; 0 if exact.
        standard_error: the standard error of p; 0 if exact.
    """

    p: float
    method: Literal["exact", "sampled"]
    partitions: int
    samples: int
    standard_error: float

    @property
    def extent(self) -> str:
        """Whether p is exact or sampled, and the number of partitions, as text.

        >>> Permutation(p=0.5, method="exact", partitions=924, samples=0, standard_error=0.0).extent
        'exact, all 924'
        """
        there = f"{self.partitions:,}" if self.partitions < 10**9 else f"{self.partitions:.1e}"
        return f"exact, all {there}" if self.method == "exact" else f"sampled, {self.samples:,} of {there}"

    @property
    def p_text(self) -> str:
        """The p-value as text, with its standard error if partitions were sampled."""
        return f"{self.p:.2g}" + (f" ± {self.standard_error:.1g}" if self.method == "sampled" else "")


def permutation_test(first: Numbers, second: Numbers, *, exact_below: int, samples: int, seed: int) -> Permutation:
    """The probability that a random partition has a difference (X minus Y) at least as large as the observed one.

    A partition divides all m + n numbers into groups of m and n. For fixed group sizes, the differences of means and of sums are
    increasing functions of the sum over X, so only this sum is compared.

    Arguments:
        first, second: the associations of X, (m,), and of Y, (n,).
        exact_below: count all partitions if there are at most this many and their sums fit into memory; else sample.
        samples: the number of sampled partitions. Then p = (r + 1) / (samples + 1), where r of them are at least as large.
        seed: seed of the sampling.

    >>> permutation_test(np.array([3.0, 2.0]), np.array([1.0, 0.0]), exact_below=100, samples=10, seed=0).p
    0.16666666666666666
    """
    values, size = np.concatenate([first, second]), len(first)
    partitions, fewer = comb(len(values), size), min(size, len(values) - size)
    slack = TOLERANCE * float(np.abs(values).sum())
    if partitions <= exact_below and _sums(len(values) - len(values) // 2, fewer) <= LARGEST_EXACT:
        # The smaller group determines the other and has fewer subsets; a large sum over X is a small sum over Y.
        smaller = (values, float(first.sum())) if fewer == size else (-values, -float(second.sum()))
        p = count_at_least(smaller[0], fewer, smaller[1] - slack) / partitions
        return Permutation(p=p, method="exact", partitions=partitions, samples=0, standard_error=0.0)
    found = _sampled_at_least(values, size, float(first.sum()) - slack, samples, seed)
    p = (found + 1) / (samples + 1)
    error = sqrt(p * (1 - p) / (samples + 1))
    return Permutation(p=p, method="sampled", partitions=partitions, samples=samples, standard_error=error)


def count_at_least(values: Numbers, size: int, least: float) -> int:
    """The number of subsets of `size` numbers with a sum of at least `least`.

    Each subset is the union of a subset of the first half of the numbers and one of the second half, so the sorted subset sums of
    both halves suffice (Horowitz and Sahni 1974).

    >>> count_at_least(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5.0)
    4
    """
    middle = len(values) // 2
    one, two = _subsets(values[:middle], size), _subsets(values[middle:], size)
    count = 0
    for taken in range(max(0, size - (len(values) - middle)), min(size, middle) + 1):
        left, right = np.sort(one[taken]), np.sort(two[size - taken])
        count += len(left) * len(right) - int(np.searchsorted(right, least - left, side="left").sum())
    return count


def _subsets(values: Numbers, most: int) -> list[Numbers]:
    """The sums of all subsets of at most `most` numbers, grouped by the size of the subset."""
    sums = [np.zeros(1), *(np.empty(0) for _ in values[:most])]
    for value in values:
        for taken in range(len(sums) - 1, 0, -1):
            sums[taken] = np.concatenate([sums[taken], sums[taken - 1] + value])
    return sums


def _sums(count: int, most: int) -> int:
    """The number of subsets of at most `most` of `count` numbers."""
    return sum(comb(count, taken) for taken in range(min(count, most) + 1))


def _sampled_at_least(values: Numbers, size: int, least: float, samples: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    step = max(1, TOGETHER // len(values))
    count = 0
    for start in range(0, samples, step):
        keys = rng.random((min(step, samples - start), len(values)))
        chosen = np.argpartition(keys, size - 1, axis=1)[:, :size]
        count += int((values[chosen].sum(axis=1) >= least).sum())
    return count


# WEFAT: whether the associations of words correlate with a real-world number about each word.


@dataclass(frozen=True, kw_only=True, slots=True)
class PropertyAssociation:
    """The correlation of word associations with a number about each word.

    Arguments:
        correlation: Pearson's correlation; nan if either does not vary.
        associations: s(w) of each word: the difference of its mean cosines divided by the standard deviation of its cosines.
        missing: words without a vector.
        cautions: sentences on what this does not show.
    """

    correlation: float
    associations: Mapping[str, float]
    missing: tuple[str, ...]
    cautions: tuple[str, ...] = (cautions.NO_ABSENCE, cautions.ENGLISH_AND_BINARY)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "correlation": self.correlation,
            "associations": dict(self.associations),
            "missing": list(self.missing),
            "cautions": list(self.cautions),
        }


def property_association(
    vectors: WordVectors, numbers: Mapping[str, float], attributes: tuple[NamedWords, NamedWords], *, ddof: int = 0
) -> PropertyAssociation:
    """The Word Embedding Factual Association Test (WEFAT): for example occupations and the share of women in each.

        s(w) = (mean over a in A of cos(w, a) - mean over b in B of cos(w, b)) / standard deviation over A and B of cos(w, .)

    Arguments:
        vectors: the word embeddings.
        numbers: the number of each word.
        attributes: A and B, such as female and male terms.
        ddof: 0 for the population's standard deviation, 1 for the sample's.

    Raises:
        InputError: if fewer than two words have vectors, or no word of A or of B.

    >>> vectors = WordVectors(words=("nurse", "smith", "she", "he"), matrix=np.array(
    ...     [[3, 4], [4, 3], [0, 1], [1, 0]], dtype=np.float32))
    >>> found = property_association(vectors, {"nurse": 0.9, "smith": 0.1}, (
    ...     NamedWords(name="female", words=("she",)), NamedWords(name="male", words=("he",))))
    >>> round(found.correlation, 6), round(found.associations["nurse"], 6)
    (1.0, 2.0)
    """
    _check_ddof(ddof)
    here = Presence(vectors)
    forms = here.forms(numbers)
    words, first, second = tuple(forms.values()), *(here.of(each.words) for each in attributes)
    for found, least, name in ((words, 2, "the numbers"), *zip((first, second), (1, 1), ("A", "B"), strict=True)):
        if len(found) < least:
            raise InputError(
                f"{vectors.name}: has {len(found)} of the words of {name}, and at least {least} are needed"
            )
    units = here.vectors_of(words)
    one, other = units @ here.vectors_of(first).T, units @ here.vectors_of(second).T
    deviations = np.concatenate([one, other], axis=1).std(axis=1, ddof=ddof)
    values = (one.mean(axis=1) - other.mean(axis=1)) / np.where(deviations > 0, deviations, 1.0)
    return PropertyAssociation(
        correlation=pearson([numbers[word] for word in forms], values),
        associations=dict(zip(words, values.tolist(), strict=True)),
        missing=here.missing(numbers),
    )


# Sentence embeddings as means of word vectors.

WORD = re.compile(r"\w+(?:['’-]\w+)*")


def sentence_means(vectors: WordVectors) -> Embed:
    """A function from texts to the means of their words' vectors, (n, W) float32; zeros for a text without known words.

    A word is looked up unchanged, or else in lower case; punctuation is ignored.

    >>> vectors = WordVectors(words=("this", "rose"), matrix=np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> sentence_means(vectors)(["This is a rose.", "?"]).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """

    def embed(texts: Sequence[str]) -> Matrix:
        made = np.zeros((len(texts), vectors.width), dtype=np.float32)
        for row, text in enumerate(texts):
            tried = ((vectors.get(word), vectors.get(word.lower())) for word in WORD.findall(text))
            found = [one if one is not None else other for one, other in tried]
            there = [each for each in found if each is not None]
            if there:
                made[row] = np.mean(there, axis=0)
        return made

    return embed
