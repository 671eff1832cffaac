"""Tagged words: the `data` section, rows and files, schemes, overlapping windows, and consistent tags (Viterbi)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np

from regard.data.rows import parts_of
from regard.data.tagged import FORMATS, TAGS, WORDS, TaggedSentence, read_tagged
from regard.data.tagged import Span as Extent
from regard.data.tags import Span, scheme_of, tags_of, types_of
from regard.errors import InputError, nearest
from regard.models.config import check
from regard.tasks.encoders import (
    Joined,
)
from regard.tasks.examples import Examples, Place, check_amount
from regard.text import Tokenizer

SchemeChoice = Literal["auto", "bio", "bioes", "as_given", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedData:
    """The `data` section of a recipe.

    Arguments:
        train: a file of tagged words, or several: CoNLL's columns or JSONL; gzip is recognised.
        validation: the same for validation; held out from the training data if null.
        validation_share: the share of training sentences to hold out.
        validation_size: the number of sentences to hold out instead, at most a tenth of all.
        format: `columns`, `jsonl`, or `auto` to recognise it from the first line.
        word, tag: the columns of words and tags, from 0, or from the last as -1; in JSONL their keys. null = the first and the
            last column; the keys `words` or `tokens`, and `tags` or `labels`.
        scheme: how the model's tags mark spans of words: `bio` or `bioes`, to which the data's tags are converted from any
            scheme; `as_given`, the scheme of the data; `none` if tags mark no spans, such as parts of speech; `auto` is `bio` if
            the data's tags are in a scheme, else `none`.
        tags: the model's tags in their order; null to find them in the training data.
        context: the maximum number of tokens of the preceding sentences, and of the following ones, in the same document that are
            read with a sentence.
        maximum_length: the maximum number of tokens of a window, special ones included; longer sentences are read in overlapping
            windows.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    train: Place | None = None
    validation: Place | None = None
    validation_share: float = 0.1
    validation_size: int | None = None
    format: str = "auto"
    word: int | str | None = None
    tag: int | str | None = None
    scheme: SchemeChoice = "auto"
    tags: tuple[str, ...] | None = None
    context: int = 0
    maximum_length: int = 128

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"data.format is {self.format!r}; {nearest(self.format, FORMATS)}")
        check_amount(self)
        check(self.maximum_length >= 5, "data.maximum_length", self.maximum_length, "at least 5", "128 is usual")
        check(self.context >= 0, "data.context", self.context, "0 or more", "0 reads each sentence alone")
        tags = self.tags
        check(
            tags is None or (len(tags) >= 2 and len(set(tags)) == len(tags)),
            "data.tags",
            tags,
            "two different names or more",
            "leave it out to find them in the data",
        )


def where_of(sentence: TaggedSentence) -> str:
    """The file and line of a sentence, for messages."""
    return f"{sentence.file}, the sentence in line {sentence.line}"


def _row(row: Any, called: str, number: int, data: Any) -> TaggedSentence:
    del data
    words, tags = parts_of(row, called, [WORDS, TAGS], "(words, tags), two lists")
    return TaggedSentence(words=_texts(words, called), tags=_texts(tags, called), file="sentences", line=number)


def _texts(given: object, called: str) -> tuple[str, ...]:
    if isinstance(given, list | tuple):
        given = [
            str(text) if type(text) is int else text for text in given
        ]  # the library `datasets` has numbers as tags
    if not isinstance(given, list) or not all(isinstance(text, str) and text for text in given):
        raise InputError(f"{called}: {given!r:.80} is not a list of words or tags; give (words, tags), two lists")
    return tuple(given)


def _check(sentence: TaggedSentence, called: str) -> None:
    del called
    if len(sentence.words) != len(sentence.tags):
        raise InputError(
            f"{where_of(sentence)}: {len(sentence.words)} words and {len(sentence.tags)} tags; give each word one tag"
        )
    if not sentence.words:
        raise InputError(f"{where_of(sentence)}: has no words; leave it out")


SENTENCES = Examples(
    type=TaggedSentence,
    rows="sentences",
    wanted="(words, tags), two lists",
    file="file of tagged words",
    row=_row,
    read=lambda data, path, malformed: read_tagged(
        path, format=data.format, word=data.word, tag=data.tag, malformed=malformed
    ),
    check=_check,
)


MANY = 1_000
"""The maximum number of tags; with more, the column is probably wrong, such as the column of words, which is an error."""

TOGETHER = 1_024
"""The number of sentences that are read at once."""


def documents_of(sentences: Iterable[TaggedSentence]) -> Iterator[int]:
    """The number of each sentence's document.

    A document ends at the end of its file, and where more than one empty line is between two sentences: a -DOCSTART- line, or a
    sentence that was malformed or held out, was between them.
    """
    number, before = 0, None
    for sentence in sentences:
        if before is not None:
            steps = (
                sentence.line - before.line
            )  # a sentence is one line in JSONL and in memory, a line per word in columns
            number += sentence.file != before.file or steps not in (1, len(before.words) + 1)
        before = sentence
        yield number


def schemes_of(data: TaggedData, sentences: Iterator[TaggedSentence]) -> tuple[str | None, str | None]:
    """The scheme of the data's tags and that of the model's; None if tags mark no spans.

    Raises:
        InputError: if the recipe sets a scheme and the tags are in none.
    """
    if data.scheme == "none":
        return None, None
    try:
        source = scheme_of(sentence.tags for sentence in sentences)
    except InputError as error:
        if data.scheme == "auto":
            return None, None
        raise InputError(f"data.scheme is {data.scheme!r}, but {error}, or data.scheme=none") from None
    return source, source if data.scheme == "as_given" else "BIO" if data.scheme == "auto" else data.scheme.upper()


def tags_in(
    data: TaggedData, sentences: Iterator[TaggedSentence], source: str | None, scheme: str | None
) -> tuple[str, ...]:
    """The model's tags: those that the recipe names, else those of the training data, with the outside tag O first."""
    if data.tags is not None:
        return data.tags
    if source is None or scheme is None:
        found = {tag for sentence in sentences for tag in sentence.tags}
        if len(found) > MANY:
            raise InputError(
                f"the training data has {len(found):,} different tags, such as {min(found)!r}; name the right column with "
                "data.tag"
            )
        if len(found) < 2:
            raise InputError(f"all words of the training data have the tag {found.pop()!r}; give some with another")
        return tuple(sorted(found))
    types = list(types_of((sentence.tags for sentence in sentences), source))
    if not types:
        raise InputError("all words of the training data have the tag 'O'; give some with another")
    if len(types) > MANY:
        raise InputError(
            f"the training data has {len(types):,} types of spans, such as {types[0]!r}; name the right column with data.tag"
        )
    return ("O", *(tag for type in types for tag in all_tags(type, scheme)))


def all_tags(type: str, scheme: str) -> list[str]:
    """All tags of a scheme for a type.

    >>> all_tags("PER", "BIOES")
    ['B-PER', 'I-PER', 'E-PER', 'S-PER']
    """
    return list(dict.fromkeys(tags_of([Span(type, 0, 3), Span(type, 3, 4)], 4, scheme)))


def chunks_of(sentences: Iterator[TaggedSentence], context: int) -> Iterator[list[TaggedSentence]]:
    """Groups of sentences that are read together: with `context` whole documents, which are cut after `TOGETHER` sentences."""
    if not context:
        while chunk := list(itertools.islice(sentences, TOGETHER)):
            yield chunk
        return
    first, second = itertools.tee(sentences)
    for _, group in itertools.groupby(zip(first, documents_of(second), strict=False), key=lambda pair: pair[1]):
        while chunk := [sentence for sentence, _ in itertools.islice(group, TOGETHER)]:
            yield chunk


Pieces = list[list[int]]
"""The token ids of each word of a sentence."""


@dataclass(frozen=True, slots=True)
class Window:
    """One input of the model: a sentence or a part of it, with context.

    Arguments:
        ids: the token ids, special tokens included.
        places: the indices in `ids` of the first pieces of the words whose tags are predicted from this window.
    """

    ids: list[int]
    places: list[int]

    @property
    def joined(self) -> Joined:
        """The window as an input of an encoder."""
        return Joined(self.ids)


def pieces_of(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
    """The token ids of each word of each sentence; a word that the tokenizer drops completely becomes one unknown token.

    Raises:
        InputError: if a word is not a string.
    """
    pieces = iter(tokenizer.encode_words(list(chain.from_iterable(sentences))))
    nothing = tokenizer.end_id if tokenizer.unknown_id is None else tokenizer.unknown_id
    return [[next(pieces) or [nothing] for _ in sentence] for sentence in sentences]


def windows_of(
    tokenizer: Tokenizer, words: Pieces, *, maximum: int, before: Sequence[int] = (), after: Sequence[int] = ()
) -> list[Window]:
    """The windows of one sentence, which together tag every word once, in order.

    If the sentence fits into one window, as much of the surrounding text as fits is read with it, evenly on both sides. If not,
    windows overlap by half; each begins and ends between words, and a word is tagged in the window in which its distance from the
    nearer end is larger.

    Arguments:
        words: the token ids of each word, none empty; a word longer than a window is truncated.
        maximum: the maximum number of tokens of a window, special ones included.
        before, after: the tokens of the surrounding text.

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
    owners = np.searchsorted(
        borders, offsets[:-1] + offsets[1:]
    )  # both are twice the middle: of an overlap, and of a word
    found = []
    for number, (first, last) in enumerate(edges):
        own = np.arange(np.searchsorted(owners, number), np.searchsorted(owners, number, side="right"))
        if len(own):
            ids = [begin, *chain.from_iterable(words[first:last]), end]
            found.append(Window(ids, (offsets[own] - offsets[first] + 1).tolist()))
    return found


def _shared(room: int, left: int, right: int) -> tuple[int, int]:
    """How many tokens of context to use on the left and on the right, if there is room for `room` tokens."""
    if left + right <= room:
        return left, right
    half = room // 2
    if left < half:
        return left, room - left
    return (room - right, right) if right < half else (room - half, half)


def _edges(offsets: np.ndarray, room: int) -> list[tuple[int, int]]:
    """The first word and the word after the last one of each window; words begin at `offsets`, whose last entry is the end."""
    count, size = len(offsets) - 1, int(offsets[-1])
    edges: list[tuple[int, int]] = []
    first = 0
    while True:
        if size - int(offsets[first]) <= room:  # the last window is filled with words before it
            return [*edges, (int(np.searchsorted(offsets, size - room)), count)]
        last = int(np.searchsorted(offsets, offsets[first] + room, side="right")) - 1
        edges.append((first, last))
        following = int(np.searchsorted(offsets, offsets[first] + room // 2))
        first = min(max(following, first + 1), last)


def around(sentences: Sequence[Pieces], number: int, most: int) -> tuple[list[int], list[int]]:
    """The last tokens before a sentence of a document, and the first tokens after it, at most `most` of each."""
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
        sentences: the words of each sentence.
        maximum: the maximum number of tokens of a window.
        context: the maximum number of tokens of the sentences before, and of those after, that are read with a sentence.
        documents: the number of each sentence's document; sentences of one document are consecutive. None = no documents.
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


# From log-probabilities of tags to consistent sequences of tags.


Decoding = Literal["constrained", "greedy"]

_ROLES = {"L": "E", "U": "S"}  # the letters of BILOU as those of BIOES


class Transitions:
    """The rules of a scheme about which tag may follow which; nothing is learned.

        BIO           I-X follows B-X or I-X
        IOB1          B-X follows B-X or I-X
        BIOES, BILOU  I-X and E-X follow B-X or I-X, and no other tags follow B-X or I-X

    Arguments:
        tags: the tags in the model's order.
        scheme: the scheme, as in `regard.data.tags`; None for no rules.

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
        """Whether a sequence of tags, by number, follows the rules."""
        path = np.asarray(tags)
        if not len(path):
            return True
        return bool(self.first[path[0]] and self.last[path[-1]] and self.follows[path[:-1], path[1:]].all())

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The sequence of tags with the highest sum of scores among all that follow the rules (Viterbi 1967).

        If no sequence does, because a tag that the rules need is missing, the best tag of each word.

        Arguments:
            scores: (L, T), the score of each tag at each word, such as log-probabilities.

        Returns:
            (L,) int64, the numbers of the tags.
        """
        greedy = scores.argmax(axis=1)
        # If the best sequence without rules follows them, it is also the best one with them.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A span of words that the tags mark.

    Arguments:
        type: the type, such as `PER`.
        text: the text of the span.
        start, end: its position in characters of the text, end excluded.
        probability: the product of the probabilities of its words' tags.
    """

    type: str
    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tagging:
    """The prediction of a tagger for one text.

    Arguments:
        text: the text; for a list of words, the words joined by spaces.
        words: the words of the text.
        tags: one for each word.
        probabilities: the probability of each tag, regardless of the neighbouring tags.
        spans: the position of each word in the text: (start, end) in characters, end excluded.
        entities: the spans that the tags mark, in order; empty if tags mark no spans, such as parts of speech.
    """

    text: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    spans: tuple[Extent, ...]
    entities: tuple[Entity, ...]
