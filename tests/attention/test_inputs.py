from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.attention import AttentionInputs, Causal, Mask, Positions


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
    with pytest.raises(ValueError, match="attention needs") as caught:
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
    with pytest.raises(ValueError, match=r"mask Additive returned torch\.float32; it must return bool"):
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
    assert (plain.query_positions.tolist(), plain.key_positions.tolist()) == ([[2, 3]], [[0, 1, 2, 3]])
    of_keys = torch.tensor([[0, 0, 1, 2], [0, 1, 2, 3]])
    padded = AttentionInputs(query=query, key=key, key_positions=of_keys)
    assert not padded.in_order
    assert (padded.query_positions.tolist(), padded.key_positions.tolist()) == ([[1, 2], [2, 3]], of_keys.tolist())
    later = AttentionInputs(query=query, key=key, query_positions=torch.tensor([[7, 8], [4, 5]]))
    assert (later.query_positions.tolist(), later.key_positions.tolist()) == ([[7, 8], [4, 5]], [[0, 1, 2, 3]])
    more = AttentionInputs(query=key, key=query)  # queries that cannot be among the keys
    assert (more.query_positions.tolist(), more.key_positions.tolist()) == ([[0, 1, 2, 3]], [[0, 1]])


def test_layers_share_one_set_of_positions_and_other_sizes_make_it_anew():
    query, key = torch.zeros(2, 1, 2, 3), torch.zeros(2, 1, 4, 3)
    shared = Positions(2, 4)
    first, second = (AttentionInputs(query=query, key=key, positions=shared) for _ in range(2))
    assert first.query_positions is second.query_positions, "laid out once for all layers"
    longer = replace(first, key=torch.zeros(2, 1, 5, 3))
    assert longer.in_order
    assert longer.query_positions.tolist() == [[3, 4]]
    with pytest.raises(ValueError, match=r"positions of 4 keys are \(B, 4\), not \(2, 3\)"):
        AttentionInputs(query=query, key=key, key_positions=torch.zeros(2, 3, dtype=torch.long))
