"""Neighbours, analogies and the odd one out, against gensim and the equations written plainly."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli.vectors.evaluation import analogy as analogy_command
from regard.cli.vectors.evaluation import doesnt_match as doesnt_match_command
from regard.cli.vectors.evaluation import neighbours as neighbours_command
from regard.cli.vectors.training import convert as convert_command
from regard.errors import InputError
from regard.word_embeddings.files import read_vectors, write_vectors
from regard.word_embeddings.neighbours import analogy, analogy_scores, cosines, neighbours, odd_one_out
from regard.word_embeddings.store import WordVectors


def random_vectors(rows: int = 200, width: int = 16, seed: int = 0) -> WordVectors:
    matrix = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    return WordVectors(words=tuple(f"w{row}" for row in range(rows)), matrix=matrix)


def keyed(vectors: WordVectors):
    found = pytest.importorskip("gensim.models").KeyedVectors(vectors.width)
    found.add_vectors(list(vectors.words), np.array(vectors.matrix))
    return found


def same(ours, theirs, tolerance=1e-6):
    assert [each.word for each in ours] == [word for word, _ in theirs]
    np.testing.assert_allclose([each.score for each in ours], [score for _, score in theirs], atol=tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_are_those_of_gensim(seed):
    vectors = random_vectors(seed=seed)
    theirs = keyed(vectors)
    for word in ("w0", "w77", "w199"):
        same(neighbours(vectors, word, 12), theirs.most_similar(word, topn=12))
        same(neighbours(vectors, word, 5, among=60), theirs.most_similar(word, topn=5, restrict_vocab=60))
    query = np.random.default_rng(9).normal(size=16).astype(np.float32)
    same(neighbours(vectors, query, 7), theirs.similar_by_vector(query, topn=7))


@pytest.mark.parametrize("seed", range(4))
def test_analogies_are_those_of_gensim(seed, monkeypatch):
    vectors = random_vectors(seed=seed)
    theirs = keyed(vectors)
    same(analogy(vectors, "w1", "w2", "w3"), theirs.most_similar(positive=["w2", "w3"], negative=["w1"]))
    few = theirs.most_similar(positive=["w2", "w3"], negative=["w1"], topn=4, restrict_vocab=90)
    same(analogy(vectors, "w1", "w2", "w3", 4, among=90), few)
    monkeypatch.setattr(
        sys.modules["regard.word_embeddings.neighbours"], "EPSILON", 1e-6
    )  # gensim's, not the published one
    expected = theirs.most_similar_cosmul(positive=["w2", "w3"], negative=["w1"])
    same(analogy(vectors, "w1", "w2", "w3", method="multiply"), expected, 3e-6)


def test_multiplying_is_as_published():
    vectors = random_vectors(30)
    units = vectors.matrix.astype(float) / np.linalg.norm(vectors.matrix.astype(float), axis=1, keepdims=True)
    to_a, to_b, to_c = ((units @ units[row] + 1) / 2 for row in (4, 5, 6))
    triple = vectors.of(["w4", "w5", "w6"])[None]
    np.testing.assert_allclose(
        analogy_scores(vectors, triple, "multiply")[0], to_b * to_c / (to_a + 0.001), rtol=2e-5, atol=1e-6
    )


def test_the_given_words_are_answers_only_if_asked_for():
    vectors = random_vectors()
    for method in ("add", "multiply"):
        assert not {"w1", "w2", "w3"} & {each.word for each in analogy(vectors, "w1", "w2", "w3", 200, method=method)}
        with_given = analogy(vectors, "w1", "w2", "w3", 200, method=method, with_given=True)
        assert len(with_given) == 200
    assert analogy(vectors, "w1", "w1", "w3", 1, with_given=True)[0].word == "w3"


@pytest.mark.parametrize("seed", range(4))
def test_the_odd_one_is_that_of_gensim(seed):
    vectors = random_vectors(seed=seed)
    theirs = keyed(vectors)
    words = ["w5", "w9", "w2", "w150", "w33"]
    found = odd_one_out(vectors, words)
    assert found[0].word == theirs.doesnt_match(words)
    ranked = [(word, score) for score, word in reversed(theirs.rank_by_centrality(words))]
    same(found, ranked)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5), st.data())
def test_the_best_are_those_that_sorting_everything_gives_ties_in_order(rows, count, seed, data):
    matrix = np.random.default_rng(seed).integers(-1, 2, (rows, 2)).astype(np.float32)  # many alike, some zero
    vectors = WordVectors(words=tuple(map(str, range(rows))), matrix=matrix)
    row = data.draw(st.integers(0, rows - 1))
    out = data.draw(st.sets(st.sampled_from(vectors.words)))
    scores = cosines(vectors, matrix[[row]])[0]
    order = [each for each in np.argsort(-scores, kind="stable").tolist() if str(each) not in out | {str(row)}]
    found = neighbours(vectors, str(row), count, leave_out=out)
    assert [each.word for each in found] == [str(each) for each in order[:count]]


def test_a_vector_of_zeros_is_near_nothing():
    vectors = WordVectors(words=("zero", "a", "b"), matrix=np.array([[0, 0], [1, 0], [-1, 0]], dtype=np.float32))
    assert neighbours(vectors, "a") == [("zero", 0.0), ("b", -1.0)]
    assert neighbours(vectors, "zero") == [("a", 0.0), ("b", 0.0)]
    assert odd_one_out(vectors, ["a", "zero", "a"])[0].word == "zero"
    assert [each.word for each in analogy(vectors, "zero", "zero", "zero")] == ["a", "b"]


def test_a_mapped_matrix_gives_what_one_in_memory_gives(tmp_path):
    vectors = random_vectors(50)
    write_vectors(vectors, tmp_path / "own")
    mapped = read_vectors(tmp_path / "own")
    assert isinstance(mapped.matrix, np.memmap)
    assert neighbours(mapped, "w3") == neighbours(vectors, "w3")
    assert analogy(mapped, "w3", "w4", "w5") == analogy(vectors, "w3", "w4", "w5")


def test_large_tables_are_gone_through_in_pieces(monkeypatch):
    vectors = random_vectors(50)
    whole = cosines(vectors, vectors.matrix[:3])
    monkeypatch.setattr(sys.modules["regard.word_embeddings.neighbours"], "CHUNK", 7)
    np.testing.assert_allclose(cosines(vectors, vectors.matrix[:3]), whole, atol=1e-6)


def test_bad_questions_are_sentences():
    vectors = random_vectors(10)
    for ask, said in (
        (lambda: neighbours(vectors, "W3"), "did you mean 'w3'"),
        (lambda: neighbours(vectors, "w3", 0), "count is 0"),
        (lambda: neighbours(vectors, "w3", among=0), "among is 0"),
        (lambda: neighbours(vectors, np.ones(3, dtype=np.float32)), r"queries have the shape \(1, 3\); give \(Q, 16\)"),
        (lambda: analogy(vectors, "w1", "w2", "w3", method="mutliply"), "did you mean 'multiply'"),  # type: ignore[arg-type]
        (lambda: odd_one_out(vectors, ["w1", "w2"]), "at least three"),
    ):
        with pytest.raises(InputError, match=said):
            ask()


@pytest.fixture
def places(tmp_path):
    words = ("man", "king", "woman", "queen", "tree")
    matrix = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1], [-1, -1, 0]], dtype=np.float32)
    write_vectors(WordVectors(words=words, matrix=matrix), tmp_path / "royal.vec.gz")
    return tmp_path


def test_commands_print_words_with_their_scores_or_json(places, capsys):
    file = places / "royal.vec.gz"
    neighbours_command(file, ["king"], n_best=2)
    assert capsys.readouterr().out == " 0.707  man\n 0.500  queen\n"
    neighbours_command(file, ["king", "tree"], n_best=1, as_json=True)
    found = json.loads(capsys.readouterr().out)["words"]
    assert [(each["word"], each["neighbours"][0]["word"]) for each in found] == [("king", "man"), ("tree", "king")]
    analogy_command(file, "man", "king", "woman", method="multiply", n_best=1, as_json=True)
    assert json.loads(capsys.readouterr().out)["answers"][0]["word"] == "queen"
    doesnt_match_command(file, ["man", "king", "tree"])
    assert capsys.readouterr().out.splitlines()[0].endswith("tree")
    with pytest.raises(InputError, match="--method: there is no method"):
        analogy_command(file, "man", "king", "woman", method="x")


def test_convert_writes_another_format_and_says_what_was_read(places, capsys):
    convert_command(places / "royal.vec.gz", places / "own", limit=4)
    out = capsys.readouterr().out
    assert "(word2vec)" in out
    assert "(folder)" in out
    vectors = read_vectors(places / "own")
    assert vectors.words == ("man", "king", "woman", "queen")
    assert vectors.metadata["origin"] == {"format": "word2vec", "source": str(places / "royal.vec.gz")}
    convert_command(places / "own", places / "b.txt", format="glove", as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["read"]["words"], said["read"]["dim"], said["written"]["format"]) == (4, 3, "glove")
    (places / "mine").mkdir()
    (places / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="has other content"):
        convert_command(places / "own", places / "mine")
    assert (places / "mine" / "letter.txt").read_text() == "dear"
