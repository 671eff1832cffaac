"""Builtin documents of which one sentence decides the class, and in it two words: what attention at two levels is to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import overload

from regard.errors import InputError, nearest

__all__ = ["SPLITS", "CueDocument", "CueDocuments"]

SPLITS: tuple[str, ...] = ("train", "validation", "test")
CUE = "indeed"
"""The word that makes a word of praise or blame beside it count."""

_TENTHS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CueDocument:
    """A document and what decides its class.

    Arguments:
        text: sentences with an empty line between two of them, words with spaces.
        label: `good` or `bad`.
        sentence: the number of the deciding sentence, from 0.
        words: the places of the cue and of the word that it makes count, in that sentence, from 0.
    """

    text: str
    label: str
    sentence: int
    words: tuple[int, int]


class CueDocuments(Sequence[CueDocument]):
    r"""`size` documents of one split; document i is a pure function of the numbers, seed, split and i.

    Words are `w1`, `w2` and so on, which mean nothing; `good1` to `good5` and `bad1` to `bad5`; and the cue, `indeed`. One
    sentence, drawn uniformly, holds the cue and, in any place beside, a word of praise or blame: that is the document's class.
    Each other sentence holds with probability 1/2 a word of praise or blame too, drawn apart from the class, and no cue. So who
    counts words of praise and blame is right more often than not, and who looks at the sentence with the cue always.

    Arguments:
        split: "train", "validation" or "test"; no document of one is in another.
        sentences: of each document.
        words: of each sentence.
        fillers: how many words there are that mean nothing.
        size: number of documents; they are made when read.
        seed: another seed gives other documents.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> document = CueDocuments("train", sentences=3, words=4, size=9)[2]
    >>> decides = document.text.split("\n\n")[document.sentence].split()
    >>> cue, told = (decides[place] for place in document.words)
    >>> cue, told.rstrip("12345") == document.label
    ('indeed', True)
    """

    def __init__(
        self,
        split: str = "train",
        *,
        sentences: int = 8,
        words: int = 10,
        fillers: int = 200,
        size: int = 8_000,
        seed: int = 0,
    ) -> None:
        if split not in SPLITS:
            raise InputError(f"cue documents: no split {split!r}; {nearest(split, SPLITS)}")
        if sentences < 1 or words < 2 or fillers < 2 or size < 0:
            raise InputError(
                f"cue documents: {sentences} sentences of {words} words, {fillers} fillers and size {size} cannot be; give at "
                "least 1 sentence, 2 words, 2 fillers and no negative size"
            )
        self.split, self.sentences, self.words = split, sentences, words
        self.fillers, self.size, self.seed = fillers, size, seed

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> CueDocument: ...
    @overload
    def __getitem__(self, index: slice) -> list[CueDocument]: ...
    def __getitem__(self, index: int | slice) -> CueDocument | list[CueDocument]:
        """Document `index`, or the list of a slice of them."""
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self.size))]
        position = index + self.size if index < 0 else index
        if not 0 <= position < self.size:
            raise IndexError(f"cue documents: no document {index} among {self.size}")
        rng = Random(_hash(f"{self.seed} {self.split} {position}"))
        while True:  # a tenth of all are in the smallest splits
            document = self._draw(rng)
            if _hash(document.text) % 10 in _TENTHS[self.split]:
                return document

    def __repr__(self) -> str:
        return (
            f"CueDocuments({self.split!r}, sentences={self.sentences}, words={self.words}, fillers={self.fillers}, "
            f"size={self.size}, seed={self.seed})"
        )

    def labelled(self) -> list[tuple[str, str]]:
        """Texts and their classes, as training takes them."""
        return [(document.text, document.label) for document in self]

    def _draw(self, rng: Random) -> CueDocument:
        # Of Random's methods only `random()` is promised to give the same numbers in every version of Python.
        def below(number: int) -> int:
            return int(rng.random() * number)

        def opinion(label: str) -> str:
            return f"{label}{1 + below(5)}"

        label = ("good", "bad")[below(2)]
        lines = [[f"w{1 + below(self.fillers)}" for _ in range(self.words)] for _ in range(self.sentences)]
        planted = below(self.sentences)
        cue, told = below(self.words), below(self.words - 1)
        told += told >= cue
        for number, line in enumerate(lines):
            if number == planted:
                line[cue], line[told] = CUE, opinion(label)
            elif below(2):
                line[below(self.words)] = opinion(("good", "bad")[below(2)])
        text = "\n\n".join(" ".join(line) for line in lines)
        return CueDocument(text=text, label=label, sentence=planted, words=(cue, told))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
