"""Similarity sets: files in all their forms, and correlations against gensim's."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

from regard.data.malformed import MalformedRows
from regard.errors import InputError
from regard.word_embeddings import WordVectors
from regard.word_embeddings.evaluation.similarity import JudgedPair, SimilaritySet, evaluate_similarity, read_similarity

PAIRS = [("tiger", "cat", 7.35), ("book", "paper", 7.46), ("king", "cabbage", 0.23)]


@pytest.fixture
def tables():
    """The same random vectors as ours and as gensim's; some words in two forms."""
    draw = np.random.default_rng(3)
    words = [f"w{number}" for number in range(60)] + [f"W{number}" for number in range(20, 40)]
    matrix = draw.normal(size=(len(words), 7)).astype(np.float32)
    theirs = pytest.importorskip("gensim.models").KeyedVectors(7)
    theirs.add_vectors(words, matrix)
    return WordVectors(words=tuple(words), matrix=matrix), theirs


@pytest.mark.parametrize("unknown", ["skip", "zero"])
@pytest.mark.parametrize("case", ["ignore", "exact"])
@pytest.mark.parametrize("among", [None, 50])
def test_the_figures_are_gensims(tables, tmp_path, unknown, case, among):
    ours, theirs = tables
    draw = np.random.default_rng(5)
    words = [f"{draw.choice(['w', 'W'])}{draw.integers(80)}" for _ in range(300)]
    lines = [
        f"{one}\t{other}\t{draw.integers(0, 5)}" for one, other in zip(words[::2], words[1::2], strict=True)
    ]  # scores with ties
    file = tmp_path / "pairs.tsv"
    file.write_text("# made\nfirst\tsecond\tscore\n" + "\n".join(lines))
    pearson, spearman, missing = theirs.evaluate_word_pairs(
        str(file), restrict_vocab=among or 1000, case_insensitive=case == "ignore", dummy4unknown=unknown == "zero"
    )
    found = evaluate_similarity(ours, read_similarity(file), unknown=unknown, case=case, among=among)
    assert found.pearson == pytest.approx(pearson[0], abs=2e-7)
    assert found.spearman == pytest.approx(spearman[0], abs=2e-6)
    assert 100 * found.unknown / found.pairs == pytest.approx(missing)
    assert found.used == (found.pairs if unknown == "zero" else found.pairs - found.unknown)
    assert found.interval is None or found.interval.low <= found.spearman <= found.interval.high
    assert found.interval is not None or found.pairs - found.unknown < 10


@pytest.mark.parametrize(
    "text",
    [
        "tiger\tcat\t7.35\nbook\tpaper\t7.46\nking\tcabbage\t0.23\n",
        "tiger cat 7.35\nbook paper 7.46\n\nking  cabbage 0.23",
        "Word 1,Word 2,Human (mean)\ntiger,cat,7.35\nbook,paper,7.46\nking,cabbage,0.23\n",
        "tiger;cat;7.35\r\nbook;paper;7.46\r\nking;cabbage;0.23\r\n",
        "word1\tword2\tPOS\tscore\tconc\ntiger\tcat\tN\t7.35\t2\nbook\tpaper\tN\t7.46\t3\nking\tcabbage\tN\t0.23\t1\n",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_have_many_forms(tmp_path, text, packed):
    file = tmp_path / ("EN-3.txt.gz" if packed else "EN-3.txt")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    malformed = MalformedRows()
    found = read_similarity(file, malformed)
    assert found == SimilaritySet(name="EN-3", pairs=[JudgedPair(*pair) for pair in PAIRS])
    assert malformed.total == 0


def test_lines_that_are_no_pairs_are_counted(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(
        b"tiger\tcat\t7.35\nbook\tpaper\ta lot\nking\tqueen\nking\tqueen\tnan\n\xff\xfe\tx\t1\nin 0.1 0.2\nab\tb\t1\n"
    )
    malformed = MalformedRows()
    assert len(read_similarity(file, malformed).pairs) == 2
    assert malformed.by_reason == {"not two words and a score": 4, "not UTF-8": 1}


@pytest.mark.parametrize("text", ["one two three\nfour five six\n", "a b c d\n"])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    file = tmp_path / "a.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=r"a\.txt: no line has two words and a score"):
        read_similarity(file)


def test_a_pair_is_the_same_both_ways():
    matrix = np.random.default_rng(0).normal(size=(9, 50)).astype(np.float32)
    table = WordVectors(words=tuple("abcdefghi"), matrix=matrix)
    pairs = [(a, b) for a in "abcdefghi" for b in "abcdefghi" if a < b]
    forth = SimilaritySet(name="x", pairs=[JudgedPair(a, b, ord(a) * 7 % 5) for a, b in pairs])
    back = SimilaritySet(name="x", pairs=[JudgedPair(b, a, ord(a) * 7 % 5) for a, b in pairs])
    assert evaluate_similarity(table, forth) == evaluate_similarity(table, back)


def test_where_there_is_nothing_to_correlate_there_is_no_figure():
    table = WordVectors(words=("a", "b", "zero"), matrix=np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32))
    judged = SimilaritySet(name="x", pairs=[JudgedPair("a", "b", 1.0), JudgedPair("a", "c", 2.0)])
    found = evaluate_similarity(table, judged)
    assert (found.used, found.unknown, math.isnan(found.spearman), found.interval) == (1, 1, True, None)
    with_zero = SimilaritySet(name="x", pairs=[JudgedPair("a", "zero", 1.0), JudgedPair("b", "zero", 2.0)])
    assert math.isnan(evaluate_similarity(table, with_zero).pearson)


def test_a_way_that_does_not_exist_is_refused():
    table = WordVectors(words=("a",), matrix=np.ones((1, 2), dtype=np.float32))
    judged = SimilaritySet(name="x", pairs=[JudgedPair("a", "a", 1.0)])
    with pytest.raises(InputError, match="did you mean 'skip'"):
        evaluate_similarity(table, judged, unknown="skp")
    with pytest.raises(InputError, match="has no pairs"):
        SimilaritySet(name="x", pairs=[])
