from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import Causal, Dense, Document, Padding, Window

sizes = st.integers(1, 9)
offsets = st.integers(0, 6)


def plain(may_attend, batch, queries, keys):
    """The mask as nested lists from a Python function of (row, query, key): the loop the tensor must equal."""
    return [[[may_attend(b, q, k) for k in range(keys)] for q in range(queries)] for b in range(batch)]


def laid_out(mask, batch, queries, keys):
    return mask.dense(batch=batch, queries=queries, keys=keys).expand(batch, 1, queries, keys)[:, 0].tolist()


@given(queries=sizes, keys=sizes, offset=offsets)
@settings(max_examples=40, deadline=None)
def test_causal_sees_its_own_slot_and_those_before(queries, keys, offset):
    expected = plain(lambda b, q, k: k <= offset + q, 1, queries, keys)
    assert laid_out(Causal(offset=offset), 1, queries, keys) == expected


@given(queries=sizes, keys=sizes, offset=offsets, before=st.integers(0, 5), after=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_a_window_reaches_so_far_to_each_side(queries, keys, offset, before, after):
    expected = plain(lambda b, q, k: offset + q - before <= k <= offset + q + after, 1, queries, keys)
    assert laid_out(Window(before=before, after=after, offset=offset), 1, queries, keys) == expected


@given(
    valid=st.integers(1, 3).flatmap(
        lambda b: sizes.flatmap(
            lambda s: st.lists(st.lists(st.booleans(), min_size=s, max_size=s), min_size=b, max_size=b)
        )
    ),
    queries=sizes,
)
@settings(max_examples=40, deadline=None)
def test_padding_hides_what_is_not_a_token(valid, queries):
    batch, keys = len(valid), len(valid[0])
    expected = plain(lambda b, q, k: valid[b][k], batch, queries, keys)
    assert laid_out(Padding(torch.tensor(valid)), batch, queries, keys) == expected


@given(documents=st.lists(st.integers(0, 3), min_size=1, max_size=8), data=st.data())
@settings(max_examples=40, deadline=None)
def test_documents_do_not_see_one_another(documents, data):
    keys = torch.tensor([documents])
    expected = plain(lambda b, q, k: documents[q] == documents[k], 1, len(documents), len(documents))
    assert laid_out(Document(keys), 1, len(documents), len(documents)) == expected
    others = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    expected = plain(lambda b, q, k: others[q] == documents[k], 1, len(others), len(documents))
    assert laid_out(Document(keys, torch.tensor([others])), 1, len(others), len(documents)) == expected


def some_masks(generator, batch=2, queries=5, keys=7):
    return [
        Causal(offset=keys - queries),
        Padding(torch.rand(batch, keys, generator=generator) < 0.7),
        Window(before=2, after=1),
        Document(
            torch.randint(0, 3, (batch, keys), generator=generator),
            torch.randint(0, 3, (batch, queries), generator=generator),
        ),
        Dense(torch.rand(batch, 3, queries, keys, generator=generator) < 0.5),
    ]


def test_composition_obeys_the_laws_of_logic(generator):
    size = {"batch": 2, "heads": 3, "queries": 5, "keys": 7}

    def same(left, right):
        return torch.equal(left.dense(**size).expand(2, 3, 5, 7), right.dense(**size).expand(2, 3, 5, 7))

    masks = some_masks(generator)
    for a in masks:
        assert same(~~a, a)
        assert same(a & a, a)
        assert not (a & ~a).dense(**size).any()
        assert (a | ~a).dense(**size).all()
        for b in masks:
            assert same(a & b, b & a)
            assert same(a | b, b | a)
            assert same(~(a & b), ~a | ~b)
            c = masks[1]
            assert same(a & (b | c), (a & b) | (a & c))


def test_a_mask_called_with_indices_agrees_with_its_tensor(generator):
    """The signature of flex attention's `mask_mod`: scalars or broadcastable tensors of batch, head, query, key."""
    for mask in [*some_masks(generator), some_masks(generator)[0] & ~some_masks(generator)[1]]:
        dense = mask.dense(batch=2, heads=3, queries=5, keys=7).expand(2, 3, 5, 7)
        for place in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2), (1, 0, 2, 5)]:
            answer = mask(*(torch.tensor(i) for i in place))
            assert answer.item() == dense[place].item()


def test_evaluated_is_the_same_mask_computed_once(generator):
    size = {"batch": 2, "heads": 3, "queries": 5, "keys": 7}
    for mask in some_masks(generator):
        assert torch.equal(mask.materialize(**size).dense(**size), mask.dense(**size))


def test_an_axis_the_mask_ignores_stays_of_size_one():
    assert Causal().dense(batch=3, heads=2, queries=4, keys=4).shape == (1, 1, 4, 4)
    assert Padding(torch.ones(3, 4, dtype=torch.bool)).dense(batch=3, heads=2, queries=5, keys=4).shape == (3, 1, 1, 4)


def test_the_queries_of_a_cached_call_see_all_that_a_whole_call_would_let_them():
    """Rows of the whole triangle: SDPA's own `is_causal` would align top left and be wrong here."""
    whole = Causal().dense(batch=1, queries=6, keys=6)
    for done in range(6):
        rest = Causal(offset=done).dense(batch=1, queries=6 - done, keys=6)
        assert torch.equal(rest, whole[:, :, done:])


@pytest.mark.parametrize("shape", [(3, 1, 1, 7), (1, 4, 1, 7), (1, 1, 6, 7), (1, 1, 1, 8)])
def test_a_tensor_that_does_not_broadcast_is_refused_by_both_shapes(shape):
    mask = Dense(torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="does not broadcast") as caught:
        mask.dense(batch=2, heads=3, queries=5, keys=7)
    assert str(shape) in str(caught.value)
    assert "(2, 3, 5, 7)" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dense(torch.zeros(1, 1, 5, 7)),
        lambda: Dense(torch.ones(5, 7, dtype=torch.bool)),
        lambda: Padding(torch.ones(2, 7, dtype=torch.long)),
        lambda: Padding(torch.ones(2, 1, 1, 7, dtype=torch.bool)),
        lambda: Window(before=-1, after=0),
        lambda: Window(before=0, after=-2),
    ],
)
def test_a_mask_of_the_wrong_kind_is_refused_when_made(make):
    with pytest.raises(ValueError, match=r"True =|distances"):
        make()
