"""What was seen of one forward pass, or of one search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.generation import Hypothesis
from regard.inspection.calls import Call, Kept
from regard.inspection.joining import Joined
from regard.layers import Pictures, Tokens


@dataclass(slots=True, eq=False)
class Run:
    """The calls of one forward pass, or of one search.

    Arguments:
        calls: by address, in the order they were made.
        hidden: outputs of the modules that were asked for, by address, in the order they were made.
        source, target: what the model read; the target only in a forward pass.
        grid: rows and columns of places in one frame, where it read pictures.
        leading: how many vectors stand before those of the places, such as a class token's.
        hypotheses: of a search, per source row, best first; `rows` in them says where each stood at every step.
        predictions: what the hypotheses became, where a task made something of them.
        joined: how calls of several passes make one map, where it is of several.
    """

    calls: dict[str, list[Call]] = field(default_factory=dict)
    hidden: dict[str, list[Kept]] = field(default_factory=dict)
    source: Tokens | Pictures | None = None
    target: Tokens | None = None
    grid: tuple[int, int] | None = None
    leading: int = 0
    hypotheses: list[list[Hypothesis]] | None = None
    predictions: list[Any] | None = None
    joined: Joined | None = None

    @property
    def searched(self) -> bool:
        """Whether this was a search."""
        return self.hypotheses is not None
