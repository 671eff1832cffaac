"""Language modelling, as a task."""

from __future__ import annotations

from regard.tasks.language_modelling.data import TextData
from regard.tasks.language_modelling.evaluation import evaluate
from regard.tasks.language_modelling.foreign import foreign_language_modelling, writes_text
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.tasks.language_modelling.preparation import prepare
from regard.tasks.language_modelling.task import LanguageModellingTask
from regard.tasks.preparation import TokenizerSettings
from regard.tasks.spec import TaskSpec

LANGUAGE_MODELLING = TaskSpec(
    task=LanguageModellingTask,
    predictor=LanguageModel,
    interface="language_model",
    sections={"data": TextData, "tokenizer": TokenizerSettings},
    prepare=prepare,
    evaluate=evaluate,
    filled_in={"vocabulary": 1, "padding_id": 0, "end_id": 0},
    fits=writes_text,
    foreign=foreign_language_modelling,
)
