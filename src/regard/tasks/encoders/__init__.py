"""What all tasks have in common whose model reads one or two texts as a whole."""

from regard.tasks.encoders.data import EncoderTokenizerSettings
from regard.tasks.encoders.inputs import EncoderBatch, Joined, columns_of, join, padded
from regard.tasks.encoders.predictor import EncoderPredictor
from regard.tasks.encoders.preparation import encoder_tokenizer, whole_text_tokenizer, write_store
from regard.tasks.encoders.splits import Splits
from regard.tasks.encoders.task import EncoderTask
from regard.tasks.encoders.whole_text import WholeTextTask

__all__ = [
    "EncoderBatch",
    "EncoderPredictor",
    "EncoderTask",
    "EncoderTokenizerSettings",
    "Joined",
    "Splits",
    "WholeTextTask",
    "columns_of",
    "encoder_tokenizer",
    "join",
    "padded",
    "whole_text_tokenizer",
    "write_store",
]
