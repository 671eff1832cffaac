"""Translation, as a task."""

from __future__ import annotations

from regard.generation import GenerationSettings
from regard.models import TransformerConfig
from regard.tasks.spec import TaskSpec
from regard.tasks.translation.data import PairTokenizerSettings, TranslationData
from regard.tasks.translation.evaluation import evaluate
from regard.tasks.translation.foreign import foreign_translation
from regard.tasks.translation.preparation import prepare
from regard.tasks.translation.task import TranslationTask
from regard.tasks.translation.translator import Translator

TRANSLATION = TaskSpec(
    task=TranslationTask,
    predictor=Translator,
    interface="encoder_decoder",
    sections={"data": TranslationData, "tokenizer": PairTokenizerSettings, "generation": GenerationSettings},
    prepare=prepare,
    evaluate=evaluate,
    filled_in={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    fits=lambda config: isinstance(config, TransformerConfig),
    foreign=foreign_translation,
)
