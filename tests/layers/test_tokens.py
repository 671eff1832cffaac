from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import Tokens

rows = st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=5)


@given(sequences=rows, side=st.sampled_from(["left", "right"]))
@settings(max_examples=40, deadline=None)
def test_padding_keeps_every_token_in_its_order(sequences, side):
    tokens = Tokens.pad(sequences, padding_id=7, side=side)
    longest = max(map(len, sequences))
    assert tokens.ids.shape == (len(sequences), longest)
    assert len(tokens) == len(sequences)
    assert tokens.lengths.tolist() == [len(sequence) for sequence in sequences]
    for row, sequence in enumerate(sequences):
        padding = [7] * (longest - len(sequence))
        expected = padding + sequence if side == "left" else sequence + padding
        assert tokens.ids[row].tolist() == expected
        # A token that happens to have the padding's id is still a token.
        assert tokens.ids[row][tokens.valid[row]].tolist() == sequence


def test_rows_can_be_selected():
    tokens = Tokens.pad([[1], [2, 3], [4]])
    chosen = tokens.select(torch.tensor([2, 1, 1]))
    assert chosen.ids.tolist() == [[4, 0], [2, 3], [2, 3]]
    assert chosen.valid.tolist() == [[True, False], [True, True], [True, True]]


@pytest.mark.parametrize(
    ("ids", "valid"),
    [
        (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)),
        (torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool)),
        (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3)),
    ],
)
def test_shapes_and_types_that_do_not_fit_are_refused(ids, valid):
    with pytest.raises(ValueError, match="True = real token"):
        Tokens(ids, valid)


@pytest.mark.parametrize("side", ["left", "Right", "", None])
def test_a_padding_side_that_there_is_not_is_refused(side):
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"padding_side is .*; give nowhere, right, or somewhere"):
        Tokens(ids, ids == 0, side)
    if side != "left":
        with pytest.raises(ValueError, match=r"side is .*; give left or right"):
            Tokens.pad([[1], [2, 3]], side=side)
