"""The table of an encoder's input embeddings, a vector for each piece, and the words that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.text import Tokenizer
from regard.vectors.store import Matrix, WordVectors

if TYPE_CHECKING:
    from regard.tasks.sentence_embedding.encoder import SentenceEncoder


@dataclass(frozen=True, kw_only=True, eq=False)
class PieceMean:
    """A word's vector as the mean of its pieces'.

    Arguments:
        tokenizer: parts words into pieces.
        matrix: (V, W), a vector for each piece by its number.
    """

    tokenizer: Tokenizer
    matrix: Matrix

    def vector(self, word: str) -> Matrix | None:
        """Of width (W,) float32; None for a word of which nothing is left, or that has an unknown piece."""
        ids = self.tokenizer.encode_words([word])[0]
        if not ids or self.tokenizer.unknown_id in ids:
            return None
        return self.matrix[ids].mean(axis=0, dtype=np.float32)


def piece_vectors(encoder: SentenceEncoder, *, name: str = "pieces") -> WordVectors:
    """The rows that an encoder looks its tokens up in, before positions and layer norm; other words are means of pieces.

    Words inside a word are called as in the vocabulary, such as "##ing".

    Arguments:
        encoder: any model that `regard.load(folder, task="sentence_embedding")` gives.
        name: what messages and tables call the vectors.
    """
    tokenizer = encoder.task.tokenizer
    weight = encoder.model.embedding.tokens.weight.detach().float().cpu().numpy()
    size = min(tokenizer.size, len(weight))  # some tables are longer than the vocabulary, for speed
    matrix = np.array(weight[:size])
    return WordVectors(
        words=tuple(tokenizer.tokens(range(size))),
        matrix=matrix,
        subwords=PieceMean(tokenizer=tokenizer, matrix=matrix),
        metadata={"method": "input embeddings of pieces"},
        name=name,
    )
