"""Inputs for pre-training, cut from documents of sentences that are on disk: pairs of texts, or stretches of one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.token_store import TokenStore
from regard.errors import InputError

TOKENS, SENTENCES = "tokens", "sentences"
"""The columns of a store of documents: all tokens of one, and how many each of its sentences has."""

_LONGEST_SENTENCE = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
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

    def pairs(self, duplicates: int = 1) -> Iterator[Drawn]:
        """Pairs of texts for the next-sentence task (Devlin et al. 2019, section 3.1; as in create_pretraining_data.py).

        Sentences of one document are gathered until they fill an input. Chance says after how many of them the first text ends.
        The second is the rest of them; or else, as often as `random_share` says and wherever one sentence alone fills an input or
        ends the document, what stands in another document from some sentence on, and the rest is put back, to be cut into the
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

    def stretches(self, duplicates: int = 1) -> Iterator[Drawn]:
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
                    yield Drawn(tokens[start:stop], None, True)
                    start = stop

    def _pairs_of(self, place: int, generator: np.random.Generator) -> Iterator[Drawn]:
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

    def _fitted(self, first: np.ndarray, second: np.ndarray, follows: bool, generator: np.random.Generator) -> Drawn:
        surplus = len(first) + len(second) - self.room
        if surplus <= 0:
            return Drawn(first, second, follows)
        # The longer loses one token after another until both are equal, then each in turn, the first first.
        apart = len(first) - len(second)
        alone = min(surplus, abs(apart))
        shared = surplus - alone
        lost = [alone * (apart > 0) + (shared + 1) // 2, alone * (apart < 0) + shared // 2]
        first, second = (_shortened(text, count, generator) for text, count in zip((first, second), lost, strict=True))
        return Drawn(first, second, follows, surplus)

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
