"""Word vectors out of an encoder that reads words in context: averaged over contexts, alone, or its table of pieces."""

from regard.vectors.contextual.alone import vectors_alone
from regard.vectors.contextual.averaged import Progress, averaged_vectors
from regard.vectors.contextual.counting import WordCounts, counted
from regard.vectors.contextual.pieces import PieceMean, piece_vectors

__all__ = ["PieceMean", "Progress", "WordCounts", "averaged_vectors", "counted", "piece_vectors", "vectors_alone"]
