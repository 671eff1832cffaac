"""Intrinsic evaluation of word embeddings: similarity, analogies, categories, coherence, robustness, frequency."""

from regard.word_embeddings.evaluation.analogies import AnalogyResult, AnalogySet, evaluate_analogies, read_analogies
from regard.word_embeddings.evaluation.battery import Battery, Report, evaluate
from regard.word_embeddings.evaluation.similarity import (
    SimilarityResult,
    SimilaritySet,
    evaluate_similarity,
    read_similarity,
)

__all__ = [
    "AnalogyResult",
    "AnalogySet",
    "Battery",
    "Report",
    "SimilarityResult",
    "SimilaritySet",
    "evaluate",
    "evaluate_analogies",
    "evaluate_similarity",
    "read_analogies",
    "read_similarity",
]
