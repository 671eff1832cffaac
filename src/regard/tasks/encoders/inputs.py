"""One or two texts as what an encoder reads: [CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""

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
    start, end = tokenizer.start_id, tokenizer.end_id
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
    ids = [start, *first[:left], end, *second[:right], end]
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


def padded(inputs: Sequence[Joined], *, padding_id: int) -> tuple[Tokens, Tensor]:
    """Inputs side by side: tokens (B, L) and segments (B, L), 1 from the second text on."""
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
