"""Who wants to know what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from regard.generation import Hypothesis, SearchObserver
from regard.layers import Source, Tokens


class PredictionObserver(SearchObserver, Protocol):
    """A search observer that is also told what the hypotheses became."""

    def read(self, tokens: Tokens | None) -> None:
        """Called when a language model has read texts in parts: all that it read, a text in each row; None where rows moved."""
        ...

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """Called after each search: one prediction per source row, beside the hypotheses it was made of."""
        ...


class Observers:
    """Passes what a search tells to several observers.

    Arguments:
        observers: who wants to know.
    """

    def __init__(self, observers: Sequence[PredictionObserver]) -> None:
        self._observers = observers

    def search_started(self, source: Source) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_started(source)

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.search_finished(hypotheses)
