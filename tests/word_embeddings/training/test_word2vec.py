"""Skip-gram, CBoW and fastText: the kernel against the equations written plainly, what is sampled, seeds, workers and faults."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import InputError
from regard.kernels import Kernels
from regard.word_embeddings.training import Progress, VectorSettings, sentences, settings_of, train_vectors, word2vec
from regard.word_embeddings.training.corpus import METHODS, count_words


@pytest.fixture(scope="module")
def text():
    """Sentences about animals or about tools, never both."""
    draw = random.Random(1)
    topics = (["cat", "dog", "cow", "hen"], ["saw", "axe", "drill", "plane"])
    shared = ["the", "a", "and", "of"]
    return [draw.choices(draw.choice(topics), k=5) + draw.choices(shared, k=3) for _ in range(1500)]


SMALL = {"width": 16, "minimum_count": 1, "epochs": 3, "buckets": 500}


def settings(method, **changes):
    given = SMALL | changes
    if method != "fasttext":
        given.pop("buckets")
    return settings_of(method, **given)


@pytest.mark.parametrize("method", ["skipgram", "cbow", "fasttext"])
def test_words_of_one_topic_come_near_each_other(text, method):
    vectors = train_vectors(text, settings(method, subsample=0.0, epochs=6))

    def cosine(one, other):
        a, b = vectors[one], vectors[other]
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert min(cosine("cat", "dog"), cosine("saw", "axe")) > 0.2 + max(cosine("cat", "saw"), cosine("axe", "hen"))
    assert vectors.counts is not None
    assert vectors.counts.sum() == 1500 * 8
    assert vectors.metadata["settings"]["learning_rate"] == (0.025 if method == "skipgram" else 0.05)
    assert vectors.metadata["trained_words"] == 6 * 1500 * 8  # nothing was left out


def test_subsampling_leaves_common_words_out(text):
    kept = train_vectors(text, settings("skipgram", subsample=1e-3)).metadata["trained_words"]
    counts = count_words(text).counts
    share = counts / counts.sum()
    expected = 3 * (counts * np.minimum(1, np.sqrt(1e-3 / share) + 1e-3 / share)).sum()
    assert kept == pytest.approx(expected, rel=0.05)


WORD2VEC = [method for method in METHODS if method != "glove"]


def learner_of(text, given, **changes):
    return dataclasses.replace(word2vec.Learner.of(count_words(text), given), **changes)


def pieces_of(text, given, folder):
    ids, places = word2vec.encoded(text, count_words(text), folder / "ids", given)
    sampler = word2vec.Sampler.of(count_words(text), given)
    return [sampler.sampled(ids[place.begin : place.end], np.random.default_rng(n)) for n, place in enumerate(places)]


@pytest.mark.parametrize("method", WORD2VEC)
@pytest.mark.parametrize(("width", "window", "negative"), [(1, 1, 1), (16, 3, 5), (37, 4, 2)])
def test_the_kernel_computes_the_equations(text, tmp_path, method, width, window, negative):
    """Two passes of text, by the kernel and by `plain_pass`, in which a vector moves by a multiple of its length."""
    given = settings(method, width=width, window=window, negative=negative, subsample=0.01)
    fast, plain = learner_of(text, given), learner_of(text, given, library=None)
    assert fast.library is not None
    before = plain.inputs.copy()
    for piece in pieces_of(text[:200], given, tmp_path) * 2:
        fast.learn(piece, 0.1)
        plain.learn(piece, 0.1)
    assert np.abs(plain.inputs - before).max() > 2 * np.abs(before).max()
    for one, other in ((fast.inputs, plain.inputs), (fast.outputs, plain.outputs)):
        np.testing.assert_allclose(one, other, atol=1e-4 * np.abs(other).max())
        assert not one[:, width:].any()


def test_one_window_by_hand():
    """Skip-gram: the second word is to predict the first and not the sampled third."""
    inputs, outputs = (np.array(rows, dtype=np.float64) for rows in ([[1.0], [2.0], [0.0]], [[0.5], [-0.5], [0.25]]))
    words, begins, ends, negatives = (np.array(x, dtype=np.int32) for x in ([0, 1], [0, 1], [2, 2], [2, 2]))
    piece = word2vec.Piece(
        words=words, begins=begins, ends=ends, negatives=negatives
    )  # the second word's window is empty
    word2vec.plain_pass(inputs, outputs, piece, 0.1, settings("skipgram", negative=1), words[:0], np.empty(0, np.int64))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    toward, away = 0.1 * (1 - sigmoid(2.0 * 0.5)), 0.1 * (0 - sigmoid(2.0 * 0.25))
    np.testing.assert_allclose(inputs[:, 0], [1.0, 2.0 + toward * 0.5 + away * 0.25, 0.0])
    np.testing.assert_allclose(outputs[:, 0], [0.5 + toward * 2.0, -0.5, 0.25 + away * 2.0])


def test_cbow_is_gensims_given_its_samples():
    """One pass from gensim's first vectors, windows and negatives; its sigmoid is a table, which is off by up to 0.008."""
    gensim = pytest.importorskip("gensim.models")
    draw = random.Random(1)
    text = [draw.choices([f"w{n}" for n in range(2000)], k=8) for _ in range(900)]
    given = settings("cbow", window=4, negative=5)
    vocabulary = count_words(text)
    model = gensim.Word2Vec(
        vector_size=16, window=4, min_count=1, sg=0, negative=5, alpha=0.05, min_alpha=0.05, sample=0, seed=3, workers=1,
        sorted_vocab=0, batch_words=10_000,
    )  # fmt: skip
    model.build_vocab_from_freq(dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)))
    learner = learner_of(text, given)
    learner.inputs[:, :16] = first = model.wv.vectors.copy()
    state = model.random.get_state()
    model.train(text, total_words=vocabulary.tokens, epochs=1)

    theirs = np.random.RandomState()  # gensim's
    theirs.set_state(state)
    number = (theirs.randint(0, 2**24) << 24) + theirs.randint(0, 2**24)
    words = np.array([model.wv.key_to_index[word] for sentence in text for word in sentence], dtype=np.int32)
    reach, places, table = 4 - theirs.randint(0, 4, len(words)), np.arange(len(words)), model.cum_table.astype(np.int64)
    negatives = []
    for _ in range(5 * len(words)):
        negatives.append(int(np.searchsorted(table, (number >> 16) % int(table[-1]))))
        number = (number * 25214903917 + 11) % 2**48
    begins, ends = np.maximum(places - reach, places // 8 * 8), np.minimum(places + reach + 1, places // 8 * 8 + 8)
    learner.learn(word2vec.Piece(words=words, **{
        name: np.asarray(each, dtype=np.int32)
        for name, each in (("begins", begins), ("ends", ends), ("negatives", negatives))
    }), 0.05)  # fmt: skip
    for mine, its, before in ((learner.inputs, model.wv.vectors, first), (learner.outputs, model.syn1neg, 0 * first)):
        assert np.linalg.norm(mine[:, :16] - its) < 0.05 * np.linalg.norm(its - before)


@pytest.mark.parametrize("method", WORD2VEC)
def test_windows_stay_in_their_sentence_and_negatives_are_sampled_by_their_count(text, tmp_path, method):
    given = settings(method, window=3, negative=4, subsample=0.0, noise_exponent=0.5)
    counts = count_words(text).counts
    found = np.concatenate([piece.negatives for piece in pieces_of(text, given, tmp_path)])
    shares, wanted = np.bincount(found) / len(found), counts**0.5 / (counts**0.5).sum()
    assert np.abs(shares - wanted).max() < 4 * np.sqrt(wanted.max() / len(found))
    pairs = 0
    for piece in pieces_of(text, given, tmp_path):
        places = np.arange(len(piece.words))
        sentence = places // 8  # of eight words each
        assert (piece.begins <= places).all()
        assert (piece.ends > places).all()
        assert (sentence[piece.begins] == sentence).all()
        assert (sentence[piece.ends - 1] == sentence).all()
        reach = np.maximum(piece.ends - places - 1, places - piece.begins)
        assert set(reach.tolist()) == {1, 2, 3}
        pairs += int((piece.ends - piece.begins - 1).sum())
    assert len(found) == 4 * (pairs if method == "fasttext" else 8 * len(text))


@pytest.mark.parametrize("method", WORD2VEC)
def test_without_a_kernel_the_vectors_are_the_same_and_it_is_said(text, monkeypatch, method):
    given = settings(method, epochs=1)
    fast = train_vectors(text[:150], given)
    monkeypatch.setattr(word2vec, "kernels", lambda: Kernels(None, "there is no C++ compiler (g++ or clang++)"))
    with pytest.warns(UserWarning, match=r"no C\+\+ compiler.*takes many times as long"):
        plain = train_vectors(text[:150], given)
    np.testing.assert_allclose(fast.matrix, plain.matrix, atol=1e-5)


@pytest.mark.parametrize("method", WORD2VEC)
def test_several_workers_train_as_many_words_to_vectors_of_the_same_use(text, method):
    vectors = train_vectors(text, settings(method, subsample=0.0, epochs=6, workers=3))
    assert vectors.metadata["trained_words"] == 6 * 1500 * 8
    cosine = {
        (a, b): vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
        for a, b in (("cat", "dog"), ("cat", "saw"))
    }
    assert cosine["cat", "dog"] > 0.2 + cosine["cat", "saw"]


def test_vectors_of_fasttext_are_means_of_parts(text):
    """A known word's own and its n-grams', and those of n-grams alone for others."""
    given = settings("fasttext", seed=3, maximum_ngram=5)
    vectors = train_vectors(text, given)
    assert vectors.subwords is not None
    table = vectors.subwords.table
    assert table.shape == (500, 16)
    for word in ("cats", "dril", "naïve", "हिन्दी"):
        assert word not in vectors
        np.testing.assert_allclose(vectors[word], table[vectors.subwords.rows(word)].mean(axis=0), atol=1e-6)
    rows = vectors.subwords.rows("plane")
    own = vectors["plane"] * (len(rows) + 1) - table[rows].sum(axis=0)  # what is left is the word's own vector
    assert 0 < np.abs(own).max() < 10


@pytest.mark.slow
def test_the_same_seed_gives_the_same_vectors_in_another_process(text):
    """Whatever the order of Python's sets."""
    here = [train_vectors(text[:300], settings(method)).matrix.tobytes().hex() for method in ("fasttext", "cbow")]
    code = f"""
from regard.word_embeddings.training import settings_of, train_vectors
for method, more in (("fasttext", {{"buckets": 500}}), ("cbow", {{}})):
    vectors = train_vectors({text[:300]!r}, settings_of(method, width=16, minimum_count=1, epochs=3, **more))
    print(vectors.matrix.tobytes().hex())
"""
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert found.stdout.split() == here


def test_progress_is_told(text):
    told: list[Progress] = []
    train_vectors(text, settings("skipgram"), report=told.append)
    assert [each.stage for each in told if each.done == each.total] == [f"epoch {n} of 3" for n in (1, 2, 3)]


def test_an_error_in_the_text_ends_the_training(text):
    class Breaking:
        """Once whole, for the vocabulary, and broken from then on."""

        passes = 0

        def __iter__(self):
            self.passes += 1
            for number, sentence in enumerate(text):
                if self.passes > 1 and number == 700:
                    raise InputError("a.txt: reading failed")
                yield sentence

    with pytest.raises(InputError, match="reading failed"):
        train_vectors(Breaking(), settings("skipgram"))
    with pytest.raises(InputError, match="can be read only once"):
        train_vectors(iter(text), settings("skipgram"))


def test_files_are_trained_on_and_told_by_name(tmp_path):
    (tmp_path / "a.txt").write_text("The cat sat. The dog sat!\n\nA cat; a dog.\n" * 30)
    vectors = train_vectors(sentences(tmp_path), settings("cbow"), scratch=tmp_path)
    assert set(vectors.words) == {"the", "cat", "sat", "dog", "a"}
    assert vectors.metadata["text"]["files"] == ["a.txt"]
    assert (vectors.metadata["text"]["words"], vectors.metadata["text"]["sentences"]) == (300, 90)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_rate_too_high_is_said(text):
    with pytest.raises(InputError, match=r"the vectors overflow; lower learning_rate, which is 1e\+30"):
        train_vectors(text[:100], settings("cbow", learning_rate=1e30))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "skip"}, "method is 'skip'; choose 'skipgram' or 'cbow'"),
        ({"width": 0}, "width is 0 but must be from 1 to"),
        ({"width": 10**12}, "width is 1000000000000 but must be from 1 to 2"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0 but must be a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"minimum_ngram": 5, "maximum_ngram": 4}, "minimum_ngram is 5 and maximum_ngram 4"),
        ({"epochs": 2.5}, r"epochs is 2\.5"),
        ({"method": "glove", "memory": 1}, "memory is 1 but must be at least 16"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, says):
    with pytest.raises(InputError, match=says):
        VectorSettings(**given)


def test_settings_are_those_of_the_method():
    assert "negative" not in VectorSettings(method="glove").to_json()
    assert VectorSettings(method="fasttext").to_json()["noise_exponent"] == 0.5
    with pytest.raises(InputError, match="cbow has no setting buckets; leave it out, or choose fasttext"):
        settings_of("cbow", buckets=3)
