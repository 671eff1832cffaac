"""Bidirectional language modelling, as a task."""

from __future__ import annotations

from regard.tasks.bidirectional_language_modelling.bidirectional_language_model import BidirectionalLanguageModel
from regard.tasks.bidirectional_language_modelling.data import BidirectionalTextData
from regard.tasks.bidirectional_language_modelling.evaluation import evaluate_bidirectional
from regard.tasks.bidirectional_language_modelling.preparation import prepare, read_documents_of
from regard.tasks.bidirectional_language_modelling.task import BidirectionalLanguageModellingTask
from regard.tasks.spec import TaskSpec

BIDIRECTIONAL_LANGUAGE_MODELLING = TaskSpec(
    task=BidirectionalLanguageModellingTask,
    predictor=BidirectionalLanguageModel,
    interface="bidirectional_language_model",
    sections={"data": BidirectionalTextData},
    prepare=prepare,
    evaluate=evaluate_bidirectional,
    read=read_documents_of,
    filled_in={"vocabulary": 1, "padding_id": 0, "words": 0, "head": "none", "outputs": 0},
)
