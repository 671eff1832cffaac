"""How a command is stopped from outside."""

from __future__ import annotations


class Interruption(Exception):
    """A signal stopped the command, mostly Ctrl-C; the message says how to go on.

    Arguments:
        code: that the command leaves with: 128 and the number of the signal.
    """

    def __init__(self, message: str, code: int = 130) -> None:
        super().__init__(message)
        self.code = code


class ReaderGone(Exception):
    """Whoever read the output has gone, as `head` does when it has enough."""
