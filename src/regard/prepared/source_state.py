"""What a decoder with quantised weights carries that writes about a source."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.attention import KeysValues, KVCache
from regard.layers import CACHE, LAST_STEP, SOURCE, DecoderState


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
