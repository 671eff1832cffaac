"""What vectors of words are worth to a task: the same small models on top of them, frozen, beside floors."""

from regard.word_embeddings.evaluation.extrinsic.tagging import evaluate_tagging
from regard.word_embeddings.evaluation.extrinsic.texts import evaluate_classification, evaluate_cosines, evaluate_pairs
from regard.word_embeddings.evaluation.extrinsic.words import (
    Coverage,
    ExtrinsicResult,
    TaskWords,
    Unknown,
    gathered,
    words_of,
)

__all__ = [
    "Coverage",
    "ExtrinsicResult",
    "TaskWords",
    "Unknown",
    "evaluate_classification",
    "evaluate_cosines",
    "evaluate_pairs",
    "evaluate_tagging",
    "gathered",
    "words_of",
]
