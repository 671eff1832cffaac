"""Settings of training, the training text, its vocabulary, and progress reports.

The text is read again for each pass and is never held in memory as a whole.
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
"""The default of settings that depend on the method: the default of the method's own program, see `DEFAULTS`."""

DEFAULTS: Mapping[Method, Mapping[str, Any]] = MappingProxyType(
    {
        "skipgram": {"window": 5, "epochs": 5, "learning_rate": 0.025, "subsample": 1e-3, "noise_exponent": 0.75},
        "cbow": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-3, "noise_exponent": 0.75},
        "fasttext": {"window": 5, "epochs": 5, "learning_rate": 0.05, "subsample": 1e-4, "noise_exponent": 0.5},
        "glove": {"window": 10, "epochs": 25, "learning_rate": 0.05, "subsample": 0.0, "noise_exponent": 0.75},
    }
)
"""The value of `PUBLISHED` settings for each method."""

_SOME: tuple[tuple[tuple[Method, ...], tuple[str, ...]], ...] = (
    (("skipgram", "cbow", "fasttext"), ("negative", "subsample", "noise_exponent", "workers")),
    (("fasttext",), ("minimum_ngram", "maximum_ngram", "buckets")),
    (("glove",), ("weighting", "largest_count", "power", "clip", "batch", "vectors", "memory")),
)
ONLY: Mapping[str, tuple[Method, ...]] = MappingProxyType({name: methods for methods, names in _SOME for name in names})
"""Settings that only some methods have, with these methods."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorSettings:
    """All settings of training. The defaults are those of the method's own program.

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
        weighting: for GloVe: the weighting function f(x). `power`: min(1, (x / largest_count)^power); `none`: 1; `step`: 1 if
            x >= `largest_count`, else 0.
        largest_count: for GloVe: counts above this have weight 1. Use 10 for small texts.
        power: exponent of GloVe's weighting.
        clip: for GloVe: largest absolute value of a gradient's entries.
        batch: for GloVe: counts that are read together, in an order that is random anew in each epoch; smaller if there would be
            fewer than a hundred batches per epoch.
        vectors: for GloVe: the sum of a word's two vectors (`sum`), or the word vector alone (`word`).
        memory: for GloVe: MiB of memory for counting, in addition to the vocabulary; what does not fit is written to disk.

    Raises:
        InputError: for a wrong setting; the message names it.

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
                    object.__setattr__(self, name, value)  # the dataclass is frozen
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
        """The settings that the method has, as JSON values."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if self.method in ONLY.get(name, METHODS)
        }


def settings_of(method: Method, **given: Any) -> VectorSettings:
    """Settings of a method; a value of None means that the setting is not given.

    Raises:
        InputError: for a setting that the method does not have, or a wrong value.

    >>> settings_of("glove", width=50, negative=None).width
    50
    >>> settings_of("glove", negative=5)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: glove has no setting negative; leave it out, or choose skipgram, cbow or fasttext
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        others = ONLY.get(name, METHODS)
        if method in METHODS and method not in others:
            *first, last = others
            choices = f"{', '.join(first)} or {last}" if first else last
            raise InputError(f"{method} has no setting {name}; leave it out, or choose {choices}")
    return VectorSettings(method=method, **given)


Tokenisation = Literal["words", "whitespace"]
AnyPath = str | os.PathLike[str]


# The text.


PYTHON_DOCS = "python_docs"
"""The name that stands for Python's language reference where a path is expected."""

LONGEST_SENTENCE = 10_000
"""Words; longer sentences are split, as in word2vec."""


class Progress(NamedTuple):
    """The progress of training.

    Arguments:
        stage: the current stage, such as `epoch 2 of 5`.
        done, total: the amount that is done, and in total; `total` is None if it is unknown.
        unit: the unit of both, such as `words`.
    """

    stage: str
    done: int
    total: int | None
    unit: str


Report = Callable[[Progress], None]
"""A function that is called regularly with the progress; it must be fast."""


def quiet(progress: Progress) -> None:
    """A `Report` that does nothing."""


def per_second(count: int, seconds: float) -> float:
    """The rate count / seconds, rounded to one decimal place."""
    return round(count / max(seconds, 1e-9), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A text as an iterable of sentences, each a list of words. Each iteration reads the files again.

    Arguments:
        paths: paths of UTF-8 files, plain or gzip; `python_docs` for Python's language reference.
        tokenisation: `words` extracts the words of raw text: letters, digits, combining marks and apostrophes inside; for
            languages that separate words by spaces. `whitespace` splits at white space, for tokenised text.
        sentences: `line`: each line is a sentence. `split`: paragraphs (separated by empty lines) are split into sentences. None:
            `line` if `tokenisation` is `whitespace`, else `split`.
        lowercase: whether the text is converted to lower case.
        cleaning: `wikitext` removes headings and `<unk>` and, for `words`, the extra spaces of the WikiText data sets.
        malformed: where lines are recorded that are not UTF-8 or too long; they are left out.

    Raises:
        InputError: while iterating, for a file that cannot be used.
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
        """The settings as JSON values, with the names of the files (without their folders)."""
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
    """The sentences of text files, of all `*.txt` and `*.txt.gz` files in folders, or of `python_docs`.

    Arguments:
        paths: one path or several.
        tokenisation, sentences, lowercase, cleaning, malformed: see `Corpus`.

    Returns:
        A `Corpus`, which can be iterated several times.

    Raises:
        InputError: for no path, a missing path, or a folder without text. Other faults of files are raised while iterating.

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
        raise InputError(f"{path}: contains no *.txt or *.txt.gz file that is not empty; name the files")
    return files


@cache
def _word() -> re.Pattern[str]:
    """The pattern of a word: letters and digits, combining marks (which Hindi and others need), and apostrophes inside."""
    marks = "".join(mark for mark in map(chr, range(0x20000)) if unicodedata.category(mark) in ("Mn", "Mc"))
    part = rf"[^\W_]+(?:[{marks}]+[^\W_]*)*"
    return re.compile(rf"{part}(?:['’]{part})*")


# The vocabulary: the words that get a vector, with their counts.

MOST_DISTINCT = 20_000_000
"""The most different words that are counted at a time; if there are more, the rarest are dropped, as in word2vec."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """The words that occur often enough, sorted by falling count and then by code points.

    Arguments:
        words: the words.
        counts: (N,) int64, the count of each word.
        tokens, sentences: the number of all words and of sentences in the text.
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
    """Count the words of a text.

    When more than `most` different words are counted, those with count 1 are dropped; the next time those with counts up to 2,
    and so on. A dropped word that occurs again is counted from 1.

    Arguments:
        sentences: lists of words.
        minimum_count: words with a smaller count are left out.
        report: is called with the progress.
        most: the most different words that are counted at a time.

    Raises:
        InputError: for a text without words, or without a word that is frequent enough.

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
            f"the text has more than {most:,} different words, and words with counts up to {forgotten:,} may have been dropped; "
            f"raise minimum_count to {forgotten + 1:,} or more"
        )
    kept = sorted((-count, word) for word, count in counter.items() if count >= minimum_count)
    if not kept:
        raise InputError(
            f"none of the {tokens:,} words occurs {minimum_count:,} times; lower minimum_count, or give more text"
        )
    counts = np.array([-count for count, _ in kept], dtype=np.int64)
    return Vocabulary(words=tuple(word for _, word in kept), counts=counts, tokens=tokens, sentences=number)
