"""Word vectors out of an encoder: the mean over contexts against a plain loop, words alone, the table of pieces."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.embeddings import LayerChoice
from regard.errors import InputError
from regard.models import Bert, BertConfig
from regard.tasks.sentence_embedding import SentenceEncoder
from regard.tasks.sentence_task import SentenceEmbeddingTask
from regard.text import Tokenizer
from regard.word_embeddings.contextual import averaged_vectors, piece_vectors, taken, vectors_alone, words_in

SENTENCES = [
    "The river bank was steep; the bank was green.",
    "A bank lends money to people it trusts.",
    "Nobody was unhappy about the bank, nobody!",
    "",
    "People trust the river.",
    "The bank.",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    tokenizer = Tokenizer.train(SENTENCES * 3, kind="bert", size=70, lowercase=True)
    task = SentenceEmbeddingTask(tokenizer=tokenizer)
    sizes = {"width": 12, "heads": 3, "feedforward_width": 20, "layers": 3, "maximum_positions": 14}
    model = Bert(BertConfig(**sizes, **task.model_settings()))  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=draw)
    return SentenceEncoder(model.eval(), task)


def by_hand(encoder, sentences, layers, lowercase):
    """All occurrences, in a loop over `features`."""
    found = defaultdict(list)
    for sentence in sentences:
        if sentence:
            words = encoder.features([sentence], layers=layers)[0].merged()
            for word, vector in zip(words.words, words.array, strict=True):
                found[word.lower() if lowercase else word].append(vector)
    return found


@pytest.mark.parametrize("layers", ["last", "embeddings", "concatenate", [1, 2]])
@pytest.mark.parametrize("lowercase", [True, False])
def test_the_mean_of_all_occurrences_is_that_of_a_plain_loop(encoder, layers, lowercase):
    layers = LayerChoice(layers=(-2, -1), combine="concatenate") if layers == "concatenate" else layers
    right = by_hand(encoder, SENTENCES, layers, lowercase)
    found = averaged_vectors(encoder, SENTENCES, layers=layers, minimum_count=2, lowercase=lowercase)
    assert set(found.words) == {word for word, each in right.items() if len(each) >= 2}
    assert found.counts is not None
    for word, vector, count in zip(found.words, found.matrix, found.counts, strict=True):
        np.testing.assert_allclose(vector, np.mean(right[word], axis=0), rtol=1e-4, atol=1e-5)
        assert count == len(right[word])
    assert list(found.counts) == sorted(found.counts, reverse=True), "the commonest first"
    assert "the" in found
    assert ("The" in found) is not lowercase


def test_a_frequent_word_is_taken_from_some_sentences_and_counted_in_all(encoder):
    found = averaged_vectors(encoder, SENTENCES, contexts=2, minimum_count=1, lowercase=True)
    assert found.counts is not None
    assert found.counts[found.rows["bank"]] == 5
    holding = [each for each in SENTENCES if "bank" in each]
    chosen = [holding[number] for number in range(4) if taken(number, 4, 2)]
    assert len(chosen) == 2
    right = np.mean(by_hand(encoder, chosen, "last", True)["bank"], axis=0)
    np.testing.assert_allclose(found["bank"], right, rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60))
def test_as_many_sentences_are_taken_as_wanted_spread_evenly(of, contexts):
    chosen = [number for number in range(of) if taken(number, of, contexts)]
    assert len(chosen) == min(of, contexts)
    gaps = np.diff([*chosen, of])
    assert gaps.max() - gaps.min() <= 1


def test_lists_of_words_keep_their_words(encoder):
    given = [["un-happy", "bank!"], ["bank!", "\u200b"]]
    found = averaged_vectors(encoder, given, minimum_count=1)
    assert found.words == ("bank!", "un-happy", "\u200b")
    both = [each.merged().array for each in encoder.features(given)]
    np.testing.assert_allclose(found["bank!"], (both[0][1] + both[1][0]) / 2, rtol=1e-4, atol=1e-5)


def test_words_are_found_as_features_finds_them(encoder):
    texts = [*filter(None, SENTENCES), "a\u200bb  don't", "Größe 3.5%"]
    found = words_in(encoder.task.tokenizer, texts)
    assert [tuple(each) for each in found] == [each.merged().words for each in encoder.features(texts)]


def test_progress_tells_of_every_sentence_and_metadata_of_how(encoder):
    told = []
    found = averaged_vectors(
        encoder, SENTENCES * 100, minimum_count=1, contexts=3, progress=lambda done, of: told.append((done, of))
    )
    assert told[-1] == (500, 500)  # one sentence of six is empty
    assert len(told) > 1
    assert found.metadata["contexts"] == 3
    assert found.metadata["layers"] == [-1]
    assert found.metadata["sentences"] == 500


def test_what_cannot_be_averaged_is_refused(encoder):
    for sentences, settings_, message in (
        (iter(SENTENCES), {}, "read twice"),
        ("one text", {}, "read twice"),
        (SENTENCES, {"minimum_count": 99}, "lower minimum_count"),
        ([], {}, "lower minimum_count"),
        (SENTENCES, {"contexts": 0}, "contexts is 0"),
        (SENTENCES, {"layers": "all"}, "are not combined"),
        (SENTENCES, {"layers": 9}, "layer 9"),
    ):
        with pytest.raises(InputError, match=message):
            averaged_vectors(encoder, sentences, **settings_)


def test_a_word_alone_has_the_vector_of_a_text_of_one_word(encoder):
    found = vectors_alone(encoder, ["bank", "unhappy", "The"], layers=2)
    for word in found.words:
        np.testing.assert_allclose(
            found[word], encoder.features([word], layers=2)[0].merged().array[0], rtol=1e-4, atol=1e-5
        )
    with pytest.raises(InputError, match="twice"):
        vectors_alone(encoder, ["bank", "bank"])
    with pytest.raises(InputError, match="none are given"):
        vectors_alone(encoder, [])


def test_a_word_that_is_no_piece_is_the_mean_of_its_pieces(encoder):
    found = piece_vectors(encoder)
    weight = encoder.model.embedding.tokens.weight.detach().numpy()
    tokenizer = encoder.task.tokenizer
    assert len(found) == tokenizer.size
    ids = tokenizer.encode("rivers")
    assert len(ids) > 1
    np.testing.assert_allclose(found["rivers"], weight[ids].mean(axis=0), rtol=1e-5)
    piece = tokenizer.tokens([ids[-1]])[0]
    np.testing.assert_array_equal(found[piece], weight[ids[-1]])
    assert found.get("☃") is None
    assert found.get("") is None
