from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.generation import FixedLength, Paths, RelativeLength, StopSequence
from regard.generation.penalties import row_limits
from regard.layers import Tokens

SOURCE = Tokens.pad([[5, 6, 7], [8]], side="left")


def test_limits_count_real_tokens(toys):
    assert FixedLength(4)(SOURCE).tolist() == [4, 4]
    assert RelativeLength()(SOURCE).tolist() == [53, 51]
    assert RelativeLength(factor=1.5, extra=2)(SOURCE).tolist() == [6, 3]


def test_limits_stay_within_what_the_decoder_can_reach(toys):
    assert row_limits(toys.Toy(), SOURCE, RelativeLength(factor=0, extra=0)) == [1, 1]
    assert row_limits(toys.Toy(maximum_target_length=52), SOURCE, RelativeLength()) == [52, 51]


def test_a_stop_sequence_is_the_tail_alone():
    paths = Paths.begin(3, "cpu")
    rule = StopSequence([4, 5])
    assert rule(paths).tolist() == [False] * 3
    for tokens in ([4, 4, 5], [5, 5, 4], [6, 4, 4], [4, 5, 5]):
        paths = paths.advanced(torch.arange(3), torch.tensor(tokens), torch.zeros(3))
    assert rule(paths).tolist() == [False, True, True]


def test_values_out_of_range():
    with pytest.raises(InputError, match="maximum_length: 0"):
        FixedLength(0)
    with pytest.raises(InputError, match="maximum_ratio: -1"):
        RelativeLength(factor=-1)
    with pytest.raises(InputError, match=r"maximum_extra: 1\.5"):
        RelativeLength(extra=1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least one"):
        StopSequence([])
