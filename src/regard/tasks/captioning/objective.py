"""What a captioner learns beside the words: to look everywhere once, and, with hard attention, where looking paid."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.models.captioning import Captioned, Drawn
from regard.models.config import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """The terms of the objective besides the captions' log-likelihood (Xu et al. 2015, sections 4.1 and 4.2.1).

    Arguments:
        coverage: lambda of the doubly stochastic term, which wants the weights on each place to sum to one over the words; 0 for
            none. The paper has 1, for captions of a dozen words.
        reinforcement: lambda_r, of the log-probability of what hard attention drew. Its estimate is noise before the words are
            known, so a small one learns sooner; the authors' code has 0.1.
        entropy: lambda_e, of the entropy of what it draws by; above 0 it is kept from settling early.
        baseline_decay: how much of the running mean of log-likelihoods stays at an update.

    Raises:
        InputError: naming the field, its value and what is allowed.
    """

    coverage: float = 0.0
    reinforcement: float = 0.01
    entropy: float = 0.002
    baseline_decay: float = 0.9

    def __post_init__(self) -> None:
        for name in ("coverage", "reinforcement", "entropy"):
            value = getattr(self, name)
            check(value >= 0, f"data.objective.{name}", value, "0 or more", "raise it")
        value = self.baseline_decay
        check(0 <= value < 1, "data.objective.baseline_decay", value, "in [0, 1)", "the paper has 0.9")

    def beside(self, told: Captioned, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """What is to be added to the negative log-likelihood, summed over captions.

            lambda sum_i (1 - sum_t alpha_ti)^2
            - lambda_r sum_t (R_t - b) log alpha_{t, s_t}  -  lambda_e sum_t H[alpha_t]

        Arguments:
            told: by the model in training, weights among it.
            log_likelihoods: (B, L), of each true word.
            words: (B, L) bool, True = a real word.
        """
        total = log_likelihoods.new_zeros(())
        if told.weights is None or told.places is None:
            return total
        if self.coverage:
            total = total + self.coverage * uncovered(told.weights, words, told.places).sum()
        if told.drawn is not None:
            total = total - self.entropy * (entropy(told.weights) * words).sum()
            total = total - self.reinforcement * self._reinforced(told.weights, told.drawn, log_likelihoods, words)
        return total

    def _reinforced(self, weights: Tensor, drawn: Drawn, log_likelihoods: Tensor, words: Tensor) -> Tensor:
        """REINFORCE: the log-probability of each draw, by how much better than usual what followed was.

        What a draw is credited with is R_t, the mean log-likelihood of the words from t on: those before were written before it
        was drawn, and only add noise to the estimate. The sum of these words would give the exact gradient on average; the mean
        gives it divided by their number, and one baseline serves every t.
        """
        real = words.to(log_likelihoods.dtype)
        known = log_likelihoods.detach() * real
        following = known.flip(1).cumsum(dim=1).flip(1) / real.flip(1).cumsum(dim=1).flip(1).clamp_min(1)
        usual = drawn.baseline.to(following.dtype).clone()
        with torch.no_grad():
            mean = known.sum() / real.sum().clamp_min(1)
            drawn.baseline.mul_(self.baseline_decay).add_((1 - self.baseline_decay) * mean.to(drawn.baseline.dtype))
        chances = weights.gather(2, drawn.places.unsqueeze(-1)).squeeze(-1)
        told = chances.clamp_min(torch.finfo(chances.dtype).tiny).log() * (words & drawn.valid)
        return ((following - usual) * told).sum()


def uncovered(weights: Tensor, words: Tensor, places: Tensor) -> Tensor:
    """How far the weights on each place are from summing to one over the words: sum_i (1 - sum_t alpha_ti)^2, (B,).

    Arguments:
        weights: (B, L, S).
        words: (B, L) bool, True = a real word.
        places: (B, S) bool, True = a real place.

    >>> every = torch.ones(1, 2, dtype=torch.bool)
    >>> uncovered(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), every, every).item()
    0.0
    >>> uncovered(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), every, every).item()
    2.0
    """
    sums = (weights * words.unsqueeze(-1)).sum(dim=1)
    return ((1 - sums).square() * places).sum(dim=1)


def entropy(weights: Tensor) -> Tensor:
    """H = - sum_i alpha_i log alpha_i of each distribution, (..., S) to (...), in nats."""
    return -torch.special.xlogy(weights, weights).sum(dim=-1)
