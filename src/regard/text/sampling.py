"""Texts that a vocabulary is learned from: checked as they come, kept on disk, and sampled over languages of different size."""

from __future__ import annotations

import itertools
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
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


Texts = Sequence[str] | Callable[[], Iterable[str]]
"""A list of texts, or what gives them again each time it is called: `lambda: read_texts("train.de.gz")`."""


def smoothed(sizes: Mapping[str, float], exponent: float) -> dict[str, float]:
    """The probability of each language: p_i proportional to share_i ** S.

    S = 1 leaves the shares as they are, S = 0 makes all languages equally likely; multilingual BERT has 0.7
    (github.com/google-research/bert, multilingual.md, "Data Source and Sampling").

    Arguments:
        sizes: how much there is of each language, in whatever unit.
        exponent: S.

    Raises:
        InputError: for no language, a size that is not above 0, or an exponent that is not finite or below 0.

    >>> {name: round(share, 3) for name, share in smoothed({"en": 900, "is": 100}, 0.7).items()}
    {'en': 0.823, 'is': 0.177}
    """
    if not sizes:
        raise InputError("there is no language to sample from; name one at least")
    for name, size in sizes.items():
        if not 0 < size < np.inf:
            raise InputError(f"{name!r} has the size {size}; every language needs some text")
    if not 0 <= exponent < np.inf:
        raise InputError(f"exponent is {exponent}; give one from 0 (all alike) to 1 (as the texts are), 0.7 is usual")
    logarithms = exponent * np.log(np.array(list(sizes.values()), dtype=np.float64))
    powers = np.exp(logarithms - logarithms.max())
    return dict(zip(sizes, (powers / powers.sum()).tolist(), strict=True))


def sampled(
    texts: Mapping[str, Texts], *, exponent: float, seed: int = 0, size: int | None = None
) -> Iterator[tuple[str, str]]:
    """Texts of several languages in a stream, each language with its smoothed share of them; see `smoothed`.

    A language with more texts than its share gives some of them, sampled by the seed; one with fewer gives every one as often
    as any other, but for a remainder that is sampled. So nothing is held in memory, `exponent` 1 gives every text once, and the
    same texts and seed give the same sample.

    Arguments:
        texts: by language. Each is read twice, so a stream is given as what opens it: `lambda: read_texts(path)`.
        exponent: S of `smoothed`, on shares of texts.
        seed: of what is sampled.
        size: how many texts in all; as many as there are unless given.

    Yields:
        (language, text): language by language, in the order of its texts.

    Raises:
        InputError: as `smoothed`; for a language without a text, or a stream that gives fewer texts the second time.

    >>> texts = {"en": [f"text {i}" for i in range(90)], "is": [f"texti {i}" for i in range(10)]}
    >>> [sum(language == name for language, _ in sampled(texts, exponent=0)) for name in texts]
    [50, 50]
    """
    for name, each in texts.items():
        if isinstance(each, str) or not (callable(each) or isinstance(each, Sequence)):
            raise InputError(
                f"the texts of {name!r} can be read only once; give a list, or a function that opens them again"
            )
    counts = {name: sum(1 for _ in _opened(each)) for name, each in texts.items()}
    wanted = _apportioned(smoothed(counts, exponent), sum(counts.values()) if size is None else size)
    return _drawn(texts, counts, wanted, seed)


def _opened(texts: Texts) -> Iterable[str]:
    return texts() if callable(texts) else texts


def _apportioned(shares: Mapping[str, float], size: int) -> dict[str, int]:
    """Whole numbers that come to `size`, next to these shares of it: what is left over goes to the largest remainders."""
    if size < 1:
        raise InputError(f"size is {size}; give at least 1")
    exact = {name: share * size for name, share in shares.items()}
    found = {name: int(value + 1e-9) for name, value in exact.items()}
    order = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in order[: size - sum(found.values())]:
        found[name] += 1
    return found


def _drawn(
    texts: Mapping[str, Texts], counts: Mapping[str, int], wanted: Mapping[str, int], seed: int
) -> Iterator[tuple[str, str]]:
    for name, each in texts.items():
        times, remainder = divmod(wanted[name], counts[name])
        generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
        number = -1
        for number, text in enumerate(_opened(each)):
            if number == counts[name]:
                break  # a file that grew in between
            # Of the texts that are left the remainder is sampled exactly, without knowing any of them beforehand.
            drawn = generator.random() * (counts[name] - number) < remainder
            remainder -= drawn
            for _ in range(times + drawn):
                yield name, text
        if number + 1 < counts[name]:
            raise InputError(
                f"the texts of {name!r} were {counts[name]} at first and {number + 1} the second time; do not change them "
                "while they are read, and give a function that opens them again"
            )
