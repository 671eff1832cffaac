"""Skip-gram, CBoW and fastText: the vectors are gensim's, the same seed gives the same, and nothing hangs."""

from __future__ import annotations

import builtins
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import InputError
from regard.word_embeddings.training import Progress, VectorSettings, sentences, settings_of, train_vectors
from regard.word_embeddings.training.corpus import count_words

gensim = pytest.importorskip("gensim")


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


def test_it_is_gensims_own_training(text):
    """Called by hand with the same numbers, on words in the same order."""
    from gensim.models import Word2Vec

    mine = train_vectors(text, settings("skipgram", negative=3, seed=7))
    words = sum(map(len, text))
    model = Word2Vec(
        vector_size=16, window=5, min_count=1, sg=1, negative=3, alpha=0.025, min_alpha=0.025e-4, sample=1e-3, seed=7,
        workers=1, sorted_vocab=0, batch_words=100,
    )  # fmt: skip
    vocabulary = count_words(text)
    model.build_vocab_from_freq(dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)))
    model.train(text, total_words=words, epochs=3)
    np.testing.assert_array_equal(mine.matrix, model.wv.vectors)
    assert list(mine.words) == model.wv.index_to_key


def test_unknown_words_have_the_vectors_that_gensim_gives_them(text):
    from regard.word_embeddings.training.train import train_word2vec

    given = settings("fasttext", seed=3, maximum_ngram=5)
    mine = train_vectors(text, given)
    model = train_word2vec(text, count_words(text), given).model
    np.testing.assert_array_equal(mine.matrix, model.wv.vectors)
    for word in ("cats", "dril", "naïve", "हिन्दी", "drilling", "z"):
        assert word not in mine
        np.testing.assert_allclose(mine[word], model.wv[word], atol=1e-6)


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


def test_without_gensim_it_is_said_what_to_install(text, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.startswith("gensim"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"pip install 'regard\[static\]'"):
        train_vectors(text, settings("skipgram"))


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
