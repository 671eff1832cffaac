"""Spans of a text that are taken out, and the text that tells them: what T5 is pre-trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.errors import InputError
from regard.models.config import check


class Corrupted(NamedTuple):
    """A text in two parts, both without end token.

    Arguments:
        input: the ids, a sentinel in place of each span taken out.
        target: each sentinel with the span behind it, in order.
    """

    input: np.ndarray
    target: np.ndarray


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanCorruption:
    """How spans are taken out (Raffel et al. 2020, section 3.1.4; counts as in the authors' random_spans_noise_mask).

        noise = round(density * n),   spans = round(noise / mean_span),   both at least 1

    The n tokens of a text are cut into spans that are kept and spans that are taken out, in turn, a kept one first. All
    ways to cut `noise` tokens into `spans` parts, none empty, have equal chances, and so have those of the others. A text
    therefore ends with a span taken out, and its target with that span: there is no sentinel to close it, as in the authors'
    code and unlike figure 2 of the paper. Where there is one span alone, in texts of less than about 30 tokens, it is the end.

    Arguments:
        density: share of the tokens taken out.
        mean_span: tokens of a span on average.
        static: take the same out in every epoch.
        seed: of all chances.

    Raises:
        InputError: for a density or mean that is none.
    """

    density: float = 0.15
    mean_span: float = 3.0
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check(0 < self.density < 1, "data.density", self.density, "above 0 and below 1", "0.15 is usual")
        check(self.mean_span >= 1, "data.mean_span", self.mean_span, "at least 1", "3 is usual")

    def counts(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many tokens of each text are taken out, and in how many spans.

        Arguments:
            lengths: (N,), tokens of each text, at least 2.

        >>> noise, spans = SpanCorruption().counts(np.array([568, 20, 2]))
        >>> noise.tolist(), spans.tolist()
        ([85, 3, 1], [28, 1, 1])
        """
        noise = np.rint(lengths * self.density).astype(np.int64).clip(1, lengths - 1)
        spans = np.rint(noise / self.mean_span).astype(np.int64)
        return noise, spans.clip(1, np.minimum(noise, lengths - noise))

    def lengths(self, lengths: np.ndarray) -> np.ndarray:
        """The tokens of each input and each target, end tokens included, (N, 2).

        Arguments:
            lengths: (N,), tokens of each text, at least 2.

        >>> SpanCorruption().lengths(np.array([568])).tolist()
        [[512, 114]]
        """
        noise, spans = self.counts(lengths)
        return np.stack([lengths - noise + spans + 1, noise + spans + 1], axis=1)

    def stretch(self, length: int) -> int:
        """The most tokens a text can have for its input to be no longer than `length`, the end token included.

        >>> SpanCorruption().stretch(512)
        568
        """
        found = 2
        while self.lengths(np.array([found + 1]))[0, 0] <= length:
            found += 1
        return found

    def check_sentinels(self, length: int, sentinels: Sequence[int]) -> None:
        """Refuse texts that have more spans than there are sentinels.

        Arguments:
            length: of the longest text.

        Raises:
            InputError: with both numbers.
        """
        needed = int(self.counts(np.array([length]))[1][0])
        if needed > len(sentinels):
            raise InputError(
                f"a text of {length:,} tokens has {needed} spans taken out and the tokenizer has {len(sentinels)} sentinels; "
                "raise tokenizer.sentinels or data.mean_span, or lower data.length"
            )

    def corrupt(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], sentinels: Sequence[int], *, draw: int | None = None
    ) -> list[Corrupted]:
        """Take spans out of some texts: a function of `seed`, `draw` and each text's row, whatever other texts are there.

        Arguments:
            texts: the ids of each, 2 at least, no sentinel and no end token among them.
            rows: a number for each.
            sentinels: their ids, in the order of their use.
            draw: a number that differs from epoch to epoch, without effect where `static`; None in evaluation.

        Raises:
            InputError: for a text that has more spans than there are sentinels.

        >>> parts = SpanCorruption().corrupt([np.arange(20)], [0], [99, 98])[0]
        >>> len(parts.input), len(parts.target), int(parts.target[0])
        (18, 4, 99)
        """
        stream = 0 if draw is None else 1 if self.static else 2 + draw
        key = np.random.SeedSequence([self.seed, 0x5BA4, stream]).generate_state(1, np.uint64)[0]
        named = np.asarray(sentinels, dtype=np.int64)
        self.check_sentinels(max(map(len, texts), default=2), sentinels)
        noise, spans = self.counts(np.array([len(text) for text in texts], dtype=np.int64))
        found = []
        for text, row, taken, count in zip(texts, rows, noise.tolist(), spans.tolist(), strict=True):
            generator = np.random.Generator(np.random.Philox(key=[int(key), row]))
            gone = _cut(taken, count, generator)
            kept = _cut(len(text) - taken, count, generator)
            ends = np.cumsum(np.stack([kept, gone], axis=1).ravel())
            parts = np.split(text.astype(np.int64), ends[:-1])
            found.append(Corrupted(_marked(parts[::2], named, after=True), _marked(parts[1::2], named, after=False)))
        return found


def told_spans(target: Sequence[int] | np.ndarray, sentinels: Sequence[int]) -> list[list[int] | None]:
    """What a target tells of each sentinel: the ids behind it up to the next, None where the sentinel is not in it.

    What stands before the first sentinel is lost, and where a sentinel comes twice the first counts.

    >>> told_spans([99, 5, 6, 97, 7], [99, 98, 97])
    [[5, 6], None, [7]]
    """
    places = {int(sentinel): number for number, sentinel in enumerate(sentinels)}
    found: list[list[int] | None] = [None] * len(places)
    span: list[int] = []
    for index in map(int, target):
        if index in places:
            span = []
            if found[places[index]] is None:
                found[places[index]] = span
        else:
            span.append(index)
    return found


def _cut(items: int, parts: int, generator: np.random.Generator) -> np.ndarray:
    """(parts,), the lengths of parts of so many items, none empty; all ways to cut have equal chances."""
    places = np.sort(generator.permutation(items - 1)[: parts - 1]) + 1
    return np.diff(places, prepend=0, append=items)


def _marked(parts: Sequence[np.ndarray], sentinels: np.ndarray, *, after: bool) -> np.ndarray:
    """The parts laid end to end, each with its sentinel after it or before it."""
    pairs = ((part, mark) if after else (mark, part) for part, mark in zip(parts, sentinels[:, None], strict=False))
    return np.concatenate([piece for pair in pairs for piece in pair])
