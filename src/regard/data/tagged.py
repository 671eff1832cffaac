"""Reading sentences with a tag for each word, in a stream: CoNLL's columns, or JSONL."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.data.annotated import WORDS, is_annotated, without_frame, words_and_tags
from regard.data.lines import Line, read_lines
from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.objects import Object, has_objects, objects_of, objects_of_jsonl, values_of
from regard.data.pair import decoded, malformed_row, short, text_fault
from regard.data.tables import usual_width
from regard.data.usable import usable
from regard.errors import InputError, nearest

__all__ = ["FORMATS", "MalformedRow", "MalformedRows", "TaggedSentence", "read_tagged"]

FORMATS = ("auto", "columns", "jsonl")
LONGEST_SENTENCE = 100_000  # words; more in a row without an empty line are no sentence, and must not fill the memory

_DOCUMENT = "-DOCSTART-"
_SAMPLE_LINES = 100
TAGS = ("tags", "labels", "ner_tags", "pos_tags")

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedSentence:
    """The words of a sentence and a tag for each, with the file and the line (from 1) of the first word.

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
    r"""The sentences in a file, or in several one after another, one by one; no file is held in memory.

    Files are UTF-8, plain or gzip (told by content), with or without a byte-order mark, with LF or CRLF line ends. In a file of
    columns each line is a word with its tag, empty lines part the sentences, and lines that begin with -DOCSTART- are left
    out. Columns are parted by tabs where the first line holds one (words may then hold spaces), else by tabs or spaces.
    A sentence with a malformed line is left out as a whole.

    Arguments:
        path: a file or several; or `hub:owner/name[:configuration][@split]`, a dataset of the Hugging Face hub.
        format: `columns`; `jsonl` (one object in each line, with a list of words and a list of tags; or a text with spans by
            characters, as Prodigy and Doccano write them, or the output of `regard tag --json`); `auto`: by the first line.
        word, tag: the columns of words and tags, from 0, or from the last as -1 (default 0 and -1). In JSONL and hub datasets
            their keys (default "words" or "tokens", "tags" or "labels").
        tagged: whether there are tags. If not, every sentence has none, and files without them can be read.
        tags: the tags there are; a sentence with another one is malformed. None: whatever stands there.
        on_error: what a malformed sentence does: `skip` (it is recorded and left out) or `stop` (`InputError`).
        malformed: where malformed sentences are recorded.

    Raises:
        InputError: a file as a whole cannot be used (missing, empty, binary, wrongly encoded, broken gzip, no usable sentence),
            from the call or while reading; or a sentence is malformed and `on_error` is `stop`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ner.conll"
    >>> _ = file.write_text("-DOCSTART- O\n\nAnn I-PER\nran O\n\nParis I-LOC\n")
    >>> [(sentence.words, sentence.tags) for sentence in read_tagged(file)]
    [(('Ann', 'ran'), ('I-PER', 'O')), (('Paris',), ('I-LOC',))]
    """
    if format not in FORMATS:
        raise InputError(f"data format {format!r} is not known; {nearest(format, FORMATS)}")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise InputError("no file of tagged sentences is given; name one at least")

    def one(place: AnyPath) -> Iterator[TaggedSentence]:
        name = os.fspath(place)
        found, needed = _found(name, format, word, tag, tagged)
        known = found if tags is None or not tagged else _known(found, frozenset(tags))
        return usable(known, name, needed, on_error, malformed)

    return itertools.chain(one(paths[0]), itertools.chain.from_iterable(map(one, paths[1:])))


def _found(name: str, format: str, word: int | str | None, tag: int | str | None, tagged: bool) -> tuple[_Found, str]:
    """The sentences of a file of any format, and what is needed of them."""
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
    parting = re.compile("\t" if filled and b"\t" in filled[0].content else "[ \t]+")
    rows = [
        (line.number, _parted(line.content.decode(errors="replace"), parting)) for line in filled if not line.too_long
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
        cells = _cells(name, line, parting, width)
        if isinstance(cells, MalformedRow):
            fault = cells
            continue
        if not words:
            start = line.number
        held = [("word", cells[word])] + ([("tag", cells[tag].strip())] if tag is not None else [])
        wrong = next((wrong for part in held if (wrong := text_fault(*part)) is not None), None)
        if wrong is None and len(words) >= LONGEST_SENTENCE:
            wrong = "sentence too long", f"more than {LONGEST_SENTENCE:,} words without an empty line"
        if wrong is not None:
            fault = malformed_row(name, line.number, *wrong)
            continue
        words.append(held[0][1])
        tags.extend(text for _, text in held[1:])


def _parted(text: str, parting: re.Pattern[str]) -> list[str]:
    return parting.split(text if parting.pattern == "\t" else text.strip(" \t"))


def _cells(name: str, line: Line, parting: re.Pattern[str], width: int) -> list[str] | MalformedRow:
    text = decoded(name, line)
    if isinstance(text, MalformedRow):
        return text
    cells = _parted(text, parting)
    if len(cells) == width:
        return cells
    return malformed_row(
        name, line.number, "wrong number of columns", f"{len(cells)} instead of {width}: {short(text)}"
    )


def _from_objects(name: str, rows: Iterator[Object], word: str | None, tag: str | None, tagged: bool) -> _Found:
    for row in rows:
        if isinstance(row, MalformedRow):
            yield row
            continue
        line, content = row
        if word is None and tag is None and is_annotated(content):
            found = words_and_tags(name, line, content)
            yield found if isinstance(found, MalformedRow) else _sentence(name, line, found[: 2 if tagged else 1])
            continue
        keys = [word or next((key for key in WORDS if key in content), WORDS[0])]
        keys += [tag or next((key for key in TAGS if key in content), TAGS[0])] if tagged else []
        values = values_of(name, line, content, keys)
        yield values if isinstance(values, MalformedRow) else _sentence(name, line, values)


def _sentence(name: str, line: int, lists: list[object]) -> TaggedSentence | MalformedRow:
    parts: list[tuple[str, ...]] = []
    for side, items in zip(("word", "tag"), lists, strict=False):
        if not isinstance(items, list):
            return malformed_row(name, line, f"not a list of {side}s", short(items))
        texts = [str(item) if side == "tag" and type(item) is int else item for item in items]
        wrong = next((wrong for text in texts if (wrong := text_fault(side, text)) is not None), None)
        if wrong is not None:
            return malformed_row(name, line, *wrong)
        parts.append(tuple(map(str, texts)))
    words, tags = parts[0], parts[1] if len(parts) > 1 else ()
    if not words:
        return malformed_row(name, line, "no words")
    if len(parts) > 1 and len(words) != len(tags):
        return malformed_row(name, line, "tags do not fit the words", f"{len(words)} words and {len(tags)} tags")
    return TaggedSentence(words=words, tags=tags, file=name, line=line)
