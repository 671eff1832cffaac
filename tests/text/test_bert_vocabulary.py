"""Every entry of a vocabulary is counted where it belongs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.text import Tokenizer
from regard.text.bert import anatomy, script

PIECES = [
    "[PAD]", "[unused1]", "[unused2]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<S>",
    "#", "###", "##", "a", "##a", "é", "東", "##東", "ы",
    "the", "##ing", "дом", "##ский", "1990", "##90", "٣٤", "[", "<", "[MASK", "!?", "ªb",
]  # fmt: skip


def test_a_vocabulary_in_figures() -> None:
    found = anatomy(PIECES, first=3)
    assert (found.total, found.reserved, found.unused, found.leading) == (29, 8, 2, 8)
    assert (found.beginnings, found.continuations) == (15, 6)
    assert found.continuation_share == 6 / 29
    # "#" begins a word, "###" is the same inside one; "##" has nothing behind its mark and begins a word.
    assert (found.single_beginnings, found.single_continuations, found.single_characters) == (7, 3, 10)
    assert found.numbers == 3
    assert found.scripts == {"-": 9, "latin": 7, "cjk": 2, "cyrillic": 3}
    assert list(found.scripts.values()) == sorted(found.scripts.values(), reverse=True)
    assert found.non_latin_share == pytest.approx(5 / 12)
    assert found.lengths == {1: 10, 2: 5, 3: 3, 4: 2, 5: 1}
    assert found.first == ("[PAD]", "[unused1]", "[unused2]")


def test_the_same_in_a_table_for_people() -> None:
    rows = dict(anatomy(PIECES).to_rows())
    assert rows["entries"] == "29"
    assert rows["reserved"] == "8, 2 of them unused; the first 8 entries"
    assert rows["go on with one"] == "6 (20.7%)"


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, unique=True))
@settings(max_examples=60, deadline=None)
def test_the_parts_come_to_the_whole(pieces: list[str]) -> None:
    found = anatomy(pieces)
    assert found.reserved + found.beginnings + found.continuations == found.total == len(pieces)
    assert sum(found.lengths.values()) == sum(found.scripts.values()) == found.beginnings + found.continuations
    assert found.single_characters == found.lengths.get(1, 0)
    assert 0 <= found.non_latin_share <= 1


def test_a_learnt_vocabulary_has_every_character_in_both_forms() -> None:
    tokenizer = Tokenizer.train(["the dog, der Hund; собака 犬 1990"] * 3, kind="bert", size=120)
    found = anatomy(tokenizer.tokens(range(tokenizer.size)))
    assert found.leading == found.reserved == 5
    assert found.single_beginnings == found.single_continuations == 21
    assert {"latin", "cyrillic", "cjk", "-"} == found.scripts.keys()


def test_no_vocabulary_is_told() -> None:
    with pytest.raises(InputError, match="the vocabulary is empty"):
        anatomy([])


def test_scripts_go_by_the_first_letter() -> None:
    assert [script(each) for each in ("-été", "Ｗ", "カー", "ー", "\u0301", "²")] == [
        "latin", "latin", "katakana", "katakana", "-", "-",
    ]  # fmt: skip


def test_the_page_says_what_was_counted() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "vocabulary.md").read_text(encoding="utf-8")
    figures = json.loads((docs / "results" / "vocabulary.json").read_text(encoding="utf-8"))["figures"]
    table = page[page.index("| entries |") : page.index("\n\n", page.index("| entries |"))]
    for row, name in zip(table.splitlines(), list(figures)[:5], strict=True):
        counted, _, lectures = figures[name].partition("; the lectures have ")
        _, _, said, ours, verdict, _ = (cell.strip() for cell in row.split("|"))
        assert said == lectures
        assert ours.startswith(counted)
        assert (verdict == "holds") == (counted == lectures)
    assert figures["entries that go on with one"] in table
