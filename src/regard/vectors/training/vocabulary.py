"""The words that get a vector, and how often each was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import InputError
from regard.vectors.store import Counts
from regard.vectors.training.progress import Progress, Report, quiet

MOST_DISTINCT = 20_000_000
"""Different words that are counted at once; beyond, the rarest are forgotten, as word2vec does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """Words by falling count; of those seen equally often the first in code point order comes first.

    Arguments:
        words, counts: those seen often enough.
        tokens, sentences: of the whole text.
    """

    words: tuple[str, ...]
    counts: Counts
    tokens: int
    sentences: int

    def __len__(self) -> int:
        return len(self.words)


def count_words(
    sentences: Iterable[Sequence[str]],
    minimum_count: int = 1,
    *,
    report: Report = quiet,
    most: int = MOST_DISTINCT,
) -> Vocabulary:
    """The vocabulary of a text.

    Where there are more than `most` different words, those seen once until then are forgotten, the next time those seen up to
    twice, and so on; a word that comes back is counted anew.

    Raises:
        InputError: for a text without words, or without one that is seen often enough.

    >>> vocabulary = count_words([["b", "a"], ["a", "c", "b", "a"]], 2)
    >>> vocabulary.words, vocabulary.counts.tolist(), vocabulary.tokens
    (('a', 'b'), [3, 2], 6)
    """
    counter: Counter[str] = Counter()
    tokens = number = forgotten = 0
    for number, sentence in enumerate(sentences, start=1):
        counter.update(sentence)
        tokens += len(sentence)
        if len(counter) > most:
            forgotten += 1
            counter = Counter({word: count for word, count in counter.items() if count > forgotten})
        if number % 1000 == 0:
            report(Progress("counting words", tokens, None, "words"))
    if not tokens:
        raise InputError("the text has no words; give text with words in it")
    if minimum_count <= forgotten:
        raise InputError(
            f"the text has more than {most:,} different words, and those seen {forgotten:,} times may be forgotten; raise "
            f"minimum_count to {forgotten + 1:,} or more"
        )
    kept = sorted((-count, word) for word, count in counter.items() if count >= minimum_count)
    if not kept:
        raise InputError(
            f"no word of the {tokens:,} is seen {minimum_count:,} times; lower minimum_count, or give more text"
        )
    counts = np.array([-count for count, _ in kept], dtype=np.int64)
    return Vocabulary(words=tuple(word for _, word in kept), counts=counts, tokens=tokens, sentences=number)
