"""BERT's tokenizer written out plainly, and vocabularies small enough to read."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Set

import pytest

from regard.text import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefgnostuvwxyzABDEé\u0301ßäıПривет東京あ한ا0123456789.,-!?'\"#$%[]<>_ª²😀👍"
IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


@pytest.fixture(scope="session")
def pieces() -> list[str]:
    """Some letters of many scripts, each in both forms, and some longer pieces; not every letter."""
    draw = random.Random(3)
    letters = list(dict.fromkeys(LETTERS))
    longer = {"".join(draw.choices("abdeästu", k=draw.randint(2, 4))) for _ in range(60)}
    longer |= {"un", "##aff", "##able", "##b", "don", "the", "The", "1990", "##90"}
    longer |= {"##" + piece for piece in list(longer)[:40] if not piece.startswith("##")}
    return list(dict.fromkeys([*SPECIAL, *letters, *("##" + letter for letter in letters), *sorted(longer)]))


@pytest.fixture(scope="session")
def uncased(pieces: list[str]) -> Tokenizer:
    return Tokenizer.from_vocabulary(pieces, lowercase=True)


@pytest.fixture(scope="session")
def cased(pieces: list[str]) -> Tokenizer:
    return Tokenizer.from_vocabulary(pieces, lowercase=False)


@pytest.fixture(scope="session")
def written_out(pieces: list[str]) -> Callable[[str, bool], list[str]]:
    """Pieces of a text by the rules of Devlin et al.'s code, each rule in words: an oracle that shares nothing with ours."""
    known = frozenset(pieces)

    def read(text: str, lowercase: bool) -> list[str]:
        cleaned = ""
        for character in text:
            if character in "\0\ufffd" or (unicodedata.category(character)[0] == "C" and character not in "\t\n\r"):
                continue
            if character in " \t\n\r" or unicodedata.category(character) == "Zs":
                cleaned += " "
            elif any(first <= ord(character) <= last for first, last in IDEOGRAPHS):
                cleaned += f" {character} "
            else:
                cleaned += character
        if lowercase:
            bare = "".join(c for c in unicodedata.normalize("NFD", cleaned) if unicodedata.category(c) != "Mn")
            cleaned = "".join(c.lower() for c in bare)
        return [piece for word in cleaned.split() for part in punctuated(word) for piece in longest_first(part, known)]

    return read


def punctuated(word: str) -> list[str]:
    """A word cut around every mark of punctuation; ASCII's symbols count as such."""
    parts = [""]
    for character in word:
        code = ord(character)
        symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
        if symbol or unicodedata.category(character)[0] == "P":
            parts += [character, ""]
        else:
            parts[-1] += character
    return [part for part in parts if part]


def longest_first(word: str, pieces: Set[str]) -> list[str]:
    """The longest piece that begins the word, then the longest that goes on."""
    if len(word) > 100:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        marked = "##" if start else ""
        for end in range(len(word), start, -1):
            if marked + word[start:end] in pieces:
                found.append(marked + word[start:end])
                start = end
                break
        else:
            return ["[UNK]"]
    return found
