"""Sentences as the mean of their words' vectors: what tests of sentences look at where there is no model of sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from regard.vectors.bias.association import Embed
from regard.vectors.store import Matrix, WordVectors

WORD = re.compile(r"\w+(?:['’-]\w+)*")


def sentence_means(vectors: WordVectors) -> Embed:
    """A function from texts to the means of their words' vectors; zeros for a text none of whose words has one.

    A word is looked up as it is written, then in lower case; punctuation is left out.

    >>> vectors = WordVectors(words=("this", "rose"), matrix=np.array([[1, 0], [0, 1]], dtype=np.float32))
    >>> sentence_means(vectors)(["This is a rose.", "?"]).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """

    def embed(texts: Sequence[str]) -> Matrix:
        made = np.zeros((len(texts), vectors.width), dtype=np.float32)
        for row, text in enumerate(texts):
            tried = ((vectors.get(word), vectors.get(word.lower())) for word in WORD.findall(text))
            found = [one if one is not None else other for one, other in tried]
            there = [each for each in found if each is not None]
            if there:
                made[row] = np.mean(there, axis=0)
        return made

    return embed
