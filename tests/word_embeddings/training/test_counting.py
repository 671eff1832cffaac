"""Counts of words near each other, against a loop over a dict, in memory and by way of files."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.word_embeddings.training import counting
from regard.word_embeddings.training.counting import ENTRY, cooccurrences, shuffled


def plainly(sentences, window):
    """X_ij: 1 / k for every word j at the distance k of a word i, to its left and to its right."""
    counts: Counter[tuple[str, str]] = Counter()
    for sentence in sentences:
        for place, word in enumerate(sentence):
            for distance in range(1, window + 1):
                if place + distance < len(sentence):
                    counts[word, sentence[place + distance]] += 1 / distance
                if place - distance >= 0:
                    counts[word, sentence[place - distance]] += 1 / distance
    return counts


def counted(sentences, words, window, *, memory=1 << 30, seed=1):
    """All entries, in their order, as a list of (i, j, X_ij)."""
    with TemporaryDirectory() as folder:
        rows = {word: row for row, word in enumerate(words)}
        most, pieces = cooccurrences(sentences, rows, window=window, scratch=Path(folder), memory=memory)
        draw = np.random.default_rng(seed)
        found = shuffled(pieces, len(words), most=most, scratch=Path(folder), memory=memory, generator=draw)
        return [(words[int(i)], words[int(j)], float(x)) for i, j, x in found.tolist()]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=12), max_size=8), st.integers(1, 13))
def test_counts_equal_a_plain_loop(sentences, window):
    found = counted(sentences, "abcdef", window)
    wanted = plainly(sentences, window)
    assert len(found) == len(wanted)
    for i, j, x in found:
        assert x == pytest.approx(wanted[i, j], rel=1e-6)


@pytest.fixture
def text():
    draw = random.Random(1)
    words = [f"w{number}" for number in range(300)]
    return words, [draw.choices(words, weights=[1 / (n + 1) for n in range(300)], k=40) for _ in range(400)]


def test_counts_by_way_of_files_are_the_same(text, monkeypatch):
    words, sentences = text
    whole = counted(sentences, words, 5)
    monkeypatch.setattr(counting, "_LEAST", 50)
    written: list[tuple[int, int]] = []
    real = counting._append

    def seen(runs, pieces, level, scratch):
        real(runs, pieces, level, scratch)
        written.append((level, runs[-1].size))

    monkeypatch.setattr(counting, "_append", seen)
    pieces = counted(sentences, words, 5, memory=96 * 4000)
    assert len(written) > 5
    assert max(written) <= (0, 4000)
    assert len(pieces) == len(whole)
    assert {(i, j): x for i, j, x in pieces} == pytest.approx({(i, j): x for i, j, x in whole}, rel=1e-6)
    wanted = plainly(sentences, 5)
    assert {(i, j): x for i, j, x in pieces} == pytest.approx(dict(wanted), rel=1e-6)


def test_many_files_are_merged_by_levels(text, monkeypatch):
    """However many files a text has, few are open at once: here at most three, and twice at each of four levels."""
    words, sentences = text
    whole = counted(sentences, words, 5)
    monkeypatch.setattr(counting, "_LEAST", 50)
    monkeypatch.setattr(counting, "_FILES_MERGED", 3)
    merged: list[int] = []
    levels: list[int] = []
    real = counting._from_files

    def seen(runs, most):
        merged.append(len(runs))
        levels.extend(run.level for run in runs)
        return real(runs, most)

    monkeypatch.setattr(counting, "_from_files", seen)
    pieces = counted(sentences, words, 5, memory=96 * 1000)
    assert len(merged) > 20
    assert set(merged[:-1]) == {3}  # the last merger has what is left of each level
    assert merged[-1] <= 2 * (max(levels) + 1) + 1
    assert max(levels) >= 3
    assert {(i, j): x for i, j, x in pieces} == pytest.approx({(i, j): x for i, j, x in whole}, rel=1e-6)


def test_the_counting_keeps_to_its_memory(tmp_path):
    """NumPy tells tracemalloc of every array."""
    draw = np.random.default_rng(1)
    words = [str(number) for number in range(5000)]
    # 1.8 million pairs at window 10
    sentences = [[words[n] for n in draw.integers(5000, size=50)] for _ in range(2000)]
    rows = {word: row for row, word in enumerate(words)}
    memory = 16 << 20
    tracemalloc.start()
    try:
        most, pieces = cooccurrences(sentences, rows, window=10, scratch=tmp_path, memory=memory)
        files = len(list(tmp_path.iterdir()))
        entries = shuffled(pieces, 5000, most=most, scratch=tmp_path, memory=memory, generator=draw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files >= 4
    assert peak < memory
    assert len(entries) * ENTRY.itemsize > memory  # which could not have been kept
    assert entries["count"].sum() == pytest.approx(2000 * 2 * sum((50 - k) / k for k in range(1, 11)), rel=1e-4)


def test_words_without_a_row_are_left_out_before_distances_are_taken():
    found = counted([["a", "rare", "b"]], "ab", 1)
    assert sorted(found) == [("a", "b", 1.0), ("b", "a", 1.0)]


def test_the_order_is_drawn(text):
    words, sentences = text
    first, again, other = (counted(sentences, words, 2, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
