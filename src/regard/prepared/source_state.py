"""What a decoder with quantised weights carries that writes about a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from regard.attention import KeysValues, KVCache
from regard.layers import CACHE, LAST_STEP, SOURCE, DecoderState
from regard.layers.state import side_by_side
from regard.prepared.homed import Homed


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedState(DecoderState):
    """N hypotheses about R of the P sources that were read together, as `TransformerState` has them.

    Arguments:
        memory: keys and values of all P sources, those of the first block first (P, blocks * H, S, E) bfloat16. They stay
            where they are.
        homes: (R,) int64, which of the P each source is.
        cache: all that was written about each source so far, the tokens of all its hypotheses side by side: one `Homed` of all
            blocks, (P, blocks * H, C, E).
        query: (N, H, E), the alignment block's last query over the source; None before the first step.
    """

    memory: KeysValues
    homes: Tensor = field(metadata=SOURCE)
    cache: KVCache = field(default_factory=KVCache, metadata=CACHE)
    query: Tensor | None = field(default=None, metadata=LAST_STEP)

    @classmethod
    def _joined(cls, states: Sequence[Any]) -> Self:
        """As `DecoderState`, each source's keys and values in a row of its own."""
        settled = [
            replace(state, cache=replace(state.cache, layers=tuple(part.settled() for part in state.cache.layers)))
            for state in states
        ]
        joined = super()._joined(settled)
        cache = replace(joined.cache, layers=tuple(Homed(part) for part in joined.cache.layers))
        memory = side_by_side([state.memory.select(state.homes) for state in states])
        return replace(
            joined,
            cache=cache,
            homes=torch.arange(len(joined.source_valid)),
            memory=memory.reserved(memory.key.shape[2]),  # in a room, as the kernel wants it
        )
