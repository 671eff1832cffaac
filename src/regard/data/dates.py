"""The builtin data set `dates`: dates as people write them in many languages, with the same date in ISO 8601.

A first example of attention: each character of ``2017-05-09`` is read from a known position in ``mardi 9 mai 2017``, so
a model's attention can be compared with the correct alignment. The texts come from CLDR through Babel; the calendar is
always Gregorian. Needs ``pip install 'regard[builtin]'``.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import ClassVar

from regard.data.date_patterns import (
    Form,
    Names,
    Reading,
    Span,
    compose,
    forms_of,
    load_locale,
    script,
    template_of,
    words,
)
from regard.data.generated import SPLITS, Generated, below, one_of, split_of
from regard.errors import InputError, nearest

__all__ = [
    "FIRST_DAY",
    "LANGUAGES",
    "LAST_DAY",
    "DateExample",
    "Dates",
    "read_date",
    "split_days",
    "with_typo",
    "written_forms",
]

FIRST_DAY = datetime.date(1920, 1, 1)
LAST_DAY = datetime.date(2039, 12, 31)

_LATIN = "en de fr es it pt nl sv da nb fi is et lv lt pl cs sk hr hu ro tr vi id sw ca eu cy ga"
_OTHER_SCRIPTS = "ru uk bg sr kk mn el hy ka ar fa ur he hi mr bn ta th my km am zh ja ko"
LANGUAGES: tuple[str, ...] = (*_LATIN.split(), *_OTHER_SCRIPTS.split())

_TYPO_ATTEMPTS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class DateExample:
    """A written date and its ISO 8601 form.

    Attributes:
        source: the date as written.
        target: the same day as "YYYY-MM-DD".
        locale: the CLDR code of the language.
        style: the pattern and its variants, such as "long, lower case, native digits".
        day: the calendar day.
        alignment: for each of the ten characters of `target` the [start, end) span of characters of `source` that it is
            read from; None for the two hyphens. A digit is aligned with the digit it copies; both digits of a month with
            the month's name; both digits of "09" with a single "9".
    """

    source: str
    target: str
    locale: str
    style: str
    day: datetime.date
    alignment: tuple[Span | None, ...]


class Dates(Generated[DateExample]):
    """`size` random dates of one split; example i is a pure function of (seed, split, i).

    A hash of the day assigns each day from 1920 to 2039 to a split, 80/10/10, independently of the seed: no day is in two
    splits. All languages are equally probable. No text is ambiguous: a form whose text could mean two dates in any of
    `LANGUAGES` is never written. The texts follow the CLDR release in the installed Babel; another release may spell some
    differently.

    Arguments:
        split: "train", "validation" or "test".
        size: number of examples. They are generated when read, so a large number uses no memory.
        seed: another seed gives other examples of the same days.
        languages: codes from `LANGUAGES`.
        typo_rate: the probability, from 0 to 1, that an example has one typo in its letters (see `with_typo`). An example
            with a typo always has letters.

    Raises:
        InputError: for an unknown split or language, a negative size, a rate outside [0, 1], or if Babel is not installed.

    >>> dates = Dates("train", size=1000, seed=0)
    >>> len(dates), dates[7] == Dates("train", size=8, seed=0)[7]
    (1000, True)
    >>> len(dates[7].target), dates[7].target == dates[7].day.isoformat()
    (10, True)

    """

    called: ClassVar[str] = "dates"

    def __init__(
        self,
        split: str = "train",
        *,
        size: int = 20_000,
        seed: int = 0,
        languages: Iterable[str] = LANGUAGES,
        typo_rate: float = 0.0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if not 0 <= typo_rate <= 1:
            raise InputError(f"dates: typo_rate must be between 0 and 1, got {typo_rate}")
        codes = (languages,) if isinstance(languages, str) else tuple(dict.fromkeys(languages))
        if not codes:
            raise InputError("dates: languages is empty; give at least one code")
        for code in codes:
            _check_language(code)
        self.languages = codes
        self.typo_rate = typo_rate

    def sample(self, rng: Random) -> DateExample:
        """One random example of the split."""
        locale = one_of(rng, self.languages)
        day = one_of(rng, split_days(self.split))
        typo = rng.random() < self.typo_rate
        choice = date_table().choices[locale, day.month, day.weekday()]
        example = _write(choice.sample(rng.random(), letters=typo), day)
        return with_typo(example, rng) if typo else example

    def shown(self, name: str) -> str:
        """A setting as `repr` shows it; for the languages, their number."""
        return f"<{len(self.languages)}>" if name == "languages" else super().shown(name)


@lru_cache(maxsize=len(SPLITS))
def split_days(split: str) -> tuple[datetime.date, ...]:
    """The days of a split, in order: 80% of the days of 1920-2039 in "train", 10% each in "validation" and "test".

    >>> len(split_days("train")) + len(split_days("validation")) + len(split_days("test"))
    43830
    """
    if split not in SPLITS:
        raise InputError(f"dates: no split {split!r}; {nearest(split, SPLITS)}")
    every = map(datetime.date.fromordinal, range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1))
    return tuple(day for day in every if split_of(f"regard dates {day.isoformat()}") == split)


def written_forms(day: datetime.date, locale: str) -> list[DateExample]:
    """Every way in which the data set writes `day` in the language `locale`, those with letters first.

    >>> written_forms(datetime.date(2017, 5, 9), "en")[0].source
    'Tuesday, May 9, 2017'
    """
    _check_language(locale)
    if not FIRST_DAY <= day <= LAST_DAY:
        raise InputError(f"dates: {day} is outside {FIRST_DAY} to {LAST_DAY}")
    return [_write(form, day) for form in date_table().choices[locale, day.month, day.weekday()].forms]


def with_typo(example: DateExample, rng: Random) -> DateExample:
    """The example with exactly one edit in the letters of its text; the alignment is adjusted.

    With equal probability the edit replaces a letter, deletes it, inserts one, or swaps it with its neighbour. New letters
    have the same script and case and occur in the language's dates. Numbers are never changed, split or joined. An edit is
    refused if it turns the month into the name of another month in any language, or makes the text mean another date. The
    result may still be one edit away from two months ("9 ju 2017"). A text without letters is returned unchanged.

    Arguments:
        example: a date as returned by `Dates` or `written_forms`.
        rng: the random number generator; only its `random()` is used.
    """
    if not any(map(str.isalpha, example.source)):
        return example
    for _ in range(_TYPO_ATTEMPTS):
        edit = _sample_edit(example, rng)
        if edit is None:
            continue
        start, end, letters = edit
        source = example.source[:start] + letters + example.source[end:]
        alignment = tuple(span and _moved(example.source, span, edit) for span in example.alignment)
        if _same_date(example, source, alignment):
            return replace(example, source=source, alignment=alignment, style=example.style + ", one typo")
    return example


def _write(form: Form, day: datetime.date) -> DateExample:
    source, spans = compose(form, day)
    year, month, date = spans["y"], spans["M"], spans["d"]
    digits = [(position, position + 1) for position in range(*year)]
    return DateExample(
        source=source,
        target=day.isoformat(),
        locale=form.locale,
        style=form.style,
        day=day,
        alignment=(*digits, None, *_two_digits(source, month), None, *_two_digits(source, date)),
    )


def _two_digits(source: str, span: Span) -> tuple[Span, Span]:
    """The spans that the two digits of a month or day are read from: two single digits, or the same span twice."""
    start, end = span
    if end - start == 2 and source[start].isdigit():
        return (start, start + 1), (start + 1, end)
    return span, span


def _sample_edit(example: DateExample, rng: Random) -> tuple[int, int, str] | None:
    """An edit as (start, end, replacement), or None if the sampled kind of edit is impossible at the sampled letter."""
    source = example.source
    position = one_of(rng, [place for place, character in enumerate(source) if character.isalpha()])
    letter = source[position]
    alphabet = date_table().alphabet[example.locale].get(kind_of_letter(letter), "")
    match one_of(rng, ("replace", "delete", "insert", "exchange")):
        case "replace" if others := alphabet.replace(letter, ""):
            return position, position + 1, one_of(rng, others)
        case "delete":
            return position, position + 1, ""
        case "insert" if alphabet:
            place = position + below(rng, 2)
            return place, place, one_of(rng, alphabet)
        case "exchange":
            neighbour = source[position + 1 : position + 2]
            if neighbour.isalpha() and neighbour != letter:
                return position, position + 2, neighbour + letter
    return None


def _moved(source: str, span: Span, edit: tuple[int, int, str]) -> Span:
    """The span after the edit; a letter inserted at the edge of a month's name becomes part of the name."""
    (first, last), (start, end, letters) = span, edit
    growth = len(letters) - (end - start)
    if source[first].isdigit():
        return (first, last) if last <= start else (first + growth, last + growth)
    insertion = start == end
    moves_first = start < first and end <= first
    moves_last = start < last or (insertion and start == last)
    return first + growth * moves_first, last + growth * moves_last


def _same_date(example: DateExample, source: str, alignment: tuple[Span | None, ...]) -> bool:
    """Whether the edited text still has its numbers and a month, and no form reads it as another day."""
    if re.findall(r"\d+", source) != re.findall(r"\d+", example.source):
        return False
    # A letter that composes with a following mark would shift the alignment when the text is normalised.
    if not unicodedata.is_normalized("NFC", source):
        return False
    span = alignment[5] or (0, 0)
    month = source[slice(*span)]
    named = date_table().months.get(month.casefold(), frozenset())
    return any(map(str.isalnum, month)) and named <= {example.day.month} and read_date(source) in (None, example.day)


def _check_language(code: str) -> None:
    if code not in LANGUAGES:
        raise InputError(f"dates: no language {code!r}; {nearest(code, LANGUAGES)}")
    load_locale(code)


# The table behind the data set: every way to write a date in every language, and the dates it can mean.


@dataclass(frozen=True, slots=True)
class Choice:
    """Forms to sample from, those with letters first, and the cumulative sum of their weights."""

    forms: tuple[Form, ...]
    cumulative: tuple[float, ...]
    with_letters: int

    def sample(self, uniform: float, *, letters: bool) -> Form:
        """The form at quantile `uniform`, in [0, 1), of all forms, or of those with letters if `letters` and there are any."""
        count = self.with_letters if letters and self.with_letters else len(self.forms)
        return self.forms[bisect(self.cumulative, uniform * self.cumulative[count - 1], 0, count - 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class DateTable:
    """All the ways in which the data set writes dates.

    Attributes:
        choices: the forms by (locale, month, weekday).
        readings: how to read each template that is written.
        ambiguous: the templates that are not written because they have two readings.
        months: for each case-folded month name, the numbers of the months it means in any language.
        alphabet: for each locale, its letters by script and by whether they are capitals.
    """

    choices: dict[tuple[str, int, int], Choice]
    readings: dict[str, Reading]
    ambiguous: frozenset[str]
    months: dict[str, frozenset[int]]
    alphabet: dict[str, dict[tuple[str, bool], str]]


@lru_cache(maxsize=1)
def date_table() -> DateTable:
    """The table of all `LANGUAGES`, built by the first call (about a third of a second).

    >>> len(date_table().choices) == len(LANGUAGES) * 12 * 7
    True
    """
    return build_table({code: forms_of(code) for code in LANGUAGES})


def build_table(forms: Mapping[str, Sequence[Form]]) -> DateTable:
    """The table of these forms by locale, without the templates that have two readings, in one language or across languages."""
    found: dict[str, set[Reading]] = defaultdict(set)
    templates: dict[tuple[str, int, int], list[tuple[Form, str]]] = {}
    for code, each in forms.items():
        letters_first = sorted(each, key=lambda form: not form.has_letters())
        for month in range(1, 13):
            for weekday in range(7):
                row = [(form, form.template(month, weekday)) for form in letters_first]
                templates[code, month, weekday] = row
                for form, template in row:
                    found[template].add(form.reading(month))
    ambiguous = frozenset(template for template, readings in found.items() if len(readings) > 1)
    # Most keys keep the same forms, so they share one `Choice`.
    shared: dict[tuple[str, tuple[str, ...]], Choice] = {}
    choices = {}
    for key, row in templates.items():
        kept = [form for form, template in row if template not in ambiguous]
        name = key[0], tuple(form.style for form in kept)
        if name not in shared:
            shared[name] = _choice(kept)
        choices[key] = shared[name]
    return DateTable(
        choices=choices,
        readings={template: min(readings) for template, readings in found.items() if len(readings) == 1},
        ambiguous=ambiguous,
        months=_months(form for each in forms.values() for form in each),
        alphabet={code: _alphabet(each) for code, each in forms.items()},
    )


def read_date(text: str) -> datetime.date | None:
    """The day that `text` means if it has a form of the data set, else None.

    Numbers may be zero-padded or not. The weekday is not checked.

    >>> read_date("9. listopada 2017."), read_date("9 listopada 2017")  # Croatian, Polish
    (datetime.date(2017, 10, 9), datetime.date(2017, 11, 9))
    """
    reading = date_table().readings.get(template_of(text))
    if reading is None:
        return None
    order, month = reading
    numbers = dict(zip(order, map(int, re.findall(r"\d+", text)), strict=True))
    try:
        return datetime.date(numbers["y"], numbers.get("M", month), numbers["d"])
    except ValueError:  # such as the 31st of February
        return None


def kind_of_letter(letter: str) -> tuple[str, bool]:
    """The letter's script, and whether it is a capital."""
    return script(letter), letter.isupper()


def _choice(forms: Sequence[Form]) -> Choice:
    return Choice(
        forms=tuple(forms),
        cumulative=tuple(accumulate(form.weight for form in forms)),
        with_letters=sum(form.has_letters() for form in forms),
    )


def _months(forms: Iterable[Form]) -> dict[str, frozenset[int]]:
    months: dict[str, set[int]] = defaultdict(set)
    for names in {piece for form in forms for piece in form.pieces if isinstance(piece, Names)}:
        if names.field == "M":
            for month, name in enumerate(names.names, start=1):
                months[name.casefold()].add(month)
    return {name: frozenset(each) for name, each in months.items()}


def _alphabet(forms: Iterable[Form]) -> dict[tuple[str, bool], str]:
    texts = {text for form in forms for piece in form.pieces for text in words(piece)}
    letters: dict[tuple[str, bool], str] = defaultdict(str)
    for letter in sorted(set("".join(texts))):
        if letter.isalpha():
            letters[kind_of_letter(letter)] += letter
    return dict(letters)
