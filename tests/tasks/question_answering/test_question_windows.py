"""Windows over a context: they cover it, and each token is owned by the one that shows most around it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.question_data import begins, encoded_contexts, owners, places_of, windows
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train(["a b c d e f g h café naïve 中 文 😀"] * 3, kind="bert", size=120)


@given(count=st.integers(0, 60), room=st.integers(1, 20), stride=st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_windows_cover_the_context_and_no_more(count, room, stride):
    starts = begins(count, room, stride)
    covered = [token for start in starts for token in range(start, min(start + room, count))]
    assert set(covered) == set(range(count))
    assert all(later - earlier == min(stride, room) for earlier, later in pairwise(starts))
    assert len(starts) == 1 or starts[-2] + room < count  # the last one was needed


@given(count=st.integers(1, 50), room=st.integers(1, 20), stride=st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_the_owner_of_a_token_is_the_window_with_most_around_it(count, room, stride):
    starts = begins(count, room, stride)
    found = owners(count, room, starts)
    for token in range(count):
        # The rule as published, window by window.
        best, owner = None, None
        for number, start in enumerate(starts):
            length = min(room, count - start)
            if start <= token < start + length:
                score = min(token - start, start + length - 1 - token) + 0.01 * length
                if best is None or score > best + 1e-6:
                    best, owner = score, number
        assert found[token] == owner


@given(
    words=st.lists(st.sampled_from(["a", "bc", "café", "中文", "😀"]), min_size=1, max_size=40),
    stride=st.integers(1, 8),
)
@settings(max_examples=50, deadline=None)
def test_each_token_is_owned_once_and_stands_where_the_window_says(words, stride):
    text = " ".join(words)
    question = TOKENIZER.encode("a b")
    (context,) = encoded_contexts(TOKENIZER, [text])
    made = list(windows(TOKENIZER, question, context, maximum_length=13, stride=stride))
    owned = [window.begin + place for window in made for place in range(*window.owned)]
    assert sorted(owned) == list(range(len(context.ids)))
    for window in made:
        ids = window.joined.ids
        assert len(ids) <= 13
        assert ids[: window.joined.second] == [TOKENIZER.start_id, *question, TOKENIZER.end_id]
        assert ids[window.joined.second : -1] == context.ids[window.begin :][: len(window.spans)].tolist()
        assert ids[-1] == TOKENIZER.end_id
    ids, spans = TOKENIZER.encode_with_spans(text)
    assert context.ids.tolist() == ids
    assert context.spans.tolist() == [list(span) for span in spans]


def test_a_long_context_read_in_parts_has_the_spans_of_one_read_whole():
    text = "café 中文 a, b (naïve) 😀 " * 2000
    (context,) = encoded_contexts(TOKENIZER, [text])
    ids, spans = TOKENIZER.encode_with_spans(text)
    assert np.array_equal(context.ids, ids)
    assert np.array_equal(context.spans, spans)


@pytest.mark.parametrize(
    ("text", "answer", "covered"),
    [
        ("in the café now", "café", "café"),
        ("in the cafe\u0301 now", "cafe\u0301", "cafe\u0301"),
        ("住在中文a", "中", "中"),
        ("a 😀 b", "😀", "😀"),
        ("the 11th,of", "11", "11th"),  # a piece of a token: all of it
        ("a  b c", " b", "b"),
    ],
)
def test_the_tokens_of_an_answer_cover_it(text, answer, covered):
    (context,) = encoded_contexts(TOKENIZER, [text])
    start = text.index(answer)
    places = places_of(context.spans, start, start + len(answer))
    assert places is not None
    assert text[context.spans[places[0], 0] : context.spans[places[1], 1]] == covered


def test_an_answer_of_which_no_token_is_left_is_nowhere():
    (context,) = encoded_contexts(TOKENIZER, ["a \u200b\u0007 b"])
    assert places_of(context.spans, 2, 4) is None
    assert places_of(encoded_contexts(TOKENIZER, ["\x01"])[0].spans, 0, 1) is None
