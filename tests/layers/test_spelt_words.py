"""From bytes to words and their letters, against the rule of the authors' code written out word by word."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import Tokens, spelt_words

words = st.lists(st.binary(min_size=1, max_size=12).map(lambda word: word.replace(b" ", b"_")), min_size=0, max_size=5)


def letters(word: bytes | int, characters: int) -> list[int]:
    """bilm-tf, data.py: UnicodeCharsVocabulary, without the 1 that it adds for masked places."""
    inner = [word] if isinstance(word, int) else list(word[: characters - 2])
    row = [258, *inner, 259]
    return row + [260] * (characters - len(row))


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=4), st.integers(3, 9), st.sampled_from(["left", "right"]))
def test_each_word_is_its_letters_between_two_marks(texts, characters, side):
    rows = [[256, *(byte for word in text for byte in (0x20, *word)), 257] for text in texts]
    tokens = Tokens.pad(rows, padding_id=258, side=side)
    found = spelt_words(tokens, characters)
    for row, text in enumerate(texts):
        expected = [letters(word, characters) for word in (256, *text, 257)]
        assert found.valid[row].sum() == len(expected)
        assert found.letters[found.which[row][found.valid[row]]].tolist() == expected
        lengths = [1, *(1 + len(word) for word in text), 1]
        of = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
        assert torch.equal(found.word_of[row][tokens.valid[row]], of)
        assert found.begins[row].sum() == len(lengths)
    assert len(found.letters) == len({tuple(each) for each in found.letters.tolist()})


def test_a_text_that_begins_without_a_mark_begins_with_a_word():
    found = spelt_words(Tokens.pad([[104, 105, 32, 104, 105], [257, 104, 257]], padding_id=258), 6)
    hi = [258, 104, 105, 259, 260, 260]
    assert found.letters[found.which[0, :2]].tolist() == [hi, hi]
    assert found.valid.sum(dim=1).tolist() == [2, 3]


def test_what_was_said_of_words_is_said_of_each_of_their_tokens():
    found = spelt_words(Tokens.pad([[256, 32, 104, 105, 257]], padding_id=258), 5)
    said = found.to_tokens(torch.tensor([[[1.0], [2.0], [3.0]]]))
    assert said.flatten().tolist() == [1, 2, 2, 2, 3]


@pytest.mark.parametrize("rows", [[], [[]]])
def test_nothing_has_no_words(rows):
    assert spelt_words(Tokens.pad(rows, padding_id=258), 5).valid.sum() == 0
