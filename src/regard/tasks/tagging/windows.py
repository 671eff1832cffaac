"""Sentences as what an encoder reads: words in pieces, neighbouring sentences around them, long ones in overlapping windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from regard.tasks.encoders import Joined
from regard.text import Tokenizer

Pieces = list[list[int]]
"""The token ids of each word of a sentence."""


@dataclass(frozen=True, slots=True)
class Window:
    """What the model reads at once.

    Arguments:
        ids: special tokens included.
        places: where in `ids` the first pieces of those words stand whose tags are taken from this window.
    """

    ids: list[int]
    places: list[int]

    @property
    def joined(self) -> Joined:
        """The tokens of it."""
        return Joined(self.ids)


def pieces_of(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
    """The token ids of each word of each sentence; a word of which nothing is left is one unknown token.

    Raises:
        InputError: where a word is no text.
    """
    pieces = iter(tokenizer.encode_words(list(chain.from_iterable(sentences))))
    nothing = tokenizer.end_id if tokenizer.unknown_id is None else tokenizer.unknown_id
    return [[next(pieces) or [nothing] for _ in sentence] for sentence in sentences]


def windows_of(
    tokenizer: Tokenizer, words: Pieces, *, maximum: int, before: Sequence[int] = (), after: Sequence[int] = ()
) -> list[Window]:
    """The windows of one sentence, which together tag every word once, in order.

    Where the sentence fits into one, as much as fits of the text around it is read with it, evenly on both sides. Where it does
    not, windows overlap by half; each begins and ends between words, and a word is tagged in that window in which it stands
    farther from the nearer end.

    Arguments:
        words: none empty; of a word that alone is longer than a window the end is cut.
        maximum: the most tokens of a window, special ones included.
        before, after: tokens of the text around.

    >>> tokenizer = Tokenizer.train(["a b c d e"], kind="bert", size=30)
    >>> words = tokenizer.encode_words(["a", "b", "c", "d", "e"])
    >>> [(tokenizer.tokens(window.ids), window.places) for window in windows_of(tokenizer, words, maximum=6)]
    [(['[CLS]', 'a', 'b', 'c', 'd', '[SEP]'], [1, 2, 3]), (['[CLS]', 'b', 'c', 'd', 'e', '[SEP]'], [3, 4])]
    """
    room = maximum - 2
    words = [piece[:room] for piece in words]
    lengths = np.array([len(piece) for piece in words], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    size = int(offsets[-1])
    begin, end = tokenizer.start_id, tokenizer.end_id
    if size <= room:
        left, right = _shared(room - size, len(before), len(after))
        ids = [begin, *before[len(before) - left :], *chain.from_iterable(words), *after[:right], end]
        return [Window(ids, (offsets[:-1] + 1 + left).tolist())]
    edges = _edges(offsets, room)
    borders = [offsets[start] + offsets[stop] for (_, stop), (start, _) in pairwise(edges)]
    owners = np.searchsorted(borders, offsets[:-1] + offsets[1:])  # twice the middle of each word, and of each overlap
    found = []
    for number, (first, last) in enumerate(edges):
        own = np.arange(np.searchsorted(owners, number), np.searchsorted(owners, number, side="right"))
        if len(own):
            ids = [begin, *chain.from_iterable(words[first:last]), end]
            found.append(Window(ids, (offsets[own] - offsets[first] + 1).tolist()))
    return found


def _shared(room: int, left: int, right: int) -> tuple[int, int]:
    """How much is taken of what stands on both sides, where not all of it fits."""
    if left + right <= room:
        return left, right
    half = room // 2
    if left < half:
        return left, room - left
    return (room - right, right) if right < half else (room - half, half)


def _edges(offsets: np.ndarray, room: int) -> list[tuple[int, int]]:
    """First word and word after the last of each window over words that begin at `offsets`, the last of which is the end."""
    count, size = len(offsets) - 1, int(offsets[-1])
    edges: list[tuple[int, int]] = []
    first = 0
    while True:
        if size - int(offsets[first]) <= room:  # the last one is filled with what stands before
            return [*edges, (int(np.searchsorted(offsets, size - room)), count)]
        last = int(np.searchsorted(offsets, offsets[first] + room, side="right")) - 1
        edges.append((first, last))
        following = int(np.searchsorted(offsets, offsets[first] + room // 2))
        first = min(max(following, first + 1), last)


def around(sentences: Sequence[Pieces], number: int, most: int) -> tuple[list[int], list[int]]:
    """The last tokens before a sentence of a document, and the first after it, at most so many of each."""
    before: list[int] = []
    for place in range(number - 1, -1, -1):
        if len(before) >= most:
            break
        before[:0] = chain.from_iterable(sentences[place])
    after: list[int] = []
    for place in range(number + 1, len(sentences)):
        if len(after) >= most:
            break
        after.extend(chain.from_iterable(sentences[place]))
    return before[max(0, len(before) - most) :], after[:most]


def read_sentences(
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    *,
    maximum: int,
    context: int = 0,
    documents: Sequence[int] | None = None,
) -> Iterator[list[Window]]:
    """The windows of each sentence.

    Arguments:
        sentences: the words of each.
        maximum: the most tokens of a window.
        context: the most tokens of the sentences before, and of those after, that are read with one.
        documents: which document each sentence is of; the sentences of one stand together. None: each is alone.
    """
    pieces = pieces_of(tokenizer, sentences)
    start = 0
    while start < len(pieces):
        stop = start + 1
        while documents is not None and context and stop < len(pieces) and documents[stop] == documents[start]:
            stop += 1
        for number in range(start, stop):
            before, after = around(pieces[start:stop], number - start, context) if context else ([], [])
            yield windows_of(tokenizer, pieces[number], maximum=maximum, before=before, after=after)
        start = stop
