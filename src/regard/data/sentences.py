"""Running text cut into sentences, by rules."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATIONS = _words(
    """
    adm al approx apr assn assoc aug ave bros c ca capt cf ch co col comdr corp cpl dec dept dr e.g ed eds eq esp est etc feb fig
    figs fl fr ft gen gov hon i.e inc jan jr jul jun lat lit lt ltd maj mar messrs mr mrs ms mt no nos nov oct op p.m a.m pp prof
    pt pvt q.v rep resp rev sen sep sept sgt sr st u.k u.n u.s viz vol vols vs
    """
)
"""What a full stop may follow inside a sentence; without the stop, in lower case."""

ENDING = _words("a.m al approx ave bros co corp dept etc ft inc jr ltd p.m sr u.k u.n u.s")
"""Those of them that end a sentence as often as not: they do before a word that often begins one."""

BEGINNING = _words(
    """
    A After All Although An And Another As At Because Before Both But By During Each For From He Her His However I If In It Its
    Many More Most My No On One Other Our She Since So Some Such That The Their Then There These They This Those Though Through To
    Two Under Until We What When Where Which While Who With You
    """
)

_OPENING, _CLOSING = "\"'“‘«([{", "\"'”’»)]}"
# A mark that may end a sentence, what closes behind it, and white space before something that may begin one; in Chinese and
# Japanese the mark suffices. Nothing is tried twice, so that a line of a million full stops takes no longer than another.
_MARK = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]++)[{re.escape(_CLOSING)}]*+(?P<space>\s++)(?=[{re.escape(_OPENING)}]*[^\W_a-zà-öø-ÿ])"
    rf"|(?<![。！？])[。！？]++[{re.escape(_CLOSING)}」』]*+\s*+(?=\S)"
)
_LAST_WORD = re.compile(r"[^\s()\[\]{}\"“”‘’«»,;:/–—]*$")
_FIRST_WORD = re.compile(r"\w+")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, white space around them left out; together they are the text.

    A sentence ends at `.`, `!`, `?` or `…`, with the quotes and brackets that close behind it, where white space follows and
    then something that is no small letter. A single full stop does not end one

    - after a title, a month or another abbreviation of `ABBREVIATIONS`; but "etc.", "Inc." and their like (`ENDING`) do, before a
      word that often begins a sentence;
    - after an initial: "J. S. Bach";
    - after the number at the very beginning: "1. Introduction".

    In Chinese and Japanese `。`, `！` and `？` end one without white space. Meant for running text of European languages,
    above all English; it is no match for a trained splitter, and needs no model.

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
    """Whether the full stop at `found` belongs to the word before it."""
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
