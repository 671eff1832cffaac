"""Cautions that are shown with the results of an audit: what the numbers do not show."""

from __future__ import annotations

NO_ABSENCE = "A small effect, or none, is no proof that there is no bias: other words, or another test, may show it."
ABOUT_WORDS = (
    "The p-value of an association test is that of a one-sided permutation test: the share of partitions of its target words "
    "that differ as much. It is about the words chosen for the test, and says nothing about people, or how often texts say a "
    "thing."
)
ONE_DIRECTION = (
    "A projection measures one direction, found with a few pairs of words; other directions are not measured."
)
CLUSTERS_SURVIVE = (
    "Only the direction is removed: words that were close because of it stay close, and the old groups can still be "
    "separated (Gonen and Goldberg 2019)."
)
ENGLISH_AND_BINARY = (
    "The built-in and the published word lists are English and know two genders; names and words of other people are not in "
    "them."
)
LEAVING_OUT = (
    "An analogy that leaves out the words it was asked with cannot say that man is to doctor as woman is to doctor; both "
    "answers are given (Nissim, van Noord and van der Goot 2020)."
)
TOO_FEW = "With {first} and {second} target words no p-value can be small: the smallest possible p is {smallest:.3g}."
UNEQUAL = (
    "One list of targets has more words with vectors than the other. All take part, and p is over partitions into groups of "
    "these sizes; the published test has lists of one size, where |d| is 2 at most, and here it can be larger."
)
ALL_ALIKE = (
    "All target words have the same association, 0 but for rounding where the attributes were debiased, so there is no "
    "effect size."
)
SAMPLED = "The p-value is an estimate from {samples:,} random partitions, and cannot be below {least:.1e}."
SENTENCES = "The test looks at the vectors of whole sentences: what the template adds to them is measured too (May et al. 2019)."
TEMPLATES = (
    "The scores are about these templates and these words; another template may order the words otherwise, and a score near "
    "zero is no proof that there is no bias."
)
UTILITY = "That similarity and analogies stay says what was not lost; it does not say that the bias has gone."
EQUALISED = (
    "Equalised words were moved to where they differ in the direction alone: what similarity and analogies gain in questions "
    "with such words says nothing of other words."
)

OF_EVERY_TEST = (NO_ABSENCE, ABOUT_WORDS, SENTENCES)
"""The cautions about association tests in general; other cautions are shown with the name of the test that they are about."""
