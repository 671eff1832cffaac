"""How a command is stopped from outside."""

from __future__ import annotations


class Interruption(Exception):
    """The user pressed Ctrl-C; the message says how to go on."""


class ReaderGone(Exception):
    """Whoever read the output has gone, as `head` does when it has enough."""
