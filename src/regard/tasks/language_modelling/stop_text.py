"""Texts that end a continuation, wherever their borders lie among the tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation import Paths
from regard.text import Tokenizer

REACH = 16
"""Tokens more than a stop has characters that are read again after each step."""


class StopText:
    """A row ends once its text holds one of some strings, also where that begins or ends inside a token.

    Arguments:
        tokenizer: of the model.
        strings: none empty.

    Raises:
        InputError: for an empty string, which every text holds.
    """

    def __init__(self, tokenizer: Tokenizer, strings: Sequence[str]) -> None:
        if not all(strings):
            raise InputError("a stop is empty, and every text holds it; leave it out")
        self._tokenizer = tokenizer
        self._strings = tuple(strings)
        self._longest = max(map(len, strings), default=0)

    def __call__(self, paths: Paths) -> Tensor:
        """(N,) bool, as `StopRule`."""
        tails = paths.tokens[:, -(self._longest + REACH) :].tolist()
        found = [any(each in text for each in self._strings) for text in map(self._tokenizer.decode, tails)]
        return torch.tensor(found, dtype=torch.bool, device=paths.tokens.device)

    def cut(self, text: str) -> str:
        """The text up to the first of the strings."""
        places = [place for place in (text.find(each) for each in self._strings) if place >= 0]
        return text[: min(places)] if places else text

    def held_back(self, text: str) -> int:
        """How many characters at the end of a text may still become one of the strings."""
        most = min(self._longest - 1, len(text))
        return next((n for n in range(most, 0, -1) if any(each.startswith(text[-n:]) for each in self._strings)), 0)
