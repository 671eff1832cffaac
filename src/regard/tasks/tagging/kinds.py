"""Tagging, as a task."""

from __future__ import annotations

from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.spec import Kind, decided_of_encoder
from regard.tasks.tagging.data import TaggedData
from regard.tasks.tagging.evaluation import evaluate_tags, read_tags, tags_beside
from regard.tasks.tagging.foreign import foreign_tagger, tags_words
from regard.tasks.tagging.preparation import prepare_tags
from regard.tasks.tagging.tagger import Tagger
from regard.tasks.tagging.task import TaggingTask

TAGGING = Kind(
    task=TaggingTask,
    predictor=Tagger,
    interface="encoder",
    sections={"data": TaggedData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_tags,
    evaluate=evaluate_tags,
    read=read_tags,
    beside=tags_beside,
    filled_in=decided_of_encoder("tokens", 2),
    fits=tags_words,
    foreign=foreign_tagger,
)
