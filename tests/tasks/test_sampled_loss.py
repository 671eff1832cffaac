"""The loss against drawn words: its equation, the chance of being drawn, and that it leads where the whole loss leads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.tasks.losses import sampled_cross_entropy, sampled_words, sampling_probability


def test_the_same_key_draws_the_same_and_common_words_most_often():
    first = sampled_words(1000, 50, key=(3, 7))
    assert np.array_equal(first, sampled_words(1000, 50, key=(3, 7)))
    assert not np.array_equal(first, sampled_words(1000, 50, key=(4, 7)))
    assert len(np.unique(first)) == len(first) <= 50
    assert 0 <= first.min() < 10
    assert first.max() < 1000


def test_words_are_drawn_as_often_as_their_chance_says():
    rounds, tries, size = 3000, 20, 40
    seen = np.zeros(size)
    for number in range(rounds):
        seen[sampled_words(size, tries, key=(number, 0))] += 1
    expected = sampling_probability(torch.arange(size), size, tries).numpy()
    deviations = np.abs(seen / rounds - expected) / np.sqrt(expected * (1 - expected) / rounds)
    assert deviations.max() < 4.5


def test_the_equation_word_by_word(generator):
    h, w, b = (torch.randn(*shape, generator=generator) for shape in ((2, 3, 4), (9, 4), (9,)))
    labels = torch.tensor([[1, 5, 8], [0, 2, 2]])
    valid = torch.tensor([[True, True, True], [True, True, False]])
    words = torch.tensor([0, 2, 5, 7])
    total, right = sampled_cross_entropy(labels, words, valid=valid, tries=6)(h, w, b)

    def chance(v: int) -> float:
        return 1 - (1 - math.log((v + 2) / (v + 1)) / math.log(10)) ** 6

    losses, best = [], 0
    for row, place in valid.nonzero().tolist():
        y = int(labels[row, place])
        z = {v: float(w[v] @ h[row, place] + b[v]) - math.log(chance(v)) for v in {y, *words.tolist()}}
        losses.append(math.log(sum(math.exp(each) for each in z.values())) - z[y])
        best += z[y] >= max(z.values())
    assert total.item() == pytest.approx(sum(losses), rel=1e-5)
    assert int(right) == best


def test_what_does_not_count_has_no_gradient(generator):
    h = torch.randn(1, 2, 4, generator=generator, requires_grad=True)
    valid = torch.tensor([[True, False]])
    total, _ = sampled_cross_entropy(torch.tensor([[1, 2]]), torch.tensor([0, 3]), valid=valid, tries=3)(
        h, torch.eye(5, 4), None
    )
    total.backward()
    assert h.grad is not None
    assert h.grad[0, 0].any()
    assert not h.grad[0, 1].any()
