"""Pairs of texts made on the spot, for measuring without any data."""

from __future__ import annotations

import numpy as np

_ONSETS = [*"bcdfghklmnprstvw", "br", "dr", "fl", "gr", "kl", "pr", "sch", "st", "tr"]
_RHYMES = [*"aeiou", "an", "ar", "el", "en", "er", "in", "is", "on", "or", "um"]


def builtin_pairs(count: int, *, seed: int = 0, words: int = 12_000) -> list[tuple[str, str]]:
    """Sentences of invented words, and the same in other invented words, in an order of their own.

    Word frequencies fall as 1 / rank, as in a language (Zipf), and sentences have 4 to 24 words, 12 on average, as captions do:
    what matters for speed is the number of tokens and the size of the vocabulary, not what is said.

    Arguments:
        count: pairs.
        seed: the same seed gives the same pairs.
        words: in each of the two languages.

    >>> builtin_pairs(2, words=50) == builtin_pairs(3, words=50)[:2]
    True
    """
    draw = np.random.default_rng(seed)
    languages = [_words(words, draw) for _ in range(2)]
    summed = np.cumsum(1 / np.arange(1, words + 1))
    pairs = []
    for _ in range(count):
        length = int(np.clip(draw.poisson(12), 4, 24))
        chosen = np.searchsorted(summed, summed[-1] * draw.random(length))
        source, target = ([language[index] for index in chosen] for language in languages)
        pairs.append((" ".join(source) + ".", " ".join(target[::-1]) + "."))
    return pairs


def _words(count: int, draw: np.random.Generator) -> list[str]:
    """Different words of one to a few syllables, the short ones first."""
    found: dict[str, None] = {}
    syllables = 1
    while len(found) < count:
        before = len(found)
        onsets = draw.integers(len(_ONSETS), size=(count, syllables)).tolist()
        rhymes = draw.integers(len(_RHYMES), size=(count, syllables)).tolist()
        for starts, ends in zip(onsets, rhymes, strict=True):
            found["".join(_ONSETS[a] + _RHYMES[b] for a, b in zip(starts, ends, strict=True))] = None
        if len(found) - before < count // 2:  # most words of so many syllables are taken
            syllables += 1
    return list(found)[:count]
