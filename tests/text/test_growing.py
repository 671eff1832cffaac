"""A text that is decoded token by token is what `decode` makes of all of its tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Tokenizer
from regard.text.growing import UNFINISHED, GrowingText

TEXTS = [
    "the café isn't open, it's 5 o'clock.",
    "naïve – 東京 \N{SNOWMAN} don't!",
    "a b c d",
    " two  spaces\nand a line",
] * 9
KINDS = {
    kind: Tokenizer.train(TEXTS, kind=kind, size=330)
    for kind in ("bpe", "byte_bpe", "bert", "roberta", "word", "wordpiece", "unigram", "character", "spelling")
}


@pytest.mark.parametrize("kind", KINDS)
@given(drawn=st.data())
@settings(max_examples=150)
def test_any_tokens_one_by_one_give_the_text_of_all(kind: str, drawn: Any) -> None:
    tokenizer = KINDS[kind]
    some = st.lists(st.integers(0, tokenizer.size - 1), max_size=12)
    prompt, written = drawn.draw(some), drawn.draw(some)
    before = tokenizer.decode(prompt)
    text = GrowingText(tokenizer, prompt)
    for count in range(1, len(written) + 1):
        whole = tokenizer.decode([*prompt, *written[:count]])
        told = whole.removeprefix(before)
        if before.endswith(UNFINISHED) or not whole.startswith(before):
            told = tokenizer.decode(written[:count])
        assert text.add([written[count - 1]]).rstrip(UNFINISHED) == told.rstrip(UNFINISHED)


def test_its_time_does_not_grow_with_the_text() -> None:
    decoded: list[int] = []

    class Counting:
        def decode(self, ids: Any) -> str:
            decoded.append(len(list(ids)))
            return KINDS["byte_bpe"].decode(ids)

    text = GrowingText(Counting(), KINDS["byte_bpe"].encode(TEXTS[0]))
    for _ in range(50):
        text.add(KINDS["byte_bpe"].encode(" open"))
    assert max(decoded[-20:]) <= 4
    assert text.text == " open" * 50
