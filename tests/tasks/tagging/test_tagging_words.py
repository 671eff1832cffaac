"""Plain text is cut into words, and nothing of it is lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tagged import words_of


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in words_of(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Angela Merkel visited Paris.", ["Angela", "Merkel", "visited", "Paris", "."]),
        ("The U.S. and the U.K. agree", ["The", "U.S.", "and", "the", "U.K.", "agree"]),
        ("George W. Bush met J. Doe.", ["George", "W.", "Bush", "met", "J.", "Doe", "."]),
        ("Plan B. we go", ["Plan", "B", ".", "we", "go"]),
        ("Germany's and the EU’s", ["Germany", "'s", "and", "the", "EU", "’s"]),
        ("don't O'Brien", ["don't", "O'Brien"]),
        ("1,000.50 on 1996-08-22, 3/4", ["1,000.50", "on", "1996-08-22", ",", "3/4"]),
        ("(well-known)", ["(", "well-known", ")"]),
        ("wait... what?!", ["wait", "...", "what", "?", "!"]),
        ("see https://example.org/a?b=c, ok", ["see", "https://example.org/a?b=c", ",", "ok"]),
        ("@ann likes #topic_1 a@b.org", ["@ann", "likes", "#topic_1", "a@b.org"]),
        ("北京 is 大", ["北", "京", "is", "大"]),
        ("हिन्दी e\u0301a", ["हिन्दी", "e\u0301a"]),
        ("a\x00b \x1b", ["a", "b"]),
        (" \t\n", []),
        ("", []),
        ("\x00\x01", []),
        ("$5 100%", ["$", "5", "100", "%"]),
    ],
)
def test_words(text, words):
    assert cut(text) == words


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_words_stand_in_order_and_leave_out_only_spaces_and_controls(text):
    spans = words_of(text)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    assert all(start < end for start, end in spans)
    taken = {place for start, end in spans for place in range(start, end)}
    for place, character in enumerate(text):
        if place not in taken:
            assert character.isspace() or unicodedata.category(character) == "Cc"
        else:
            assert not character.isspace()


def test_a_megabyte_is_cut_in_a_moment():
    assert len(words_of("a" * 1_000_000)) == 1
    assert len(words_of("www." * 250_000)) <= 250_000
    assert len(words_of("." * 1_000_000)) == 1
    assert len(words_of("A." * 500_000)) == 1
    assert len(words_of("a-" * 500_000)) == 2
