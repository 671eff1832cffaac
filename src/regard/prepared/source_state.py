"""What a decoder with quantised weights carries that writes about a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Tensor

from regard.attention import KeysValues
from regard.layers import LAST_STEP, SOURCE, TARGET, Ancestry, DecoderState
from regard.prepared.homed import Homed


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedState(DecoderState):
    """N hypotheses about R of the P sources that were read together, as `TransformerState` has them.

    Arguments:
        memory: keys and values of all P sources, those of the first block first (P, blocks * H, S, E) bfloat16. They stay
            where they are.
        homes: (R,) int64, which of the P each source is.
        past: keys and values of all that was written about each source so far, the tokens of all its hypotheses side by side
            (P, blocks * H, C, E); None before the first step.
        ancestry: which of these columns belong to which hypothesis.
        query: (N, H, E), the alignment block's last query over the source; None before the first step.
    """

    memory: KeysValues
    homes: Tensor = field(metadata=SOURCE)
    past: Homed | None = field(default=None, metadata=SOURCE)
    ancestry: Ancestry = field(default_factory=Ancestry, metadata=TARGET)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)

    def _cut(self, length: int, cut: Callable[[Any, int], Any]) -> Self:
        shorter = super()._cut(length, cut)
        return shorter if shorter.past is None else replace(shorter, past=cut(shorter.past, shorter.ancestry.columns))
