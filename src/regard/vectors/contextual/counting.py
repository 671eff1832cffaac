"""The words of a text as an encoder's tokenizer finds them, and how often each occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from regard.errors import InputError
from regard.text import Tokenizer
from regard.vectors.store import Counts

Sentence = str | Sequence[str]
"""A string, in which the tokenizer finds words, or a list of words."""

TOGETHER = 256
"""Sentences that are in memory at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordCounts:
    """What a text is made of.

    Arguments:
        words: how often each word occurs.
        holding: in how many sentences.
        sentences: how many there are, empty ones left out.
    """

    words: Counter[str]
    holding: Counter[str]
    sentences: int

    def frequent(self, minimum: int) -> tuple[tuple[str, ...], Counts]:
        """The words that occur so often, the commonest first, those alike by the alphabet, and their counts.

        Raises:
            InputError: for a minimum below 1, and where no word is so frequent.
        """
        if minimum < 1:
            raise InputError(f"minimum_count is {minimum}; give 1 or more")
        found = sorted((-count, word) for word, count in self.words.items() if count >= minimum)
        if not found:
            raise InputError(
                f"sentences: hold {self.words.total():,} words, none of them {minimum} times; lower minimum_count or give more "
                "text"
            )
        return tuple(word for _, word in found), np.array([-count for count, _ in found], dtype=np.int64)


def counted(tokenizer: Tokenizer, sentences: Iterable[Sentence], *, lowercase: bool = False) -> WordCounts:
    """How often each word occurs.

    Arguments:
        tokenizer: finds the words of sentences that are strings.
        sentences: strings, or lists of words; read one after another.
        lowercase: whether a word and the same in capitals are one.
    """
    words, holding, total = Counter[str](), Counter[str](), 0
    for some in pieces_of(sentences):
        for each in words_in(tokenizer, some):
            keys = [key(word, lowercase) for word in each]
            words.update(keys)
            holding.update(set(keys))
        total += len(some)
    return WordCounts(words=words, holding=holding, sentences=total)


def words_in(tokenizer: Tokenizer, sentences: Sequence[Sentence]) -> list[Sequence[str]]:
    """The words of each sentence, as `features(...).merged().words` has them; lists of words are their own."""
    encoded = iter(tokenizer.encode_batch_with_spans([each for each in sentences if isinstance(each, str)]))
    found: list[Sequence[str]] = []
    for sentence in sentences:
        if not isinstance(sentence, str):
            found.append(sentence)
            continue
        ids, spans = next(encoded)
        starts = np.flatnonzero(~tokenizer.continues(ids)).tolist() if ids else []
        ends = [*(place - 1 for place in starts[1:]), len(ids) - 1][: len(starts)]
        found.append([sentence[spans[a][0] : spans[b][1]] for a, b in zip(starts, ends, strict=True)])
    return found


def pieces_of(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Sentences that are not empty, some at a time."""
    filled = (each for each in sentences if (each.strip() if isinstance(each, str) else each))
    while some := list(islice(filled, TOGETHER)):
        yield some


def key(word: str, lowercase: bool) -> str:
    """What a word is counted as."""
    return word.lower() if lowercase else word
