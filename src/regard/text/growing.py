"""The text of tokens that come one after another, without decoding all of them again for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What stands for bytes that are not yet a whole character."""


class Decodes(Protocol):
    """A tokenizer, so far as it decodes."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        ...


class GrowingText:
    """What tokens add to the text of a prompt: each time the same as `decode` of all of them, in time that does not grow.

    How a token is written depends on its neighbours: a space is between two words and a character may be made of several
    tokens. So the new tokens are decoded together with those of the step before, and what these alone are is taken off. Where a
    prompt ends within a character, it is left out of account.

    Arguments:
        tokenizer: whose tokens they are.
        prompt: ids that are in front.

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
        """Of the window, the tokens that are decoded once and for all."""
        self._before = self._decode(self._window)
        self._text = ""
        self.text = ""
        """What all tokens added so far."""

    def add(self, ids: Sequence[int]) -> str:
        """The text of all tokens after the prompt, these the last of them.

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
