"""The text that word vectors are trained on: sentences of words, read again for every pass, never whole in memory."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from regard.data.malformed import MalformedRows
from regard.data.python_docs import python_docs
from regard.data.running_text import Boundary, Cleaning, SentenceUnit, read_documents, sentences_of
from regard.data.wikitext import UNKNOWN
from regard.errors import InputError
from regard.models.config import check_types

Tokenisation = Literal["words", "whitespace"]
AnyPath = str | os.PathLike[str]

PYTHON_DOCS = "python_docs"
"""Stands for the reference text that comes with Python, where a path is asked for."""

LONGEST_SENTENCE = 10_000
"""Words; what is longer is read as several sentences, as word2vec does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Text as sentences of words. Going through it reads the files anew.

    Arguments:
        paths: files, UTF-8, plain or gzip; `python_docs` for Python's own reference text.
        tokenisation: `words` finds the words of raw text: letters, digits and the marks on them, apostrophes inside; for
            languages that write spaces. `whitespace` takes what stands between spaces, for text that is tokenised.
        sentences: `line`: each line is one; `split`: the paragraphs between empty lines are split at sentence ends; None: `line`
            where the text is tokenised, else `split`.
        lowercase: small letters only.
        cleaning: `wikitext` leaves out what these sets have beside text: headings, `<unk>`, and in `words` their extra spaces.
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
