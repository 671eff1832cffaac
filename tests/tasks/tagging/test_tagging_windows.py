"""Long sentences in windows: every word once, in the window where it stands best."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.tagging_data import around, pieces_of, read_sentences, windows_of
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train(["a b c d e f g h"], kind="bert", size=60)


def sentence_of(lengths):
    """Words of pieces that tell which word and which piece they are."""
    return [[1000 * word + piece for piece in range(length)] for word, length in enumerate(lengths)]


LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=40)


@given(LENGTHS, st.integers(3, 20))
@settings(max_examples=200, deadline=None)
def test_every_word_is_tagged_once_and_in_order(lengths, maximum):
    words = sentence_of(lengths)
    windows = windows_of(TOKENIZER, words, maximum=maximum)
    tagged = [window.ids[place] for window in windows for place in window.places]
    assert tagged == [1000 * word for word in range(len(words))]
    for window in windows:
        assert len(window.ids) <= maximum
        assert window.ids[0] == TOKENIZER.start_id
        assert window.ids[-1] == TOKENIZER.end_id
        assert window.places


@given(LENGTHS, st.integers(3, 20))
@settings(max_examples=200, deadline=None)
def test_windows_hold_whole_words_of_the_sentence_in_a_row(lengths, maximum):
    cut = [length if length <= maximum - 2 else maximum - 2 for length in lengths]
    flat = list(itertools.chain.from_iterable(sentence_of(cut)))
    borders = {0, *itertools.accumulate(cut)}
    for window in windows_of(TOKENIZER, sentence_of(lengths), maximum=maximum):
        inner = window.ids[1:-1]
        start = flat.index(inner[0])
        assert flat[start : start + len(inner)] == inner
        assert start in borders
        assert start + len(inner) in borders


@given(LENGTHS, st.integers(3, 20))
@settings(max_examples=200, deadline=None)
def test_a_words_window_is_the_one_in_which_it_is_farthest_from_a_cut(lengths, maximum):
    flat = list(itertools.chain.from_iterable(sentence_of([min(length, maximum - 2) for length in lengths])))
    size = {1000 * word: min(length, maximum - 2) for word, length in enumerate(lengths)}
    windows = windows_of(TOKENIZER, sentence_of(lengths), maximum=maximum)

    def distance(window, first: int) -> int:
        """Tokens to the nearer end of a window; an end of the sentence is no cut."""
        begin, inner = flat.index(window.ids[1]), window.ids[1:-1]
        place = inner.index(first)
        left = place if begin > 0 else len(flat)
        right = len(inner) - place - size[first] if begin + len(inner) < len(flat) else len(flat)
        return min(left, right)

    for window in windows:
        for place in window.places:
            first = window.ids[place]
            assert distance(window, first) == max(distance(other, first) for other in windows if first in other.ids)


def test_context_of_equal_words_is_a_quarter_of_a_window_at_least():
    words = sentence_of([1] * 300)
    for window in windows_of(TOKENIZER, words, maximum=42):
        inner = len(window.ids) - 2
        for place in window.places:
            word = window.ids[place] // 1000
            assert place - 1 >= min(10, word)
            assert inner - place >= min(9, 299 - word)


def test_what_fits_is_one_window():
    assert len(windows_of(TOKENIZER, sentence_of([1] * 10), maximum=12)) == 1
    assert len(windows_of(TOKENIZER, sentence_of([1] * 11), maximum=12)) == 2


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1, 2, 3, 4, 5], [6, 7, 8, 9], ([4, 5], [6, 7])),
        ([1], [6, 7, 8, 9], ([1], [6, 7, 8])),
        ([1, 2, 3, 4], [6], ([2, 3, 4], [6])),
        ([1], [6], ([1], [6])),
        ([], [], ([], [])),
        ([1, 2, 3, 4, 5], [], ([2, 3, 4, 5], [])),
    ],
)
def test_text_around_is_read_as_far_as_there_is_room(before, after, expected):
    words = [[90], [91, 92]]
    (window,) = windows_of(TOKENIZER, words, maximum=9, before=before, after=after)
    left, right = expected
    assert window.ids == [TOKENIZER.start_id, *left, 90, 91, 92, *right, TOKENIZER.end_id]
    assert [window.ids[place] for place in window.places] == [90, 91]


def test_neighbours_are_those_of_the_document_and_nearest_first():
    pieces = [[[1], [2, 3]], [[4]], [[5]], [[6], [7]], [[8]]]
    assert around(pieces, 2, 3) == ([2, 3, 4], [6, 7, 8])
    assert around(pieces, 2, 2) == ([3, 4], [6, 7])
    assert around(pieces, 2, 99) == ([1, 2, 3, 4], [6, 7, 8])
    assert around(pieces, 0, 1) == ([], [4])
    assert around(pieces, 4, 0) == ([], [])


def test_context_ends_where_the_document_does():
    sentences = [["a"], ["b"], ["c"], ["d"]]
    (a, b, c, d) = (ids[0] for ids in TOKENIZER.encode_words(["a", "b", "c", "d"]))
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    found = read_sentences(TOKENIZER, sentences, maximum=20, context=5, documents=[0, 0, 1, 1])
    assert [window.ids for (window,) in found] == [[start, a, b, end]] * 2 + [[start, c, d, end]] * 2
    found = list(read_sentences(TOKENIZER, sentences, maximum=20, context=5, documents=[0, 0, 1, 1]))
    assert [window.places for (window,) in found] == [[1], [2], [1], [2]]
    alone = read_sentences(TOKENIZER, sentences, maximum=20, context=5)
    assert [window.ids for (window,) in alone] == [[start, each, end] for each in (a, b, c, d)]


def test_a_word_of_which_nothing_is_left_is_one_unknown_token():
    (pieces,) = pieces_of(TOKENIZER, [["a", "\x01", "\u200d", "b"]])
    assert pieces[1] == pieces[2] == [TOKENIZER.unknown_id]
    assert [len(piece) for piece in pieces] == [1, 1, 1, 1]
