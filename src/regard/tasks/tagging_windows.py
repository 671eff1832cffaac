"""What tagging needs around the model: sentences in overlapping windows, and tags that make sense together (Viterbi)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

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


# From what a model says of each word to tags that make sense together.


Decoding = Literal["constrained", "greedy"]

_ROLES = {"L": "E", "U": "S"}  # BILOU's letters in those of BIOES


class Transitions:
    """Which tag may follow which, by the rules of a scheme; nothing is learnt.

        BIO           I-X follows B-X or I-X
        IOB1          B-X follows B-X or I-X
        BIOES, BILOU  I-X and E-X follow B-X or I-X, and nothing else follows those two

    Arguments:
        tags: in the model's order.
        scheme: as in `regard.data.tags`; None for tags that may stand in any order.

    >>> rules = Transitions(["O", "B-PER", "I-PER"], "BIO")
    >>> rules.first.tolist(), rules.follows[0].tolist()
    ([True, True, False], [True, True, False])
    """

    def __init__(self, tags: Sequence[str], scheme: str | None) -> None:
        parted = [tag.partition("-") for tag in tags]
        roles = [_ROLES.get(mark, mark) if scheme is not None else "O" for mark, _, _ in parted]
        types = np.array([type for _, _, type in parted], dtype=object)
        same = types[:, None] == types[None, :]
        going_on = _among(roles, {"BIO": "I", "IOB1": "B"}.get(scheme or "", "IE"))
        opens = _among(roles, "BI")
        self.first = ~going_on
        self.follows = np.where(going_on[None, :], same & opens[:, None], True)
        self.last = np.ones(len(roles), dtype=bool)
        if scheme in ("BIOES", "BILOU"):
            self.follows &= ~opens[:, None] | going_on[None, :]
            self.last = ~opens

    def allows(self, tags: Sequence[int] | np.ndarray) -> bool:
        """Whether a sequence of tags, by number, keeps the rules."""
        path = np.asarray(tags)
        if not len(path):
            return True
        return bool(self.first[path[0]] and self.last[path[-1]] and self.follows[path[:-1], path[1:]].all())

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The tags, by number, whose scores have the highest sum among all sequences that keep the rules (Viterbi 1967).

        Where no sequence does, because a tag that the rules need is missing, the best of each word.

        Arguments:
            scores: (L, T), of each tag at each word, such as log-probabilities.

        Returns:
            (L,) int64.
        """
        greedy = scores.argmax(axis=1)
        # What is best without rules, and keeps them, is best with them.
        if self.allows(greedy):
            return greedy
        forbidden = np.where(self.follows, 0.0, -np.inf)
        best = np.where(self.first, scores[0], -np.inf)
        came = np.zeros(scores.shape, dtype=np.int64)
        for place in range(1, len(scores)):
            reached = best[:, None] + forbidden
            came[place] = reached.argmax(axis=0)
            best = reached.max(axis=0) + scores[place]
        best = np.where(self.last, best, -np.inf)
        if best.max() == -np.inf:
            return greedy
        path = np.empty(len(scores), dtype=np.int64)
        path[-1] = best.argmax()
        for place in range(len(scores) - 1, 0, -1):
            path[place - 1] = came[place, path[place]]
        return path


def _among(roles: Sequence[str], wanted: str) -> np.ndarray:
    return np.array([role in set(wanted) for role in roles], dtype=bool)
