"""What vectors of words are worth to a task: the same small models on top of them, frozen, beside floors."""

from regard.vectors.evaluation.extrinsic.classification import evaluate_classification
from regard.vectors.evaluation.extrinsic.pairs import evaluate_cosines, evaluate_pairs
from regard.vectors.evaluation.extrinsic.result import Coverage, ExtrinsicResult
from regard.vectors.evaluation.extrinsic.tagging import evaluate_tagging
from regard.vectors.evaluation.extrinsic.task_words import TaskWords, Unknown, gathered
from regard.vectors.evaluation.extrinsic.text_words import words_of

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
