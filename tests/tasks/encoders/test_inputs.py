"""One or two texts as what an encoder reads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tasks.encoders import Joined, join, padded
from regard.text import Tokenizer

TOKENIZER = Tokenizer.train(["a b c d e f g h"], kind="bert", size=40)
IDS = st.lists(st.integers(5, 12), max_size=30)


@given(first=IDS, second=IDS, maximum=st.integers(5, 40))
@settings(max_examples=200, deadline=None)
def test_the_longer_text_loses_its_last_token_until_both_fit(first, second, maximum):
    left, right = list(first), list(second)
    while len(left) + len(right) > maximum - 3:
        (left if len(left) > len(right) else right).pop()
    joined = join(TOKENIZER, first, second, maximum=maximum)
    start, end = TOKENIZER.start_id, TOKENIZER.end_id
    assert joined.ids == [start, *left, end, *right, end]
    assert joined.second == len(left) + 2
    assert joined.cut == len(first) + len(second) - len(left) - len(right)


@given(first=IDS, maximum=st.integers(3, 40))
@settings(max_examples=50, deadline=None)
def test_one_text_keeps_its_beginning(first, maximum):
    joined = join(TOKENIZER, first, maximum=maximum)
    kept = first[: maximum - 2]
    assert joined == Joined([TOKENIZER.start_id, *kept, TOKENIZER.end_id], 0, len(first) - len(kept))


def test_segments_begin_with_the_second_text():
    tokens, segments = padded([Joined([2, 7, 3, 8, 3], 3), Joined([2, 7, 3])], padding_id=0)
    assert tokens.ids.tolist() == [[2, 7, 3, 8, 3], [2, 7, 3, 0, 0]]
    assert segments.tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
