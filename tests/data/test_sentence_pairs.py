"""Pairs as published, against a plain reading of the rules; stretches that lose nothing; memory that does not grow."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.pretraining import SENTENCES, TOKENS, Cutting, write_documents
from regard.errors import InputError

SENTENCE = 1000  # token = document * 1_000_000 + sentence * 1000 + place: every token says where it is from


def documents_of(lengths: list[list[int]]) -> list[list[list[int]]]:
    return [
        [[d * SENTENCE**2 + s * SENTENCE + place for place in range(length)] for s, length in enumerate(document)]
        for d, document in enumerate(lengths)
    ]


class Store:
    """Documents in memory, looked at like a token store."""

    def __init__(self, documents: list[list[list[int]]]) -> None:
        self.documents = documents

    def sequence(self, column: str, row: int) -> np.ndarray:
        document = self.documents[row]
        if column == SENTENCES:
            return np.array([len(sentence) for sentence in document])
        assert column == TOKENS
        return np.array(list(itertools.chain.from_iterable(document)))


def cutting(lengths: list[list[int]], **changes) -> Cutting:
    store = Store(documents_of(lengths))
    values = {"documents": store, "rows": np.arange(len(lengths)), "room": 30, "seed": 1} | changes
    return Cutting(**values)


def drawn_lengths(seed: int, documents: int, sentences: int = 40, longest: int = 12) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(1, longest, generator.integers(1, sentences)).tolist() for _ in range(documents)]


def of_document(ids: np.ndarray) -> set[int]:
    return set((ids // SENTENCE**2).tolist())


corpora = st.lists(st.lists(st.integers(1, 45), min_size=1, max_size=12), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(lengths=corpora, seed=st.integers(0, 50), room=st.integers(5, 40))
def test_what_holds_of_every_pair(lengths, seed, room):
    source = documents_of(lengths)
    position = {token: place for d in source for place, token in enumerate(itertools.chain.from_iterable(d))}
    for pair in cutting(lengths, seed=seed, room=room).pairs():
        assert len(pair.first) >= 1
        assert len(pair.second) >= 1
        assert len(pair.first) + len(pair.second) <= room
        if pair.cut:
            assert len(pair.first) + len(pair.second) == room
        for text in (pair.first, pair.second):  # running text of one document
            assert len(of_document(text)) == 1
            places = [position[int(token)] for token in text]
            assert places == list(range(places[0], places[0] + len(places)))
        same = of_document(pair.first) == of_document(pair.second)
        assert same == pair.follows
        if pair.follows:
            assert position[int(pair.second[0])] > position[int(pair.first[-1])]
            if not pair.cut:
                assert position[int(pair.second[0])] == position[int(pair.first[-1])] + 1
                assert pair.second[0] % SENTENCE == 0, "the second begins with a sentence"


@settings(max_examples=30, deadline=None)
@given(lengths=corpora, seed=st.integers(0, 20))
def test_unused_sentences_are_put_back(lengths, seed):
    """Every sentence stands in the first text of a pair, or in a second that follows; so no document loses one."""
    seen: list[list[int]] = [[] for _ in lengths]
    pairs = cutting(lengths, seed=seed, room=10_000, short_share=1.0).pairs()  # nothing is cut off
    for pair in pairs:
        texts = [pair.first, pair.second] if pair.follows else [pair.first]
        for text in texts:
            seen[of_document(text).pop()] += text.tolist()
        assert pair.cut == 0
    for document, own in zip(documents_of(lengths), seen, strict=True):
        assert own == list(itertools.chain.from_iterable(document))


def test_half_of_the_pairs_are_random_and_of_any_other_document():
    lengths = [[3] * 400 for _ in range(8)]  # no sentence fills an input
    pairs = list(cutting(lengths, short_share=0.0).pairs(3))
    assert len(pairs) > 1000
    follows = sum(pair.follows for pair in pairs)
    # The last sentence of a document stands alone at times, and is then a random pair.
    assert abs(follows - 0.5 * len(pairs)) <= 5 * math.sqrt(len(pairs) / 4) + 3 * 8
    others = [of_document(pair.second).pop() for pair in pairs if of_document(pair.first) == {2} and not pair.follows]
    counts = np.bincount(others, minlength=8)
    assert counts[2] == 0
    assert (np.delete(counts, 2) > 0.4 * counts.sum() / 7).all()
    starts = [int(pair.second[0]) % SENTENCE**2 // SENTENCE for pair in pairs if not pair.follows]
    assert 150 < np.mean(starts) < 250, "the random text starts at any sentence"


@pytest.mark.parametrize("share", [0.25, 0.9])
def test_the_share_of_random_pairs_is_a_setting(share):
    pairs = list(cutting([[3] * 900 for _ in range(4)], short_share=0.0, random_share=share).pairs())
    random = sum(not pair.follows for pair in pairs)
    assert abs(random - share * len(pairs)) <= 5 * math.sqrt(len(pairs) * share * (1 - share)) + 8


def test_sentences_are_gathered_until_the_input_is_full():
    pairs = list(cutting([[7] * 300, [7] * 300], room=30, short_share=0.0).pairs())
    whole = [pair for pair in pairs if pair.follows]
    # Five sentences of 7 tokens are the first number that reaches 30; five tokens are too many. The last pair may be shorter.
    assert {pair.cut for pair in whole[:-2]} == {5}
    assert {len(pair.first) + len(pair.second) for pair in whole[:-2]} == {30}
    # The first text ends after any of four sentences: the longer of the two was shortened.
    firsts = {
        tuple(sorted(set((pair.first % SENTENCE**2 // SENTENCE - pair.first[0] % SENTENCE**2 // SENTENCE).tolist())))
        for pair in whole
    }
    assert {len(sentences) for sentences in firsts} == {1, 2, 3, 4}


def test_the_longer_text_loses_tokens_from_both_ends():
    lengths = [[5, 60] for _ in range(400)]
    pairs = [pair for pair in cutting(lengths, short_share=0.0, room=30).pairs() if pair.follows]
    assert len(pairs) > 100
    fronts = [int(pair.second[0]) % SENTENCE for pair in pairs]
    assert {len(pair.first) for pair in pairs} == {5}, "the shorter one is left alone"
    assert {len(pair.second) for pair in pairs} == {25}
    # Of 35 lost tokens, half from the front by chance.
    assert abs(np.mean(fronts) - 17.5) <= 5 * math.sqrt(35 / 4 / len(pairs))
    assert len(set(fronts)) > 8


def test_both_are_shortened_alike_where_both_are_too_long():
    pairs = list(cutting([[50, 40] for _ in range(60)], short_share=0.0, room=31).pairs())
    assert not any(pair.follows for pair in pairs), (
        "where one sentence fills an input, the second text is from elsewhere"
    )
    assert {(len(pair.first), len(pair.second)) for pair in pairs} == {(15, 16)}, "the first loses the odd token"


def test_some_documents_are_cut_into_shorter_inputs():
    lengths = [[3] * 200 for _ in range(300)]
    longest: dict[int, int] = {}
    for pair in cutting(lengths, room=60, short_share=0.1).pairs():
        document = of_document(pair.first).pop()
        longest[document] = max(longest.get(document, 0), len(pair.first) + len(pair.second))
    short = sum(length < 57 for length in longest.values())
    assert 300 * 0.1 * 0.4 < short < 300 * 0.1 * 1.8


def test_some_stretches_are_shorter():
    stretches = list(cutting([[3] * 2000 for _ in range(4)], room=60, short_share=0.2).stretches())
    short = sum(len(stretch.first) < 54 for stretch in stretches)
    assert 0.2 * 0.6 < short / len(stretches) < 0.2 * 1.3


def test_a_document_of_one_sentence_has_random_pairs_only():
    pairs = list(cutting([[5]] * 50).pairs())
    assert len(pairs) == 50
    assert not any(pair.follows for pair in pairs)


def test_one_document_has_no_pairs():
    with pytest.raises(InputError, match=r"data\.next_sentence=false"):
        list(cutting([[3, 4, 5]]).pairs())


@pytest.mark.parametrize("kind", ["pairs", "stretches"])
def test_the_seed_the_pass_and_the_document_decide(kind):
    lengths = drawn_lengths(3, 20)

    def drawn(times=1, **changes):
        return [
            (pair.first.tolist(), None if pair.second is None else pair.second.tolist(), pair.follows)
            for pair in getattr(cutting(lengths, short_share=0.5, **changes), kind)(times)
        ]

    once = drawn()
    assert drawn() == once
    assert drawn(2)[: len(once)] == once
    assert drawn(2)[len(once) :] != once
    assert drawn(seed=2) != once


def test_only_the_rows_asked_for_are_cut():
    rows = np.array([1, 4, 7])
    pairs = list(cutting(drawn_lengths(5, 9), rows=rows).pairs())
    assert set().union(*(of_document(pair.first) | of_document(pair.second) for pair in pairs)) == {1, 4, 7}


@settings(max_examples=40, deadline=None)
@given(lengths=corpora, seed=st.integers(0, 20), room=st.integers(2, 40))
def test_stretches_lose_nothing_and_end_with_sentences(lengths, seed, room):
    source = documents_of(lengths)
    ends = {sentence[-1] for document in source for sentence in document}
    seen: list[int] = []
    for stretch in cutting(lengths, seed=seed, room=room).stretches():
        assert stretch.second is None
        assert 1 <= len(stretch.first) <= room
        assert len(of_document(stretch.first)) == 1
        sentences = set((stretch.first // SENTENCE).tolist())
        assert int(stretch.first[-1]) in ends or len(sentences) == 1, "only a sentence that is too long is cut"
        seen += stretch.first.tolist()
    assert seen == [token for document in source for sentence in document for token in sentence]


def test_a_store_on_disk(tmp_path):
    lengths = drawn_lengths(1, 12)
    documents = [[[token % 5000 for token in sentence] for sentence in document] for document in documents_of(lengths)]
    store = write_documents(tmp_path / "documents", [*documents, [], [[]], [[7], [], [8]]], vocabulary=5000)
    assert len(store) == 13, "documents without a token are none"
    assert store.sequence(SENTENCES, 12).tolist() == [1, 1]
    on_disk = Cutting(documents=store, rows=np.arange(12), room=30, seed=1)
    in_memory = Cutting(documents=Store(documents), rows=np.arange(12), room=30, seed=1)  # type: ignore[arg-type]
    for one, other in zip(on_disk.pairs(), in_memory.pairs(), strict=True):
        assert one.first.tolist() == other.first.tolist()
        assert one.second.tolist() == other.second.tolist()


class Endless:
    """A million documents of a thousand tokens, made when they are asked for: a corpus of a billion tokens."""

    rows = 1_000_000

    def sequence(self, column: str, row: int) -> np.ndarray:
        return np.full(50, 20) if column == SENTENCES else np.arange(1000) + row


@pytest.mark.parametrize("kind", ["pairs", "stretches"])
def test_memory_does_not_grow_with_the_text(kind):
    source = Endless()
    rows = np.arange(source.rows)  # 8 bytes a document, as stated
    cut = Cutting(documents=source, rows=rows, room=125, seed=1)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        inputs = getattr(cut, kind)(10)
        for _ in itertools.islice(inputs, 3000):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
