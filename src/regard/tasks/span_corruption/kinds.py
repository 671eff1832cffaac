"""Span corruption, as a task."""

from __future__ import annotations

from regard.models import T5Config
from regard.tasks.span_corruption.data import SentinelTokenizerSettings, SpanTextData
from regard.tasks.span_corruption.evaluation import evaluate_spans, read_span_texts
from regard.tasks.span_corruption.foreign import foreign_spans
from regard.tasks.span_corruption.preparation import prepare
from regard.tasks.span_corruption.span_filler import SpanFiller
from regard.tasks.span_corruption.task import SpanCorruptionTask
from regard.tasks.spec import TaskSpec

SPAN_CORRUPTION = TaskSpec(
    task=SpanCorruptionTask,
    predictor=SpanFiller,
    interface="encoder_decoder",
    sections={"data": SpanTextData, "tokenizer": SentinelTokenizerSettings},
    prepare=prepare,
    evaluate=evaluate_spans,
    filled_in={"source_vocabulary": 1, "target_vocabulary": 1, "padding_id": 0, "start_id": 0, "end_id": 0},
    read=read_span_texts,
    fits=lambda config: isinstance(config, T5Config),
    foreign=foreign_spans,
)
