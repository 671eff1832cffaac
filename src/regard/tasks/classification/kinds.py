"""Classification and regression, as tasks."""

from __future__ import annotations

from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.data import LabelledData
from regard.tasks.classification.evaluation import evaluate_classes, evaluate_ratings, read_classes, read_ratings
from regard.tasks.classification.foreign import classifies, foreign_classifier, foreign_rater, rates
from regard.tasks.classification.preparation import prepare_classes, prepare_ratings
from regard.tasks.classification.rater import Rater
from regard.tasks.classification.regression import RegressionTask
from regard.tasks.classification.task import ClassificationTask
from regard.tasks.encoders import EncoderTokenizerSettings
from regard.tasks.kind import OF_VECTOR_READERS, Kind, decided_of_encoder

CLASSIFICATION = Kind(
    task=ClassificationTask,
    predictor=Classifier,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_classes,
    evaluate=evaluate_classes,
    read=read_classes,
    filled_in=decided_of_encoder("sequence", 2),
    decided_of_some=OF_VECTOR_READERS,
    fits=classifies,
    foreign=foreign_classifier,
)

REGRESSION = Kind(
    task=RegressionTask,
    predictor=Rater,
    interface="whole_text",
    sections={"data": LabelledData, "tokenizer": EncoderTokenizerSettings},
    prepare=prepare_ratings,
    evaluate=evaluate_ratings,
    read=read_ratings,
    filled_in=decided_of_encoder("sequence", 1),
    decided_of_some=OF_VECTOR_READERS,
    fits=rates,
    foreign=foreign_rater,
)
