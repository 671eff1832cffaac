"""The proofs behind the rows of docs/lectures.md that speak of vectors of words: one small test for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regard.word_embeddings import WordVectors, neighbours
from regard.word_embeddings.bias import analogy_answers, bias_subspace, projections
from regard.word_embeddings.neighbours import cosines

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_b30_cbow_reads_the_mean_of_the_words_around():
    """What gensim tells of a middle word is the same for a context said once and said three times over: no sum is."""
    gensim = pytest.importorskip("gensim")
    model = gensim.models.Word2Vec(
        [["a", "b", "c", "d"]] * 50, vector_size=6, min_count=1, sg=0, seed=1, workers=1, epochs=20
    )
    assert model.cbow_mean == 1
    once = dict(model.predict_output_word(["a", "b"], topn=4))
    thrice = dict(model.predict_output_word(["a", "b"] * 3, topn=4))
    assert once == pytest.approx(thrice)


def test_b31_neither_skip_gram_nor_cbow_is_better_at_everything():
    """Trained on one text with the same settings; the figures are those of benchmarks/word_vectors.py."""
    figures = json.loads((RESULTS / "word-vectors.json").read_text("utf-8"))["figures"]
    pairs = {name: (found["cbow"], found["skip-gram"]) for name, found in figures.items() if "cbow" in found}
    better = {
        name: float(cbow.split()[0]) > float(skip_gram.split()[0])
        for name, (cbow, skip_gram) in pairs.items()
        if name.startswith(("WS-353", "SIMLEX", "Google analogies", "SST-2, accuracy", "CoNLL-2003, f1"))
        and "random" not in name
        and "common" not in name
    }
    assert len(better) >= 8
    assert set(better.values()) == {True, False}


@pytest.fixture
def table() -> WordVectors:
    matrix = np.array([[1.0, 0.1], [0.9, 0.3], [0.0, 1.0], [-1.0, -0.2]], dtype=np.float32)
    return WordVectors(words=("good", "fine", "tree", "bad"), matrix=matrix)


def test_b32_the_nearest_words_have_the_largest_similarity_and_not_the_largest_distance(table):
    similar = cosines(table, table["good"][None])[0]
    distances = 1 - similar
    assert [each.word for each in neighbours(table, "good", 1)] == ["fine"]
    assert table.words[int(distances.argmax())] == "bad"


def test_b33_a_cosine_is_one_for_every_positive_multiple(table):
    query = table["good"]
    for factor, cosine in ((0.01, 1.0), (7.0, 1.0), (-0.5, -1.0)):
        assert cosines(table, factor * query[None])[0, 0] == pytest.approx(cosine)


def test_b36_the_lists_are_projections_and_not_answers_of_analogies():
    words = ("she", "he", "nurse", "boxer", "hospital", "ring")
    axis = [[1, 0, 0], [-1, 0, 0], [0.5, 1, 0], [-0.5, 0, 1], [0.6, 1, 0.1], [-0.4, 0.1, 1]]
    vectors = WordVectors(words=words, matrix=np.array(axis, dtype=np.float32))
    direction = bias_subspace(vectors, [("she", "he")]).direction
    assert [each.word for each in projections(vectors, direction, ["boxer", "nurse"])] == ["nurse", "boxer"]
    answers = {each.word: each.answer.word for each in analogy_answers(vectors, "he", "she", ["boxer", "nurse"])}
    assert not {"nurse", "boxer"} & set(answers.values())
