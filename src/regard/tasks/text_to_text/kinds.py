"""Text to text, as a task."""

from __future__ import annotations

from regard.generation import GenerationSettings
from regard.models import T5Config
from regard.tasks.span_corruption.data import SentinelTokenizerSettings
from regard.tasks.spec import TaskSpec
from regard.tasks.text_to_text.data import TextToTextData
from regard.tasks.text_to_text.evaluation import evaluate_text_to_text
from regard.tasks.text_to_text.foreign import foreign_text_to_text
from regard.tasks.text_to_text.preparation import prepare
from regard.tasks.text_to_text.task import TextToTextTask
from regard.tasks.text_to_text.text_to_text import TextToText

TEXT_TO_TEXT = TaskSpec(
    task=TextToTextTask,
    predictor=TextToText,
    interface="encoder_decoder",
    sections={"data": TextToTextData, "tokenizer": SentinelTokenizerSettings, "generation": GenerationSettings},
    prepare=prepare,
    evaluate=evaluate_text_to_text,
    filled_in={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    fits=lambda config: isinstance(config, T5Config),
    foreign=foreign_text_to_text,
)
