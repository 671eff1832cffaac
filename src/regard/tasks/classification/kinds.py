"""Classification and regression, as tasks."""

from __future__ import annotations

from regard.tasks.classification.classifier import Classifier, MultiLabelClassifier
from regard.tasks.classification.data import LabelledData, MultiLabelData, MultiOutputData
from regard.tasks.classification.evaluation import (
    class_beside,
    evaluate_classes,
    evaluate_labels,
    evaluate_numbers,
    evaluate_ratings,
    labels_beside,
    number_beside,
    numbers_beside,
    read_classes,
    read_labels,
    read_numbers,
    read_ratings,
)
from regard.tasks.classification.foreign import (
    classifies,
    foreign_classifier,
    foreign_multi_label,
    foreign_multi_output,
    foreign_rater,
    rates,
    tells_of_texts,
)
from regard.tasks.classification.preparation import prepare_classes, prepare_labels, prepare_numbers, prepare_ratings
from regard.tasks.classification.rater import MultiRater, Rater
from regard.tasks.classification.regression import MultiOutputTask, RegressionTask
from regard.tasks.classification.task import ClassificationTask, MultiLabelTask
from regard.tasks.preparation import EncoderTokenizerSettings
from regard.tasks.spec import OF_VECTOR_READERS, TaskSpec, decided_of_encoder

CLASSIFICATION = TaskSpec(
    task=ClassificationTask,
    predictor=Classifier,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_classes,
    evaluate=evaluate_classes,
    read=read_classes,
    beside=class_beside,
    filled_in=decided_of_encoder("sequence", 2),
    decided_of_some=OF_VECTOR_READERS,
    fits=classifies,
    problems=("single_label_classification", None),
    foreign=foreign_classifier,
)

MULTI_LABEL = TaskSpec(
    task=MultiLabelTask,
    predictor=MultiLabelClassifier,
    interface="whole_text",
    sections={"data": MultiLabelData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_labels,
    evaluate=evaluate_labels,
    read=read_labels,
    beside=labels_beside,
    filled_in=decided_of_encoder("sequence", 2),
    decided_of_some=OF_VECTOR_READERS,
    fits=tells_of_texts,
    problems=("multi_label_classification",),
    foreign=foreign_multi_label,
)

REGRESSION = TaskSpec(
    task=RegressionTask,
    predictor=Rater,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_ratings,
    evaluate=evaluate_ratings,
    read=read_ratings,
    beside=number_beside,
    filled_in=decided_of_encoder("sequence", 1),
    decided_of_some=OF_VECTOR_READERS,
    fits=rates,
    problems=("regression", None),
    foreign=foreign_rater,
)

MULTI_OUTPUT = TaskSpec(
    task=MultiOutputTask,
    predictor=MultiRater,
    interface="whole_text",
    sections={"data": MultiOutputData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_numbers,
    evaluate=evaluate_numbers,
    read=read_numbers,
    beside=numbers_beside,
    filled_in=decided_of_encoder("sequence", 2),
    decided_of_some=OF_VECTOR_READERS,
    fits=classifies,
    problems=("regression",),
    foreign=foreign_multi_output,
)
