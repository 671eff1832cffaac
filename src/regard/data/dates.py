"""The builtin data set `dates`: dates as people write them in many languages, and what they mean in ISO 8601.

The hello-world of attention: each character of ``2017-05-09`` is read from a known place in ``mardi 9 mai
2017``, so that a model's attention can be compared with the truth. The texts come from CLDR through Babel;
the calendar is the Gregorian one throughout. Needs ``pip install 'regard[builtin]'``.
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
    """A date as written, and as meant.

    Attributes:
        source: the text.
        target: the same day as "YYYY-MM-DD".
        locale: the CLDR code of the language.
        style: the pattern and its variants, such as "long, lower case, native digits".
        day: the calendar day.
        alignment: for each of the ten characters of `target` the [start, end) span of characters of `source`
            that it is read from, None for the two hyphens. A digit is read from the digit it copies; both
            digits of a month from its name; both digits of "09" from a lone "9".

    """

    source: str
    target: str
    locale: str
    style: str
    day: datetime.date
    alignment: tuple[Span | None, ...]


class Dates(Generated[DateExample]):
    """`size` random dates of one split; example i is a pure function of (seed, split, i).

    The days from 1920 to 2039 are divided once and for all, 80/10/10, by a hash of the day: whatever the
    seeds, no day of one split is ever in another. Every language is equally likely. No text has two readings:
    a form whose text could stand for two dates in any of `LANGUAGES` is never written. The texts are those of
    the CLDR release inside the installed Babel: another release may spell some differently.

    Arguments:
        split: "train", "validation" or "test".
        size: number of examples; they are made when read, so any number costs nothing.
        seed: another seed gives other examples of the same days.
        languages: codes from `LANGUAGES`.
        typo_rate: the probability, from 0 to 1, that an example has one typo in its letters (see
            `with_typo`). An example with a typo is always in a form that has letters.

    Raises:
        InputError: for an unknown split or language, a negative size, a rate outside [0, 1], or no Babel.

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
        """An example."""
        locale = one_of(rng, self.languages)
        day = one_of(rng, split_days(self.split))
        typo = rng.random() < self.typo_rate
        choice = date_table().choices[locale, day.month, day.weekday()]
        example = _write(choice.sample(rng.random(), letters=typo), day)
        return with_typo(example, rng) if typo else example

    def shown(self, name: str) -> str:
        """A setting as `repr` has it; of the languages how many there are."""
        return f"<{len(self.languages)}>" if name == "languages" else super().shown(name)


@lru_cache(maxsize=len(SPLITS))
def split_days(split: str) -> tuple[datetime.date, ...]:
    """The days of a split, in order: eight tenths of 1920-2039 in "train", a tenth in each of the others.

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
    """The example with exactly one edit in the letters of its text, the alignment moved accordingly.

    The edit is, with equal chance, a letter replaced by another, left out, put in, or exchanged with its
    neighbour. New letters are of the same script and case, among those the language's dates use. Numbers are
    never touched, cut or joined, and an edit is refused where it turns the month into another month's name in
    any language, or makes the text stand for another date. What remains may still be one edit away from two
    months ("9 ju 2017"). A text without letters is returned unchanged.

    Arguments:
        example: a date as `Dates` or `written_forms` gives it.
        rng: the source of chance; only its `random()` is used.

    """
    if not any(map(str.isalpha, example.source)):
        return example
    for _ in range(_TYPO_ATTEMPTS):
        edit = _draw_edit(example, rng)
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
    """Where both digits of a month or day are read: two digits one by one, a name or a lone digit twice."""
    start, end = span
    if end - start == 2 and source[start].isdigit():
        return (start, start + 1), (start + 1, end)
    return span, span


def _draw_edit(example: DateExample, rng: Random) -> tuple[int, int, str] | None:
    """An edit as (start, end, letters to put there), or None where the letter sampled cannot be edited so."""
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
    """The span after the edit; a letter put in at the edge of a month's name belongs to the name."""
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
    # A letter that composes with the mark after it would shift the alignment of whoever normalises the text.
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


# The table behind the data set: every way to write a date in every language, and what it can mean.


@dataclass(frozen=True, slots=True)
class Choice:
    """Forms to sample from, those with letters first, and the running sum of their weights."""

    forms: tuple[Form, ...]
    cumulative: tuple[float, ...]
    with_letters: int

    def sample(self, uniform: float, *, letters: bool) -> Form:
        """The form at `uniform`, in [0, 1), among all forms, or among those with letters if there are any."""
        count = self.with_letters if letters and self.with_letters else len(self.forms)
        return self.forms[bisect(self.cumulative, uniform * self.cumulative[count - 1], 0, count - 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class DateTable:
    """All that can be written.

    Attributes:
        choices: the forms by (locale, month, weekday).
        readings: what each template that is written says.
        ambiguous: the templates that are not written, because two readings share them.
        months: the months that a name, case folded, stands for in any language.
        alphabet: for each locale, its letters by script and whether they are capitals.

    """

    choices: dict[tuple[str, int, int], Choice]
    readings: dict[str, Reading]
    ambiguous: frozenset[str]
    months: dict[str, frozenset[int]]
    alphabet: dict[str, dict[tuple[str, bool], str]]


@lru_cache(maxsize=1)
def date_table() -> DateTable:
    """The table of all `LANGUAGES`, made at the first call (about a third of a second).

    >>> len(date_table().choices) == len(LANGUAGES) * 12 * 7
    True
    """
    return build_table({code: forms_of(code) for code in LANGUAGES})


def build_table(forms: Mapping[str, Sequence[Form]]) -> DateTable:
    """The table of these forms by locale, less the templates with two readings, in one language or in two."""
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
    # Most rows keep the same forms, so they share one choice.
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
    """The one day that `text` stands for if it is in a form of the data set, else None.

    Numbers may be padded or not, and the weekday is not compared with the day.

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
