"""What is written reads back to the bit, and as gensim reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import InputError
from regard.word_embeddings.files import KINDS, Kind, read_vectors, write_vectors
from regard.word_embeddings.formats.word2vec import digits
from regard.word_embeddings.store import NgramSubwords, WordVectors

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def tables(draw, numbers=NUMBERS) -> WordVectors:
    words = draw(st.lists(WORDS, unique=True, min_size=1, max_size=6))
    matrix = draw(arrays(np.float32, (len(words), draw(st.integers(1, 4))), elements=numbers))
    counts = draw(st.none() | st.lists(st.integers(1, 2**40), min_size=len(words), max_size=len(words)))
    return WordVectors(words=tuple(words), matrix=matrix, counts=None if counts is None else np.array(counts))


def bits(matrix):
    return np.ascontiguousarray(matrix).view(np.int32)


def written_and_read(vectors: WordVectors, kind: Kind, name: str) -> WordVectors:
    with TemporaryDirectory() as folder:
        write_vectors(vectors, Path(folder) / name, kind)
        read = read_vectors(Path(folder) / name)
        assert read.metadata["format"] == kind
        assert read.metadata["source"] == str(Path(folder) / name)
        return replace(read, matrix=np.array(read.matrix))


@pytest.mark.parametrize("name", ["vectors", "vectors.gz"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(vectors=tables())
@example(WordVectors(words=("1", "2.5"), matrix=np.array([[-0.0], [1e-45]], dtype=np.float32)))
@example(WordVectors(words=("a b", "a", "c"), matrix=np.eye(3, dtype=np.float32)))
@example(WordVectors(words=("a\r", "\xa0", "\u2028"), matrix=np.eye(3, dtype=np.float32)))
@example(WordVectors(words=("\ufeffa", "b"), matrix=np.eye(2, dtype=np.float32)))
def test_what_is_written_reads_back_to_the_bit(kind, name, vectors):
    try:
        read = written_and_read(vectors, kind, name)
    except InputError as error:  # words that the format cannot hold; then nothing is written
        assert "choose" in str(error) or "leave it out" in str(error)  # noqa: PT017
        assert not all(word.isalnum() for word in vectors.words)
        return
    assert read.words == vectors.words
    np.testing.assert_array_equal(bits(read.matrix), bits(vectors.matrix))
    if kind in ("folder", "fasttext"):
        assert (read.counts is None) == (vectors.counts is None)
        np.testing.assert_array_equal(read.counts, vectors.counts)


@settings(max_examples=40, deadline=None)
@given(vectors=tables(st.floats(-100, 100, width=32)), seed=st.integers(0, 99))
def test_vectors_from_a_fasttext_file_stay_the_same_to_the_bit(vectors, seed):
    assume(not any({"\0", "\n"} & set(word) for word in vectors.words))
    table = np.random.default_rng(seed).normal(size=(7, vectors.width)).astype(np.float32)
    subwords = NgramSubwords(table=table, minimum=1, maximum=3)
    once = written_and_read(replace(vectors, subwords=subwords), "fasttext", "a.bin")
    twice = written_and_read(once, "fasttext", "a.bin.gz")
    np.testing.assert_array_equal(bits(once.matrix), bits(twice.matrix))
    np.testing.assert_allclose(once.matrix, vectors.matrix, atol=2e-6, rtol=1e-6)
    folder = written_and_read(once, "folder", "a")
    for read in (once, twice, folder):
        np.testing.assert_array_equal(bits(read["unheard-of"]), bits(subwords.vector("unheard-of")))
        assert (read.subwords.minimum, read.subwords.maximum) == (1, 3)


@settings(max_examples=200, deadline=None)
@given(arrays(np.float32, 5, elements=NUMBERS))
def test_digits_are_the_fewest_that_read_back_by_way_of_64_bits(numbers):
    for text, number in zip(digits(numbers[None])[0], numbers, strict=True):
        assert np.float32(float(text)) == number
        assert len(text) <= max(len(str(number)), 17)


@pytest.mark.parametrize("name", ["a.txt", "a.vec.gz", "a.bin", "a.bin.gz"])
def test_gensim_reads_what_is_written_and_the_other_way_round(tmp_path, name):
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    draw = np.random.default_rng(3)
    words = ("the", "größe", "日本", "1984", "a_b", "\xa0", "𝄞")
    vectors = WordVectors(words=words, matrix=draw.normal(size=(7, 5)).astype(np.float32))
    binary = ".bin" in name
    write_vectors(vectors, tmp_path / name)
    theirs = keyed.load_word2vec_format(str(tmp_path / name), binary=binary)
    assert tuple(theirs.index_to_key) == words
    np.testing.assert_array_equal(theirs.vectors, vectors.matrix)
    theirs.save_word2vec_format(str(tmp_path / f"theirs-{name}"), binary=binary)
    ours = read_vectors(tmp_path / f"theirs-{name}")
    assert ours.words == words
    np.testing.assert_array_equal(ours.matrix, vectors.matrix)


@pytest.mark.parametrize("kind", ["word2vec", "word2vec-binary"])
@pytest.mark.parametrize("word", ["New York", "a\tb", "a\n", ""])
def test_words_that_word2vec_cannot_hold_are_named_and_nothing_is_written(tmp_path, kind, word):
    place = tmp_path / "a"
    place.write_text("before")
    vectors = WordVectors(words=("fine", word), matrix=np.eye(2, dtype=np.float32))
    with pytest.raises(InputError, match=r"the word '.*' (contains white space|is empty)"):
        write_vectors(vectors, place, kind)
    assert place.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_kinds_follow_the_ending(tmp_path):
    vectors = WordVectors(words=("a", "b"), matrix=np.eye(2, dtype=np.float32))
    for name, kind in {"a.txt": "word2vec", "a.vec.gz": "word2vec", "a.bin": "word2vec-binary", "a": "folder"}.items():
        write_vectors(vectors, tmp_path / name)
        assert read_vectors(tmp_path / name).metadata["format"] == kind
    for name in ("a.npz", "glove.6B", "a.gz"):
        with pytest.raises(InputError, match="ending"):
            write_vectors(vectors, tmp_path / name)
    with pytest.raises(InputError, match="did you mean 'glove'"):
        write_vectors(vectors, tmp_path / "a", "glvoe")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is a folder"):
        write_vectors(vectors, tmp_path, "glove")
    with pytest.raises(InputError, match="there is no folder"):
        write_vectors(vectors, tmp_path / "none" / "a.txt")
