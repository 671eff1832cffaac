"""Reading sentences with a tag for each word: CoNLL columns, JSONL, and texts with spans given as character offsets.

These forms of annotated texts are read; end offsets are exclusive.

Prodigy: `{"text": ..., "spans": [{"start": 0, "end": 3, "label": "PER"}]}`.
Doccano: `{"text": ..., "label": [[0, 3, "PER"]]}`, or `"entities": [{"start_offset": 0, "end_offset": 3, "label": "PER"}]`.
`regard tag --json`: `{"text": ..., "words": [{"text": "Ann", "tag": "B-PER", ...}]}`.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from regard.data.lines import Line, files_of, read_each, read_lines
from regard.data.malformed import (
    MalformedRow,
    MalformedRows,
    decoded,
    first_fault,
    malformed_row,
    read_rows,
    short,
    text_fault,
    usable,
)
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.tables import usual_width
from regard.errors import InputError, nearest
from regard.reading import AnyPath

__all__ = ["FORMATS", "MalformedRow", "MalformedRows", "TaggedSentence", "read_tagged"]

Span = tuple[int, int]

# The ranges of Chinese characters, as in BERT's tokenizer; each character is a word.
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_CONTROL = "\\x00-\\x1f\\x7f-\\x9f"


def words_of(text: str) -> list[Span]:
    r"""Split a text into words; returns (start, end) character offsets, with exclusive ends.

    A word is

    - letters, digits and combining marks, with single punctuation marks inside: `1,000.50`, `22-year-old`, `a@b.org`;
    - a web address, a mention or a hashtag: `https://example.org/?a`, `@name`, `#topic`;
    - letters with a dot after each: `U.S.`; a single capital letter with its dot, if a capital letter follows: `J. Smith`;
    - the ending `'s`;
    - each Chinese character, and each other mark; several dots in a row are one word.

    Data sets of tagged words are split in a similar way, so the model sees plain text as it saw its training data. Control
    characters are not part of any word.

    >>> text = "U.S. officials met Angela Merkel's aide (22-year-old J. Doe)."
    >>> [text[start:end] for start, end in words_of(text)]
    ['U.S.', 'officials', 'met', 'Angela', 'Merkel', "'s", 'aide', '(', '22-year-old', 'J.', 'Doe', ')', '.']
    """
    return [found.span() for found in _pattern().finditer(text)]


@cache
def _pattern() -> re.Pattern[str]:
    # `re` does not count combining marks and joiners, which many scripts need, as word characters.
    joined = [code for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf")]
    letter = rf"(?:(?![{_CHINESE}])[\w{''.join(map(chr, joined))}])"
    return re.compile(
        rf"(?:https?://|www\.)[^\s{_CONTROL}]*[^\s{_CONTROL}.,;:!?\"')\]}}]"
        rf"|[@\#]{letter}+"
        r"|\b(?:[^\W\d_]\.){2,}(?!\w)"
        r"|\b[A-Z]\.(?=[ \t]+[A-Z])"
        r"|['’][sS]\b"
        rf"|{letter}+(?:(?!['’][sS]\b)[-.,:/@'’&+]{letter}+)*"
        r"|\.{2,}"
        rf"|[^\s{_CONTROL}]"
    )


WORDS = ("words", "tokens")
"""Keys of the list of words, for texts that are already split into words."""

SPANS = ("spans", "entities", "label", "labels")
"""Keys of the list of spans in the output of different tools; the first that holds a list is used."""

_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "type")
_OPENING = b'{"taggings": ['


def is_annotated(content: Mapping[str, Any]) -> bool:
    """Whether an object is a text with spans, or an output of `regard tag --json`."""
    cut = any(isinstance(content.get(key), list) and content[key] and isinstance(content[key][0], str) for key in WORDS)
    marked = any(isinstance(content.get(key), list) for key in ("words", *SPANS))
    return isinstance(content.get("text"), str) and marked and not cut


def words_and_tags(name: str, line: int, content: Mapping[str, Any]) -> list[object] | MalformedRow:
    """The words of an annotated text and their BIO tags, as two lists; or a `MalformedRow`.

    Spans must begin and end at word boundaries and must not overlap.

    >>> words_and_tags("a", 1, {"text": "Ann Lee ran.", "spans": [{"start": 0, "end": 7, "label": "PER"}]})
    [['Ann', 'Lee', 'ran', '.'], ['B-PER', 'I-PER', 'O', 'O']]
    """
    if content.get("answer") in ("reject", "ignore"):
        return malformed_row(name, line, "not accepted", f"its answer is {content['answer']!r}")
    text, words = str(content["text"]), content.get("words")
    if isinstance(words, list):
        if not all(isinstance(word, Mapping) for word in words):
            return malformed_row(name, line, "not a list of words with tags", short(words))
        return [[word.get("text") for word in words], [word.get("tag") for word in words]]
    marked = next(content[key] for key in SPANS if isinstance(content.get(key), list))
    places = words_of(text)
    tags = ["O"] * len(places)
    for span in marked:
        found = _span(span)
        if found is None:
            return malformed_row(name, line, "not a span", f"{short(span)}; a span has start, end and label")
        start, end, label = found
        while start < end and start < len(text) and text[start].isspace():  # annotators often include a space
            start += 1
        while end > start and text[end - 1 : end].isspace():
            end -= 1
        within = [number for number, (first, last) in enumerate(places) if first < end and last > start]
        if not within or places[within[0]][0] != start or places[within[-1]][1] != end:
            return malformed_row(name, line, "span cuts a word", f"{short(text[start:end])} at {start} to {end}")
        if any(tags[number] != "O" for number in within):
            return malformed_row(name, line, "spans overlap", f"{short(text[start:end])} at {start} to {end}")
        for number in within:
            tags[number] = f"{'B' if number == within[0] else 'I'}-{label}"
    return [[text[first:last] for first, last in places], tags]


def _span(span: object) -> tuple[int, int, str] | None:
    """(start, end, label) of a span given as a mapping or a list of three; None for anything else."""
    if isinstance(span, Mapping):
        parts = [next((span[key] for key in keys if key in span), None) for keys in (_STARTS, _ENDS, _LABELS)]
    else:
        parts = list(span) if isinstance(span, list | tuple) else []
    if len(parts) != 3 or type(parts[0]) is not int or type(parts[1]) is not int or text_fault("label", parts[2]):
        return None
    return (parts[0], parts[1], str(parts[2])) if 0 <= parts[0] < parts[1] else None


def without_frame(first: Line, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines of JSONL; for the single object that `regard tag --json` writes, its elements as lines."""
    if not first.content.startswith(_OPENING):
        yield first
        yield from lines
        return
    for line in lines:
        content = line.content.strip().removesuffix(b",")
        if content != b"]}":
            yield line._replace(content=content)


FORMATS = ("auto", "columns", "jsonl")
LONGEST_SENTENCE = 100_000  # words; a longer sentence is malformed, to bound memory use

_DOCUMENT = "-DOCSTART-"
_SAMPLE_LINES = 100
TAGS = ("tags", "labels", "ner_tags", "pos_tags")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each, with the file and the line number (from 1) of the first word.

    >>> TaggedSentence(words=("Ann", "ran"), tags=("B-PER", "O"), file="ner.conll", line=1).tags
    ('B-PER', 'O')
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    file: str
    line: int


_Found = Iterator[TaggedSentence | MalformedRow]


def read_tagged(
    path: AnyPath | Sequence[AnyPath],
    *,
    format: str = "auto",
    word: int | str | None = None,
    tag: int | str | None = None,
    tagged: bool = True,
    tags: Collection[str] | None = None,
    on_error: Literal["skip", "stop"] | str = "skip",
    malformed: MalformedRows | None = None,
) -> Iterator[TaggedSentence]:
    r"""The tagged sentences of one file, or of several in turn, one by one; no file is held in memory.

    Files are UTF-8, plain or gzip (recognised by content), with or without a byte-order mark, with LF or CRLF line ends. In a
    file of columns each line is a word with its tag, empty lines separate sentences, and lines that begin with -DOCSTART- are
    skipped. The separator is a tab if the first line contains one (words may then contain spaces), else tabs or spaces. A
    sentence with a malformed line is left out entirely.

    Arguments:
        path: a file or several; or `hub:owner/name[:configuration][@split]`, a dataset of the Hugging Face hub.
        format: `columns`; `jsonl` (one object per line: a list of words and a list of tags, or a text with spans as character
            offsets as written by Prodigy and Doccano, or the output of `regard tag --json`); `auto`: by the first line.
        word, tag: the columns of words and tags, counted from 0, or from the end as -1 (default 0 and -1). In JSONL and hub
            datasets their keys (default "words" or "tokens", and "tags", "labels", "ner_tags" or "pos_tags").
        tagged: whether tags are read. If False, sentences have no tags, and files without tags can be read.
        tags: the allowed tags; a sentence with another tag is malformed. None to accept every tag.
        on_error: what to do with a malformed sentence: `skip` (record it and leave it out) or `stop` (raise `InputError`).
        malformed: where malformed sentences are recorded.

    Raises:
        InputError: if a file cannot be used at all (missing, empty, binary, wrong encoding, broken gzip, no usable sentence);
            raised by the call or while reading. Also for a malformed sentence if `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ner.conll"
    >>> _ = file.write_text("-DOCSTART- O\n\nAnn I-PER\nran O\n\nParis I-LOC\n")
    >>> [(sentence.words, sentence.tags) for sentence in read_tagged(file)]
    [(('Ann', 'ran'), ('I-PER', 'O')), (('Paris',), ('I-LOC',))]
    """
    if format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, FORMATS)}")
    files = files_of(path, "tagged sentences")

    def one(place: AnyPath) -> Iterator[TaggedSentence]:
        name = os.fspath(place)
        found, needed = _found(name, format, word, tag, tagged)
        known = found if tags is None or not tagged else _known(found, frozenset(tags))
        return usable(known, name, needed, on_error, malformed)

    return read_each(files, one)


def _found(name: str, format: str, word: int | str | None, tag: int | str | None, tagged: bool) -> tuple[_Found, str]:
    """The sentences of a file of any format, and what each needs, for messages."""
    lines = None
    if not has_objects(name):
        lines = read_lines(name)
        if format == "auto":
            first = next(lines)
            format = "jsonl" if first.content.lstrip().startswith(b"{") else "columns"
            lines = without_frame(first, lines)
    if lines is not None and format == "columns":
        if isinstance(word, str) or isinstance(tag, str):
            raise InputError(f"{name}: word and tag are numbers of columns here, counted from 0, or -1 for the last")
        word, tag = 0 if word is None else word, -1 if tag is None else tag
        needed = "each line needs a word" + (" and its tag" if tagged else "") + ", and an empty line ends a sentence"
        return _from_columns(name, lines, word, tag if tagged else None), needed
    if isinstance(word, int) or isinstance(tag, int):
        raise InputError(f"{name}: word and tag are keys here, as 'words' and 'tags', not column numbers")
    rows = objects_of(name) if lines is None else objects_of_jsonl(name, lines)
    needed = "each line needs to be a JSON object with a list of words" + (" and one of tags" if tagged else "")
    return _from_objects(name, rows, word, tag, tagged), needed


def _known(found: _Found, tags: frozenset[str]) -> _Found:
    for sentence in found:
        unknown = None
        if isinstance(sentence, TaggedSentence):
            unknown = next((tag for tag in sentence.tags if tag not in tags), None)
        if unknown is None:
            yield sentence
        else:
            yield malformed_row(sentence.file, sentence.line, "unknown tag", short(unknown))


def _from_columns(name: str, lines: Iterator[Line], word: int, tag: int | None) -> _Found:
    sample = list(itertools.islice(lines, _SAMPLE_LINES))
    filled = [line for line in sample if line.content.strip() and not line.content.startswith(_DOCUMENT.encode())]
    separator = re.compile("\t" if filled and b"\t" in filled[0].content else "[ \t]+")
    rows = [
        (line.number, _split(line.content.decode(errors="replace"), separator)) for line in filled if not line.too_long
    ]
    least = max(place + 1 if place >= 0 else -place for place in (word, tag) if place is not None)
    width = usual_width(rows, max(least, 1 if tag is None else 2))
    words: list[str] = []
    tags: list[str] = []
    start, fault = 0, None
    for line in itertools.chain(sample, lines, [Line(-1, b"")]):
        if not line.content.strip() or line.content.startswith(_DOCUMENT.encode()):
            if fault is not None:
                yield fault
            elif words:
                yield TaggedSentence(words=tuple(words), tags=tuple(tags), file=name, line=start)
            words, tags, fault = [], [], None
            continue
        if fault is not None:
            continue
        cells = _cells(name, line, separator, width)
        if isinstance(cells, MalformedRow):
            fault = cells
            continue
        if not words:
            start = line.number
        held = [("word", cells[word])] + ([("tag", cells[tag].strip())] if tag is not None else [])
        wrong = first_fault(held)
        if wrong is None and len(words) >= LONGEST_SENTENCE:
            wrong = "sentence too long", f"more than {LONGEST_SENTENCE:,} words without an empty line"
        if wrong is not None:
            fault = malformed_row(name, line.number, *wrong)
            continue
        words.append(held[0][1])
        tags.extend(text for _, text in held[1:])


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    return separator.split(text if separator.pattern == "\t" else text.strip(" \t"))


def _cells(name: str, line: Line, separator: re.Pattern[str], width: int) -> list[str] | MalformedRow:
    text = decoded(name, line)
    if isinstance(text, MalformedRow):
        return text
    cells = _split(text, separator)
    if len(cells) == width:
        return cells
    return malformed_row(
        name, line.number, "wrong number of columns", f"{len(cells)} instead of {width}: {short(text)}"
    )


def _from_objects(name: str, rows: Iterator[Object], word: str | None, tag: str | None, tagged: bool) -> _Found:
    def read(line: int, content: dict) -> TaggedSentence | MalformedRow:
        if word is None and tag is None and is_annotated(content):
            found = words_and_tags(name, line, content)
            return found if isinstance(found, MalformedRow) else _sentence(name, line, found[: 2 if tagged else 1])
        keys = [word or next((key for key in WORDS if key in content), WORDS[0])]
        keys += [tag or next((key for key in TAGS if key in content), TAGS[0])] if tagged else []
        values = values_of(name, line, content, keys)
        return values if isinstance(values, MalformedRow) else _sentence(name, line, values)

    return read_rows(rows, read)


def _sentence(name: str, line: int, lists: list[object]) -> TaggedSentence | MalformedRow:
    parts: list[tuple[str, ...]] = []
    for side, items in zip(("word", "tag"), lists, strict=False):
        if not isinstance(items, list):
            return malformed_row(name, line, f"not a list of {side}s", short(items))
        texts = [str(item) if side == "tag" and type(item) is int else item for item in items]
        wrong = first_fault((side, text) for text in texts)
        if wrong is not None:
            return malformed_row(name, line, *wrong)
        parts.append(tuple(map(str, texts)))
    words, tags = parts[0], parts[1] if len(parts) > 1 else ()
    if not words:
        return malformed_row(name, line, "no words")
    if len(parts) > 1 and len(words) != len(tags):
        return malformed_row(name, line, "tags do not fit the words", f"{len(words)} words and {len(tags)} tags")
    return TaggedSentence(words=words, tags=tags, file=name, line=line)
