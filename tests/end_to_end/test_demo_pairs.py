"""The demonstration on the reader's own pairs, as the README has it: numbers and their names in words."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """English, below ten thousand."""
    if number < 20:
        return ONES[number]
    if number < 100:
        rest = f"-{ONES[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    size, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = number % size
    between = "" if rest == 0 else " and " if rest < 100 else ", "
    return f"{in_words(number // size)} {name}{between}{in_words(rest) if rest else ''}"


def test_numbers_are_named():
    assert [in_words(n) for n in (7, 20, 99, 100, 312, 1000, 6312, 9005)] == [
        "seven",
        "twenty",
        "ninety-nine",
        "one hundred",
        "three hundred and twelve",
        "one thousand",
        "six thousand, three hundred and twelve",
        "nine thousand and five",
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_numbers_are_learnt(tmp_path):
    if not DEMO.is_file():
        pytest.skip("the examples are not beside the tests")
    numbers = random.Random(3).sample(range(1, 10_000), 1_000)
    (tmp_path / "my.tsv").write_text("".join(f"{n}\t{in_words(n)}\n" for n in numbers), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(DEMO), "--pairs", "my.tsv"],
        cwd=tmp_path,
        env=os.environ | {"BROWSER": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (line,) = [line for line in done.splitlines() if line.startswith("RESULT ")]
    found = json.loads(line.removeprefix("RESULT "))
    assert found["n"] == 100
    assert found["exact_match"] >= 0.95
    assert "tokenizer of the source: character; digits and signs are most of it" in done
    assert "tokenizer of the target: bpe; its words recur" in done
    assert done.splitlines()[-1].startswith("Next: ")
    assert "regard translate demo/pairs" in done.splitlines()[-1]
