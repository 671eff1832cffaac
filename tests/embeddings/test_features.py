"""Features of tokens and words: where they stand, what they are, and texts longer than the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.embeddings import PackedEncoder, PlainReader, features
from regard.embeddings.features import windows_of
from regard.errors import InputError
from regard.layers import Tokens

TEXT = "Nobody was unhappy about the  bank!"


@pytest.fixture
def model(encoder, tokenizer):
    return encoder(vocabulary=tokenizer.size)


def read(model, tokenizer, texts, **settings):
    settings = {"depth": 4, "maximum": 24} | settings
    return features(PackedEncoder.of(model, "float32"), tokenizer, texts, **settings)


def states(model, tokenizer, ids):
    with torch.no_grad():
        found = model.hidden_states(Tokens.pad([[tokenizer.start_id, *ids, tokenizer.end_id]]))
    return [state[0, 1:-1].numpy() for state in found]


def test_each_token_has_its_place_its_word_and_the_models_vector(model, tokenizer):
    found = read(model, tokenizer, [TEXT])[0]
    ids = tokenizer.encode(TEXT)
    assert found.tokens == tuple(tokenizer.tokens(ids))
    assert [TEXT[start:end].lower() for start, end in found.spans] == [
        token.removeprefix("##") for token in found.tokens
    ]
    np.testing.assert_allclose(found.array, states(model, tokenizer, ids)[4], rtol=1e-4, atol=1e-5)
    assert found.array.dtype == np.float32
    assert len(set(found.words)) == 7


@pytest.mark.parametrize("how", ["mean", "first", "last", "sum"])
def test_words_are_merged_from_their_pieces(model, tokenizer, how):
    found = read(model, tokenizer, [TEXT])[0]
    words = found.merged(how)
    assert words.words == ("Nobody", "was", "unhappy", "about", "the", "bank", "!")
    assert [TEXT[start:end] for start, end in words.spans] == list(words.words)
    some = {"mean": lambda rows: rows.mean(axis=0), "sum": lambda rows: rows.sum(axis=0)}
    some |= {"first": lambda rows: rows[0], "last": lambda rows: rows[-1]}
    for number, vector in enumerate(words.array):
        rows = found.array[[place for place, word in enumerate(found.words) if word == number]]
        np.testing.assert_allclose(vector, some[how](rows), rtol=1e-5, atol=1e-6)
    assert any(found.words.count(number) > 1 for number in range(7)), "some word has pieces"


def test_words_that_are_given_stay_what_they_are(model, tokenizer):
    given = ["un-happy", "the", "\u200b", "bank!"]
    found = read(model, tokenizer, [given])[0]
    words = found.merged()
    assert words.words == tuple(given)
    assert words.array.shape == (4, 12)
    assert words.spans == found.spans == ()
    assert found.tokens[found.words.index(2)] == "[UNK]", "of the third word nothing is left"
    assert found.words == tuple(sorted(found.words))


def test_a_stretch_of_the_text_by_its_characters(model, tokenizer):
    found = read(model, tokenizer, [TEXT])[0]
    start = TEXT.index("unhappy")
    word = found.merged().words.index("unhappy")
    np.testing.assert_allclose(found.within(start, start + 7), found.merged().array[word], rtol=1e-6)
    np.testing.assert_allclose(
        found.within(start + 2, start + 3),
        found.array[next(p for p, (a, b) in enumerate(found.spans) if a <= start + 2 < b)],
    )
    with pytest.raises(InputError, match="no token"):
        found.within(500, 501)
    with pytest.raises(InputError, match="given as words"):
        read(model, tokenizer, [["the", "bank"]])[0].within(0, 1)


@pytest.mark.parametrize(
    ("layers", "shape"),
    [("all", (7, 5, 12)), ("concatenate_last_four", (7, 48)), ("sum_last_four", (7, 12)), ([0, 1], (7, 12))],
)
def test_any_choice_of_layers(model, tokenizer, layers, shape):
    text = ["the", "river", "bank", "was", "steep", "and", "green"]
    found = read(model, tokenizer, [text], layers=layers)[0]
    assert found.merged().array.shape == shape
    every = states(model, tokenizer, [index for ids in tokenizer.encode_words(text) for index in ids])
    wanted = {
        "all": np.stack(every, axis=1),
        "concatenate_last_four": np.concatenate(every[1:], axis=1),
        "sum_last_four": sum(every[1:]),
    }.get(layers if isinstance(layers, str) else "", every[0] + every[1])
    np.testing.assert_allclose(found.array, wanted, rtol=1e-4, atol=1e-4)


def test_a_long_text_is_read_in_windows_by_the_rule(model, tokenizer):
    words = ["bank", "river", "steep", "the", "green", "money"] * 9
    found = read(model, tokenizer, [words, ["bank"]], maximum=12)[0]
    ids = [index for each in tokenizer.encode_words(words) for index in each]
    assert found.array.shape == (len(ids), 12)
    for window in windows_of(len(ids), 10):
        wanted = states(model, tokenizer, ids[window.start : window.stop])[4]
        part = wanted[window.first - window.start : window.last - window.start]
        np.testing.assert_allclose(found.array[window.first : window.last], part, rtol=1e-4, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 40))
def test_windows_take_every_token_once_from_where_it_has_most_context(length, room):
    found = windows_of(length, room)
    assert [place for window in found for place in range(window.first, window.last)] == list(range(length))
    for window in found:
        assert 0 <= window.start <= window.first <= window.last <= window.stop <= length
        assert window.stop - window.start == min(length, room)
        for place in range(window.first, window.last):

            def context(other, place=place):
                left = length if other.start == 0 else place - other.start
                right = length if other.stop == length else other.stop - 1 - place
                return min(left, right)

            others = [other for other in found if other.start <= place < other.stop]
            assert context(window) >= max(map(context, others)) - 1, "within one of the best: half of an odd overlap"


def test_many_texts_come_back_in_their_order(model, tokenizer):
    texts = ["the bank", "a", "nobody was unhappy about it", "the bank"]
    together = read(model, tokenizer, texts, batch_tokens=6)
    for text, found in zip(texts, together, strict=True):
        assert found.text == text
        np.testing.assert_allclose(found.array, read(model, tokenizer, [text])[0].array, rtol=1e-4, atol=1e-5)
    plain = features(PlainReader(model), tokenizer, texts, depth=4, maximum=24)
    for one, other in zip(together, plain, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("the bank", "put it in a list"),
        ([""], "text 1 is empty"),
        (["a", "  "], "text 2 is empty"),
        ([["a"], []], "text 2"),
        ([[3]], "list of words"),
    ],
)
def test_what_is_no_text_is_refused(model, tokenizer, texts, message):
    with pytest.raises(InputError, match=message):
        read(model, tokenizer, texts)
    with pytest.raises(InputError, match="did you mean 'mean'"):
        read(model, tokenizer, ["a bank"])[0].merged("meen")
