from __future__ import annotations

import pytest
import torch

from regard.generation import Greedy, Paths, Sample
from regard.generation.choosing import inverse_transform


def chi_square(drawn: torch.Tensor, probability: torch.Tensor) -> float:
    counts = torch.bincount(drawn, minlength=len(probability)).double()
    expected = probability * len(drawn)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    return float((((counts - expected) ** 2)[possible] / expected[possible]).sum())


PROBABILITY = torch.tensor([0.4, 0.0, 0.3, 0.2, 0.1], dtype=torch.float64)
CRITICAL = 16.27  # chi-square, 3 degrees of freedom, p = 0.001; the seeds are fixed, so this never flickers


def test_samples_follow_the_distribution_across_rows():
    """Rows have neighbouring seeds; their first numbers must still be independent."""
    rows = 4000
    draw = Sample(torch.Generator().manual_seed(3)).begin(rows)
    logits = PROBABILITY.log().float().expand(rows, -1)
    drawn = draw(logits, Paths.begin(rows, "cpu"))
    assert chi_square(drawn, PROBABILITY) < CRITICAL
    pairs = drawn[::2] * 5 + drawn[1::2]
    joint = (PROBABILITY[:, None] * PROBABILITY).flatten()
    assert chi_square(pairs, joint) < 37.7  # 15 degrees of freedom, p = 0.001


def test_samples_follow_the_distribution_across_steps():
    draw = Sample(torch.Generator().manual_seed(4)).begin(2)
    paths, logits = Paths.begin(2, "cpu"), PROBABILITY.log().float().expand(2, -1)
    for _ in range(1000):
        tokens = draw(logits, paths)
        paths = paths.advanced(torch.arange(2), tokens, torch.zeros(2))
    for row in range(2):
        assert chi_square(paths.tokens[row], PROBABILITY) < CRITICAL
    assert not torch.equal(paths.tokens[0], paths.tokens[1])
    assert not torch.equal(paths.tokens[0, :64], paths.tokens[0, 64:128])


def test_inverse_transform_never_takes_an_impossible_token():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf])
    for uniform, token in ((0.0, 1), (0.499, 1), (0.5, 3), (1 - 2**-53, 3), (1.0, 3)):
        mark = torch.tensor([uniform], dtype=torch.float64)
        assert inverse_transform(logits[None], mark).tolist() == [token]


def test_greedy_takes_the_lowest_of_equal_ids():
    logits = torch.zeros(2, 50_000)
    logits[0, 77:] = 1.0
    assert Greedy().begin(2)(logits, Paths.begin(2, "cpu")).tolist() == [77, 0]


@pytest.mark.parametrize("sources", [[0, 1, 2], [2], [1, 0]])
def test_a_rows_stream_goes_with_its_source(sources):
    """Rows that have left, or changed places, do not shift the numbers of the others."""
    logits = torch.zeros(3, 1000)
    draw = Sample(torch.Generator().manual_seed(5)).begin(3)
    expected = draw(logits, Paths.begin(3, "cpu"))
    chosen = torch.tensor(sources)
    again = Sample(torch.Generator().manual_seed(5)).begin(3)
    found = again(logits[chosen], Paths.begin(3, "cpu").select(chosen))
    assert torch.equal(found, expected[chosen])
