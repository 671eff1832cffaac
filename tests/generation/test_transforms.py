from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.generation import Forbid, MinimumLength, MinP, Paths, Temperature, TopK, TopP

NONE = Paths.begin(1, "cpu")
LOGITS = st.lists(st.integers(-40, 40), min_size=1, max_size=9).map(
    lambda values: torch.tensor(values, dtype=torch.float32) / 8
)


def kept(logits: torch.Tensor) -> set[int]:
    return set(logits.isfinite().nonzero().flatten().tolist())


@settings(max_examples=60, deadline=None)
@given(logits=LOGITS, count=st.integers(1, 12))
def test_top_k_keeps_the_k_largest_and_their_ties(logits, count):
    values = sorted(logits.tolist(), reverse=True)
    threshold = values[min(count, len(values)) - 1]
    assert kept(TopK(count)(logits, NONE)) == {i for i, v in enumerate(logits.tolist()) if v >= threshold}


@settings(max_examples=60, deadline=None)
@given(logits=LOGITS, mass=st.floats(0.05, 0.99))
def test_top_p_keeps_the_smallest_set_that_holds_the_mass(logits, mass):
    probability = logits.double().softmax(0).tolist()
    order = sorted(range(len(probability)), key=lambda token: -probability[token])
    held, total = 0, 0.0
    while held < len(order) and total < mass:
        total += probability[order[held]]
        if abs(total - mass) < 1e-5:
            return  # decided by rounding
        held += 1
    least = logits[order[held - 1]]
    assert kept(TopP(mass)(logits, NONE)) == {i for i, v in enumerate(logits) if v >= least}


@settings(max_examples=60, deadline=None)
@given(logits=LOGITS, share=st.floats(0.01, 1.0))
def test_min_p_keeps_what_is_probable_enough(logits, share):
    ratio = (logits.double() - logits.double().max()).exp()
    if ((ratio - share).abs() < 1e-5).any() and share != 1:
        return  # decided by rounding
    assert kept(MinP(share)(logits, NONE)) == {i for i, r in enumerate(ratio.tolist()) if r >= share}


@settings(max_examples=30, deadline=None)
@given(logits=LOGITS)
def test_the_widest_setting_changes_nothing(logits):
    for transform in (Temperature(1), TopK(len(logits)), TopK(len(logits) + 1), TopP(1), MinP(0)):
        assert torch.equal(transform(logits, NONE), logits)


@pytest.mark.parametrize(
    "transform",
    [Temperature(0.7), TopK(2), TopP(0.5), MinP(0.3), Forbid((1, 3)), MinimumLength(2, end_id=4)],
    ids=lambda transform: type(transform).__name__,
)
@pytest.mark.parametrize("shape", [(5,), (3, 5), (3, 1, 5), (2, 3, 4, 5)])
def test_only_the_last_axis_matters_at_any_rank(transform, shape):
    logits = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    before = logits.clone()
    found = transform(logits, NONE)
    assert torch.equal(logits, before)
    assert not torch.equal(found, logits)
    rows = [transform(row, NONE) for row in logits.reshape(-1, 5)]
    assert torch.equal(found, torch.stack(rows).view(shape))


def test_forbidden_and_too_early():
    logits = torch.zeros(1, 4)
    assert kept(Forbid((0, 2))(logits, NONE)[0]) == {1, 3}
    for ids in ((4,), (0, 1 << 32), (-1,)):
        with pytest.raises(InputError, match="is forbidden, and the model has tokens from 0 to 3"):
            Forbid(ids)(logits, NONE)
    grown = NONE.advanced(torch.tensor([0]), torch.tensor([3]), torch.tensor([-1.0]))
    assert kept(MinimumLength(1, end_id=2)(logits, NONE)[0]) == {0, 1, 3}
    assert kept(MinimumLength(1, end_id=2)(logits, grown)[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Temperature(0), "temperature: 0 will not do; give a finite number above 0"),
        (lambda: Temperature(float("nan")), "temperature"),
        (lambda: TopK(0), "top_k"),
        (lambda: TopK(1.5), "top_k"),
        (lambda: TopP(0), "top_p"),
        (lambda: TopP(1.1), "top_p: 1.1 will not do; give a finite number above 0 and at most 1"),
        (lambda: MinP(-0.1), "min_p"),
        (lambda: MinimumLength(-1, end_id=2), "minimum_length"),
    ],
)
def test_values_out_of_range(build, field):
    with pytest.raises(InputError, match=field):
        build()
