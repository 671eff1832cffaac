from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.claims.expression import Expression, NoNumber, Reference

NUMBERS = {
    ("a", "bleu", None): {1: 30.0, 2: 34.0, 3: 31.0},
    ("b", "bleu", None): {1: 20.0, 2: 25.0, 3: 15.0},
    ("a", "bleu", 20): {1: 10.0, 2: 12.0, 3: 11.0},
    ("a", "updates", None): {1: 100.0, 2: math.inf, 3: 150.0},
    ("b", "updates", None): {1: math.inf, 2: math.inf, 3: math.inf},
    ("a", "missing", None): {1: 1.0, 2: None, 3: 2.0},
    ("a", "nan", None): {1: math.nan},
    ("a", "zero", None): {1: 0.0},
}


class Numbers:
    def values(self, arm, measure, length=None):
        return NUMBERS[arm, measure, length]


def holds(text):
    return Expression(text).holds(Numbers())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('median("a", "bleu") == 31', True),
        ('mean("a", "bleu") > 31.6 and mean("a", "bleu") < 31.7', True),
        ('smallest("a", "bleu") >= 30 and largest("a", "bleu") <= 34', True),
        ('smallest("a", "bleu") > largest("b", "bleu")', True),
        ('median("a", "bleu", 20) == 11', True),
        ('median("a", "bleu") > median("b", "bleu") > 25', False),
        ('median("a", "bleu") > median("b", "bleu") > 15', True),
        ('abs(median("b", "bleu") - median("a", "bleu")) <= 11', True),
        ('not median("a", "bleu") < 3', True),
        ('median("a", "bleu") < 3 or (median("b", "bleu") / 2 + 1 == 11 and True)', True),
        ('min(median("a", "bleu"), 5) == 5 and max(1, 2, -7) == 2', True),
        ('-median("a", "bleu") != +31', True),
        # A threshold that was never reached is more than any number of updates; a bound makes it one.
        ('median("b", "updates") > 10000', True),
        ('median("a", "updates") <= 0.5 * min(median("b", "updates"), 400)', True),
        ('median("a", "updates") <= 0.5 * min(median("b", "updates"), 200)', False),
        ('1 < 2 < 3 and 2 * 3 - 1 >= 5', True),
    ],
)  # fmt: skip
def test_conditions(text, value):
    assert holds(text) is value


@given(a=st.floats(-50, 50), b=st.floats(-50, 50), c=st.floats(-50, 50))
@settings(max_examples=60, deadline=None)
def test_arithmetic_is_pythons(a, b, c):
    text = f"({a!r}) + ({b!r}) * ({c!r}) - max({a!r}, {b!r}) <= abs({c!r}) / 2"
    assert holds(text) == (a + b * c - max(a, b) <= abs(c) / 2)


def test_what_it_asks_for_is_known_beforehand():
    found = Expression('largest("b", "x", 7) > 1 or median("a", "y") < mean("b", "x", 7) + median("a", "y")').references
    assert found == (Reference("b", "x", 7), Reference("a", "y"))
    assert statistics.median(NUMBERS["a", "bleu", None].values()) == 31


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('median("a", "missing") > 1', "no number for 'missing' of 'a'"),
        ('median("a", "nan") > 1', "no number for 'nan' of 'a'"),
        ('1 / median("a", "zero") > 1', "column 1: a division by zero"),
        ('median("b", "updates") - median("b", "updates") > 1', "not a number, such as infinity"),
    ],
)
def test_what_cannot_be_decided_says_why(text, sentence):
    with pytest.raises(NoNumber, match=sentence):
        holds(text)


def test_what_is_decided_already_needs_no_more():
    assert holds('1 > 2 and median("a", "missing") > 1') is False
    assert holds('2 > 1 or median("a", "missing") > 1') is True


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('median("a", "bleu"', "not an expression"),
        ("", "not an expression"),
        ("1 + 1", "a number instead of a condition"),
        ("1 and 2 > 1", "column 1: '1' is a number instead of a condition"),
        ("(1 > 0) + 1 > 1", "'1 > 0' is a condition instead of a number"),
        ("True > 0", "is a condition instead of a number"),
        ('2 > 1 and x > "1"', "column 11: 'x' is not allowed"),
        ('"a" > 1', "is not allowed"),
        ('medain("a", "b") > 1', "did you mean 'median'"),
        ('median("a") > 1', "must read median"),
        ('median("a", "b", "c") > 1', "must read median"),
        ('median("a", "b", 1.5) > 1', "must read median"),
        ('median(*("a", "b")) > 1', "must read median"),
        ('median("a", measure="b") > 1', "is not allowed"),
        ("abs(1, 2) > 1", "takes one number"),
        ("max(1) > 1", "takes two numbers"),
        ("2 ** 3 > 1", "is not allowed"),
        ("1 in [1]", "is not allowed"),
        ("1 if True else 0", "is not allowed"),
        ("(lambda: 1)() > 0", "is not allowed"),
        ("__import__('os').getcwd() > 1", "is not allowed"),
        ("().__class__ > 1", "is not allowed"),
        ("[x for x in (1,)] > 1", "is not allowed"),
        ("f'{1}' > 1", "is not allowed"),
        ("(y := 1) > 0", "is not allowed"),
        ("eval('1') > 0", "is not known"),
    ],
)
def test_nothing_else_is_read(text, sentence):
    with pytest.raises(regard.InputError, match=sentence):
        Expression(text)


def test_the_place_is_named():
    with pytest.raises(regard.InputError, match="claim 'x': judge, column 19"):
        Expression('1 > 0 and 2 > 1 + nope("a", "b")', "claim 'x': judge")


def test_depth_is_no_crash():
    with pytest.raises(regard.InputError):
        Expression("(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(regard.InputError, match=r"nested more than 100 deep") as refused:
        Expression("1 > " + "- " * 900 + "1")
    assert len(str(refused.value)) < 200
