"""A text that stands before many prompts and is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.layers import DecoderState


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Beginning:
    """What a language model holds after the beginning of a text: an instruction, examples, a conversation so far.

    Arguments:
        text: the beginning.
        ids: its tokens, the end token that stands before every text in front.
        state: of one row, after all of them but the last, which is read with what follows.
    """

    text: str
    ids: Sequence[int]
    state: DecoderState
