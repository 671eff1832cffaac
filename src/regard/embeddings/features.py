"""Contextual embeddings of tokens and words, from any choice of layers; long texts are read in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.embeddings.reading import BATCH_TOKENS, Reader, read_all
from regard.errors import InputError, nearest
from regard.layers import Combination, LayerChoice
from regard.layers.embeddings import check_finite
from regard.quantization.encoder import Group
from regard.text import Tokenizer

Merge = Literal["mean", "first", "last", "sum"]
"""How the vectors of a word's pieces are combined."""

MERGES: tuple[Merge, ...] = get_args(Merge)

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class WordFeatures:
    """The words of a text, with a vector of each.

    Arguments:
        words: as in the text, or as given.
        spans: (start, end) of each word in the text, in characters; empty if words were given.
        array: (W, D) float32; (W, layers, D) for stacked layers.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    array: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Features:
    """The tokens of a text, without special tokens, with a vector of each.

    Arguments:
        text: the text, or the words if these were given.
        tokens: for display, such as "##able".
        spans: (start, end) of each token in the text, in characters; empty if words were given.
        words: the index of each token's word, from 0.
        array: (L, D) float32; (L, layers, D) for stacked layers.
    """

    text: str | tuple[str, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    words: tuple[int, ...]
    array: NDArray[np.float32] = field(repr=False)

    def merged(self, how: Merge = "mean") -> WordFeatures:
        """The words, each with one vector from those of its pieces.

        Raises:
            InputError: for a method other than `mean`, `first`, `last` or `sum`.
        """
        check_merge(how)
        numbers = np.array(self.words, dtype=np.int64)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        ends = [*(starts[1:] - 1).tolist(), len(numbers) - 1][: len(starts)]
        spans: tuple[Span, ...] = ()
        if isinstance(self.text, str):
            spans = tuple((self.spans[a][0], self.spans[b][1]) for a, b in zip(starts, ends, strict=True))
            words = tuple(self.text[start:end] for start, end in spans)
        else:
            words = self.text
        return WordFeatures(words=words, spans=spans, array=_merged(self.array, starts, ends, how))

    def within(self, start: int, end: int, how: Merge = "mean") -> NDArray[np.float32]:
        """One vector of a span of the text, (D,), from all tokens with a character in it.

        Arguments:
            start, end: in characters, the latter excluded.
            how: as for `merged`.

        Raises:
            InputError: if the span has no token, or the text was given as words.
        """
        check_merge(how)
        if not isinstance(self.text, str):
            raise InputError("the text was given as words; take their vectors from merged()")
        inside = [place for place, (first, last) in enumerate(self.spans) if first < end and last > start]
        if not inside:
            raise InputError(f"no token of the text is at characters {start} to {end}; it has {len(self.text)}")
        return _merged(self.array[inside], np.zeros(1, dtype=np.int64), [len(inside) - 1], how)[0]


def features(
    reader: Reader,
    tokenizer: Tokenizer,
    texts: Sequence[str | Sequence[str]],
    *,
    layers: LayerChoice | str | int | Sequence[int] = "last",
    depth: int,
    maximum: int,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Features]:
    """The vectors of all tokens of some texts.

    Texts that are longer than the model's maximum are read in windows that overlap by half. Each token is taken from the window
    in which it has the most context on its shorter side (`windows_of`).

    Arguments:
        reader: of the model.
        texts: strings, which the tokenizer splits into words, or lists of words.
        layers: a `LayerChoice`; a name such as `last`, `second_to_last`, `sum_last_four`, `concatenate_last_four`, `embeddings`,
            `all`; or numbers of layers, which are summed.
        depth: the number of blocks of the model.
        maximum: the longest input of the model in tokens, with special tokens.
        batch_tokens: tokens per batch, which affects memory and speed.

    Raises:
        InputError: for a text that is empty or not a string, and a layer that the model does not have.
    """
    choice = layer_choice(layers, depth)
    pieces = _pieces(tokenizer, texts)
    room = maximum - 2
    cut = [(row, window) for row, found in enumerate(pieces) for window in windows_of(len(found.ids), room)]
    read = [[tokenizer.start_id, *pieces[row].ids[w.start : w.stop], tokenizer.end_id] for row, w in cut]
    parts: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(cut)

    def use(group: Group) -> None:
        states = choice.combined(group.states)
        flat = states if states.dim() == 3 else states.flatten(2)
        vectors = check_finite(flat, "these texts", where=group.valid).view_as(states).float().cpu().numpy()
        for place, number in enumerate(group.rows):
            window = cut[number][1]
            begin = 1 + window.first - window.start
            if group.valid is not None:
                begin += int(group.valid[place].long().argmax())
            parts[number] = vectors[place, begin : begin + window.last - window.first].copy()

    read_all(reader, read, choice.numbers(depth), use, batch_tokens=batch_tokens)
    gathered: list[list[NDArray[np.float32]]] = [[] for _ in pieces]
    for (row, _), part in zip(cut, parts, strict=True):
        gathered[row].append(part)
    return [
        Features(
            text=found.text,
            tokens=tuple(tokenizer.tokens(found.ids)),
            spans=found.spans,
            words=found.words,
            array=rows[0] if len(rows) == 1 else np.concatenate(rows),
        )
        for found, rows in zip(pieces, gathered, strict=True)
    ]


def check_merge(how: str) -> None:
    """Refuse an unknown method to combine pieces.

    Raises:
        InputError: with the nearest method.
    """
    if how not in MERGES:
        raise InputError(f"there is no way {how!r} to merge pieces; {nearest(str(how), MERGES)}")


@dataclass(frozen=True, slots=True)
class _Pieces:
    text: str | tuple[str, ...]
    ids: list[int]
    spans: tuple[Span, ...]
    words: tuple[int, ...]


def _pieces(tokenizer: Tokenizer, texts: Sequence[str | Sequence[str]]) -> list[_Pieces]:
    if isinstance(texts, str):
        raise InputError("a single string was given instead of a list of texts; put it in a list")
    encoded = iter(tokenizer.encode_batch_with_spans([text for text in texts if isinstance(text, str)]))
    found = []
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            found.append(_pieces_of_words(tokenizer, text, number))
            continue
        ids, spans = next(encoded)
        if not ids:
            raise InputError(f"text {number} is empty; there is nothing to read")
        words = np.cumsum(~tokenizer.continues(ids)) - 1
        found.append(_Pieces(text, ids, tuple(spans), tuple(words.tolist())))
    return found


def _pieces_of_words(tokenizer: Tokenizer, words: Sequence[str], number: int) -> _Pieces:
    if not words or not all(isinstance(word, str) for word in words):
        raise InputError(f"text {number} is {str(words)[:80]!r}; give a string, or a list of words")
    nothing = tokenizer.end_id if tokenizer.unknown_id is None else tokenizer.unknown_id
    given = [
        ids or [nothing] for ids in tokenizer.encode_words(list(words))
    ]  # a word without any piece counts as unknown
    numbers = np.repeat(np.arange(len(given)), [len(ids) for ids in given])
    return _Pieces(tuple(words), [index for ids in given for index in ids], (), tuple(numbers.tolist()))


def _merged(
    array: NDArray[np.float32], starts: NDArray[np.int64], ends: Sequence[int], how: Merge
) -> NDArray[np.float32]:
    if how == "first":
        return array[starts]
    if how == "last":
        return array[np.asarray(ends, dtype=np.int64)]
    sums = np.add.reduceat(array, starts, axis=0)
    if how == "sum":
        return sums
    counts = np.asarray(ends, dtype=np.int64) - starts + 1
    return (sums / counts.reshape(-1, *([1] * (array.ndim - 1)))).astype(np.float32)


# The choice of layers that token vectors are taken from.


NAMED: dict[str, LayerChoice] = {
    "embeddings": LayerChoice(layers=(0,)),
    "last": LayerChoice(layers=(-1,)),
    "second_to_last": LayerChoice(layers=(-2,)),
    "sum_last_four": LayerChoice(layers=(-4, -3, -2, -1)),
    "concatenate_last_four": LayerChoice(layers=(-4, -3, -2, -1), combine="concatenate"),
}
"""The named choices; `all` and `sum_all` depend on the model."""

OF_ALL: dict[str, Combination] = {"all": "stack", "sum_all": "sum"}
"""The embedding and every block."""

LAYER_NAMES = (*NAMED, *OF_ALL)


def layer_choice(choice: LayerChoice | str | int | Sequence[int], depth: int) -> LayerChoice:
    """A choice of layers by its name, a number, or several numbers to sum, for a model with this many blocks.

    Raises:
        InputError: for an unknown name, with the nearest, or a layer that the model does not have.

    >>> layer_choice("second_to_last", 12).numbers(12), layer_choice("-1,-2", 12).layers, layer_choice("all", 2).layers
    ((11,), (-1, -2), (0, 1, 2))
    """
    if isinstance(choice, str):
        choice = _spelt(choice, depth)
    elif isinstance(choice, int):
        choice = LayerChoice(layers=(choice,))
    elif not isinstance(choice, LayerChoice):
        choice = LayerChoice(layers=tuple(choice))
    choice.numbers(depth)
    return choice


def _spelt(text: str, depth: int) -> LayerChoice:
    name = text.strip().replace("-", "_")
    if name in OF_ALL:
        return LayerChoice(layers=tuple(range(depth + 1)), combine=OF_ALL[name])
    if name in NAMED:
        return NAMED[name]
    try:
        return LayerChoice(layers=tuple(int(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"there are no layers {text!r}; {nearest(name, LAYER_NAMES)}, or give numbers") from None


# Texts that are longer than the model's maximum are read in windows that overlap by half.


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text that is read in one pass.

    Arguments:
        start, stop: its first token, and the one after its last.
        first, last: the tokens whose vectors are taken from it, `last` excluded.
    """

    start: int
    stop: int
    first: int
    last: int


def windows_of(length: int, room: int) -> list[Window]:
    """The windows of a text with this many tokens; every token is taken from one of them.

    Windows overlap by half, and the last one is extended backwards to full length. A token is taken from the window in which it
    has the most context on its shorter side, as in the authors' code for questions over long texts (Devlin et al. 2019, section
    4.2).

    Arguments:
        length: of the text, without special tokens.
        room: the number of tokens that fit in a window, without special tokens.

    >>> windows_of(5, 8)
    [Window(start=0, stop=5, first=0, last=5)]
    >>> [(window.start, window.stop, window.first, window.last) for window in windows_of(9, 4)]
    [(0, 4, 0, 3), (2, 6, 3, 5), (4, 8, 5, 6), (5, 9, 6, 9)]
    """
    if length <= room:
        return [Window(0, length, 0, length)]
    step = max(1, room // 2)
    starts = [*range(0, length - room, step), length - room]
    # Each of two overlapping windows provides half of their overlap.
    borders = [
        0,
        *((start + room + following) // 2 for start, following in pairwise(starts)),
        length,
    ]
    return [Window(start, start + room, borders[i], borders[i + 1]) for i, start in enumerate(starts)]
