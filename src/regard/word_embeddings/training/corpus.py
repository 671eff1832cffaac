"""The settings of training, the text that is trained on, its vocabulary, and reports of progress.

Sentences of words are read again for every pass, and are never whole in memory.
"""

from __future__ import annotations

import dataclasses
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.running_text import (
    UNKNOWN,
    Boundary,
    Cleaning,
    SentenceUnit,
    python_docs,
    read_documents,
    sentences_of,
)
from regard.errors import InputError
from regard.models.config import check, check_types
from regard.word_embeddings.store import Counts

Method = Literal["skipgram", "cbow", "fasttext", "glove"]
METHODS: tuple[Method, ...] = get_args(Method)
Weighting = Literal["power", "none", "step"]

PUBLISHED: Any = None
"""Stands for what the method's own program does where nothing is said."""

DEFAULTS: Mapping[Method, Mapping[str, Any]] = MappingProxyType(
    {
        "skipgram": {"window": 5, "epochs": 5, "learning_rate": 0.025, "subsample": 1e-3, "noise_exponent": 0.75},
        "cbow": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-3, "noise_exponent": 0.75},
        "fasttext": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-4, "noise_exponent": 0.5},
        "glove": {"window": 10, "epochs": 25, "learning_rate": 0.05, "subsample": 0.0, "noise_exponent": 0.75},
    }
)
"""What `PUBLISHED` is, by method."""

_SOME: tuple[tuple[tuple[Method, ...], tuple[str, ...]], ...] = (
    (("skipgram", "cbow", "fasttext"), ("negative", "subsample", "noise_exponent", "workers")),
    (("fasttext",), ("minimum_ngram", "maximum_ngram", "buckets")),
    (("glove",), ("weighting", "largest_count", "power", "clip", "batch", "vectors", "memory")),
)
ONLY: Mapping[str, tuple[Method, ...]] = MappingProxyType({name: methods for methods, names in _SOME for name in names})
"""Settings that not all methods have, and which do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorSettings:
    """All settings of a training; those that are not given are as the method's own program has them.

    Arguments:
        method: `skipgram` or `cbow` (Mikolov et al. 2013), `fasttext` (Bojanowski et al. 2017) or `glove` (Pennington et al.
            2014).
        width: dimension of the vectors.
        window: context words on each side; 5, for GloVe 10. The first three methods sample the size from 1 to `window` at
            each word; GloVe weights by 1/distance.
        minimum_count: words seen less often are left out.
        epochs: passes over the text, 5; for GloVe over the counts, 25.
        learning_rate: initial learning rate; 0.05, for skip-gram 0.025. It decays to 0; for GloVe it is AdaGrad's.
        seed: random seed.
        workers: threads; not for GloVe. With one, the same seed gives the same vectors; with more, results vary.
        negative: negative samples per context word; not for GloVe.
        subsample: subsampling threshold t of frequent words; 0.001, for fastText 0.0001, 0 for none; not for GloVe. A word of
            relative frequency f is kept with probability sqrt(t / f) + t / f.
        noise_exponent: negative samples are sampled in proportion to their count to this power.
        minimum_ngram, maximum_ngram: for fastText: lengths of character n-grams, `<` and `>` at the ends of a word included.
        buckets: for fastText: rows of the hash table of n-grams.
        weighting: f of GloVe. `power`: min(1, (x / largest_count)^power); `none`: 1; `step`: 1 from `largest_count` on, 0
            below.
        largest_count: for GloVe: counts above this have weight 1. Use 10 for small texts.
        power: exponent of GloVe's weighting.
        clip: for GloVe: largest absolute value of a gradient's entries.
        batch: for GloVe: counts per update; at least a hundred batches are made of few counts.
        vectors: for GloVe: the sum of a word's two vectors (`sum`), or the word vector alone (`word`).
        memory: for GloVe: MiB for counting, besides the vocabulary; more is written to disk.

    Raises:
        InputError: naming the setting.

    >>> VectorSettings(method="cbow").learning_rate, VectorSettings(method="glove").window
    (0.05, 10)
    """

    method: Method = "skipgram"
    width: int = 100
    window: int = PUBLISHED
    minimum_count: int = 5
    epochs: int = PUBLISHED
    learning_rate: float = PUBLISHED
    seed: int = 1
    workers: int = 1
    negative: int = 5
    subsample: float = PUBLISHED
    noise_exponent: float = PUBLISHED
    minimum_ngram: int = 3
    maximum_ngram: int = 6
    buckets: int = 2_000_000
    weighting: Weighting = "power"
    largest_count: float = 100.0
    power: float = 0.75
    clip: float = 100.0
    batch: int = 65_536
    vectors: Literal["sum", "word"] = "sum"
    memory: int = 1024

    def __post_init__(self) -> None:
        if self.method in METHODS:
            for name, value in DEFAULTS[self.method].items():
                if getattr(self, name) is PUBLISHED:
                    object.__setattr__(self, name, value)  # frozen for everybody else
        check_types(self)
        for name in ("width", "window", "minimum_count", "epochs", "workers", "negative", "batch", "buckets"):
            check(1 <= getattr(self, name) <= 1 << 31, name, getattr(self, name), "from 1 to 2^31", "choose another")
        check(self.width <= 100_000, "width", self.width, "at most 100,000", "lower it")
        for name in ("learning_rate", "largest_count", "clip"):
            value = getattr(self, name)
            check(0 < value < float("inf"), name, value, "a number above 0", "raise it")
        for name in ("subsample", "noise_exponent", "power"):
            value = getattr(self, name)
            check(0 <= value < float("inf"), name, value, "0 or a number above it", "raise it")
        check(self.window <= 1000, "window", self.window, "at most 1,000", "lower it")
        check(0 <= self.seed < 2**32, "seed", self.seed, "from 0 to 4,294,967,295", "choose another")
        check(self.memory >= 16, "memory", self.memory, "at least 16 (MiB)", "raise it")
        if not 1 <= self.minimum_ngram <= self.maximum_ngram:
            raise InputError(
                f"minimum_ngram is {self.minimum_ngram} and maximum_ngram {self.maximum_ngram}; the first must be at least 1 "
                "and no larger than the second"
            )

    def to_json(self) -> dict[str, Any]:
        """The settings that the method has."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if self.method in ONLY.get(name, METHODS)
        }


def settings_of(method: Method, **given: Any) -> VectorSettings:
    """Settings of a method from those that are given; None stands for one that is not.

    Raises:
        InputError: for one that the method does not have, or a value that it cannot have.

    >>> settings_of("glove", width=50, negative=None).width
    50
    >>> settings_of("glove", negative=5)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: negative means nothing to glove; leave it out, or choose skipgram, cbow or fasttext
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        others = ONLY.get(name, METHODS)
        if method in METHODS and method not in others:
            *first, last = others
            choices = f"{', '.join(first)} or {last}" if first else last
            raise InputError(f"{name} means nothing to {method}; leave it out, or choose {choices}")
    return VectorSettings(method=method, **given)


Tokenisation = Literal["words", "whitespace"]
AnyPath = str | os.PathLike[str]


# The text.


PYTHON_DOCS = "python_docs"
"""Stands for the reference text that comes with Python, where a path is asked for."""

LONGEST_SENTENCE = 10_000
"""Words; what is longer is read as several sentences, as word2vec does."""


class Progress(NamedTuple):
    """What is being done, and how much of it is done.

    Arguments:
        stage: such as `epoch 2 of 5`.
        done, total: in `unit`; the total is None where nobody knows it yet.
        unit: what is counted, such as `words`.
    """

    stage: str
    done: int
    total: int | None
    unit: str


Report = Callable[[Progress], None]
"""Is called between pieces of work, and must be quick."""


def quiet(progress: Progress) -> None:
    """Tells nobody."""


def per_second(count: int, seconds: float) -> float:
    """How many things a second, to one digit after the point."""
    return round(count / max(seconds, 1e-9), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Text as sentences of words. Going through it reads the files again.

    Arguments:
        paths: files, UTF-8, plain or gzip; `python_docs` for Python's own reference text.
        tokenisation: `words` finds the words of raw text: letters, digits and the marks on them, apostrophes inside; for
            languages that write spaces. `whitespace` takes what is between spaces, for text that is tokenised.
        sentences: `line`: each line is one; `split`: the paragraphs between empty lines are split at sentence ends; None: `line`
            where the text is tokenised, else `split`.
        lowercase: small letters only.
        cleaning: `wikitext` leaves out what these sets have besides text: headings, `<unk>`, and in `words` their extra spaces.
        malformed: where lines are recorded that are not UTF-8 or too long, and left out.

    Raises:
        InputError: from going through it, for a file that cannot be used.
    """

    paths: tuple[str, ...]
    tokenisation: Tokenisation = "words"
    sentences: SentenceUnit | None = None
    lowercase: bool = True
    cleaning: Cleaning = "none"
    malformed: MalformedRows = field(default_factory=MalformedRows, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_types(self)

    def __iter__(self) -> Iterator[list[str]]:
        for text in self._texts():
            words = self._words(text)
            for start in range(0, len(words), LONGEST_SENTENCE):
                yield words[start : start + LONGEST_SENTENCE]

    def to_json(self) -> dict[str, Any]:
        """What is read, and how; of the files their names alone."""
        return {
            "files": [Path(path).name for path in self.paths],
            "tokenisation": self.tokenisation,
            "unit": self._unit,
            "lowercase": self.lowercase,
            "cleaning": self.cleaning,
        }

    @property
    def _unit(self) -> SentenceUnit:
        return self.sentences or ("line" if self.tokenisation == "whitespace" else "split")

    def _texts(self) -> Iterator[str]:
        boundary: Boundary = "heading" if self.cleaning == "wikitext" else "blank_line"
        cleaning: Cleaning = self.cleaning if self.tokenisation == "words" else "none"
        for path in self.paths:
            if path == PYTHON_DOCS:
                documents: Iterable[list[str]] = (
                    sentences_of(text) for split in ("train", "validation", "test") for text in python_docs(split)
                )
            else:
                documents = read_documents(
                    path, documents=boundary, sentences=self._unit, cleaning=cleaning, malformed=self.malformed
                )
            for document in documents:
                yield from document

    def _words(self, text: str) -> list[str]:
        if self.lowercase:
            text = text.lower()
        if self.tokenisation == "whitespace":
            words = text.split()
            return [word for word in words if word != "<unk>"] if self.cleaning == "wikitext" else words
        if self.cleaning == "wikitext":
            text = text.replace(UNKNOWN.lower() if self.lowercase else UNKNOWN, " ")
        return _word().findall(unicodedata.normalize("NFC", text))


def sentences(
    paths: AnyPath | Sequence[AnyPath],
    *,
    tokenisation: Tokenisation = "words",
    sentences: SentenceUnit | None = None,
    lowercase: bool = True,
    cleaning: Cleaning = "none",
    malformed: MalformedRows | None = None,
) -> Corpus:
    """The sentences of files, of folders' `*.txt` and `*.txt.gz` files, and of `python_docs`.

    Arguments:
        paths: one or several; the others are those of `Corpus`.

    Raises:
        InputError: for no path, a path where nothing is, or a folder without text; for others from going through the sentences.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("It's raining. The cat's wet; he is 3.")
    >>> list(sentences(file))
    [["it's", 'raining'], ['the', "cat's", 'wet', 'he', 'is', '3']]
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputError(f"no text is given; name a file, a folder of *.txt files, or {PYTHON_DOCS}")
    return Corpus(
        paths=tuple(file for path in given for file in _files(os.fspath(path))),
        tokenisation=tokenisation,
        sentences=sentences,
        lowercase=lowercase,
        cleaning=cleaning,
        malformed=malformed if malformed is not None else MalformedRows(),
    )


def _files(path: str) -> list[str]:
    if path == PYTHON_DOCS and not Path(path).exists():
        return [path]
    if not Path(path).is_dir():
        if not Path(path).exists():
            raise InputError(f"{path}: no such file; name a file, a folder of *.txt files, or {PYTHON_DOCS}")
        return [path]
    found = sorted(each for each in Path(path).rglob("*.txt*") if each.name.endswith((".txt", ".txt.gz")))
    files = [str(each) for each in found if each.is_file() and each.stat().st_size]
    if not files:
        raise InputError(f"{path}: holds no text, no file *.txt or *.txt.gz with something in it; name the files")
    return files


@cache
def _word() -> re.Pattern[str]:
    """Letters and digits, the marks that languages such as Hindi write on letters, and apostrophes between them."""
    marks = "".join(mark for mark in map(chr, range(0x20000)) if unicodedata.category(mark) in ("Mn", "Mc"))
    part = rf"[^\W_]+(?:[{marks}]+[^\W_]*)*"
    return re.compile(rf"{part}(?:['’]{part})*")


# The vocabulary: words that get a vector, and how often each was seen.

MOST_DISTINCT = 20_000_000
"""Different words that are counted at once; beyond, the rarest are forgotten, as word2vec does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """Words by falling count; of those seen equally often the first in code point order comes first.

    Arguments:
        words, counts: those seen often enough.
        tokens, sentences: of the whole text.
    """

    words: tuple[str, ...]
    counts: Counts
    tokens: int
    sentences: int

    def __len__(self) -> int:
        return len(self.words)


def count_words(
    sentences: Iterable[Sequence[str]],
    minimum_count: int = 1,
    *,
    report: Report = quiet,
    most: int = MOST_DISTINCT,
) -> Vocabulary:
    """The vocabulary of a text.

    Where there are more than `most` different words, those seen once until then are forgotten, the next time those seen up to
    twice, and so on; a word that comes back is counted again.

    Raises:
        InputError: for a text without words, or without one that is seen often enough.

    >>> vocabulary = count_words([["b", "a"], ["a", "c", "b", "a"]], 2)
    >>> vocabulary.words, vocabulary.counts.tolist(), vocabulary.tokens
    (('a', 'b'), [3, 2], 6)
    """
    counter: Counter[str] = Counter()
    tokens = number = forgotten = 0
    for number, sentence in enumerate(sentences, start=1):
        counter.update(sentence)
        tokens += len(sentence)
        if len(counter) > most:
            forgotten += 1
            counter = Counter({word: count for word, count in counter.items() if count > forgotten})
        if number % 1000 == 0:
            report(Progress("counting words", tokens, None, "words"))
    if not tokens:
        raise InputError("the text has no words; give text with words in it")
    if minimum_count <= forgotten:
        raise InputError(
            f"the text has more than {most:,} different words, and those seen {forgotten:,} times may be forgotten; raise "
            f"minimum_count to {forgotten + 1:,} or more"
        )
    kept = sorted((-count, word) for word, count in counter.items() if count >= minimum_count)
    if not kept:
        raise InputError(
            f"no word of the {tokens:,} is seen {minimum_count:,} times; lower minimum_count, or give more text"
        )
    counts = np.array([-count for count, _ in kept], dtype=np.int64)
    return Vocabulary(words=tuple(word for _, word in kept), counts=counts, tokens=tokens, sentences=number)
