"""Sentences as what the two language models read and tell: the bytes of words, and the words' numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.running_text import Document, joined
from regard.text import Tokenizer
from regard.text.spelling import MARK
from regard.text.word_list import END, SPECIAL, START, WordList

AT_ONCE = 4096
"""Sentences that are turned into tokens together."""


@dataclass(frozen=True, slots=True)
class Spelt:
    """A sentence, or a stretch of one.

    Arguments:
        ids: its bytes, a mark before each word; nothing around.
        words: the same words as strings.
    """

    ids: Sequence[int]
    words: tuple[str, ...]

    def read(self, tokenizer: Tokenizer) -> list[int]:
        """The tokens that a model reads: with what begins and ends a text."""
        return [tokenizer.start_id, *self.ids, tokenizer.end_id]

    def told(self, words: WordList) -> list[int]:
        """The numbers of the words that are told, among them what begins and ends a text."""
        return [SPECIAL.index(START), *words.numbers(self.words), SPECIAL.index(END)]


def spelt(tokenizer: Tokenizer, sentences: Iterable[str], *, length: int | None = None) -> Iterator[Spelt]:
    """Sentences as bytes and words; those without a word are left out.

    Arguments:
        length: the most words of each; a longer one becomes several. None for no limit.

    >>> tokenizer = Tokenizer.train([], kind="spelling", size=259)
    >>> [each.words for each in spelt(tokenizer, ["Why not ? No idea .", " "], length=4)]
    [('Why', 'not', '?', 'No'), ('idea', '.')]
    """
    iterator = iter(sentences)
    while some := list(itertools.islice(iterator, AT_ONCE)):
        for ids in tokenizer.encode_batch(some):
            yield from _stretches(ids, length)


def of_documents(documents: Iterable[Document], *, wikitext: bool) -> Iterator[str]:
    """The sentences of documents; of WikiText's with the parts of words joined."""
    for sentence in itertools.chain.from_iterable(documents):
        yield joined(sentence) if wikitext else sentence


def _stretches(ids: list[int], length: int | None) -> Iterator[Spelt]:
    if not ids:
        return
    starts = np.flatnonzero(np.asarray(ids) == MARK).tolist()
    edges = [*starts[:: length or len(starts)], len(ids)]
    for start, stop in itertools.pairwise(edges):
        part = ids[start:stop]
        yield Spelt(part, tuple(bytes(part).decode().split(chr(MARK))[1:]))
