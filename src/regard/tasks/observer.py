"""Who wants to know what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from regard.generation import Hypothesis, SearchObserver


class PredictionObserver(SearchObserver, Protocol):
    """A search observer that is also told what the hypotheses became."""

    def predicted(self, predictions: Sequence[Any], hypotheses: list[list[Hypothesis]]) -> None:
        """Called after each search: one prediction per source row, beside the hypotheses it was made of."""
        ...
