"""Reading plain text as documents of sentences or lines, sentence splitting, and Python's language reference as text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Literal, get_args

from regard.data.lines import files_of, read_lines
from regard.data.malformed import NOT_UTF_8, MalformedRow, MalformedRows
from regard.errors import InputError, nearest
from regard.reading import AnyPath


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATIONS = _words(
    """
    adm al approx apr assn assoc aug ave bros c ca capt cf ch co col comdr corp cpl dec dept dr e.g ed eds eq esp est etc feb fig
    figs fl fr ft gen gov hon i.e inc jan jr jul jun lat lit lt ltd maj mar messrs mr mrs ms mt no nos nov oct op p.m a.m pp prof
    pt pvt q.v rep resp rev sen sep sept sgt sr st u.k u.n u.s viz vol vols vs
    """
)
"""Abbreviations after which a full stop does not end a sentence; in lower case, without the stop."""

ENDING = _words("a.m al approx ave bros co corp dept etc ft inc jr ltd p.m sr u.k u.n u.s")
"""Abbreviations that often end a sentence: they do if a word of `BEGINNING` follows."""

BEGINNING = _words(
    """
    A After All Although An And Another As At Because Before Both But By During Each For From He Her His However I If In It Its
    Many More Most My No On One Other Our She Since So Some Such That The Their Then There These They This Those Though Through To
    Two Under Until We What When Where Which While Who With You
    """
)
"""Words that often begin a sentence."""

_OPENING, _CLOSING = "\"'“‘«([{", "\"'”’»)]}"
# A mark that may end a sentence, closing quotes and brackets after it, and white space before a character that may begin a
# sentence; in Chinese and Japanese the mark suffices. The quantifiers are possessive, so a line of a million full stops takes
# linear time.
_MARK = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]++)[{re.escape(_CLOSING)}]*+(?P<space>\s++)(?=[{re.escape(_OPENING)}]*[^\W_a-zà-öø-ÿ])"
    rf"|(?<![。！？])[。！？]++[{re.escape(_CLOSING)}」』]*+\s*+(?=\S)"
)
_LAST_WORD = re.compile(r"[^\s()\[\]{}\"“”‘’«»,;:/–—]*$")
_FIRST_WORD = re.compile(r"\w+")


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, by rules. White space around sentences is removed; nothing else is.

    A sentence ends at `.`, `!`, `?` or `…` and the closing quotes and brackets after it, if white space and then a character
    that is not a lower-case letter follow. A single full stop does not end a sentence

    - after a title, a month or another abbreviation in `ABBREVIATIONS`; but after "etc.", "Inc." and the others in `ENDING` it
      does if a word follows that often begins a sentence (`BEGINNING`);
    - after an initial: "J. S. Bach";
    - after a number at the beginning of the sentence: "1. Introduction".

    In Chinese and Japanese `。`, `！` and `？` end a sentence without white space. The rules are meant for running text in
    European languages, mainly English. A trained splitter is more accurate; this one needs no model.

    >>> split_sentences("Dr. Smith paid $3.50 to J. S. Bach Inc. for it. Why? “No idea.” He left.")
    ['Dr. Smith paid $3.50 to J. S. Bach Inc. for it.', 'Why?', '“No idea.”', 'He left.']
    """
    sentences: list[str] = []
    start = 0
    for found in _MARK.finditer(text):
        if found["mark"] == "." and _goes_on(text, start, found):
            continue
        sentences.append(text[start : found.end()].strip())
        start = found.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _goes_on(text: str, start: int, found: re.Match[str]) -> bool:
    """Whether the full stop at `found` belongs to the word before it, so that the sentence continues."""
    closed = found.end("mark") < found.start("space")
    before = _LAST_WORD.search(text, max(start, found.start() - 30), found.start())
    word = before[0] if before is not None else ""
    if word.isdigit():
        return not text[start : found.start()].strip().strip("0123456789") and not closed
    if closed:
        return False
    if len(word) == 1 and word.isalpha() and word != "I":
        return True
    plain = word.lower().rstrip(".")
    if plain not in ABBREVIATIONS:
        return False
    following = _FIRST_WORD.search(text, found.end())
    return plain not in ENDING or following is None or following[0] not in BEGINNING


Boundary = Literal["blank_line", "heading", "line"]
SentenceUnit = Literal["split", "line"]
Cleaning = Literal["none", "wikitext"]
Document = list[str]

LONGEST_DOCUMENT = 1 << 22
"""Characters; a longer document is read as several, to bound memory use."""


def read_documents(
    path: AnyPath | Sequence[AnyPath],
    *,
    documents: Boundary = "blank_line",
    sentences: SentenceUnit = "split",
    cleaning: Cleaning = "none",
    malformed: MalformedRows | None = None,
) -> Iterator[Document]:
    r"""The documents in one text file, or in several in turn, each as a list of its sentences.

    At most one document, and at most `LONGEST_DOCUMENT` characters of it, is held in memory.

    Arguments:
        path: one file or several; UTF-8, plain or gzip.
        documents: what separates documents: a `blank_line`; a first-level `heading`, ` = Title = ` between empty lines, as in
            WikiText; or each `line` is a document. With `heading`, headings of all levels are left out.
        sentences: `split`: running text is split into sentences. `line`: each line is a sentence.
        cleaning: `wikitext` removes the spaces that WikiText puts between the parts of words and before punctuation.
        malformed: where lines are recorded that are not UTF-8 or too long; they are left out.

    Raises:
        InputError: if a file cannot be used; raised by the call or while reading.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("One is. Two\nis too.\n\nThree.\n")
    >>> list(read_documents(file))
    [['One is.', 'Two is too.'], ['Three.']]
    """
    files = files_of(path, "text")
    lines = decoded_lines(files, malformed if malformed is not None else MalformedRows())
    if documents == "line":
        paragraphs: Iterator[str | None] = chain.from_iterable((line, None) for line in lines)
    elif documents == "heading":
        paragraphs = _under_headings(lines)
    else:
        paragraphs = _between_blank_lines(lines, joined=sentences == "split")
    return _documents(paragraphs, sentences, cleaning)


def sentences_of(text: str) -> Document:
    """The sentences of one document, whose paragraphs are separated by empty lines."""
    paragraphs = (part for part in _between_blank_lines(text.splitlines(), joined=True) if part is not None)
    return [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]


def _documents(paragraphs: Iterable[str | None], sentences: SentenceUnit, cleaning: Cleaning) -> Iterator[Document]:
    """The documents, each a list of sentences, from paragraphs with None between two documents."""
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
    """The paragraphs between blank lines, with None at each blank line.

    If `joined`, the lines of a paragraph are joined by spaces; else each line is a paragraph.
    """
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
    """The lines that are not headings, with None in place of each first-level heading."""
    before = ""
    for line, after in pairwise(chain(lines, [""])):
        level = 0 if before.strip() or after.strip() else heading_level(line)
        if level == 1:
            yield None
        elif level == 0 and line.strip():
            yield line
        before = line


# Documents for language models.


Unit = Literal["line", "paragraph"]
UNITS: tuple[str, ...] = get_args(Unit)


def read_texts(
    path: AnyPath | Sequence[AnyPath],
    *,
    unit: Unit | str = "line",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    r"""The documents in one text file, or in several in turn; no file is held in memory.

    Files are UTF-8, plain or gzip (recognised by content), with or without a byte-order mark, with LF or CRLF line ends.

    Arguments:
        path: one file or several.
        unit: what a document is: a `line`, without surrounding white space; or a `paragraph`, the lines up to the next empty
            line, with line ends kept. Empty lines are skipped.
        malformed: where lines are recorded that are not UTF-8 or too long; they are left out.

    Raises:
        InputError: if a file cannot be used (missing, empty, binary, wrong encoding, broken gzip); raised by the call or while
            reading.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = file.write_text("one\ntwo\n\nthree\n")
    >>> list(read_texts(file)), list(read_texts(file, unit="paragraph"))
    (['one', 'two', 'three'], ['one\ntwo', 'three'])
    """
    if unit not in UNITS:
        raise InputError(f"data.unit is {unit!r}; {nearest(unit, UNITS)}")
    files = files_of(path, "text")
    lines = decoded_lines(files, malformed if malformed is not None else MalformedRows())
    return (line.strip() for line in lines if line.strip()) if unit == "line" else _paragraphs(lines)


def decoded_lines(paths: Sequence[AnyPath], malformed: MalformedRows) -> Iterator[str]:
    """All lines of all files, and an empty line after each file; lines not in UTF-8 or too long are recorded and skipped."""
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


# Undoing the tokenization of the WikiText data sets, which separate all words and punctuation marks by spaces.


UNKNOWN = "[UNK]"
"""The replacement for `<unk>`, which these data sets contain in place of rare words."""

_HEADING = re.compile(r"\s*(?P<bar>=(?: =)*)\s(?P<title>[^=\s](?:.*[^=\s])?)\s(?P=bar)\s*")
_JOINED = re.compile(r" @([-,.])@ ")
_LEFT = re.compile(r" ([.,;:!?%)\]}]|n't\b|'(?:s|m|d|re|ve|ll)?(?=[\s.,;:!?)]|$))")
_RIGHT = re.compile(r"([(\[{$£€]) ")
_QUOTED = re.compile(r'" ([^"]*?) ?"')


def heading_level(line: str) -> int:
    """The level of a heading, from 1 for an article's title; 0 if the line is not a heading.

    >>> heading_level(" = Robert Boulter = "), heading_level(" = = = Early life = = = "), heading_level(" a = b = c ")
    (1, 3, 0)
    """
    found = _HEADING.fullmatch(line)
    return found["bar"].count("=") if found is not None else 0


def joined(text: str) -> str:
    """The text with the marks ` @-@ `, ` @,@ ` and ` @.@ ` inside words and numbers replaced by `-`, `,` and `.`.

    All other spaces stay.

    >>> joined("a well @-@ known 102 @,@ 500 , or so .")
    'a well-known 102,500 , or so .'
    """
    return _JOINED.sub(r"\1", text)


def cleaned(text: str) -> str:
    """The text without WikiText's marks ` @-@ ` inside words and without its spaces around punctuation.

    Each `<unk>` becomes `UNKNOWN`.

    >>> cleaned('The " well @-@ known " game ( 2011 ) sold 102 @,@ 500 units ; why ?')
    'The "well-known" game (2011) sold 102,500 units; why?'
    """
    text = text.replace("<unk>", UNKNOWN)
    text = _JOINED.sub(r"\1", text)
    text = _QUOTED.sub(r'"\1"', text)
    text = _RIGHT.sub(r"\1", text)
    return _LEFT.sub(r"\1", text)


_SALT = bytes([54])  # topics differ much in length; with this salt each split gets about its share of the text
_SHARES = {0: "validation", 1: "test"}  # the splits of two of twenty hash values; the other values are for training


def python_docs(split: str) -> Iterator[str]:
    """The topics of Python's language reference, as shown by `help("assert")`, one text each, sorted by name.

    There are about 80 topics with half a million characters. They come from the running Python, so another version has slightly
    different texts. The split of a topic depends only on its name.

    Arguments:
        split: `train`, `validation` or `test`; no topic is in two of them.

    Raises:
        InputError: for an unknown split, or if Python was installed without its topics.

    >>> "assertions" in next(python_docs("train"))
    True
    """
    splits = ("train", "validation", "test")
    if split not in splits:
        raise InputError(f"split is {split!r}; {nearest(split, splits)}")
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            "this Python was installed without the texts of help(); name files under data.train instead"
        ) from error
    seen: set[str] = set()
    for name in sorted(topics):
        text = topics[name]
        if text not in seen and _split_of(name) == split:
            yield text
        seen.add(text)  # a few topics share one text, which must not be in two splits


def _split_of(name: str) -> str:
    twentieth = int.from_bytes(blake2b(name.encode(), digest_size=8, salt=_SALT).digest(), "big") % 20
    return _SHARES.get(twentieth, "train")
