"""Texts with spans marked by characters, as tools of annotation write them, as words with tags.

Prodigy: `{"text": ..., "spans": [{"start": 0, "end": 3, "label": "PER"}]}`.
Doccano: `{"text": ..., "label": [[0, 3, "PER"]]}`, or `"entities": [{"start_offset": 0, "end_offset": 3, "label": "PER"}]`.
`regard tag --json`: `{"text": ..., "words": [{"text": "Ann", "tag": "B-PER", ...}]}`. Ends are excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data.lines import Line
from regard.data.malformed import MalformedRow
from regard.data.pair import malformed_row, short, text_fault
from regard.data.words import words_of

WORDS = ("words", "tokens")
"""Where words are, of a text that is cut into words already."""

SPANS = ("spans", "entities", "label", "labels")
"""Where spans are, by the tool; the first that is there as a list."""

_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "type")
_OPENING = b'{"taggings": ['


def is_annotated(content: Mapping[str, Any]) -> bool:
    """Whether an object is a text with spans, or what `regard tag` said of one."""
    cut = any(isinstance(content.get(key), list) and content[key] and isinstance(content[key][0], str) for key in WORDS)
    marked = any(isinstance(content.get(key), list) for key in ("words", *SPANS))
    return isinstance(content.get("text"), str) and marked and not cut


def words_and_tags(name: str, line: int, content: Mapping[str, Any]) -> list[object] | MalformedRow:
    """The words of an annotated text and their tags (BIO), as two lists; or what is wrong with it.

    A span has to begin with a word and end with one, and none may lie in another.

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
        while start < end and start < len(text) and text[start].isspace():  # annotators often mark a space too
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
    """Start, end and label of a span, of a mapping or a list of three; None for anything else."""
    if isinstance(span, Mapping):
        parts = [next((span[key] for key in keys if key in span), None) for keys in (_STARTS, _ENDS, _LABELS)]
    else:
        parts = list(span) if isinstance(span, list | tuple) else []
    if len(parts) != 3 or type(parts[0]) is not int or type(parts[1]) is not int or text_fault("label", parts[2]):
        return None
    return (parts[0], parts[1], str(parts[2])) if 0 <= parts[0] < parts[1] else None


def without_frame(first: Line, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines of JSONL; those of the one object that `regard tag --json` writes are taken out of it."""
    if not first.content.startswith(_OPENING):
        yield first
        yield from lines
        return
    for line in lines:
        content = line.content.strip().removesuffix(b",")
        if content != b"]}":
            yield line._replace(content=content)
