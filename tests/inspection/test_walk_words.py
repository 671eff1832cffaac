"""A word among tokens that may be pieces of words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.inspection.walk.word_positions import find_word
from regard.text import Tokenizer

PIECES = ["▁The", "▁run", "n", "er", "▁didn", "'", "t", "▁run", ",", "▁with", "▁it", ".", "</s>"]


@pytest.mark.parametrize(
    ("word", "position"),
    [
        ("The", 0),
        ("runner", 1),
        ("run", 7),
        ("didn't", 4),
        ("it", 10),
        (".", 11),
        ("</s>", 12),
        ("with", 9),
        ("IT", 10),
    ],
)
def test_words_are_found_whole(word, position):
    assert find_word(PIECES, word).position == position


@pytest.mark.parametrize(("word", "position"), [("n", 2), ("er", 3), ("▁it", 10), ("▁didn", 4), ("the", 0)])
def test_a_token_spelt_so_will_do_where_no_word_is(word, position):
    assert find_word(PIECES, word).position == position


def test_a_cut_word_names_its_pieces_and_takes_the_first():
    assert find_word(PIECES, "runner").note == "“runner” is cut into 3 tokens, ␣run, n and er; the first is taken."
    found = find_word(PIECES, "runner", 3)
    assert found.position == 3
    assert found.note.endswith("er is taken.")
    assert find_word(PIECES, "it").note == ""


@pytest.mark.parametrize("word", ["wit", "ru", "th", "xyz", "", " "])
def test_what_is_not_there_is_refused_with_the_tokens(word):
    with pytest.raises(InputError, match="is not among the tokens: 0 ␣The, 1 ␣run, 2 n"):
        find_word(PIECES, word)


def test_a_long_text_is_not_listed_whole():
    with pytest.raises(InputError, match=r"49 ␣a \.\.\. and 9,950 more$"):
        find_word(["▁a"] * 10_000, None)
    with pytest.raises(InputError, match=r"occurs 10,000 times, at 0, 1, .* 49 and 9,950 more; choose"):
        find_word(["▁a"] * 10_000, "a")


def test_a_word_that_occurs_twice_wants_a_position():
    tokens = ["▁the", "▁dog", "▁the", "▁cat"]
    with pytest.raises(InputError, match="“the” occurs 2 times, at 0 and 2; choose one with position"):
        find_word(tokens, "the")
    assert find_word(tokens, "the", 2).position == 2
    with pytest.raises(InputError, match="“the” is not at position 1; it is at 0 and 2"):
        find_word(tokens, "the", 1)


def test_pieces_as_wordpiece_writes_them():
    assert find_word(["▁the", "▁ru", "##nn", "##er"], "runner").note.startswith("“runner” is cut into 3 tokens")


def test_pieces_as_byte_level_tokenizers_write_them():
    assert find_word(["The", "Ġrun", "ner", "Ġruns"], "runner").position == 1
    tokens = ["Un", "ĠÃ©", "tÃ©", "Ġan"]
    assert find_word(tokens, "été").note == "“été” is cut into 2 tokens, ␣é and té; the first is taken."
    assert find_word(tokens, "Ġan").position == find_word(tokens, "␣an").position == 3
    with pytest.raises(InputError, match="tokens: 0 Un, 1 ␣é, 2 té, 3 ␣an"):
        find_word(tokens, "hiver")


def test_characters():
    tokens = list("9 mai 2017")
    assert find_word(tokens, "mai").position == 2
    assert find_word(tokens, "2017").position == 6
    assert find_word(tokens, "7").position == 9


@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=5, unique=True), st.data())
@settings(max_examples=40, deadline=None)
def test_every_word_of_a_text_is_found_at_its_beginning(words, data):
    tokens, starts = [], {}
    for word in words:
        starts[word] = len(tokens)
        cut = sorted(data.draw(st.sets(st.integers(1, max(1, len(word) - 1)), max_size=2)))
        ends = [0, *(place for place in cut if place < len(word)), len(word)]
        pieces = [word[a:b] for a, b in pairwise(ends)]
        tokens += ["▁" + pieces[0], *pieces[1:]]
    for word in words:
        assert find_word(tokens, word).position == starts[word]


@pytest.mark.parametrize("kind", ["word", "character", "bpe", "wordpiece", "unigram"])
def test_each_kind_of_tokenizer(kind):
    text = "the runner was running over the old bridge, it broke"
    tokenizer = Tokenizer.train([text, "over and over the running water it ran"], kind=kind, size=60)
    ids = tokenizer.encode(text)
    tokens, spans = tokenizer.tokens(ids), tokenizer.spans(text)
    for word in ("runner", "bridge", "it", "over"):
        start = text.index(f" {word}") + 1
        assert spans[find_word(tokens, word).position][0] in (start, start - 1)
