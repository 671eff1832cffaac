from __future__ import annotations

import pytest
import torch

from regard.attention import AttentionInputs, Causal, Mask


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ((2, 3, 5, 4), (2, 3, 7, 6)),  # widths
        ((2, 3, 5, 4), (1, 3, 7, 4)),  # batches
        ((2, 3, 5, 4), (2, 2, 7, 4)),  # 2 key heads do not divide 3
        ((2, 3, 5, 4), (2, 6, 7, 4)),  # more key heads than query heads
        ((2, 3, 5, 4), (2, 0, 7, 4)),  # no key head
        ((2, 5, 4), (2, 7, 4)),  # an axis missing
    ],
)
def test_query_and_key_that_do_not_fit_are_refused_by_both_shapes(query, key):
    with pytest.raises(ValueError, match="attention wants") as caught:
        AttentionInputs(query=torch.zeros(query), key=torch.zeros(key))
    assert str(query) in str(caught.value)
    assert str(key) in str(caught.value)


def test_a_bare_tensor_is_no_mask():
    """Its polarity and axes would be guesswork; the message says what to wrap it in."""
    with pytest.raises(ValueError, match=r"True = may attend, in regard\.attention\.Dense"):
        AttentionInputs(
            query=torch.zeros(1, 1, 2, 3),
            key=torch.zeros(1, 1, 2, 3),
            mask=torch.ones(2, 2, dtype=torch.bool),  # type: ignore[arg-type]
        )


def test_a_mask_that_gives_numbers_is_refused():
    class Additive(Mask):
        def __call__(self, batch, head, query, key):
            return (key <= query).float()

    inputs = AttentionInputs(query=torch.zeros(1, 1, 2, 3), key=torch.zeros(1, 1, 2, 3), mask=Additive())
    with pytest.raises(ValueError, match=r"mask Additive gave torch\.float32, not bool"):
        inputs.visible()


def test_query_heads_share_key_heads_in_neighbouring_groups():
    key = torch.arange(2.0).view(1, 2, 1, 1)
    inputs = AttentionInputs(query=torch.zeros(1, 6, 1, 1), key=key)
    assert inputs.key_per_query_head.flatten().tolist() == [0, 0, 0, 1, 1, 1]


def test_no_mask_means_everything_is_seen():
    inputs = AttentionInputs(query=torch.zeros(1, 1, 2, 3), key=torch.zeros(1, 1, 4, 3))
    assert inputs.visible() is None
    masked = AttentionInputs(query=torch.zeros(1, 1, 2, 3), key=torch.zeros(1, 1, 4, 3), mask=Causal())
    assert masked.visible().int().tolist() == [[[[1, 0, 0, 0], [1, 1, 0, 0]]]]


def test_positions_always_exist():
    """Keys stand at 0, 1, 2 and so on, the queries at the last of them; given for one side alone, they hold for the other."""
    query, key = torch.zeros(2, 1, 2, 3), torch.zeros(2, 1, 4, 3)
    plain = AttentionInputs(query=query, key=key)
    assert plain.in_order
    assert (plain.query_places.tolist(), plain.key_places.tolist()) == ([[2, 3]], [[0, 1, 2, 3]])
    of_keys = torch.tensor([[0, 0, 1, 2], [0, 1, 2, 3]])
    padded = AttentionInputs(query=query, key=key, key_positions=of_keys)
    assert not padded.in_order
    assert (padded.query_places.tolist(), padded.key_places.tolist()) == ([[1, 2], [2, 3]], of_keys.tolist())
    later = AttentionInputs(query=query, key=key, query_positions=torch.tensor([[7, 8], [4, 5]]))
    assert (later.query_places.tolist(), later.key_places.tolist()) == ([[7, 8], [4, 5]], [[0, 1, 2, 3]])
    more = AttentionInputs(query=key, key=query)  # queries that cannot be among the keys
    assert (more.query_places.tolist(), more.key_places.tolist()) == ([[0, 1, 2, 3]], [[0, 1]])
