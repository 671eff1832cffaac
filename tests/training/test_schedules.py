from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.training.settings import learning_rate

SCHEDULES = ["inverse_square_root", "linear", "cosine", "constant"]


@given(width=st.integers(1, 4096), warmup=st.integers(1, 20_000), step=st.integers(1, 300_000))
@settings(max_examples=100, deadline=None)
def test_the_papers_formula(width, warmup, step):
    """lr = D^-0.5 min(step^-0.5, step warmup^-1.5) (Vaswani et al. 2017, equation 3)."""
    rate = learning_rate("inverse_square_root", step, peak=(width * warmup) ** -0.5, warmup=warmup)
    assert rate == pytest.approx(width**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


@pytest.mark.parametrize(("width", "peak"), [(512, 6.99e-4), (1024, 4.94e-4), (256, 9.88e-4)])
def test_the_papers_peaks(width, peak):
    rates = [
        learning_rate("inverse_square_root", step, peak=(width * 4000) ** -0.5, warmup=4000)
        for step in range(1, 10_001)
    ]
    assert max(rates) == pytest.approx(peak, abs=5e-7)
    assert rates.index(max(rates)) + 1 == 4000


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_all_rise_linearly_to_the_peak(schedule):
    rates = [learning_rate(schedule, step, peak=0.5, warmup=10, steps=100) for step in range(1, 11)]
    assert rates == pytest.approx([0.05 * step for step in range(1, 11)])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_none_jumps(schedule):
    rates = [learning_rate(schedule, step, peak=1.0, warmup=10, steps=100) for step in range(1, 101)]
    assert max(abs(b - a) for a, b in pairwise(rates)) <= 0.1 + 1e-12
    assert all(rate >= 0 for rate in rates)


def test_each_falls_by_its_formula():
    for step in (11, 40, 55, 99, 100):
        share = (step - 10) / 90

        def rate(schedule, step=step):
            return learning_rate(schedule, step, peak=2.0, warmup=10, steps=100)

        assert rate("constant") == 2.0
        assert rate("linear") == pytest.approx(2 * (100 - step) / 90)
        assert rate("cosine") == pytest.approx(1 + math.cos(math.pi * share))
        assert rate("inverse_square_root") == pytest.approx(2 * math.sqrt(10 / step))


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_planned_run_ends_at_zero_and_stays_there(schedule):
    assert learning_rate(schedule, 100, peak=1.0, warmup=10, steps=100) == pytest.approx(0, abs=1e-15)
    assert learning_rate(schedule, 150, peak=1.0, warmup=10, steps=100) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warmup_the_first_step_is_near_the_peak(schedule):
    rate = learning_rate(schedule, 1, peak=1.0, warmup=0, steps=1000)
    assert rate == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warmup_longer_than_the_run_only_rises(schedule):
    rates = [learning_rate(schedule, step, peak=1.0, warmup=20, steps=10) for step in range(1, 11)]
    assert rates == pytest.approx([step / 20 for step in range(1, 11)])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_falling_to_zero_needs_an_end(schedule):
    with pytest.raises(ValueError, match=f"the {schedule} schedule needs the number of steps"):
        learning_rate(schedule, 11, peak=1.0, warmup=10)
