"""Builtin documents of which one sentence decides the class, and in it two words: what attention at two levels is to find."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from regard.data.drawn import Drawn, below, split_of
from regard.errors import InputError

__all__ = ["CueDocument", "CueDocuments"]

CUE = "indeed"
"""The word that makes a word of praise or blame beside it count."""


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


class CueDocuments(Drawn[CueDocument]):
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

    called: ClassVar[str] = "cue documents"
    noun: ClassVar[str] = "document"

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
        super().__init__(split, size=size, seed=seed)
        if sentences < 1 or words < 2 or fillers < 2:
            raise InputError(
                f"cue documents: {sentences} sentences of {words} words and {fillers} fillers cannot be; give at least 1 "
                "sentence, 2 words and 2 fillers"
            )
        self.sentences = sentences
        self.words = words
        self.fillers = fillers

    def draw(self, rng: Random) -> CueDocument:
        """A document."""
        while True:  # a tenth of all are in the smallest splits
            document = self._draw(rng)
            if split_of(document.text) == self.split:
                return document

    def labelled(self) -> list[tuple[str, str]]:
        """Texts and their classes, as training takes them."""
        return [(document.text, document.label) for document in self]

    def _draw(self, rng: Random) -> CueDocument:
        def opinion(label: str) -> str:
            return f"{label}{1 + below(rng, 5)}"

        label = ("good", "bad")[below(rng, 2)]
        lines = [[f"w{1 + below(rng, self.fillers)}" for _ in range(self.words)] for _ in range(self.sentences)]
        planted = below(rng, self.sentences)
        cue, told = below(rng, self.words), below(rng, self.words - 1)
        told += told >= cue
        for number, line in enumerate(lines):
            if number == planted:
                line[cue], line[told] = CUE, opinion(label)
            elif below(rng, 2):
                line[below(rng, self.words)] = opinion(("good", "bad")[below(rng, 2)])
        text = "\n\n".join(" ".join(line) for line in lines)
        return CueDocument(text=text, label=label, sentence=planted, words=(cue, told))
