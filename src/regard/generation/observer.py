"""Who wants to know that a search happens."""

from __future__ import annotations

from typing import Protocol

from regard.generation.hypothesis import Hypothesis
from regard.layers import Source


class SearchObserver(Protocol):
    """Told of a search's beginning and end, so that what was recorded in between can be put in order.

    Between the two calls the search calls `decoder.start` once and then `decoder.step` for call 0, 1, 2,
    ...; `Hypothesis.rows` says which row of each call a hypothesis went through. A search over no sentences
    makes no call of the decoder. A search that raises, or a stream that is abandoned, is not reported as
    finished.
    """

    def search_started(self, source: Source) -> None:
        """Called before `decoder.start`, with the batch that it will read."""
        ...

    def search_finished(self, hypotheses: list[list[Hypothesis]]) -> None:
        """Called last: for each source row its hypotheses, best first."""
        ...
