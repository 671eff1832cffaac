from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.inspection.words import shown_tokens, spans, token_texts, word_numbers, word_texts


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["[CLS]", "un", "##afford", "##able", ".", "[SEP]"], ["[CLS]", "unaffordable", ".", "[SEP]"]),
        (["▁Hello", ",", "▁wor", "ld", "</s>"], ["Hello,", "world", "</s>"]),
        (["The", "Ġanimal", "Ġdidn", "'t", "<|endoftext|>"], ["The", "animal", "didn't", "<|endoftext|>"]),
        (["<s>", "ĠA", "b", "c"], ["<s>", "Abc"]),
        (["a", "b", " ", "c"], ["ab", "c"]),
        (["un@@", "known", "word"], ["unknown", "word"]),
        (["un", "known</w>", "word</w>"], ["unknown", "word"]),
        (["[CLS]", "Hel", "▁lo"], None),
        (["the", "cat"], None),
        (["the", "##"], None),
        ([], None),
    ],
)
def test_marks_of_the_common_tokenizers(tokens, words):
    numbers = word_numbers(tokens)
    assert (None if numbers is None else list(word_texts(tokens, numbers))) == words


@given(st.lists(st.sampled_from(["a", "##b", "▁c", "Ġd", "[SEP]", "e@@", "f</w>", "", "##", "<", "▁"]), max_size=12))
def test_any_tokens_are_grouped_into_runs_that_hold_each_once(tokens):
    numbers = word_numbers(tokens)
    if numbers is None:
        return
    assert len(numbers) == len(tokens)
    assert numbers[0] == 0
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(numbers))
    assert [i for start, stop in spans(numbers) for i in range(start, stop)] == list(range(len(tokens)))
    assert len(word_texts(tokens, numbers)) == numbers[-1] + 1


GPT = ["The", "Ġprogrammer", "Ġcaf", "Ã©", "ĊĊ", "č", "Ġ", "ĠÂ", "¿", "<|endoftext|>"]


def test_the_marks_of_byte_level_vocabularies_are_shown_as_what_they_stand_for():
    assert shown_tokens(GPT) == ("The", "␣programmer", "␣caf", "é", "⏎⏎", "␍", "␣", r"␣\xc2", r"\xbf", "<|endoftext|>")
    assert token_texts(["Ã©t", "Ã©"]) == ("ét", "é")  # without a space to tell by, they are whole characters
    assert token_texts(["Ġa", "Ã"]) == (" a", r"\xc3")  # a text that was cut inside a character
    assert word_texts(["Ġcaf", "Ã", "©", "s", "ĠÃ", "ł"], (0, 0, 0, 0, 1, 1)) == ("cafés", "à")


@pytest.mark.parametrize(
    "tokens",
    [
        ["caf", "é"],
        ["Po", "č", "et", "5"],  # a Czech letter is a byte-level vocabulary's carriage return
        ["[CLS]", "Ġan", "##ni", "[SEP]"],  # Maltese
        ["Ġużeppi", "ra"],
        ["9", "č", "ġ"],
    ],
)
def test_letters_of_languages_are_no_marks(tokens):
    assert shown_tokens(tokens) == tuple(tokens)


def test_the_marks_of_sentencepiece_are_shown_as_spaces_are():
    assert shown_tokens(["▁the", "▁", "cat", " ", "</s>", "<2▁x>"]) == ("␣the", "␣", "cat", "␣", "</s>", "<2▁x>")
    assert word_texts(["▁", "a"], (0, 1)) == (" ", "a")
