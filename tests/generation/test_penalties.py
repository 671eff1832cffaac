from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import AverageLength, CoveragePenalty, GnmtLength


def test_gnmt_length_by_hand():
    assert GnmtLength(0.0)(1) == GnmtLength(0.0)(40) == 1.0
    assert GnmtLength(0.2)(1) == 1.0
    assert GnmtLength(1.0)(13) == pytest.approx(3.0)
    assert GnmtLength(0.5)(19) == pytest.approx(2.0)
    assert AverageLength()(13) == 13.0


@pytest.mark.parametrize("penalty", [GnmtLength(0.0), GnmtLength(0.6), GnmtLength(2.0), AverageLength()])
def test_length_penalties_are_positive_and_never_fall(penalty):
    values = [penalty(length) for length in range(1, 60)]
    assert values[0] > 0
    assert values == sorted(values)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.tuples(st.floats(0, 2, width=32), st.booleans()), min_size=4, max_size=4),
        min_size=1,
        max_size=3,
    ),
    beta=st.floats(0, 2),
)
def test_coverage_equals_the_sum_written_out(rows, beta):
    coverage = torch.tensor([[value for value, _ in row] for row in rows])
    valid = torch.tensor([[real for _, real in row] for row in rows])
    found = CoveragePenalty(beta, floor=1e-4)(coverage, valid).tolist()
    for value, row in zip(found, rows, strict=True):
        expected = beta * sum(math.log(max(min(c, 1.0), 1e-4)) for c, real in row if real)
        assert value == pytest.approx(expected, abs=1e-4)
        assert value <= 0


def test_values_out_of_range():
    with pytest.raises(InputError, match="length_penalty: -1"):
        GnmtLength(-1)
    with pytest.raises(InputError, match=r"coverage_penalty: -0\.1"):
        CoveragePenalty(-0.1)
    with pytest.raises(InputError, match="coverage floor: 0"):
        CoveragePenalty(0.1, floor=0)
