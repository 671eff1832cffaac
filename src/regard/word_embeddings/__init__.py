"""Word embeddings: storage, reading and writing, training, evaluation, and audits of bias."""

from regard.word_embeddings.neighbours import Neighbour, analogy, neighbours, odd_one_out
from regard.word_embeddings.store import Subwords, WordVectors

__all__ = ["Neighbour", "Subwords", "WordVectors", "analogy", "neighbours", "odd_one_out"]
