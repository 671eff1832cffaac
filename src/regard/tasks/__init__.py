"""What a model is for: encoding, loss, metric, prediction. Strings in, typed results out. `TASKS` names every task."""

from regard.tasks.kinds import TASKS, Kind
from regard.tasks.language_modelling.language_model import LanguageModel, TextScore
from regard.tasks.language_modelling.task import LanguageModellingTask, TextBatch
from regard.tasks.loading import load
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.observer import PredictionObserver
from regard.tasks.predictor import Predictor
from regard.tasks.task import LossSum, Task
from regard.tasks.translation.task import TranslationBatch, TranslationTask
from regard.tasks.translation.translator import Translation, Translator

__all__ = [
    "TASKS",
    "Kind",
    "LanguageModel",
    "LanguageModellingTask",
    "LossSum",
    "PredictionObserver",
    "Predictor",
    "Task",
    "TextBatch",
    "TextScore",
    "Translation",
    "TranslationBatch",
    "TranslationTask",
    "Translator",
    "load",
    "smoothed_cross_entropy",
]
