"""What a WordPiece vocabulary is made of: whole words, continuations, characters, scripts, numbers, lengths."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.text.bert import CONTINUATION, is_reserved

# What the first word of a character's Unicode name says otherwise than the name of its script.
_SCRIPTS = {
    "KATAKANA-HIRAGANA": "katakana",
    "MASCULINE": "latin",
    "FEMININE": "latin",
    "FULLWIDTH": "latin",
    "MICRO": "greek",
    "IDEOGRAPHIC": "cjk",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Anatomy:
    """A vocabulary in figures. Every entry is reserved, a continuation, or begins a word.

    Arguments:
        total: all entries.
        reserved: entries that stand for no text: `[CLS]`, `[unused7]`, `<S>`.
        unused: those of them that stand for nothing at all.
        leading: how many reserved entries there are before the first other one.
        beginnings: entries that begin a word, or are one.
        continuations: entries that go on with a word, `##` before them.
        single_beginnings, single_continuations: of both, those of one character.
        numbers: entries of digits alone, in any script.
        scripts: entries by the script of their first letter, most first; `-` for those without a letter. A letter whose Unicode
            name begins with no script, such as one in superscript, goes under the first word of that name.
        lengths: entries of each number of characters, `##` not counted, reserved ones left out.
        first: the first entries, in order.
    """

    total: int
    reserved: int
    unused: int
    leading: int
    beginnings: int
    continuations: int
    single_beginnings: int
    single_continuations: int
    numbers: int
    scripts: dict[str, int]
    lengths: dict[int, int]
    first: tuple[str, ...]

    @property
    def continuation_share(self) -> float:
        """Of all entries."""
        return self.continuations / self.total

    @property
    def single_characters(self) -> int:
        """Entries of one character, in either form."""
        return self.single_beginnings + self.single_continuations

    @property
    def non_latin_share(self) -> float:
        """Entries in scripts other than Latin, of those with a letter."""
        lettered = sum(count for script, count in self.scripts.items() if script != "-")
        return 1 - self.scripts.get("latin", 0) / lettered if lettered else 0.0

    def to_rows(self) -> list[tuple[str, str]]:
        """Name and figure, as a table for people."""
        scripts = [f"{name} {count:,}" for name, count in list(self.scripts.items())[:8]]
        return [
            ("entries", f"{self.total:,}"),
            ("reserved", f"{self.reserved:,}, {self.unused:,} of them unused; the first {self.leading:,} entries"),
            ("begin a word", f"{self.beginnings:,} ({self.beginnings / self.total:.1%})"),
            ("go on with one", f"{self.continuations:,} ({self.continuation_share:.1%})"),
            ("of one character", f"{self.single_beginnings:,} and, going on, {self.single_continuations:,}"),
            ("of digits alone", f"{self.numbers:,}"),
            ("scripts", ", ".join(scripts)),
            ("longest", f"{max(self.lengths, default=0)} characters"),
        ]


def anatomy(pieces: Sequence[str], *, first: int = 10) -> Anatomy:
    """The figures of a vocabulary.

    Arguments:
        pieces: in the order of their ids, as `Tokenizer.tokens(range(size))` or the lines of a `vocab.txt` give them.
        first: how many of the first entries to keep.

    Raises:
        InputError: for a vocabulary without entries.

    >>> found = anatomy(["[PAD]", "[UNK]", "a", "b", "##a", "##b", "ab", "1990"])
    >>> found.leading, found.continuations, found.single_characters, found.numbers
    (2, 2, 4, 1)
    """
    if not pieces:
        raise InputError("the vocabulary is empty; give its pieces, in the order of their ids")
    reserved = [piece for piece in pieces if is_reserved(piece)]
    others = [piece for piece in pieces if not is_reserved(piece)]
    continuations = [piece[len(CONTINUATION) :] for piece in others if _continues(piece)]
    beginnings = [piece for piece in others if not _continues(piece)]
    bare = [*beginnings, *continuations]
    lengths = Counter(map(len, bare))
    return Anatomy(
        total=len(pieces),
        reserved=len(reserved),
        unused=sum(piece.startswith("[unused") for piece in reserved),
        leading=sum(1 for _ in itertools.takewhile(is_reserved, pieces)),
        beginnings=len(beginnings),
        continuations=len(continuations),
        single_beginnings=sum(len(piece) == 1 for piece in beginnings),
        single_continuations=sum(len(piece) == 1 for piece in continuations),
        numbers=sum(piece.isdecimal() for piece in bare),
        scripts=dict(Counter(map(script, bare)).most_common()),
        lengths={length: lengths[length] for length in sorted(lengths)},
        first=tuple(pieces[:first]),
    )


def script(piece: str) -> str:
    """The script of the first letter, by its name in Unicode; `-` where there is no letter.

    >>> [script(piece) for piece in ("Straße", "дом", "東京", "1990", "!")]
    ['latin', 'cyrillic', 'cjk', '-', '-']
    """
    letter = next((character for character in piece if unicodedata.category(character).startswith("L")), None)
    if letter is None:
        return "-"
    word = unicodedata.name(letter, "unnamed").split()[0]
    return _SCRIPTS.get(word, word.lower())


def _continues(piece: str) -> bool:
    return len(piece) > len(CONTINUATION) and piece.startswith(CONTINUATION)
