"""A tagger of words with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from regard.errors import InputError
from regard.estimators.base import TextEstimator, check_lengths
from regard.tasks.tagging import Tagger, judged


class TextTagger(TextEstimator):
    """Fine-tunes a model that reads whole texts, and tells the tags of words: lists of words in, lists of tags out.

    Its arguments are `TextEstimator`'s. The tags may be of any scheme that `regard train` reads; those that come out are of the
    scheme that the model learnt, BIO unless `overrides` say otherwise.

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
        found = judged(self.model_.task, right, self.predict(X))
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
