"""What captioners learn beside the words: the doubly stochastic term, and REINFORCE against the exact gradient."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.models.captioning import Captioned, Sampled
from regard.tasks.caption_data import Objective, entropy, uncovered

WORDS = torch.tensor([[True, True, True], [True, True, False]])


def weights(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(2, 3, 4, generator=generator).softmax(dim=-1)


def test_the_sum_runs_over_time_for_each_place(generator):
    """Of the two axes the other one would give zero for any softmax; words of padding do not count."""
    alpha, places = weights(generator), torch.ones(2, 4, dtype=torch.bool)
    by_hand = [
        sum((1 - sum(alpha[row, t, i].item() for t in range(3) if WORDS[row, t])) ** 2 for i in range(4))
        for row in range(2)
    ]
    assert uncovered(alpha, WORDS, places).tolist() == pytest.approx(by_hand)
    places[0, 3] = False
    assert uncovered(alpha, WORDS, places)[0] < by_hand[0]


def test_entropy_is_highest_where_nothing_is_known():
    assert entropy(torch.full((1, 4), 0.25)).item() == pytest.approx(1.3863, abs=1e-4)
    assert entropy(torch.tensor([[1.0, 0.0, 0.0, 0.0]])).item() == 0.0


def told(alpha: torch.Tensor, places: torch.Tensor, baseline: float = 0.0) -> Captioned:
    sampled = Sampled(places, torch.ones_like(places, dtype=torch.bool), torch.tensor(baseline))
    return Captioned(torch.zeros(1), alpha, torch.ones(alpha.shape[0], alpha.shape[2], dtype=torch.bool), sampled)


@pytest.mark.parametrize("baseline", [0.0, -2.0])
def test_reinforce_is_the_gradient_of_the_expected_log_likelihood(generator, baseline):
    """One word, four places: averaged over draws the estimate is d/d(score) sum_s alpha_s log p(y|s), whatever the baseline."""
    gains = torch.tensor([-0.1, -3.0, -1.0, -2.0])
    scores = torch.tensor([0.3, -0.2, 0.1, 0.0], requires_grad=True)
    (exact,) = torch.autograd.grad((scores.softmax(dim=0) * gains).sum(), scores)
    count = 40_000
    alpha = scores.softmax(dim=0).expand(count, 1, 4)
    places = torch.multinomial(scores.detach().softmax(dim=0), count, replacement=True, generator=generator).view(-1, 1)
    objective = Objective(reinforcement=1.0, entropy=0.0)
    added = objective.added_loss(told(alpha, places, baseline), gains[places], torch.ones(count, 1, dtype=torch.bool))
    (estimate,) = torch.autograd.grad(-added / count, scores)
    torch.testing.assert_close(estimate, exact, atol=0.02, rtol=0)


def test_a_draw_is_credited_with_the_words_from_it_on(generator):
    """Changing the likelihood of an earlier word changes the credit of no later draw."""
    alpha = weights(generator)[:1].requires_grad_()
    places, words = torch.tensor([[0, 1, 2]]), torch.ones(1, 3, dtype=torch.bool)

    def gradient(likelihoods: list[float]) -> torch.Tensor:
        added = Objective(entropy=0.0, reinforcement=1.0).added_loss(
            told(alpha, places), torch.tensor([likelihoods]), words
        )
        return torch.autograd.grad(added, alpha)[0]

    first, second = gradient([-1.0, -2.0, -3.0]), gradient([-9.0, -2.0, -3.0])
    assert torch.equal(first[0, 1:], second[0, 1:])
    assert not torch.equal(first[0, 0], second[0, 0])
    assert second[0, 2, 2].item() == pytest.approx(3.0 / alpha[0, 2, 2].item())


def test_the_baseline_is_a_running_mean(generator):
    seen = told(weights(generator)[:1], torch.zeros(1, 3, dtype=torch.long))
    words = torch.tensor([[True, True, False]])
    for expected in (-0.2, -0.38):
        Objective(baseline_decay=0.9).added_loss(seen, torch.tensor([[-1.0, -3.0, -100.0]]), words)
        assert seen.sampled is not None
        assert seen.sampled.baseline.item() == pytest.approx(expected)


def test_entropy_is_rewarded_and_not_punished():
    alpha = torch.tensor([[[0.9, 0.1]]], requires_grad=True)
    drawn = told(alpha, torch.zeros(1, 1, dtype=torch.long))
    objective = Objective(reinforcement=0.0, entropy=1.0)
    added = objective.added_loss(drawn, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert added.item() == pytest.approx(-entropy(alpha).item())


@pytest.mark.parametrize(
    "wrong", [{"coverage": -1.0}, {"reinforcement": -1.0}, {"entropy": -1.0}, {"baseline_decay": 1.0}]
)
def test_a_wrong_setting_is_named(wrong):
    with pytest.raises(InputError, match=f"objective.{next(iter(wrong))}"):
        Objective(**wrong)


def test_over_all_draws_a_draws_gradient_is_the_exact_one_over_the_words_that_follow(generator):
    """Three words over three places, every way to draw enumerated: the sum of the words from t on would be exact at every t."""
    scores = torch.randn(3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    gains = torch.randn(
        3, 3, 3, 3, generator=generator, dtype=torch.float64
    )  # of word t, by all that was drawn up to it
    paths = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]

    def likelihoods(path: tuple[int, int, int]) -> list[float]:
        return [gains[0, path[0], 0, 0].item(), gains[1, path[0], path[1], 0].item(), gains[2][path].item()]

    alpha = scores.softmax(dim=1)
    chance = {path: alpha[0, path[0]] * alpha[1, path[1]] * alpha[2, path[2]] for path in paths}
    exact = torch.autograd.grad(
        sum(chance[path] * sum(likelihoods(path)) for path in paths), scores, retain_graph=True
    )[0]
    found = torch.zeros_like(scores)
    for path in paths:
        seen = told(alpha[None], torch.tensor([path]))
        added = Objective(entropy=0.0, reinforcement=1.0).added_loss(
            seen, torch.tensor([likelihoods(path)], dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
        )
        found += chance[path].item() * torch.autograd.grad(-added, scores, retain_graph=True)[0]
    following = torch.tensor([[3.0], [2.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(found * following, exact, rtol=1e-6, atol=1e-9)
    assert not torch.allclose(found, exact)
