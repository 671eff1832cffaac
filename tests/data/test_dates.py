from __future__ import annotations

import datetime
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.date_patterns import Form, Names, Number, compose, parse_pattern, template_of, tidy
from regard.data.dates import (
    FIRST_DAY,
    LANGUAGES,
    LAST_DAY,
    SPLITS,
    DateExample,
    Dates,
    build_table,
    date_table,
    read_date,
    split_days,
    with_typo,
    written_forms,
)
from regard.errors import InputError

babel_dates = pytest.importorskip("babel.dates")

days = st.dates(FIRST_DAY, LAST_DAY)
languages = st.sampled_from(LANGUAGES)
DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def assert_aligned(example: DateExample) -> None:
    """Every digit of the target is read from a digit of the same value, or from the month's name."""
    assert example.target == example.day.isoformat()
    assert len(example.alignment) == 10
    assert example.alignment[4] is None
    assert example.alignment[7] is None
    read = ["" if span is None else example.source[slice(*span)] for span in example.alignment]
    for place in range(4):
        assert len(read[place]) == 1
        assert unicodedata.digit(read[place]) == int(example.target[place])
    for tens, units in ((5, 6), (8, 9)):
        if any(map(str.isdigit, read[tens] + read[units])):
            lone = example.alignment[tens] == example.alignment[units]
            assert unicodedata.digit(read[units]) == int(example.target[units])
            assert unicodedata.digit(read[tens]) == int(example.target[units if lone else tens])
            assert not lone or example.target[tens] == "0"
        else:
            assert tens == 5, "only a month may be a word"
            assert example.alignment[5] == example.alignment[6]
            assert any(map(str.isalpha, read[5]))


def one_edit(before: str, after: str) -> str | None:
    """The letters touched by the one edit between two texts (see `with_typo`), None if it is not one edit."""
    if before == after or abs(len(before) - len(after)) > 1:
        return None
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if start is None:
        start = min(len(before), len(after))
    old, new = before[start:], after[start:]
    if len(old) == len(new):
        if old[1:] == new[1:]:
            return old[0] + new[0]
        return old[:2] if old[:2] == new[1::-1] and old[2:] == new[2:] else None
    longer, shorter = (old, new) if len(old) > len(new) else (new, old)
    return longer[0] if longer[1:] == shorter else None


def test_at_least_forty_languages_in_many_scripts_each_with_words_for_every_month():
    assert len(set(LANGUAGES)) == len(LANGUAGES) >= 40
    for month in range(1, 13):
        for code in LANGUAGES:
            examples = written_forms(datetime.date(2017, month, 9), code)
            assert any(any(map(str.isalpha, example.source)) for example in examples), (code, month)
    scripts = {unicodedata.name(letter).split()[0] for letter in alphabet_of(Dates(size=2000)) if letter.isalpha()}
    assert {
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "ARABIC",
        "HEBREW",
        "DEVANAGARI",
        "THAI",
        "HANGUL",
        "CJK",
    } <= scripts


def alphabet_of(dates: Dates) -> set[str]:
    return set("".join(example.source for example in dates))


def test_example_depends_on_seed_split_and_index_only():
    dates = Dates("test", size=50, seed=3, typo_rate=0.5)
    forwards = list(dates)
    backwards = [dates[index] for index in reversed(range(50))][::-1]
    assert forwards == backwards == Dates("test", size=50, seed=3, typo_rate=0.5)[:]
    assert Dates("test", size=51, seed=3, typo_rate=0.5)[:50] == forwards
    assert dates[-1] == dates[49]
    others = [
        Dates("test", size=50, seed=4, typo_rate=0.5),
        Dates("validation", size=50, seed=3, typo_rate=0.5),
    ]
    for other in others:
        assert sum(a.source == b.source for a, b in zip(forwards, other, strict=True)) < 5
    with pytest.raises(IndexError):
        dates[50]


def test_splits_share_no_day_and_together_are_every_day():
    by_split = {split: set(split_days(split)) for split in SPLITS}
    every = {datetime.date.fromordinal(n) for n in range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1)}
    assert set.union(*by_split.values()) == every
    assert sum(map(len, by_split.values())) == len(every)
    assert len(by_split["train"]) / len(every) == pytest.approx(0.8, abs=0.01)
    assert len(by_split["test"]) / len(every) == pytest.approx(0.1, abs=0.01)
    for split in SPLITS:
        for seed in (0, 1):
            assert {example.day for example in Dates(split, size=300, seed=seed)} <= by_split[split]


def test_every_language_is_equally_likely():
    counts = Counter(example.locale for example in Dates(size=10_000))
    mean = 10_000 / len(LANGUAGES)
    assert set(counts) == set(LANGUAGES)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


def test_languages_can_be_chosen():
    dates = Dates(size=40, languages=("el", "th"))
    assert {example.locale for example in dates} == {"el", "th"}


def test_composition_equals_babel():
    from babel import Locale

    rng = Random(0)
    compared = Counter()
    for code in LANGUAGES:
        for day in rng.sample(split_days("train"), 12):
            for example in written_forms(day, code):
                if example.style not in ("full", "long", "medium"):
                    continue
                expected = tidy(babel_dates.format_date(day, example.style, locale=code))
                if example.style == "medium" and expected != example.source:
                    # Where the medium pattern names no month, ours is the skeleton that does.
                    assert "MMM" not in Locale.parse(code).date_formats["medium"].pattern
                    expected = tidy(babel_dates.format_skeleton("yMMMd", day, locale=code))
                assert example.source == expected
                compared[example.style] += 1
    assert compared["full"] == compared["long"] == 12 * len(LANGUAGES)
    assert compared["medium"] > 12 * 35


@settings(max_examples=150, deadline=None)
@given(days, languages)
def test_alignment_of_every_form_of_a_date(day, code):
    examples = written_forms(day, code)
    assert examples
    for example in examples:
        assert_aligned(example)
        assert read_date(example.source) == day
        assert not DIRECTION_MARKS.search(example.source)
        assert all(c == " " for c in example.source if unicodedata.category(c) == "Zs")
        assert example.source == unicodedata.normalize("NFC", example.source)


def test_alignment_of_known_dates():
    day = datetime.date(2017, 5, 9)
    english = next(e for e in written_forms(day, "en") if e.style == "long")
    assert english.source == "May 9, 2017"
    year = ((7, 8), (8, 9), (9, 10), (10, 11))
    assert english.alignment == (*year, None, (0, 3), (0, 3), None, (4, 5), (4, 5))
    iso = next(e for e in written_forms(day, "en") if e.style == "iso")
    assert iso.source == "2017-05-09"
    assert [span and span[0] for span in iso.alignment] == [0, 1, 2, 3, None, 5, 6, None, 8, 9]
    chinese = next(e for e in written_forms(datetime.date(2017, 12, 9), "zh") if e.style == "long")
    assert chinese.source == "2017年12月9日"
    assert chinese.alignment[5:] == ((5, 6), (6, 7), None, (8, 9), (8, 9))


@pytest.mark.parametrize(
    ("code", "style", "source"),
    [
        ("fr", "long", "17 août 1978"),
        ("fr", "long, no accents", "17 aout 1978"),
        ("de", "full, lower case", "donnerstag, 17. august 1978"),
        ("ar", "long, native digits", "١٧ أغسطس ١٩٧٨"),
        ("hi", "iso, native digits", "१९७८-०८-१७"),
        ("tr", "long, lower case, no accents", "17 agustos 1978"),
        ("vi", "long", "17 tháng 8, 1978"),
        ("th", "long", "17 สิงหาคม ค.ศ. 1978"),
        ("ko", "long", "1978년 8월 17일"),
    ],
)
def test_known_forms(code, style, source):
    forms = {example.style: example.source for example in written_forms(datetime.date(1978, 8, 17), code)}
    assert forms[style] == source


def test_no_numeric_form_puts_anything_before_the_year_unless_the_month_is_marked():
    for code in LANGUAGES:
        for example in written_forms(datetime.date(2017, 5, 9), code):
            if not any(map(str.isalpha, example.source)):
                numbers = [int(number) for number in re.findall(r"\d+", example.source)]
                assert numbers == [2017, 5, 9], example


def test_no_text_of_the_whole_table_has_two_readings():
    table = date_table()
    seen: dict[str, tuple[str, int]] = {}
    for (_, month, weekday), choice in table.choices.items():
        for form in choice.forms:
            reading = form.reading(month)
            assert seen.setdefault(form.template(month, weekday), reading) == reading
    assert seen == table.readings
    assert len(seen) > 5000


@settings(max_examples=50, deadline=None)
@given(days, languages)
def test_templates_are_the_texts_without_their_digits(day, code):
    for form in date_table().choices[code, day.month, day.weekday()].forms:
        assert template_of(compose(form, day)[0]) == form.template(day.month, day.weekday())


def test_twenty_thousand_texts_have_one_date_each():
    read: dict[str, datetime.date] = {}
    for example in Dates(size=20_000):
        assert read.setdefault(example.source, example.day) == example.day
        assert read_date(example.source) == example.day


def test_forms_that_two_languages_read_differently_are_not_written():
    polish = [f"p{month}" for month in "abcdefghij"] + ["listopada", "grudnia"]
    croatian = [f"h{month}" for month in "abcdefghi"] + ["listopada", "studenoga", "prosinca"]
    forms = {
        code: [
            Form(
                locale=code,
                style="long",
                pieces=(Number("d", 1), " ", Names("M", tuple(names)), " ", Number("y", 4)),
            ),
            Form(locale=code, style="iso", pieces=parse_iso()),
        ]
        for code, names in (("pl", polish), ("hr", croatian))
    }
    table = build_table(forms)
    assert table.ambiguous == {"0 listopada 0000"}
    styles = {key: [form.style for form in choice.forms] for key, choice in table.choices.items()}
    assert styles["pl", 11, 0] == styles["hr", 10, 3] == ["iso"]
    assert styles["pl", 10, 0] == styles["hr", 11, 3] == ["long", "iso"]


def parse_iso():
    return (Number("y", 4), "-", Number("M", 2), "-", Number("d", 2))


def test_day_first_and_month_first_numbers_are_refused():
    from babel import Locale

    english = Locale.parse("en")
    for pattern in ("d.M.y", "MM/dd/y", "y/d/M", "yMMdd", "d MMM yy", "EEEE d MMMM", "d MMMM y 'o''clock 1'"):
        assert parse_pattern(pattern, english) is None
    assert parse_pattern("y. M. d.", english) is not None
    assert parse_pattern("d 'o''clock' MMMM y", english)[1:3] == (" ", "o'clock")


@settings(max_examples=300, deadline=None)
@given(days, languages, st.integers(0, 2**32), st.data())
def test_typo_is_one_edit_in_the_letters_and_keeps_the_alignment(day, code, seed, data):
    plain = data.draw(st.sampled_from(written_forms(day, code)))
    example = with_typo(plain, Random(seed))
    if not any(map(str.isalpha, plain.source)):
        assert example == plain
        return
    touched = one_edit(plain.source, example.source)
    assert touched is not None
    assert touched.isalpha()
    assert re.findall(r"\d+", example.source) == re.findall(r"\d+", plain.source)
    assert set(example.source) <= set(plain.source) | set("".join(date_table().alphabet[code].values()))
    assert read_date(example.source) in (None, day)
    assert_aligned(example)
    assert unicodedata.is_normalized("NFC", example.source)
    before, after = (each.source[slice(*each.alignment[5])] for each in (plain, example))
    assert before == after or one_edit(before, after) is not None


def test_typo_never_makes_another_months_name():
    months = {name.casefold() for name in date_table().months}
    june = next(e for e in written_forms(datetime.date(2017, 6, 9), "nb") if e.style == "long")
    assert june.source == "9. juni 2017"
    texts = {with_typo(june, Random(seed)).source for seed in range(3000)}
    assert len(texts) > 100
    assert "9. juli 2017" not in texts
    for text in texts:
        name = text.split()[1]
        assert name not in months or 6 in date_table().months[name]


def test_every_example_has_a_typo_at_rate_one_and_some_at_a_lower_rate():
    for example in Dates(size=1000, typo_rate=1.0):
        assert any(map(str.isalpha, example.source))
        assert example.style.endswith(", one typo")
        assert_aligned(example)
    some = sum(example.style.endswith(", one typo") for example in Dates(size=3000, typo_rate=0.3))
    assert some / 3000 == pytest.approx(0.3, abs=0.04)
    plain = Dates(size=200)
    assert [example.day for example in plain] == [example.day for example in Dates(size=200, typo_rate=1.0)]


def test_examples_do_not_depend_on_what_babel_loaded_before():
    # Babel's inherited names can change with the order in which locales are loaded.
    program = (
        "import sys; from babel import Locale\n"
        "for code in sys.argv[1:]: Locale.parse(code).months['stand-alone']['wide'][1]\n"
        "from regard.data.dates import Dates; from hashlib import sha256\n"
        "print(sha256(repr(Dates(size=2000)[:]).encode()).hexdigest())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", program, *first], capture_output=True, text=True, check=True).stdout
        for first in ([], ["az", "uz", "ur"], list(reversed(LANGUAGES)))
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "tests"}, "did you mean 'test'"),
        ({"size": -1}, "size"),
        ({"typo_rate": 1.5}, "typo_rate"),
        ({"typo_rate": float("nan")}, "typo_rate"),
        ({"languages": ()}, "languages"),
        ({"languages": ("en", "xx")}, "'xx'"),
    ],
)
def test_what_cannot_be_used_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Dates(**arguments)


def test_a_day_out_of_range_is_named():
    with pytest.raises(InputError, match="1919"):
        written_forms(datetime.date(1919, 12, 31), "en")


def test_missing_babel_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[builtin\]'"):
        Dates()


def test_importing_the_data_set_does_not_import_babel():
    program = "import sys, regard.data.dates; print('babel' in sys.modules, 'torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
