"""What a model is for: encoding, loss, metric, prediction. Strings in, typed results out."""

from regard.tasks.loading import load
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.observer import PredictionObserver
from regard.tasks.translation import Translation, Translator
from regard.tasks.translation_task import LossSum, TranslationBatch, TranslationTask

__all__ = [
    "LossSum",
    "PredictionObserver",
    "Translation",
    "TranslationBatch",
    "TranslationTask",
    "Translator",
    "load",
    "smoothed_cross_entropy",
]
