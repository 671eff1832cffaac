"""What all estimators have in common: settings, a recipe made of them, a run in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from regard.errors import InputError
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
        raise InputError("y is None; this estimator requires y to be passed, one target for each text")
    if len(texts) != len(y):
        raise InputError(f"X has {len(texts)} texts and y {len(y)} targets; give one target for each text")


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
    """Targets as an array (N,), of a list, an array (N,) or (N, 1), or a table of one column.

    Raises:
        InputError: where there are several for a text.

    >>> column_of([[1], [0]])
    array([1, 0])
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"y has the shape {values.shape}; give one target for each text, the shape (N,) or (N, 1)")
    return values
