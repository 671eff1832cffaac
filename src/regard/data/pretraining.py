"""Pre-training inputs: masked tokens (BERT), corrupted spans (T5), and sentence pairs or passages cut from documents."""

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
    """Texts in which some tokens are masked.

    Arguments:
        texts: the ids of each text after masking.
        places: for each text the positions to predict, in ascending order.
    """

    texts: list[np.ndarray]
    places: list[np.ndarray]


@dataclass(frozen=True, kw_only=True, slots=True)
class Masking:
    """Masked language modelling (Devlin et al. 2019, section 3.1, task 1; counts as in the authors' create_pretraining_data.py).

        count = min(maximum_predictions, max(1, round(chosen_share * n))),   n = tokens of the input, special ones included

    `count` tokens that are not special are chosen, all sets of that size being equally probable. Each chosen token is
    independently replaced by the mask token with probability `mask_share`, replaced by a uniformly random token that is not
    special with probability `random_share`, and else kept. All chosen tokens are predicted, including the kept ones.

    Arguments:
        chosen_share: share of the tokens that are predicted, in (0, 1].
        mask_share, random_share: shares of the chosen tokens that become the mask token, and a random token. Their sum is at
            most 1.
        maximum_predictions: the most predictions in one input; None for no limit.
        whole_words: choose whole words, as in the authors' later models: words are taken in random order with all their
            pieces while they fit into the count, the first one always. The number of tokens may differ slightly from `count`.
        static: whether the same tokens are masked in every epoch.
        seed: random seed.

    Raises:
        InputError: for shares outside these ranges, or a maximum below 1.
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
        """The number of tokens to predict in each input; with `whole_words` the intended number.

        Arguments:
            lengths: (N,) integers, the number of tokens of each input.
            ordinary: (N,) integers, the number of tokens that are not special, which is an upper limit.

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
        """Mask tokens. Each input's masking is a function of `seed`, `draw` and its own row, independent of the other inputs.

        Arguments:
            tokenizer: the tokenizer with the mask token and the special tokens.
            texts: the token ids of each input, special tokens included.
            rows: a number for each input, which selects its random numbers.
            draw: a number that differs from epoch to epoch, without effect if `static`; None in evaluation.

        Raises:
            InputError: for a tokenizer without a mask token.
        """
        stream = 0 if draw is None else 1 if self.static else 2 + draw
        mask = tokenizer.mask_id
        if mask is None:
            raise InputError("the tokenizer has no mask token, so tokens cannot be masked; use one of kind bert")
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
            replaced = chosen[(fate[chosen] >= self.mask_share) & (fate[chosen] < self.mask_share + self.random_share)]
            ids[masked] = mask
            ids[replaced] = words[(replacement[replaced] * len(words)).astype(np.int64)]
            hidden.append(ids)
            places.append(chosen)
        return Masked(hidden, places)


def _ordinary(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) bool, True = not a special token."""
    ordinary = np.ones(tokenizer.size, dtype=bool)
    ordinary[list(tokenizer.special_ids)] = False
    return ordinary


def _whole_words(continues: np.ndarray, free: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """The positions of words taken in random order while they fit into `count`; the first word is always taken.

    Arguments:
        continues: (L,) bool, True = the piece continues the word before it.
        free: the positions that may be chosen, in ascending order.
        order: (L,) random numbers; words are sorted by the number of their first piece.
        count: the intended number of positions.
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
    """A corrupted text and its target, both without the end token.

    Arguments:
        input: the ids, with a sentinel in place of each removed span.
        target: each sentinel followed by its removed span, in order.
    """

    input: np.ndarray
    target: np.ndarray


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanCorruption:
    """T5's span corruption (Raffel et al. 2020, section 3.1.4; counts as in the authors' random_spans_noise_mask).

        noise = round(density * n),   spans = round(noise / mean_span),   both at least 1

    The n tokens of a text are divided into alternating kept and removed spans, beginning with a kept one. All ways to divide
    the `noise` removed tokens into `spans` non-empty parts are equally probable, and likewise for the kept tokens. A text
    therefore always ends with a removed span, and the target ends with that span: as in the authors' code, and unlike figure
    2 of the paper, there is no closing sentinel. In texts of fewer than about 30 tokens there is one span, at the end.

    Arguments:
        density: share of the tokens that are removed, in (0, 1).
        mean_span: mean length of a removed span in tokens, at least 1.
        static: whether the same spans are removed in every epoch.
        seed: random seed.

    Raises:
        InputError: for a density outside (0, 1) or a mean below 1.
    """

    density: float = 0.15
    mean_span: float = 3.0
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check(0 < self.density < 1, "data.density", self.density, "above 0 and below 1", "0.15 is usual")
        check(self.mean_span >= 1, "data.mean_span", self.mean_span, "at least 1", "3 is usual")

    def counts(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of tokens removed from each text, and the number of removed spans, each (N,) int64.

        Arguments:
            lengths: (N,) integers, the number of tokens of each text, at least 2.

        >>> noise, spans = SpanCorruption().counts(np.array([568, 20, 2]))
        >>> noise.tolist(), spans.tolist()
        ([85, 3, 1], [28, 1, 1])
        """
        noise = np.rint(lengths * self.density).astype(np.int64).clip(1, lengths - 1)
        spans = np.rint(noise / self.mean_span).astype(np.int64)
        return noise, spans.clip(1, np.minimum(noise, lengths - noise))

    def lengths(self, lengths: np.ndarray) -> np.ndarray:
        """The number of tokens of each input and each target, end tokens included: (N, 2) int64.

        Arguments:
            lengths: (N,) integers, the number of tokens of each text, at least 2.

        >>> SpanCorruption().lengths(np.array([568])).tolist()
        [[512, 114]]
        """
        noise, spans = self.counts(lengths)
        return np.stack([lengths - noise + spans + 1, noise + spans + 1], axis=1)

    def stretch(self, length: int) -> int:
        """The length of the longest text whose input has at most `length` tokens, end token included.

        >>> SpanCorruption().stretch(512)
        568
        """
        found = 2
        while self.lengths(np.array([found + 1]))[0, 0] <= length:
            found += 1
        return found

    def check_sentinels(self, length: int, sentinels: Sequence[int]) -> None:
        """Check that there is a sentinel for every removed span.

        Arguments:
            length: the number of tokens of the longest text.
            sentinels: the ids of the sentinels.

        Raises:
            InputError: if there are too few sentinels.
        """
        needed = int(self.counts(np.array([length]))[1][0])
        if needed > len(sentinels):
            raise InputError(
                f"a text of {length:,} tokens has {needed} removed spans, and the tokenizer has {len(sentinels)} sentinels; "
                "raise tokenizer.sentinels or data.mean_span, or lower data.length"
            )

    def corrupt(
        self, texts: Sequence[np.ndarray], rows: Sequence[int], sentinels: Sequence[int], *, draw: int | None = None
    ) -> list[Corrupted]:
        """Remove spans. Each text's spans are a function of `seed`, `draw` and its own row, independent of the other texts.

        Arguments:
            texts: the token ids of each text, at least 2, without sentinels and end token.
            rows: a number for each text, which selects its random numbers.
            sentinels: the ids of the sentinels, in order of use.
            draw: a number that differs from epoch to epoch, without effect if `static`; None in evaluation.

        Raises:
            InputError: if a text has more removed spans than there are sentinels.

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
    """The span of each sentinel in a target: the ids after it up to the next sentinel; None if the sentinel does not occur.

    Ids before the first sentinel are ignored. If a sentinel occurs twice, its first occurrence is used.

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
    """(parts,) lengths of non-empty parts with the sum `items`; all ways to divide are equally probable."""
    places = np.sort(generator.permutation(items - 1)[: parts - 1]) + 1
    return np.diff(places, prepend=0, append=items)


def _marked(parts: Sequence[np.ndarray], sentinels: np.ndarray, *, after: bool) -> np.ndarray:
    """The concatenation of the parts, each with its sentinel after it or before it."""
    pairs = ((part, mark) if after else (mark, part) for part, mark in zip(parts, sentinels[:, None], strict=False))
    return np.concatenate([piece for pair in pairs for piece in pair])


TOKENS, SENTENCES = "tokens", "sentences"
"""The columns of a store of documents: the tokens of a document, and the number of tokens of each of its sentences."""

_LONGEST_SENTENCE = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class PretrainingInput:
    """One pre-training input: a pair of texts or a single passage.

    Arguments:
        first, second: the token ids of the texts; `second` is None for a single passage.
        follows: whether the second text follows the first in its document; True for a single passage.
        cut: the number of tokens that were removed because the pair was too long.
    """

    first: np.ndarray
    second: np.ndarray | None
    follows: bool
    cut: int = 0


def write_documents(
    folder: str | os.PathLike[str], documents: Iterable[Sequence[Sequence[int]]], *, vocabulary: int
) -> TokenStore:
    """Write documents to a new folder, one by one; sentences and documents without tokens are left out.

    Arguments:
        folder: the new folder.
        documents: for each document the token ids of each of its sentences.
        vocabulary: the number of token ids.

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
    """Cuts documents into pre-training inputs. The inputs of a document are a function of the seed, the pass and its row.

    Only the row numbers (8 bytes per document) and at most two documents at a time are held in memory.

    Arguments:
        documents: a store written by `write_documents`.
        rows: the rows of the documents to cut.
        room: the most tokens of one input, without special tokens.
        short_share: the share of documents (for pairs) or of passages whose target length is sampled uniformly from 2 to
            `room` tokens; for the others it is `room`.
        random_share: the share of pairs whose second text comes from another document.
        seed: random seed.
    """

    documents: TokenStore
    rows: np.ndarray
    room: int
    short_share: float = 0.1
    random_share: float = 0.5
    seed: int = 0

    def pairs(self, duplicates: int = 1) -> Iterator[PretrainingInput]:
        """Pairs of texts for the next-sentence task (Devlin et al. 2019, section 3.1; as in create_pretraining_data.py).

        Sentences of one document are collected until they fill an input. The first text ends after a random number of them.
        The second text is the remaining ones. With probability `random_share`, and always if only one sentence was collected
        (because it fills an input or ends the document), the second text is instead taken from another document, starting at
        a random sentence, and the remaining sentences go into the next input. While the pair is too long, the longer text
        loses a token at its beginning or end, with equal probability.

        Arguments:
            duplicates: the number of passes over the documents, each with other random numbers.

        Raises:
            InputError: if there is only one document.
        """
        if len(self.rows) < 2:
            raise InputError(
                "half of the next sentences are taken from another document, and there is only one document; split the text into "
                "documents with data.documents, or turn pairs off with data.next_sentence=false"
            )
        for number in range(duplicates):
            for place in range(len(self.rows)):
                yield from self._pairs_of(place, self._generator(number, place))

    def stretches(self, duplicates: int = 1) -> Iterator[PretrainingInput]:
        """Passages of consecutive sentences of one document, as many as fit into an input; all tokens are used.

        This is DOC-SENTENCES of Liu et al. 2019, section 4.2. A sentence that is longer than an input is split.

        Arguments:
            duplicates: the number of passes over the documents, each with other random numbers.
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
        """Consecutive sentences of another document from a random one on, enough for `wanted` tokens; at least one."""
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
        # The longer text loses tokens until both are equally long; then they lose tokens alternately, beginning with the first.
        apart = len(first) - len(second)
        alone = min(surplus, abs(apart))
        shared = surplus - alone
        lost = [alone * (apart > 0) + (shared + 1) // 2, alone * (apart < 0) + shared // 2]
        first, second = (_shortened(text, count, generator) for text, count in zip((first, second), lost, strict=True))
        return PretrainingInput(first, second, follows, surplus)

    def _document(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of a document, and the exclusive end position of each of its sentences."""
        lengths = self.documents.sequence(SENTENCES, row).astype(np.int64)
        return self.documents.sequence(TOKENS, row), np.cumsum(lengths)

    def _target(self, generator: np.random.Generator) -> int:
        return int(generator.integers(2, self.room + 1)) if generator.random() < self.short_share else self.room

    def _generator(self, number: int, place: int) -> np.random.Generator:
        key = np.random.SeedSequence([self.seed, 0x9A17, number]).generate_state(1, np.uint64)[0]
        return np.random.Generator(np.random.Philox(key=[int(key), int(self.rows[place])]))


def _shortened(text: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """A text with `count` tokens removed, each from its beginning or end with equal probability."""
    front = int(generator.binomial(count, 0.5)) if count else 0
    return text[front : len(text) - (count - front)]
