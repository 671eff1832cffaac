"""Scikit-learn estimators: the same models with `fit` and `predict`, for pipelines, cross-validation and searches.

They need scikit-learn (`pip install 'regard[eval]'`).
"""

from regard.estimators.estimators import TextClassifier, TextEmbedder, TextRegressor, TextTagger

__all__ = ["TextClassifier", "TextEmbedder", "TextRegressor", "TextTagger"]
