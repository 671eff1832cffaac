"""Masked language modelling, as a task."""

from __future__ import annotations

from regard.tasks.masked_language_modelling.data import MaskedTextData
from regard.tasks.masked_language_modelling.evaluation import evaluate_masked, read_documents_of
from regard.tasks.masked_language_modelling.foreign import fills, foreign_masked
from regard.tasks.masked_language_modelling.masked_language_model import MaskedLanguageModel
from regard.tasks.masked_language_modelling.preparation import prepare
from regard.tasks.masked_language_modelling.task import MaskedLanguageModellingTask
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.spec import TaskSpec, decided_of_encoder

MASKED_LANGUAGE_MODELLING = TaskSpec(
    task=MaskedLanguageModellingTask,
    predictor=MaskedLanguageModel,
    interface="encoder",
    sections={"data": MaskedTextData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare,
    evaluate=evaluate_masked,
    read=read_documents_of,
    filled_in=decided_of_encoder("masked", 0),
    fits=fills,
    foreign=foreign_masked,
)
