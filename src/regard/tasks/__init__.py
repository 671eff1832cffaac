"""What a model is for: encoding, loss, metric, prediction. Strings in, typed results out. `TASKS` names every task."""

from regard.tasks.gaps import with_gaps
from regard.tasks.kinds import TASKS, Kind
from regard.tasks.language_modelling.language_model import LanguageModel, TextScore
from regard.tasks.language_modelling.task import LanguageModellingTask, TextBatch
from regard.tasks.loading import load
from regard.tasks.losses import smoothed_cross_entropy
from regard.tasks.observer import PredictionObserver
from regard.tasks.pairs import PairBatch
from regard.tasks.predictor import Predictor
from regard.tasks.span_corruption.span_filler import FilledSpans, SpanFiller
from regard.tasks.span_corruption.task import SpanCorruptionTask
from regard.tasks.task import LossSum, Task
from regard.tasks.text_to_text.task import TextToTextTask
from regard.tasks.text_to_text.text_to_text import TextToText
from regard.tasks.translation.task import TranslationTask
from regard.tasks.translation.translator import Translation, Translator

__all__ = [
    "TASKS",
    "FilledSpans",
    "Kind",
    "LanguageModel",
    "LanguageModellingTask",
    "LossSum",
    "PairBatch",
    "PredictionObserver",
    "Predictor",
    "SpanCorruptionTask",
    "SpanFiller",
    "Task",
    "TextBatch",
    "TextScore",
    "TextToText",
    "TextToTextTask",
    "Translation",
    "TranslationTask",
    "Translator",
    "load",
    "smoothed_cross_entropy",
    "with_gaps",
]
