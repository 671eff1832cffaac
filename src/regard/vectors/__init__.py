"""Vectors of words: kept, read and written, trained, judged, and audited for bias."""

from regard.vectors.neighbours import Neighbour, analogy, neighbours, odd_one_out
from regard.vectors.store import Subwords, WordVectors

__all__ = ["Neighbour", "Subwords", "WordVectors", "analogy", "neighbours", "odd_one_out"]
