"""Whose past is what: against pasts kept as plain lists."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import KVCache


@given(data=st.data(), sources=st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_every_row_sees_its_own_past_and_nothing_else(data, sources):
    """Hypotheses branch, change places and leave at random; each row's columns are those its list was given."""
    cache, width, columns = KVCache(), 1, 0
    pasts: list[list[int]] = [[] for _ in range(sources)]
    for _ in range(data.draw(st.integers(1, 6))):
        cache = cache.extended(rows=sources * width, width=width)
        pasts = [[*past, columns + row % width] for row, past in enumerate(pasts)]
        columns += width
        assert cache.columns == columns
        wider = data.draw(st.integers(1, 3))
        rows = [
            source * width + data.draw(st.integers(0, width - 1)) for source in range(sources) for _ in range(wider)
        ]
        cache, width = cache.reorder(torch.tensor(rows)), wider
        pasts = [pasts[row] for row in rows]
        seen = cache.seen if cache.seen is not None else torch.ones(len(rows), columns, dtype=torch.bool)
        assert [row.nonzero().flatten().tolist() for row in seen] == pasts
        mask, places = cache.mask(width), cache.places
        if mask is None or places is None:
            assert cache.seen is None
            continue
        dense = mask.dense(batch=sources, queries=width, keys=columns)
        assert torch.equal(dense.squeeze(1).flatten(0, 1), seen)
        for row, past in enumerate(pasts):  # one token for each step, in order
            assert places[row // width, past].tolist() == list(range(len(cache.widths)))


def test_one_hypothesis_about_each_source_needs_no_table():
    cache = KVCache()
    for _ in range(3):
        cache = cache.extended(rows=4, width=1).reorder(torch.tensor([3, 2, 1, 0]))
    assert cache.seen is None
    assert cache.mask(1) is None
    assert cache.places is None


def test_cropping_forgets_the_columns_of_later_steps():
    cache = KVCache().extended(rows=1, width=1).reorder(torch.tensor([0, 0])).extended(rows=2, width=2)
    assert cache.crop(1).columns == 1
    assert cache.crop(1).seen.tolist() == [[True], [True]]
    assert cache.crop(2).seen.tolist() == cache.seen.tolist()
