"""Inputs of pre-training: masked tokens (BERT), corrupted spans (T5), and sentence pairs or stretches cut from documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.models.config import check
from regard.text import Tokenizer


class Masked(NamedTuple):
    """Texts of which some tokens are hidden.

    Arguments:
        texts: their ids, others standing where one is hidden.
        places: for each text the places to predict, rising.
    """

    texts: list[np.ndarray]
    places: list[np.ndarray]


@dataclass(frozen=True, kw_only=True, slots=True)
class Masking:
    """How tokens are hidden (Devlin et al. 2019, section 3.1, task 1; counts as in the authors' create_pretraining_data.py).

        count = min(maximum_predictions, max(1, round(chosen_share * n))),   n = tokens of the input, special ones included

    So many tokens are chosen, none of them special, each set of so many as probable as another. Of each, independently, with
    probability `mask_share` the mask token takes the place, with probability `random_share` any token that is not special, with
    equal chances; else it stays. All that were chosen are to be predicted, those that stayed among them.

    Arguments:
        chosen_share: of the tokens, to be predicted.
        mask_share, random_share: of those, replaced by the mask token, and by a random one.
        maximum_predictions: the most in one input; no limit where null.
        whole_words: choose whole words, as in the authors' later models: words in random order, each taken with all its pieces if
            it still fits, the first in any case. So the count may be missed by a few.
        static: hide the same tokens in every epoch.
        seed: of all chances.

    Raises:
        InputError: for shares that are none.
    """

    chosen_share: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    maximum_predictions: int | None = None
    whole_words: bool = False
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        share = self.chosen_share
        check(0 < share <= 1, "data.chosen_share", share, "above 0 and at most 1", "0.15 is usual")
        for name in ("mask_share", "random_share"):
            value = getattr(self, name)
            check(0 <= value <= 1, f"data.{name}", value, "in [0, 1]", "0.8 and 0.1 are usual")
        both = self.mask_share + self.random_share
        check(both <= 1 + 1e-9, "data.mask_share + data.random_share", both, "at most 1", "what is left stays as it is")
        most = self.maximum_predictions
        check(most is None or most >= 1, "data.maximum_predictions", most, "at least 1", "20 is usual for 128 tokens")

    def counts(self, lengths: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
        """How many tokens of each input are to be predicted; with whole words, how many are aimed at.

        Arguments:
            lengths: (N,), tokens of each input.
            ordinary: (N,), those of them that are not special: no more can be chosen.

        >>> Masking().counts(np.array([128, 3]), np.array([125, 1])).tolist()
        [19, 1]
        """
        counts = np.maximum(1, np.rint(self.chosen_share * lengths).astype(np.int64))
        if self.maximum_predictions is not None:
            counts = np.minimum(counts, self.maximum_predictions)
        return np.minimum(counts, ordinary)

    def hide(
        self, tokenizer: Tokenizer, texts: Sequence[np.ndarray], rows: Sequence[int], *, draw: int | None = None
    ) -> Masked:
        """Hide tokens of some inputs: a function of `seed`, `draw` and each input's row, whatever other inputs are there.

        Arguments:
            texts: the ids of each, special ones included.
            rows: a number for each.
            draw: a number that differs from epoch to epoch, without effect where `static`; None in evaluation.

        Raises:
            InputError: for a tokenizer without a mask token.
        """
        stream = 0 if draw is None else 1 if self.static else 2 + draw
        mask = tokenizer.mask_id
        if mask is None:
            raise InputError("the tokenizer has no mask token, so nothing can be hidden; use one of kind bert")
        key = np.random.SeedSequence([self.seed, 0x3A5C, stream]).generate_state(1, np.uint64)[0]
        ordinary = _ordinary(tokenizer)
        words = np.flatnonzero(ordinary)
        hidden, places = [], []
        for text, row in zip(texts, rows, strict=True):
            generator = np.random.Generator(np.random.Philox(key=[int(key), row]))
            order, fate, replacement = generator.random((3, len(text)))
            free = np.flatnonzero(ordinary[text])
            count = int(self.counts(np.array([len(text)]), np.array([len(free)]))[0])
            if self.whole_words:
                chosen = _whole_words(tokenizer.continues(text), free, order, count)
            else:
                chosen = np.sort(free[np.argsort(order[free])[:count]])
            ids = text.astype(np.int64)
            masked = chosen[fate[chosen] < self.mask_share]
            drawn = chosen[(fate[chosen] >= self.mask_share) & (fate[chosen] < self.mask_share + self.random_share)]
            ids[masked] = mask
            ids[drawn] = words[(replacement[drawn] * len(words)).astype(np.int64)]
            hidden.append(ids)
            places.append(chosen)
        return Masked(hidden, places)


def _ordinary(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool, True = no special token."""
    ordinary = np.ones(tokenizer.size, dtype=bool)
    ordinary[list(tokenizer.special_ids)] = False
    return ordinary


def _whole_words(continues: np.ndarray, free: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """The places of words in random order, as long as they fit into `count`.

    Arguments:
        continues: (L,) bool, whether each piece continues the word before it.
        free: the places that may be chosen, rising.
        order: (L,), by which words are ordered: that of a word's first piece.
    """
    starts = np.flatnonzero(~continues[free])
    ends = np.append(starts[1:], len(free))
    chosen: list[np.ndarray] = []
    left = count
    for word in np.argsort(order[free[starts]]):
        size = int(ends[word] - starts[word])
        if size <= left or not chosen:
            chosen.append(free[starts[word] : ends[word]])
            left -= size
            if left <= 0:
                break
    return np.sort(np.concatenate(chosen)) if chosen else free[:0]


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


def spans_of_target(target: Sequence[int] | np.ndarray, sentinels: Sequence[int]) -> list[list[int] | None]:
    """What a target tells of each sentinel: the ids behind it up to the next, None where the sentinel is not in it.

    What is before the first sentinel is lost, and where a sentinel comes twice the first counts.

    >>> spans_of_target([99, 5, 6, 97, 7], [99, 98, 97])
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


TOKENS, SENTENCES = "tokens", "sentences"
"""The columns of a store of documents: all tokens of one, and how many each of its sentences has."""

_LONGEST_SENTENCE = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class PretrainingInput:
    """One input.

    Arguments:
        first, second: the tokens of its texts; the second is None in a stretch.
        follows: whether the second followed the first; True in a stretch.
        cut: tokens that were cut off because the two were too long.
    """

    first: np.ndarray
    second: np.ndarray | None
    follows: bool
    cut: int = 0


def write_documents(
    folder: str | os.PathLike[str], documents: Iterable[Sequence[Sequence[int]]], *, vocabulary: int
) -> TokenStore:
    """Write documents, each the token ids of its sentences, to a new folder, in a stream; what holds no token is left out.

    Raises:
        InputError: as `TokenStore.write`.
    """

    def rows() -> Iterator[tuple[np.ndarray, list[int]]]:
        for document in documents:
            sentences = [sentence for sentence in document if len(sentence)]
            if sentences:
                yield np.concatenate(sentences), [len(sentence) for sentence in sentences]

    return TokenStore.write(folder, {TOKENS: vocabulary, SENTENCES: _LONGEST_SENTENCE}, rows())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cutting:
    """Cuts documents into inputs, document by document; every document's are a function of the seed, the pass and its row.

    Held in memory are the rows (8 bytes a document) and the documents that are being read, two at a time.

    Arguments:
        documents: as `write_documents` wrote them.
        rows: which of them to cut.
        room: the most tokens of one input, special ones not counted.
        short_share: of documents, to be cut into shorter pairs, and of stretches, to be shorter: as many tokens as chance
            says, from 2 to `room`.
        random_share: of pairs, whose second text is to be from another document.
        seed: of all chances.
    """

    documents: TokenStore
    rows: np.ndarray
    room: int
    short_share: float = 0.1
    random_share: float = 0.5
    seed: int = 0

    def pairs(self, duplicates: int = 1) -> Iterator[PretrainingInput]:
        """Pairs of texts for the next-sentence task (Devlin et al. 2019, section 3.1; as in create_pretraining_data.py).

        Sentences of one document are gathered until they fill an input. Chance says after how many of them the first text ends.
        The second is the rest of them; or else, as often as `random_share` says and wherever one sentence alone fills an input or
        ends the document, what is in another document from some sentence on, and the rest is put back, to be cut into the
        next input. As long as both together are too long, the longer loses a token, from its front or its end as chance says.

        Arguments:
            duplicates: how often to go through the documents, each time by other chances.

        Raises:
            InputError: where there is no other document.
        """
        if len(self.rows) < 2:
            raise InputError(
                "half of the next sentences are taken from another document, and there is one only; cut the text into documents "
                "with data.documents, or leave pairs out with data.next_sentence=false"
            )
        for number in range(duplicates):
            for place in range(len(self.rows)):
                yield from self._pairs_of(place, self._generator(number, place))

    def stretches(self, duplicates: int = 1) -> Iterator[PretrainingInput]:
        """Sentences of one document, as many as fit into an input, one input after another; no token is left out.

        A sentence that is longer than an input is cut (the DOC-SENTENCES of Liu et al. 2019, section 4.2).

        Arguments:
            duplicates: how often to go through the documents, each time by other chances.
        """
        for number in range(duplicates):
            for place, row in enumerate(self.rows):
                tokens, ends = self._document(int(row))
                generator = self._generator(number, place)
                start = 0
                while start < len(tokens):
                    target = self._target(generator)
                    fitting = int(np.searchsorted(ends, start + target, side="right"))
                    stop = int(ends[fitting - 1]) if fitting and ends[fitting - 1] > start else start + target
                    stop = min(stop, len(tokens))
                    yield PretrainingInput(tokens[start:stop], None, True)
                    start = stop

    def _pairs_of(self, place: int, generator: np.random.Generator) -> Iterator[PretrainingInput]:
        tokens, ends = self._document(int(self.rows[place]))
        target = self._target(generator)
        starts = np.concatenate(([0], ends[:-1]))
        begin = 0
        while begin < len(ends):
            full = int(np.searchsorted(ends, starts[begin] + target))  # the first sentence that fills the input
            end = min(len(ends), full + 1)
            split = begin + 1 if end - begin == 1 else int(generator.integers(begin + 1, end))
            first = tokens[starts[begin] : ends[split - 1]]
            follows = end - begin > 1 and generator.random() >= self.random_share
            if follows:
                second, begin = tokens[starts[split] : ends[end - 1]], end
            else:
                second, begin = self._from_another(place, target - len(first), generator), split
            yield self._fitted(first, second, follows, generator)

    def _from_another(self, place: int, wanted: int, generator: np.random.Generator) -> np.ndarray:
        """The sentences of another document from some sentence on, as many as it takes for `wanted` tokens; one at least."""
        other = int(generator.integers(len(self.rows) - 1))
        tokens, ends = self._document(int(self.rows[other + (other >= place)]))
        begin = int(generator.integers(len(ends)))
        start = int(ends[begin - 1]) if begin else 0
        full = int(np.searchsorted(ends, start + max(1, wanted)))
        return tokens[start : ends[min(full, len(ends) - 1)]]

    def _fitted(
        self, first: np.ndarray, second: np.ndarray, follows: bool, generator: np.random.Generator
    ) -> PretrainingInput:
        surplus = len(first) + len(second) - self.room
        if surplus <= 0:
            return PretrainingInput(first, second, follows)
        # The longer loses one token after another until both are equal, then each in turn, the first first.
        apart = len(first) - len(second)
        alone = min(surplus, abs(apart))
        shared = surplus - alone
        lost = [alone * (apart > 0) + (shared + 1) // 2, alone * (apart < 0) + shared // 2]
        first, second = (_shortened(text, count, generator) for text, count in zip((first, second), lost, strict=True))
        return PretrainingInput(first, second, follows, surplus)

    def _document(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a document, and where each of its sentences ends among them."""
        lengths = self.documents.sequence(SENTENCES, row).astype(np.int64)
        return self.documents.sequence(TOKENS, row), np.cumsum(lengths)

    def _target(self, generator: np.random.Generator) -> int:
        return int(generator.integers(2, self.room + 1)) if generator.random() < self.short_share else self.room

    def _generator(self, number: int, place: int) -> np.random.Generator:
        key = np.random.SeedSequence([self.seed, 0x9A17, number]).generate_state(1, np.uint64)[0]
        return np.random.Generator(np.random.Philox(key=[int(key), int(self.rows[place])]))


def _shortened(text: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """A text without `count` tokens, each lost from its front or its end with equal chances."""
    front = int(generator.binomial(count, 0.5)) if count else 0
    return text[front : len(text) - (count - front)]
