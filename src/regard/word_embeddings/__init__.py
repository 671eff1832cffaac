"""Word embeddings: kept, read and written, trained, judged, and audited for bias."""

from regard.word_embeddings.neighbours import Neighbour, analogy, neighbours, odd_one_out
from regard.word_embeddings.store import Subwords, WordVectors

__all__ = ["Neighbour", "Subwords", "WordVectors", "analogy", "neighbours", "odd_one_out"]
