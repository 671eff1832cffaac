"""Incremental decoding of generated tokens, without decoding all of them again at each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""The replacement for bytes of an incomplete character."""


class Decodes(Protocol):
    """The decoding interface of a tokenizer."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        ...


class GrowingText:
    """The text that generated tokens add to a prompt: always the same as `decode` of all of them, in constant time per step.

    The text of a token depends on its neighbours: spaces are between words, and a character may consist of several tokens. So
    new tokens are decoded together with those of the previous step, and the text of the latter is removed. If the prompt ends
    within a character, the prompt is ignored.

    Arguments:
        tokenizer: the tokenizer.
        prompt: the ids of the prompt.

    >>> from regard.text import Tokenizer
    >>> tokenizer = Tokenizer.train(["the café is open"] * 9, kind="byte_bpe", size=300)
    >>> text = GrowingText(tokenizer, tokenizer.encode("the"))
    >>> [text.add([index]) for index in tokenizer.encode(" café")][-1]
    ' café'
    """

    def __init__(self, tokenizer: Decodes, prompt: Sequence[int] = ()) -> None:
        self._decode = tokenizer.decode
        self._window = list(prompt)
        if self._decode(self._window).endswith(UNFINISHED):
            self._window = []
        self._known = len(self._window)
        """The number of tokens in the window whose text is final."""
        self._before = self._decode(self._window)
        self._text = ""
        self.text = ""
        """The text of all added tokens."""

    def add(self, ids: Sequence[int]) -> str:
        """Add tokens; returns the text of all tokens after the prompt.

        Raises:
            InputError: for an id that the tokenizer does not have.
        """
        self._window += ids
        both = self._decode(self._window)
        new = (
            both.removeprefix(self._before)
            if both.startswith(self._before)
            else self._decode(self._window[self._known :])
        )
        self.text = self._text + new
        if new and not new.endswith(UNFINISHED):
            self._window, self._known, self._text = (
                self._window[self._known :],
                len(self._window) - self._known,
                self.text,
            )
            self._before = self._decode(self._window)
        return self.text
