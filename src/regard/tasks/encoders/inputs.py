"""One or two texts as what a model of whole texts reads.

BERT's are `[CLS] first [SEP]` and `[CLS] first [SEP] second [SEP]`; those of a decoder that is fine-tuned are `_start_ first
_classify_` and `_start_ first _delimiter_ second _classify_` (Radford et al. 2018, figure 1). The tokenizer says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.token_store import TokenStore
from regard.layers import Tokens
from regard.text import Tokenizer

TEXT, SECOND = "text", "second"
"""The columns of a token store: the tokens, special ones included; and the place where the second text begins, 0 without one."""

PLACES = 1 << 16
"""More than any place in a text."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The tokens of one input.

    Arguments:
        ids: special tokens included.
        second: the place of the second text's first token; 0 where there is none.
        cut: how many tokens of the texts were cut off.
    """

    ids: list[int]
    second: int = 0
    cut: int = 0


def join(tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None, *, maximum: int) -> Joined:
    """One input from the tokens of one or two texts, cut to `maximum`.

    The longer of the two loses its last token until both fit (Devlin et al. 2019, in the authors' code).

    Arguments:
        maximum: the most tokens, special ones included.

    >>> from regard.text import Tokenizer
    >>> tokenizer = Tokenizer.train(["a b c"], kind="bert", size=30)
    >>> joined = join(tokenizer, tokenizer.encode("a b c"), tokenizer.encode("c"), maximum=6)
    >>> tokenizer.tokens(joined.ids), joined.second, joined.cut
    (['[CLS]', 'a', 'b', '[SEP]', 'c', '[SEP]'], 4, 1)
    """
    start, separator, end = tokenizer.start_id, tokenizer.separator_id, tokenizer.end_id
    if second is None:
        kept = list(first[: max(0, maximum - 2)])
        return Joined([start, *kept, end], 0, len(first) - len(kept))
    room = max(0, maximum - 3)
    shorter = min(len(first), len(second))
    if len(first) + len(second) <= room:
        left, right = len(first), len(second)
    elif shorter <= room // 2:
        left = len(first) if len(first) == shorter else room - len(second)
        right = room - left
    else:  # both are longer than half: the first keeps the odd token
        left = room - room // 2
        right = room // 2
    ids = [start, *first[:left], separator, *second[:right], end]
    return Joined(ids, left + 2, len(first) + len(second) - left - right)


@dataclass(frozen=True, slots=True, eq=False)
class EncoderBatch:
    """What one step of training reads.

    Arguments:
        tokens: (B, L).
        segments: (B, L) int64, 1 from the second text on.
        labels: what the task makes of its examples; the first axis is the batch.
    """

    tokens: Tokens
    segments: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> EncoderBatch:
        """The same batch on another device."""
        return EncoderBatch(self.tokens.to(device), self.segments.to(device), self.labels.to(device))


def swapped(joined: Joined) -> Joined:
    """The same two texts in the other order.

    >>> swapped(Joined([1, 7, 8, 2, 9, 3], second=4))
    Joined(ids=[1, 9, 2, 7, 8, 3], second=3, cut=0)
    """
    start, separator, end = joined.ids[0], joined.ids[joined.second - 1], joined.ids[-1]
    first, second = joined.ids[1 : joined.second - 1], joined.ids[joined.second : -1]
    return Joined([start, *second, separator, *first, end], len(second) + 2, joined.cut)


def padded(inputs: Sequence[Joined], *, padding_id: int, readings: int = 1) -> tuple[Tokens, Tensor]:
    """Inputs side by side: tokens (B, L) and segments (B, L), 1 from the second text on.

    Arguments:
        readings: 2 for pairs in both orders, one after the other: (2 B, L).
    """
    if readings == 2:
        inputs = [reading for joined in inputs for reading in (joined, swapped(joined))]
    tokens = Tokens.pad([joined.ids for joined in inputs], padding_id=padding_id)
    starts = np.array([joined.second or PLACES for joined in inputs], dtype=np.int64)
    segments = np.arange(tokens.ids.shape[1]) >= starts[:, None]
    return tokens, torch.from_numpy(segments.astype(np.int64))


def columns_of(tokenizer: Tokenizer) -> dict[str, int]:
    """The columns that every store of an encoder's inputs has; a task adds its labels."""
    return {TEXT: tokenizer.size, SECOND: PLACES}


def read_inputs(data: TokenStore, rows: Sequence[int]) -> list[Joined]:
    """The inputs of some rows of a store."""
    return [Joined(data.sequence(TEXT, row).tolist(), int(data.sequence(SECOND, row)[0])) for row in rows]
