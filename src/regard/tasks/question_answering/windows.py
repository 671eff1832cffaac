"""Overlapping windows over a context that is longer than the model reads at once (Devlin et al. 2019, the authors' code)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from regard.tasks.encoders import Joined, join
from regard.text import Tokenizer
from regard.text.parts import grouped, parts


class Encoded(NamedTuple):
    """A context as tokens.

    Arguments:
        ids: (N,) int32.
        spans: (N, 2) int32, where each token stands in the context, in characters, end excluded.
    """

    ids: np.ndarray
    spans: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A question beside a piece of its context.

    Arguments:
        joined: `[CLS] question [SEP] piece [SEP]`; its `second` is where the piece begins.
        begin: the place of the piece's first token among those of the context.
        spans: (T, 2), of the piece's tokens in the context, in characters.
        owned: from which token of the piece to which, excluded, no other window shows more of what stands around; only there may
            an answer begin that is taken from this window.
    """

    joined: Joined
    begin: int
    spans: np.ndarray = field(repr=False)
    owned: tuple[int, int]


def encoded_contexts(tokenizer: Tokenizer, contexts: Sequence[str]) -> list[Encoded]:
    """The tokens of some contexts and where they stand.

    >>> tokenizer = Tokenizer.train(["the cafe"] * 9, kind="bert", size=60, lowercase=True)
    >>> encoded_contexts(tokenizer, ["The Café"])[0].spans.tolist()
    [[0, 3], [4, 8]]
    """
    found: list[list[Encoded]] = [[] for _ in contexts]
    # As arrays before the next part is read: the tokenizer's own lists take many times the text's memory.
    for group in grouped(parts(contexts, cut=tokenizer.cuts)):
        encoded = tokenizer.encode_batch_with_spans([part.text for part in group])
        for part, (ids, spans) in zip(group, encoded, strict=True):
            places = np.asarray(spans, dtype=np.int32).reshape(-1, 2) + np.int32(part.start)
            found[part.row].append(Encoded(np.asarray(ids, dtype=np.int32), places))
    return [
        pieces[0] if len(pieces) == 1 else Encoded(*(np.concatenate(several) for several in zip(*pieces, strict=True)))
        for pieces in found
    ]


def begins(count: int, room: int, stride: int) -> list[int]:
    """Where windows begin in a context of `count` tokens: `stride` apart, until one reaches the end.

    Arguments:
        room: tokens of the context that a window holds.

    >>> begins(10, 6, 3)
    [0, 3, 6]
    >>> begins(6, 6, 3)
    [0]
    """
    step = min(stride, room)
    return list(range(0, max(0, count - room) + step, step)) if count > room else [0]


def owners(count: int, room: int, starts: Sequence[int]) -> np.ndarray:
    """The window in which each token of a context has most around it, (N,) int32 (the authors' "maximum context").

    What is around a token is the smaller of how much stands before and after it in the window, and a hundredth of the window's
    length to prefer the longer one; of equal ones the first is taken.

    >>> owners(10, 6, [0, 3, 6]).tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    """
    best = np.full(count, -1.0, dtype=np.float32)
    owner = np.zeros(count, dtype=np.int32)
    for number, begin in enumerate(starts):
        length = min(room, count - begin)
        places = np.arange(length)
        around = (np.minimum(places, length - 1 - places) + 0.01 * length).astype(np.float32)
        reached = best[begin : begin + length]
        better = around > reached
        reached[better] = around[better]
        owner[begin : begin + length][better] = number
    return owner


def windows(
    tokenizer: Tokenizer, question: Sequence[int], context: Encoded, *, maximum_length: int, stride: int
) -> Iterator[Window]:
    """The windows of one question, made as they are asked for.

    Arguments:
        question: its tokens, already cut.
        maximum_length: the most tokens of a window.
        stride: from the beginning of one to that of the next; at most what a window has room for.
    """
    room, count = maximum_length - len(question) - 3, len(context.ids)
    starts = begins(count, room, stride)
    owner = owners(count, room, starts)
    for number, begin in enumerate(starts):
        piece = slice(begin, begin + room)
        joined = join(tokenizer, question, context.ids[piece].tolist(), maximum=maximum_length)
        # Of overlapping windows each owns what is nearest to its middle, so it is one stretch.
        own = np.flatnonzero(owner[piece] == number)
        owned = (int(own[0]), int(own[-1]) + 1) if len(own) else (0, 0)
        yield Window(joined, begin, context.spans[piece], owned)


def places_of(spans: np.ndarray, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that hold any of the characters from `start` to `end`, excluded; None where none does.

    >>> places_of(np.array([[0, 3], [4, 8], [8, 9]]), 5, 9)
    (1, 2)
    """
    inside = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end) & (spans[:, 1] > spans[:, 0]))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None
