"""Plain text read in a stream: as documents of sentences, of which sentence pairs are made, or as documents of lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal, get_args

from regard.data.lines import read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.pair import NOT_UTF_8
from regard.data.sentences import split_sentences
from regard.errors import InputError, nearest

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


# Documents that a language model reads one by one.


Unit = Literal["line", "paragraph"]
UNITS: tuple[str, ...] = get_args(Unit)

AnyPath = str | os.PathLike[str]


def read_texts(
    path: AnyPath | Sequence[AnyPath],
    *,
    unit: Unit | str = "line",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    r"""The documents in a file of text, or in several one after another; no file is held in memory.

    Files are UTF-8, plain or gzip (told by content), with or without a byte-order mark, with LF or CRLF line ends.

    Arguments:
        path: one file or several.
        unit: what one document is: a `line`, without the spaces around it; or a `paragraph`, lines up to the next empty one, line
            ends kept. Empty lines are no documents.
        malformed: where lines are recorded that are not UTF-8 or too long, and left out.

    Raises:
        InputError: a file cannot be used (missing, empty, binary, wrongly encoded, broken gzip), from the call or while reading.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n\nthree\n")
    >>> list(read_texts(file)), list(read_texts(file, unit="paragraph"))
    (['one', 'two', 'three'], ['one\ntwo', 'three'])
    """
    if unit not in UNITS:
        raise InputError(f"data.unit is {unit!r}; {nearest(unit, UNITS)}")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise InputError("no file of text is given; name one at least")
    lines = decoded_lines(paths, malformed if malformed is not None else MalformedRows())
    return (line.strip() for line in lines if line.strip()) if unit == "line" else _paragraphs(lines)


def decoded_lines(paths: Sequence[AnyPath], malformed: MalformedRows) -> Iterator[str]:
    """Every line of every file, an empty one after each file; those that are no UTF-8 or too long are recorded and left out."""
    for path in paths:
        name = os.fspath(path)
        for line in read_lines(name):
            if line.too_long:
                malformed.record(MalformedRow(file=name, line=line.number, reason="longer than 1 MiB"))
                continue
            try:
                yield line.content.decode()
            except UnicodeDecodeError:
                malformed.record(MalformedRow(file=name, line=line.number, reason=NOT_UTF_8))
        yield ""


def _paragraphs(lines: Iterator[str]) -> Iterator[str]:
    gathered: list[str] = []
    for line in lines:
        if line.strip():
            gathered.append(line)
        elif gathered:
            yield "\n".join(gathered)
            gathered = []


# The text of the WikiText sets as other text is written: they separate every mark and word by spaces.


UNKNOWN = "[UNK]"
"""What is left of each word that was too rare for these sets; they write `<unk>`."""

_HEADING = re.compile(r"\s*(?P<bar>=(?: =)*)\s(?P<title>[^=\s](?:.*[^=\s])?)\s(?P=bar)\s*")
_JOINED = re.compile(r" @([-,.])@ ")
_LEFT = re.compile(r" ([.,;:!?%)\]}]|n't\b|'(?:s|m|d|re|ve|ll)?(?=[\s.,;:!?)]|$))")
_RIGHT = re.compile(r"([(\[{$£€]) ")
_QUOTED = re.compile(r'" ([^"]*?) ?"')


def heading_level(line: str) -> int:
    """The level of a heading, from 1 for an article's title; 0 for a line that is none.

    >>> heading_level(" = Robert Boulter = "), heading_level(" = = = Early life = = = "), heading_level(" a = b = c ")
    (1, 3, 0)
    """
    found = _HEADING.fullmatch(line)
    return found["bar"].count("=") if found is not None else 0


def joined(text: str) -> str:
    """The text without the marks ` @-@ ` that the sets put between the parts of words and numbers; every other space stays.

    >>> joined("a well @-@ known 102 @,@ 500 , or so .")
    'a well-known 102,500 , or so .'
    """
    return _JOINED.sub(r"\1", text)


def cleaned(text: str) -> str:
    """The text without the spaces, and the marks ` @-@ `, that the sets put between the parts of words and before punctuation.

    Each `<unk>` becomes `UNKNOWN`.

    >>> cleaned('The " well @-@ known " game ( 2011 ) sold 102 @,@ 500 units ; why ?')
    'The "well-known" game (2011) sold 102,500 units; why?'
    """
    text = text.replace("<unk>", UNKNOWN)
    text = _JOINED.sub(r"\1", text)
    text = _QUOTED.sub(r'"\1"', text)
    text = _RIGHT.sub(r"\1", text)
    return _LEFT.sub(r"\1", text)
