"""ROUGE, as Google's own package computes it: how much of a reference a summary says again."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import InputError

NAMES = ("rouge1", "rouge2", "rougeL")


def rouge_scores(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean F of ROUGE-1, ROUGE-2 and ROUGE-L over texts, in [0, 100] (Lin 2004).

        F = 2 P R / (P + R),   P and R the overlap in words, pairs of words or the longest common subsequence, divided by
                               those of the text and of the reference

    Computed by the package `rouge_score`: lower case, Porter's stems, words of ASCII letters and digits alone. So it says
    nothing of languages in other letters. Of several references the one with the best F counts, for each measure by itself.

    Arguments:
        texts: the summaries.
        references: the right ones of each, one at least.

    Raises:
        InputError: where there is nothing to score.
        ImportError: where the package is not there.

    >>> {name: round(value, 1) for name, value in rouge_scores(["a cat sat"], [["the cat sat"]]).items()}
    {'rouge1': 66.7, 'rouge2': 50.0, 'rougeL': 66.7}
    """
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-not-found]

    if not texts:
        raise InputError("there is no text to score; give one at least")
    scorer = RougeScorer(NAMES, use_stemmer=True)
    sums = dict.fromkeys(NAMES, 0.0)
    for text, right in zip(texts, references, strict=True):
        for name, score in scorer.score_multi(list(right), text).items():
            sums[name] += score.fmeasure
    return {name: 100 * total / len(texts) for name, total in sums.items()}
