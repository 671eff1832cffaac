from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.inspection.words import spans, word_numbers, word_texts


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
