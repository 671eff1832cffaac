"""Every way to write a date in every language and what it can mean: the table behind the data set `dates`."""

from __future__ import annotations

import datetime
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from regard.data.date_patterns import Form, Names, Reading, forms_of, script, template_of, words

_LATIN = "en de fr es it pt nl sv da nb fi is et lv lt pl cs sk hr hu ro tr vi id sw ca eu cy ga"
_OTHER_SCRIPTS = "ru uk bg sr kk mn el hy ka ar fa ur he hi mr bn ta th my km am zh ja ko"
LANGUAGES: tuple[str, ...] = (*_LATIN.split(), *_OTHER_SCRIPTS.split())


@dataclass(frozen=True, slots=True)
class Choice:
    """Forms to draw from, those with letters first, and the running sum of their weights."""

    forms: tuple[Form, ...]
    cumulative: tuple[float, ...]
    with_letters: int

    def draw(self, uniform: float, *, letters: bool) -> Form:
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
