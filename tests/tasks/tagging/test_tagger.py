"""What a tagger says of texts: the same alone and in a batch, with places that point into the text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import regard
from regard.data.tags import faults
from regard.errors import InputError
from regard.layers import Tokens

TEXTS = [
    "Angela Merkel visited Paris.",
    "x",
    "Ann Lee's yorkshire, visiting New York with Angela and Angela and Ann and Ann Merkel in Paris and x y z.",
    "z y 1 2 x",
    "y z Paris  Ann\tLee",
]


@pytest.mark.parametrize("scheme", ["BIO", None])
def test_a_batch_says_what_each_text_alone_does(tagger, scheme):
    model = tagger(scheme=scheme)
    together = model.tag_batch(TEXTS)
    for text, tagging in zip(TEXTS, together, strict=True):
        alone = model.tag(text)
        assert (alone.text, alone.words, alone.tags, alone.spans) == (
            text,
            tagging.words,
            tagging.tags,
            tagging.spans,
        )
        assert alone.probabilities == pytest.approx(tagging.probabilities, rel=1e-5)
    assert len({tag for tagging in together for tag in tagging.tags}) > 1


def test_places_point_into_the_text(tagger):
    for tagging in tagger().tag_batch(TEXTS):
        assert [tagging.text[start:end] for start, end in tagging.spans] == list(tagging.words)
        for entity in tagging.entities:
            assert tagging.text[entity.start : entity.end] == entity.text


def test_entities_are_the_spans_of_the_tags_with_the_product_of_their_probabilities(tagger):
    found = tagger().tag_batch(TEXTS)
    assert any(len(entity.text.split()) > 1 for tagging in found for entity in tagging.entities)
    for tagging in found:
        starts = [span[0] for span in tagging.spans]
        ends = [span[1] for span in tagging.spans]
        for entity in tagging.entities:
            first, last = starts.index(entity.start), ends.index(entity.end)
            assert tagging.tags[first] == f"B-{entity.type}"
            assert all(tag == f"I-{entity.type}" for tag in tagging.tags[first + 1 : last + 1])
            assert entity.probability == pytest.approx(np.prod(tagging.probabilities[first : last + 1]))
        marked = sum(
            len([span for span in tagging.spans if entity.start <= span[0] < entity.end]) for entity in tagging.entities
        )
        assert marked == sum(tag != "O" for tag in tagging.tags)


def test_words_are_kept_as_given(tagger):
    model = tagger()
    tagging = model.tag(["Angela", "Merkel's", "U.S", ".", "é"])
    assert tagging.words == ("Angela", "Merkel's", "U.S", ".", "é")
    assert tagging.text == "Angela Merkel's U.S . é"
    assert len(tagging.tags) == 5
    assert model.tag_batch([("x", "y"), "x y"])[0] == model.tag_batch(["x y", ["x", "y"]])[0]


def test_the_logits_are_those_of_the_first_pieces(tagger, word_tokenizer):
    model = tagger()
    words = ["Merkels", "visited", "yorkshire", "\x01", "x"]
    (scores,) = model.scores([words])
    pieces = [ids or [word_tokenizer.unknown_id] for ids in word_tokenizer.encode_words(words)]
    assert max(map(len, pieces)) > 1
    ids = [word_tokenizer.start_id, *itertools.chain.from_iterable(pieces), word_tokenizer.end_id]
    places = np.cumsum([1, *map(len, pieces[:-1])])
    with torch.no_grad():
        logits = model.model(Tokens.pad([ids])).logits[0, places]
    torch.testing.assert_close(torch.from_numpy(scores), logits.log_softmax(dim=-1))


def test_decoding_keeps_the_rules_and_greedy_need_not(tagger):
    model = tagger()
    greedy = model.tag_batch(TEXTS, decoding="greedy")
    assert any(faults(tagging.tags) for tagging in greedy)
    for tagging, other in zip(model.tag_batch(TEXTS), greedy, strict=True):
        assert not faults(tagging.tags)
        if not faults(other.tags):
            assert tagging == other


def test_long_texts_are_read_in_windows_and_no_word_goes_untagged(tagger):
    model = tagger(maximum_length=12)
    words = [f"{letter}" for letter in "xyz" for _ in range(40)]
    tagging = model.tag(words)
    assert len(tagging.tags) == 120
    # Far from a window's end and in the middle of equal words, it does not matter which window a word was read in.
    assert len(model.tag(["x"] * 1000).tags) == 1000


def test_a_word_in_the_middle_sees_as_much_as_in_a_window_of_its_own(tagger):
    long, short = tagger(maximum_length=16), tagger(maximum_length=40)
    words = ["x", "y", "z", "1", "2", "Ann", "Lee", "Paris", "visited", "x", "y", "z", "1", "2", "z"]
    assert len(words) == 15  # one more than a window holds
    (scores,) = long.scores([words])
    (first,) = short.scores([words[:14]])
    (last,) = short.scores([words[1:]])
    np.testing.assert_allclose(scores[:8], first[:8], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores[8:], last[7:], rtol=1e-4, atol=1e-5)


def test_context_is_read_where_documents_are_told(tagger):
    model = tagger(context=6)
    sentences = [["Ann", "Lee"], ["x", "y"], ["Paris"]]
    alone = model.scores(sentences)
    none = model.scores(sentences, documents=[0, 1, 2])
    together = model.scores(sentences, documents=[0, 0, 0])
    for one, other, third in zip(alone, none, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert not np.allclose(one, third, rtol=1e-2)
    (whole,) = model.scores([["Ann", "Lee", "x", "y", "Paris"]])
    np.testing.assert_allclose(together[1], whole[2:4], rtol=1e-4, atol=1e-5)


def test_saved_and_loaded_it_is_the_same(tagger, tmp_path):
    model = tagger(context=3, decoding="greedy")
    model.save(tmp_path / "model")
    loaded = regard.load(tmp_path / "model", task="tagging")
    assert loaded.task == model.task
    assert loaded.tag_batch(TEXTS) == model.tag_batch(TEXTS)
    assert 'model.tag("...")' in (tmp_path / "model" / "README.md").read_text()


def test_bfloat16_says_nearly_the_same(tagger, tmp_path):
    model = tagger()
    model.save(tmp_path / "model")
    (exact,), (rough,) = (
        regard.load(tmp_path / "model", dtype=dtype).scores([["Angela", "visited", "x"]])
        for dtype in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(np.exp(exact), np.exp(rough), atol=0.05)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "text 1 is empty; there is nothing to tag"),
        (" \n", "text 1 is empty; there is nothing to tag"),
        ("\x00", "text 1 has no words"),
        ([], "text 1 is empty; there is nothing to tag"),
        (["x", ""], "text 1, word 2 is empty"),
        (["x", 3], "text 1, word 2 is 3; give strings"),
        (7, "text 1 is 7; give a string, or a list of words"),
    ],
)
def test_what_is_no_text_is_refused(tagger, text, sentence):
    with pytest.raises(InputError, match=sentence):
        tagger().tag(text)


def test_other_mistakes_are_refused(tagger):
    model = tagger()
    with pytest.raises(InputError, match="put it in a list"):
        model.tag_batch("Ann")
    with pytest.raises(InputError, match="2 texts and 1 documents"):
        model.tag_batch(["a", "b"], documents=[1])
    with pytest.raises(InputError, match=r"decoding is 'gredy'; did you mean 'greedy'"):
        model.tag("a", decoding="gredy")
    assert model.tag_batch([]) == []


def test_strange_texts_are_tagged(tagger):
    model = tagger()
    assert model.tag("An\x00n").words == ("An", "n")
    assert len(model.tag(["An\x00n", "\x01", "🙂", "‍"]).tags) == 4
    assert model.tag("y" * 1_000_000).words == ("y" * 1_000_000,)
    assert len(model.tag("-" * 3_000).tags) == 3_000
