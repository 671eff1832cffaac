"""Scikit-learn estimators: models with `fit` and `predict`, for pipelines, cross-validation and hyperparameter search.

They need scikit-learn (`pip install 'regard[eval]'`).
"""

from regard.estimators.estimators import TextClassifier, TextEmbedder, TextRegressor, TextTagger

__all__ = ["TextClassifier", "TextEmbedder", "TextRegressor", "TextTagger"]
