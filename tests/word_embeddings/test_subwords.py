"""n-grams, their hashes and the vectors they make, against gensim and fastText's rules written plainly."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.store import NgramSubwords, WordVectors, ngram_hash, ngram_rows, ngrams

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    ["größe", "日本語", "𝄞", "</s>"]
)
LENGTHS = st.tuples(st.integers(1, 6), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=200, deadline=None)
@given(WORDS, LENGTHS)
def test_ngrams_and_hashes_are_those_of_gensim(word, lengths):
    theirs = pytest.importorskip("gensim.models.fasttext_inner")
    if word == "</s>":  # of which fastText takes none; gensim does not know that rule
        assert ngrams(word, *lengths) == []
        return
    expected = theirs.compute_ngrams_bytes(word, *lengths)
    assert [each.encode() for each in ngrams(word, *lengths)] == expected
    assert [ngram_hash(each) for each in ngrams(word, *lengths)] == [theirs.ft_hash_bytes(each) for each in expected]


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, max_size=6), LENGTHS, st.integers(1, 2**31))
def test_many_words_at_once_have_the_rows_they_have_one_by_one(words, lengths, buckets):
    rows, counts = ngram_rows(words, buckets, *lengths)
    expected = [[ngram_hash(each) % buckets for each in ngrams(word, *lengths)] for word in words]
    assert counts.tolist() == [len(each) for each in expected]
    assert rows.tolist() == [row for each in expected for row in each]


@settings(max_examples=30, deadline=None)
@given(st.lists(WORDS, max_size=6), LENGTHS)
def test_a_vector_is_the_mean_of_the_rows_and_none_without_any(words, lengths):
    table = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    subwords = NgramSubwords(table=table, minimum=lengths[0], maximum=lengths[1])
    totals, counts = subwords.sums(words)
    for word, total, count in zip(words, totals, counts, strict=True):
        rows = [table[ngram_hash(each) % 50] for each in ngrams(word, *lengths)]
        if not rows:
            assert subwords.vector(word) is None
            assert count == 0
            assert not total.any()
            continue
        np.testing.assert_allclose(subwords.vector(word), np.mean(rows, axis=0), atol=1e-6)
        np.testing.assert_allclose(total / count, np.mean(rows, axis=0), atol=1e-6)


def test_a_word_of_any_length_or_kind_is_answered_without_much_room():
    subwords = NgramSubwords(table=np.ones((11, 4), dtype=np.float32))
    for word in ("a" * 20_000, "\ud800", "\0", "日" * 100):
        np.testing.assert_allclose(subwords.vector(word), 1)


@pytest.mark.parametrize("cbow", [False, True])
def test_a_model_of_gensim_gives_known_and_unknown_words_their_vectors(tmp_path, cbow):
    gensim = pytest.importorskip("gensim.models")
    fasttext = pytest.importorskip("gensim.models.fasttext")
    draw = np.random.default_rng(1)
    texts = [["".join(draw.choice(list("abcßé日"), size=draw.integers(1, 7))) for _ in range(9)] for _ in range(60)]
    model = gensim.FastText(texts, vector_size=8, min_count=1, bucket=300, min_n=2, max_n=5, epochs=2, sg=int(not cbow))
    fasttext.save_facebook_model(model, str(tmp_path / "a.bin"))
    vectors = read_vectors(tmp_path / "a.bin")
    assert list(vectors.words) == model.wv.index_to_key
    assert vectors.counts is not None
    assert vectors.counts.tolist() == [model.wv.get_vecattr(word, "count") for word in vectors.words]
    assert vectors.metadata["settings"]["model"] == ("cbow" if cbow else "skipgram")
    unknown = ["ab日x", "zzzzzz", "ß", "größe"]
    np.testing.assert_allclose(vectors.matrix, model.wv.vectors, atol=1e-6)
    np.testing.assert_allclose(vectors.of(unknown), [model.wv[word] for word in unknown], atol=1e-6)
    assert "zzzzzz" not in vectors
    assert vectors.has("zzzzzz")

    write_vectors(vectors, tmp_path / "b.bin", "fasttext")
    theirs = fasttext.load_facebook_vectors(str(tmp_path / "b.bin"))
    assert theirs.index_to_key == list(vectors.words)
    np.testing.assert_allclose(theirs.vectors, vectors.matrix, atol=1e-6)
    np.testing.assert_allclose([theirs[word] for word in unknown], vectors.of(unknown), atol=1e-6)
    whole = fasttext.load_facebook_model(str(tmp_path / "b.bin"))
    assert not whole.syn1neg.any()
    assert whole.wv.get_vecattr(vectors.words[0], "count") == vectors.counts[0]


def test_vectors_without_ngrams_or_counts_open_in_gensim(tmp_path):
    fasttext = pytest.importorskip("gensim.models.fasttext")
    vectors = WordVectors(words=("b", "a", "New York"), matrix=np.eye(3, dtype=np.float32))
    write_vectors(vectors, tmp_path / "a.bin", "fasttext")
    theirs = fasttext.load_facebook_vectors(str(tmp_path / "a.bin"))
    assert theirs.index_to_key == ["b", "a", "New York"]
    np.testing.assert_array_equal(theirs.vectors, vectors.matrix)
    assert read_vectors(tmp_path / "a.bin").counts is None


def test_the_table_of_a_file_is_mapped_and_a_limit_leaves_it_whole(tmp_path):
    table = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    vectors = WordVectors(
        words=("the", "of", "and"), matrix=np.eye(3, dtype=np.float32), subwords=NgramSubwords(table=table)
    )
    for kind in ("fasttext", "folder"):
        write_vectors(vectors, tmp_path / kind, kind)
        few = read_vectors(tmp_path / kind, limit=2)
        assert few.words == ("the", "of")
        assert isinstance(few.subwords, NgramSubwords)
        held = few.subwords.table
        while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
            held = held.base
        assert isinstance(held, np.memmap)
        np.testing.assert_array_equal(few["unheard-of"], vectors["unheard-of"])


def test_quantised_models_and_other_versions_are_refused(tmp_path):
    vectors = WordVectors(words=("a", "b"), matrix=np.eye(2, dtype=np.float32))
    write_vectors(vectors, tmp_path / "a.bin", "fasttext")
    whole = (tmp_path / "a.bin").read_bytes()
    start = 8 + 12 * 4 + 8 + 3 * 4 + 2 * 8 + 2 * (2 + 9)  # of the byte that says whether it is quantised
    assert whole[start] == 0
    for changed, said in (
        (whole[:start] + b"\1" + whole[start + 1 :], "quantised"),
        (whole[:4] + b"\x0d" + whole[5:], "version 13, and only 11 and 12 can be read"),
        (whole[:64] + b"\x09" + whole[65:], "are inconsistent"),
    ):
        (tmp_path / "b.bin").write_bytes(changed)
        with pytest.raises(InputError, match=said):
            read_vectors(tmp_path / "b.bin")
    (tmp_path / "b.bin").write_bytes(whole[:4] + b"\x0b" + whole[5:])
    assert read_vectors(tmp_path / "b.bin").words == ("a", "b")


@pytest.mark.parametrize("version", [11, 12])
def test_labels_of_a_classifier_are_left_out(tmp_path, version):
    rows = np.arange(1, 9, dtype="<f4").reshape(4, 2)  # two words, two buckets
    (tmp_path / "a.bin").write_bytes(
        struct.pack("<2i12id3i2q", 793712314, version, 2, 5, 5, 1, 5, 1, 3, 3, 2, 3, 3, 100, 1e-4, 3, 2, 1, 7, -1)
        + b"".join(name + struct.pack("<xqb", 5, kind) for name, kind in ((b"a", 0), (b"b", 0), (b"__label__x", 1)))
        + struct.pack("<?2q", False, 4, 2)
        + rows.tobytes()
        + struct.pack("<?2q2f", False, 1, 2, 0, 0)
    )
    vectors = read_vectors(tmp_path / "a.bin")
    assert vectors.words == ("a", "b")
    assert vectors.counts is not None
    assert vectors.counts.tolist() == [5, 5]
    if version == 11:  # whose classifiers have no n-grams, whatever their settings say
        assert vectors.subwords is None
        np.testing.assert_array_equal(vectors.matrix, rows[:2])
    else:
        for row, word in enumerate("ab"):
            expected = (rows[row] + rows[2 + ngram_hash(f"<{word}>") % 2]) / 2
            np.testing.assert_array_equal(vectors[word], expected)


def test_words_that_were_cut_within_a_character_are_read_with_escapes_and_that_is_said(tmp_path):
    write_vectors(WordVectors(words=("xyz", "a"), matrix=np.eye(2, dtype=np.float32)), tmp_path / "a.bin", "fasttext")
    (tmp_path / "b.bin").write_bytes((tmp_path / "a.bin").read_bytes().replace(b"xyz", b"x\xe6\x97"))
    said: list[str] = []
    assert read_vectors(tmp_path / "b.bin", say=said.append).words == (r"x\xe6\x97", "a")
    assert said[0].startswith("1 of 2 words are not UTF-8")


def test_settings_that_cannot_be_are_refused():
    for lengths in ((0, 3), (4, 3), (3, 10**9)):
        with pytest.raises(InputError, match="n-grams of"):
            NgramSubwords(table=np.ones((2, 2), dtype=np.float32), minimum=lengths[0], maximum=lengths[1])
    for table in (np.ones((2, 2)), np.ones(2, dtype=np.float32), np.ones((0, 2), dtype=np.float32)):
        with pytest.raises(InputError, match="give \\(B, W\\) float32"):
            NgramSubwords(table=table)  # type: ignore[arg-type]
