"""Words by their bytes: every text comes back as its words, nothing is unknown, and words are where white space says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train([], kind="spelling", size=259)

words = st.text(st.characters(exclude_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=6))
def test_a_text_is_its_words_each_a_mark_and_its_bytes(found):
    ids = TOKENIZER.encode(" ".join(found))
    assert ids == [byte for word in found for byte in (0x20, *word.encode())]
    assert TOKENIZER.decode(ids) == " ".join(found)
    starts = [place for place, goes_on in enumerate(TOKENIZER.continues(ids).tolist()) if not goes_on]
    assert starts == [place for place, byte in enumerate(ids) if byte == 0x20]


def test_its_ids_are_the_bytes_and_three_more():
    assert (TOKENIZER.size, TOKENIZER.kind, TOKENIZER.unknown_id) == (259, "spelling", None)
    assert (TOKENIZER.start_id, TOKENIZER.end_id, TOKENIZER.padding_id) == (256, 257, 258)
    assert TOKENIZER.encode("<s> \t") == [0x20, *b"<s>"]  # the spelling of a special token is ordinary text
    assert TOKENIZER.encode(" ") == []


def test_white_space_of_any_kind_parts_words_and_punctuation_does_not():
    assert TOKENIZER.encode("U.S.\u3000a\n b") == TOKENIZER.encode("U.S. a b")
    assert TOKENIZER.encode_words(["U.S.", "can't"]) == [[0x20, *b"U.S."], [0x20, *b"can't"]]


def test_tokens_stand_where_their_characters_do():
    text = "Öl für 7"
    for token, (start, end) in zip(TOKENIZER.tokens(TOKENIZER.encode(text)), TOKENIZER.spans(text), strict=True):
        assert end == start + 1
        assert token == "Ġ" or token not in "Öl" or text[start:end] == token


def test_it_is_known_again_in_a_folder_and_can_drop_case(tmp_path):
    lower = Tokenizer.train(["x"], kind="spelling", size=5, lowercase=True)
    assert lower.encode("ABc") == [0x20, *b"abc"]
    lower.save(tmp_path)
    assert Tokenizer.load(tmp_path) == lower
    assert Tokenizer.load(tmp_path).kind == "spelling"


@pytest.mark.parametrize("more", [{"extra_tokens": ["<2de>"]}, {"sentinels": 3}])
def test_nothing_is_added_to_it(more):
    with pytest.raises(InputError, match="only ELMo's tokens"):
        Tokenizer.train([], kind="spelling", size=300, **more)
