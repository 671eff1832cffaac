"""The text of the WikiText sets as other text is written: they separate every mark and word by spaces."""

from __future__ import annotations

import re

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
