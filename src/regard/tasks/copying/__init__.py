"""Copying sequences of bits, as a neural Turing machine does first."""

from regard.tasks.copying.copier import Copied, Copier
from regard.tasks.copying.data import CopyingData
from regard.tasks.copying.evaluation import CopyEvaluation
from regard.tasks.copying.task import CopyBatch, CopyingTask

__all__ = ["Copied", "Copier", "CopyBatch", "CopyEvaluation", "CopyingData", "CopyingTask"]
