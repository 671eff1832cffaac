"""Reading running text in a stream as documents of sentences: what sentence pairs are made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal

from regard.data.malformed import MalformedRows
from regard.data.sentences import split_sentences
from regard.data.texts import AnyPath, decoded_lines
from regard.data.wikitext import cleaned, heading_level
from regard.errors import InputError

Boundary = Literal["blank_line", "heading", "line"]
SentenceUnit = Literal["split", "line"]
Cleaning = Literal["none", "wikitext"]
Document = list[str]

LONGEST_DOCUMENT = 1 << 22
"""Characters; a longer document is read as several, so that no text fills the memory."""


def read_documents(
    path: AnyPath | Sequence[AnyPath],
    *,
    documents: Boundary = "blank_line",
    sentences: SentenceUnit = "split",
    cleaning: Cleaning = "none",
    malformed: MalformedRows | None = None,
) -> Iterator[Document]:
    r"""The documents in a file of text, or in several one after another, each as the list of its sentences.

    No more is held in memory than one document, and of that no more than `LONGEST_DOCUMENT` characters.

    Arguments:
        path: one file or several; UTF-8, plain or gzip.
        documents: where one ends: at a `blank_line`; at a `heading` of the first level, ` = Title = ` with empty lines around it,
            as in WikiText; or with each `line`. Headings of any level are no sentences.
        sentences: whether running text is to be `split` into sentences, or each `line` is one.
        cleaning: `wikitext` takes the spaces out that these sets put between the parts of words and before punctuation.
        malformed: where lines are recorded that are not UTF-8 or too long, and left out.

    Raises:
        InputError: a file cannot be used, from the call or while reading.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("One is. Two\nis too.\n\nThree.\n")
    >>> list(read_documents(file))
    [['One is.', 'Two is too.'], ['Three.']]
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise InputError("no file of text is given; name one at least")
    lines = decoded_lines(paths, malformed if malformed is not None else MalformedRows())
    if documents == "line":
        paragraphs: Iterator[str | None] = chain.from_iterable((line, None) for line in lines)
    elif documents == "heading":
        paragraphs = _under_headings(lines)
    else:
        paragraphs = _between_blank_lines(lines, joined=sentences == "split")
    return _documents(paragraphs, sentences, cleaning)


def sentences_of(text: str) -> Document:
    """The sentences of one document, whose paragraphs have empty lines between them."""
    paragraphs = (part for part in _between_blank_lines(text.splitlines(), joined=True) if part is not None)
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]


def _documents(paragraphs: Iterable[str | None], sentences: SentenceUnit, cleaning: Cleaning) -> Iterator[Document]:
    """Documents of paragraphs, None between two of them."""
    document: Document = []
    size = 0
    for paragraph in chain(paragraphs, [None]):
        if paragraph is not None:
            text = cleaned(paragraph) if cleaning == "wikitext" else paragraph
            document += split_sentences(text) if sentences == "split" else [text.strip()] if text.strip() else []
            size += len(text)
        if document and (paragraph is None or size >= LONGEST_DOCUMENT):
            yield document
            document, size = [], 0


def _between_blank_lines(lines: Iterable[str], *, joined: bool) -> Iterator[str | None]:
    """The paragraphs between blank lines, None after each; lines are joined by spaces, or are paragraphs each."""
    gathered: list[str] = []
    size = 0
    for line in chain(lines, [""]):
        if line.strip() and joined:
            gathered.append(line.strip())
            size += len(line)
        elif line.strip():
            yield line
        if gathered and (not line.strip() or size >= LONGEST_DOCUMENT):
            yield " ".join(gathered)
            gathered, size = [], 0
        if not line.strip():
            yield None


def _under_headings(lines: Iterable[str]) -> Iterator[str | None]:
    """Lines that are no headings, None before each heading of the first level."""
    before = ""
    for line, after in pairwise(chain(lines, [""])):
        level = 0 if before.strip() or after.strip() else heading_level(line)
        if level == 1:
            yield None
        elif level == 0 and line.strip():
            yield line
        before = line
