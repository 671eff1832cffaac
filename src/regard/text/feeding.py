"""What learning a vocabulary of any kind has in common: texts checked as they come, kept on disk, handed to the library."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import tokenizers
from tokenizers import trainers

from regard.errors import InputError


class TooSmall(Exception):
    """The text alone needs this many tokens."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self.needed = needed


def checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts after the first that is not blank, each known to be a proper string.

    Raises:
        InputError: one string instead of several, no text at all, something that is no text.
    """
    if isinstance(texts, str):
        raise InputError("training a tokenizer takes several texts (a list or any iterable), not one string")
    iterator = map(_proper, texts)
    first = next((text for text in iterator if text.strip()), None)
    if first is None:
        raise InputError("training a tokenizer found no text: every text is blank, or there is none")
    return itertools.chain([first], iterator)


def _proper(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"training a tokenizer takes strings, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise half_a_pair(text, error) from None
    return text


def half_a_pair(text: str, error: UnicodeEncodeError) -> InputError:
    """The error for a string that UTF-8 cannot hold."""
    return InputError(
        f"the text {text[:40]!r} holds half of a surrogate pair at character {error.start}; "
        "it was read in the wrong encoding, so read it as UTF-8"
    )


@dataclass(frozen=True, slots=True)
class Spool:
    """Texts in a file, for those who must pass over a stream twice."""

    file: IO[str]

    def put(self, text: str) -> None:
        """Keep one more."""
        self.file.write(json.dumps(text) + "\n")

    def texts(self) -> Iterator[str]:
        """All of them, from the first."""
        self.file.seek(0)
        return (json.loads(line) for line in self.file)


@contextmanager
def spool() -> Iterator[Spool]:
    """A spool in a temporary file, gone after the block."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        yield Spool(file)


def learn(tokenizer: tokenizers.Tokenizer, texts: Iterator[str], trainer: trainers.Trainer) -> None:
    """Train `tokenizer` on the texts, in a stream.

    Raises:
        InputError: the library broke down.
    """
    guarded(lambda: tokenizer.train_from_iterator(texts, trainer), "training the tokenizer failed")


def guarded(action: Callable[[], object], what: str) -> object:
    """`action()`, with a panic inside the library turned into an `InputError` (it is not an `Exception`)."""
    try:
        return action()
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise InputError(f"{what}: {error}") from None
        raise
