"""CLDR's date patterns: patterns parsed into pieces, pieces composed into text with spans.

A pattern such as ``EEEE, d 'de' MMMM 'de' y`` (Unicode Technical Standard 35, part 4, "Date Field Symbols")
becomes a `Form`: a tuple of literals, names and numbers. Composing a form ourselves, instead of calling a formatter,
gives the character positions of the year, the month and the day in the text.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from regard.errors import InputError

if TYPE_CHECKING:
    from babel import Locale

Span = tuple[int, int]

# The digit zero of CLDR's decimal numbering systems; the other nine follow it in Unicode.
ZEROS = {
    "arab": "٠",
    "arabext": "۰",
    "beng": "০",
    "deva": "०",
    "gujr": "૦",
    "guru": "੦",
    "khmr": "០",
    "knda": "೦",
    "laoo": "໐",
    "mlym": "൦",
    "mymr": "၀",
    "orya": "୦",
    "tamldec": "௦",
    "telu": "౦",
    "thai": "๐",
    "tibt": "༠",
}
STYLE_WEIGHTS = {"full": 2.0, "long": 3.0, "medium": 2.0, "iso": 1 / 3, "slashes": 1 / 3, "dots": 1 / 3}
YEAR_FIRST = {"iso": "y-MM-dd", "slashes": "y/MM/dd", "dots": "y.MM.dd"}
PLAIN_WEIGHT = 3.0  # a form as CLDR writes it is this many times as probable as each of its respellings
NATIVE_SHARE = 1 / 3  # share of dates with native digits, in languages that have their own digits

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Number:
    """A field written in digits: "y", "M" or "d", zero-padded to `width`."""

    field: str
    width: int


@dataclass(frozen=True, slots=True)
class Names:
    """A field written as a word: the twelve months ("M") or the seven weekdays from Monday ("E")."""

    field: str
    names: tuple[str, ...]


Piece = str | Number | Names
Reading = tuple[str, int]  # the order of the numbers ("dy", "yMd", ...) and the month that is named, 0 if none is


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One way to write any date: its pieces in order, the digit for zero, and its sampling weight."""

    locale: str
    style: str
    pieces: tuple[Piece, ...]
    zero: str = "0"
    weight: float = 1.0

    def has_letters(self) -> bool:
        """Whether every date in this form contains at least one letter."""
        for piece in self.pieces:
            texts = words(piece)
            if texts and all(any(map(str.isalpha, text)) for text in texts):
                return True
        return False

    def reading(self, month: int) -> Reading:
        """How to read a text in this form: the order of its numbers, and the month if it is named."""
        order = "".join(piece.field for piece in self.pieces if isinstance(piece, Number))
        return order, 0 if "M" in order else month

    def template(self, month: int, weekday: int) -> str:
        """The text of a day of that month and weekday with its numbers replaced by zeros, as by `template_of`."""
        parts = []
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
            elif isinstance(piece, Names):
                parts.append(piece.names[month - 1 if piece.field == "M" else weekday])
            else:
                parts.append(self.zero * (4 if piece.field == "y" else 1))
        return "".join(parts)


def compose(form: Form, day: datetime.date) -> tuple[str, dict[str, Span]]:
    """The text of `day` in `form`, and the [start, end) span of characters of each field in it.

    >>> form = Form(locale="es", style="long", pieces=(Number("d", 1), " de ", Names("M", ("enero",) * 12)))
    >>> compose(form, datetime.date(2017, 1, 9))
    ('9 de enero', {'d': (0, 1), 'M': (5, 10)})
    """
    parts, spans, end = [], {}, 0
    for piece in form.pieces:
        if isinstance(piece, str):
            text, field = piece, ""
        elif isinstance(piece, Names):
            text = piece.names[day.month - 1 if piece.field == "M" else day.weekday()]
            field = piece.field
        else:
            value = day.day if piece.field == "d" else day.month if piece.field == "M" else day.year
            text = _in_digits(f"{value:0{piece.width}d}", form.zero)
            field = piece.field
        if field:
            spans[field] = (end, end + len(text))
        parts.append(text)
        end += len(text)
    return "".join(parts), spans


def words(piece: Piece) -> tuple[str, ...]:
    """The texts that a piece can add to a date; empty for a number."""
    return (piece,) if isinstance(piece, str) else piece.names if isinstance(piece, Names) else ()


def template_of(text: str) -> str:
    """`text` with its numbers replaced by zeros: four zeros for a year, one for a day or a month.

    >>> template_of("9 May 2017") == template_of("31 May 1999")
    True
    """
    return _DIGITS.sub(_abstract, text)


def tidy(text: str) -> str:
    """CLDR text as people type it: composed characters (NFC), every space a plain one, no direction marks."""
    text = _BIDI.sub("", unicodedata.normalize("NFC", text))
    return "".join(" " if unicodedata.category(character) == "Zs" else character for character in text)


def lower_case(text: str, locale: str) -> str:
    """`text` in lower case by the rules of `locale`: the Turkic languages keep a dotted and a dotless i.

    >>> lower_case("ILIK", "tr")
    'ılık'
    """
    if locale in ("tr", "az"):
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def without_accents(text: str) -> str:
    """`text` with bare Latin and Greek letters; in other scripts a combining mark is part of the word.

    >>> without_accents("9 août, Μαΐου, й")
    '9 aout, Μαιου, й'
    """
    kept = []
    for character in text:
        base = unicodedata.normalize("NFD", character)[0]
        kept.append(base if script(base) in ("LATIN", "GREEK") else character)
    return "".join(kept)


@lru_cache(maxsize=4096)
def script(character: str) -> str:
    """The first word of a character's Unicode name: for a letter its script, 'LATIN', 'CJK', ..."""
    return unicodedata.name(character, "").partition(" ")[0]


def forms_of(code: str) -> tuple[Form, ...]:
    """Every form of the locale `code` that can be read without knowing the locale.

    These are CLDR's Gregorian patterns full, long and medium (``yMMMd`` if medium has no month name), if they name the
    month or put the year first, and three year-first forms in digits. Each comes with Latin and with native digits, and
    in four spellings: as CLDR writes it, in lower case, without accents, and in lower case without accents.
    """
    locale = load_locale(code)
    digits = [("", "0", 1.0)]
    zero = ZEROS.get(locale.other_numbering_systems.get("native", ""))
    if zero:
        digits = [("", "0", 1 - NATIVE_SHARE), (", native digits", zero, NATIVE_SHARE)]
    forms: list[Form] = []
    seen = set()
    for style, pattern in _patterns(locale).items():
        pieces = parse_pattern(pattern, locale)
        if pieces is None or pieces in seen:
            continue
        seen.add(pieces)
        variants = _variants(pieces, code)
        share = STYLE_WEIGHTS[style] / (PLAIN_WEIGHT + len(variants) - 1)
        for variant, (varied, suffix) in enumerate(variants):
            for digits_suffix, digits_zero, digits_share in digits:
                weight = share * digits_share * (1 if variant else PLAIN_WEIGHT)
                name = style + suffix + digits_suffix
                forms.append(Form(locale=code, style=name, pieces=varied, zero=digits_zero, weight=weight))
    return tuple(forms)


def load_locale(code: str) -> Locale:
    """Babel's locale with this code.

    Raises:
        InputError: if Babel is not installed.
    """
    try:
        from babel import Locale
    except ImportError:
        raise InputError("the dates data set needs babel: pip install 'regard[builtin]'") from None
    return Locale.parse(code)


def parse_pattern(pattern: str, locale: Locale) -> tuple[Piece, ...] | None:
    """The pieces of a CLDR date pattern, or None if day, month and year could be confused in its texts.

    The fields y, M, L, d, E, c and G (the era, constant here) are accepted. Two-digit years, months in digits (unless
    the order is year, month, day) and adjacent numbers without a separator are refused.
    """
    pieces: list[Piece] = []
    tokens = list(_tokens(pattern))
    for field, text in tokens:
        if not field:
            piece: list[Piece] = [tidy(text)]
        elif field == "y" and len(text) in (1, 4):
            piece = [Number("y", 4)]
        elif field in "dML" and len(text) <= 2:
            piece = [Number("d" if field == "d" else "M", len(text))]
        elif field in "ML" and len(text) in (3, 4):
            months = locale.months[_context(field)][_width(text)]
            piece = _names("M", [months[month] for month in range(1, 13)])
        elif text in ("E", "EE", "EEE", "EEEE", "ccc", "cccc"):
            days = locale.days[_context(field)][_width(text)]
            piece = _names("E", [days[weekday] for weekday in range(7)])
        elif field == "G" and len(text) <= 4:
            piece = [tidy(locale.eras[_width(text)][1])]
        else:
            return None
        pieces += piece
    order = "".join(field for field, _ in tokens if field and field in "yMLd").replace("L", "M")
    in_digits = any(text in ("M", "MM", "L", "LL") for field, text in tokens if field)
    if sorted(order) != ["M", "d", "y"] or (in_digits and order != "yMd") or not _unambiguous(pieces):
        return None
    return tuple(pieces)


def _patterns(locale: Locale) -> dict[str, str]:
    patterns = {style: str(locale.date_formats[style].pattern) for style in ("full", "long", "medium")}
    skeleton = locale.datetime_skeletons.get("yMMMd")
    if "MMM" not in patterns["medium"] and skeleton is not None and "MMM" in skeleton.pattern:
        patterns["medium"] = str(skeleton.pattern)
    # Year-first forms come first: if a language's medium pattern equals one of them, it is kept once, under that name.
    return YEAR_FIRST | patterns


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    """(letter, run of that letter) for each field, ("", text) for each literal; quotes as in UTS 35."""
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", pattern):
        if match[0] == "''":
            yield "", "'"
        elif match[1] is not None:
            yield "", match[1].replace("''", "'")
        else:
            yield match[2] or "", match[0]


def _names(field: str, names: list[str]) -> list[Piece]:
    """Names as one piece; if each is its number next to constant text ("tháng 5", "5월"), that text and a number."""
    tidied = [tidy(name) for name in names]
    if field == "M" and "1" in tidied[0]:
        before, _, after = tidied[0].partition("1")
        if tidied == [f"{before}{month}{after}" for month in range(1, 13)]:
            return [piece for piece in (before, Number("M", 1), after) if piece]
    return [Names(field, tuple(tidied))]


def _unambiguous(pieces: list[Piece]) -> bool:
    """Whether no two numbers are adjacent and no literal or name contains digits."""
    for left, right in pairwise(pieces):
        if isinstance(left, Number) and isinstance(right, Number):
            return False
    return not any(_DIGITS.search(word) for piece in pieces for word in words(piece))


def _variants(pieces: tuple[Piece, ...], code: str) -> list[tuple[tuple[Piece, ...], str]]:
    """The distinct spellings of `pieces`, CLDR's own first, each with the suffix of its style name."""
    lower = _respelt(pieces, lambda text: lower_case(text, code))
    spellings = {pieces: ""}
    spellings.setdefault(lower, ", lower case")
    spellings.setdefault(_respelt(pieces, without_accents), ", no accents")
    spellings.setdefault(_respelt(lower, without_accents), ", lower case, no accents")
    return list(spellings.items())


def _respelt(pieces: tuple[Piece, ...], spell: Callable[[str], str]) -> tuple[Piece, ...]:
    changed: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Names):
            changed.append(replace(piece, names=tuple(map(spell, piece.names))))
        else:
            changed.append(spell(piece) if isinstance(piece, str) else piece)
    return tuple(changed)


def _context(field: str) -> str:
    return "stand-alone" if field in "Lc" else "format"


def _width(text: str) -> str:
    return "wide" if len(text) == 4 else "abbreviated"


def _in_digits(text: str, zero: str) -> str:
    return text if zero == "0" else "".join(chr(ord(zero) + int(digit)) for digit in text)


def _abstract(match: re.Match[str]) -> str:
    run = match[0]
    zero = chr(ord(run[0]) - unicodedata.digit(run[0]))
    return zero * (1 if len(run) <= 2 else len(run))
