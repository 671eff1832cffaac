"""Training texts for a vocabulary: checking them, spooling them to disk, and sampling languages of different sizes."""

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
    """The vocabulary size is too small: the text alone needs `needed` tokens."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self.needed = needed


def checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts from the first one that is not blank, each checked when it is reached.

    Raises:
        InputError: for one string instead of several, for no text, and for a value that is not a valid text.
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
    """The error for a string that UTF-8 cannot encode."""
    return InputError(
        f"the text {text[:40]!r} holds half of a surrogate pair at character {error.start}; "
        "it was read in the wrong encoding, so read it as UTF-8"
    )


@dataclass(frozen=True, slots=True)
class Spool:
    """Texts in a temporary file, for reading a stream twice."""

    file: IO[str]

    def put(self, text: str) -> None:
        """Append a text."""
        self.file.write(json.dumps(text) + "\n")

    def texts(self) -> Iterator[str]:
        """All texts, in order."""
        self.file.seek(0)
        return (json.loads(line) for line in self.file)


@contextmanager
def spool() -> Iterator[Spool]:
    """A context manager with a spool, whose file is removed after the block."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        yield Spool(file)


def learn(tokenizer: tokenizers.Tokenizer, texts: Iterator[str], trainer: trainers.Trainer) -> None:
    """Train `tokenizer` on the texts, without holding them in memory.

    Raises:
        InputError: if the library fails.
    """
    guarded(lambda: tokenizer.train_from_iterator(texts, trainer), "training the tokenizer failed")


def guarded(action: Callable[[], object], what: str) -> object:
    """Run `action()`. A panic of the library, which is not an `Exception`, becomes an `InputError` that begins with `what`."""
    try:
        return action()
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise InputError(f"{what}: {error}") from None
        raise


Texts = Sequence[str] | Callable[[], Iterable[str]]
"""A list of texts, or a function that returns them anew on each call: `lambda: read_texts("train.de.gz")`."""


def smoothed(sizes: Mapping[str, float], exponent: float) -> dict[str, float]:
    """The sampling probability of each language: p_i proportional to share_i ** S.

    S = 1 keeps the shares; S = 0 makes all languages equally probable. Multilingual BERT uses 0.7
    (github.com/google-research/bert, multilingual.md, "Data Source and Sampling").

    Arguments:
        sizes: the amount of text in each language, in any unit.
        exponent: S, at least 0.

    Raises:
        InputError: for no language, a size that is not above 0, or an exponent that is negative or not finite.

    >>> {name: round(share, 3) for name, share in smoothed({"en": 900, "is": 100}, 0.7).items()}
    {'en': 0.823, 'is': 0.177}
    """
    if not sizes:
        raise InputError("there is no language to sample from; give at least one")
    for name, size in sizes.items():
        if not 0 < size < np.inf:
            raise InputError(f"{name!r} has the size {size}; every language needs some text")
    if not 0 <= exponent < np.inf:
        raise InputError(f"exponent is {exponent}; give one from 0 (uniform) to 1 (by size), 0.7 is usual")
    logarithms = exponent * np.log(np.array(list(sizes.values()), dtype=np.float64))
    powers = np.exp(logarithms - logarithms.max())
    return dict(zip(sizes, (powers / powers.sum()).tolist(), strict=True))


def sampled(
    texts: Mapping[str, Texts], *, exponent: float, seed: int = 0, size: int | None = None
) -> Iterator[tuple[str, str]]:
    """Sample texts of several languages, each with its smoothed share (see `smoothed`); no texts are held in memory.

    If a language has more texts than its share, some of them are sampled. If it has fewer, all its texts are repeated equally
    often, and the remainder is sampled. With `exponent` 1 every text occurs once. The sample is determined by the texts and the
    seed.

    Arguments:
        texts: the texts of each language. They are read twice, so give a list, or a function that opens a stream:
            `lambda: read_texts(path)`.
        exponent: S of `smoothed`, applied to the shares of the number of texts.
        seed: random seed.
        size: the total number of sampled texts; None for the number of all texts.

    Yields:
        (language, text), language by language, in the order of its texts.

    Raises:
        InputError: as `smoothed`; for a language without texts, or with fewer texts in the second pass.

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
    return _sampled(texts, counts, wanted, seed)


def _opened(texts: Texts) -> Iterable[str]:
    return texts() if callable(texts) else texts


def _apportioned(shares: Mapping[str, float], size: int) -> dict[str, int]:
    """Whole numbers with the sum `size`, proportional to these shares, by the largest remainder method."""
    if size < 1:
        raise InputError(f"size is {size}; give at least 1")
    exact = {name: share * size for name, share in shares.items()}
    found = {name: int(value + 1e-9) for name, value in exact.items()}
    order = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in order[: size - sum(found.values())]:
        found[name] += 1
    return found


def _sampled(
    texts: Mapping[str, Texts], counts: Mapping[str, int], wanted: Mapping[str, int], seed: int
) -> Iterator[tuple[str, str]]:
    for name, each in texts.items():
        times, remainder = divmod(wanted[name], counts[name])
        generator = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())]))
        number = -1
        for number, text in enumerate(_opened(each)):
            if number == counts[name]:
                break  # the file grew between the passes
            # Selection sampling: exactly `remainder` of the remaining texts are chosen, all subsets equally probable.
            chosen = generator.random() * (counts[name] - number) < remainder
            remainder -= chosen
            for _ in range(times + chosen):
                yield name, text
        if number + 1 < counts[name]:
            raise InputError(
                f"the texts of {name!r} were {counts[name]} in the first pass and {number + 1} in the second; do not change them "
                "while they are read, and give a function that opens them again"
            )
