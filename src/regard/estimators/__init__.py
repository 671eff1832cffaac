"""Scikit-learn estimators: the same models with `fit` and `predict`, for pipelines, cross-validation and searches.

They need scikit-learn (`pip install 'regard[eval]'`).
"""

from regard.estimators.classifier import TextClassifier
from regard.estimators.embedder import TextEmbedder
from regard.estimators.regressor import TextRegressor
from regard.estimators.tagger import TextTagger

__all__ = ["TextClassifier", "TextEmbedder", "TextRegressor", "TextTagger"]
